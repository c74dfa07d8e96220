"""How much a lane claims, sends and records at once, whatever its load is."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from workers.dedicated import pace
from workers.dedicated.pace import Load

seconds = st.floats(min_value=0, max_value=1e6)
means = st.none() | seconds
counts = st.integers(min_value=0, max_value=2_000)


@st.composite
def loads(draw: st.DrawFn) -> Load:
    held = draw(counts)
    return Load(
        slots=draw(st.integers(min_value=1, max_value=200)),
        processes=draw(st.integers(min_value=0, max_value=200)),
        held=held,
        done=draw(st.integers(min_value=0, max_value=held)),
        mean_s=draw(means),
        exchange_s=draw(seconds),
        is_worth_a_process=draw(st.booleans()),
    )


@given(loads())
def test_a_lane_without_work_always_has_room_for_a_job(load: Load) -> None:
    assert pace.room(replace(load, held=0, done=0)) >= 1


@given(loads())
def test_room_is_never_more_than_processes_and_the_work_ahead_of_them_can_take(load: Load) -> None:
    most = max(1, load.processes) * pace.MOST_SENT + pace.MOST_AHEAD + pace.STARTS

    assert 0 <= pace.room(load) <= max(0, most - load.held + load.done)


@given(loads(), st.integers(min_value=1, max_value=500))
def test_each_job_that_is_held_takes_the_room_of_one(load: Load, more: int) -> None:
    room = pace.room(load)

    assert pace.room(replace(load, held=load.held + more)) == max(0, room - more) or room == 0


@given(loads(), seconds)
def test_slower_jobs_are_not_claimed_further_ahead(load: Load, slower_s: float) -> None:
    if load.mean_s:
        assert pace.room(replace(load, mean_s=load.mean_s + slower_s)) <= pace.room(load)


@given(seconds, seconds)
def test_one_process_is_sent_a_hundredth_of_a_second_of_work_but_always_a_job(
    mean_s: float, slower_s: float
) -> None:
    window = pace.window(mean_s)

    assert 1 <= window <= pace.MOST_SENT
    assert window == 1 or window * mean_s <= pace.SENT_S
    assert mean_s == 0 or pace.window(mean_s + slower_s) <= window


@given(st.lists(counts, max_size=20), means, seconds)
def test_nobody_gets_another_process_while_one_has_nothing_to_do(
    loads: list[int], mean_s: float | None, silent_s: float
) -> None:
    wanted = pace.is_worth_a_process(loads=loads, mean_s=mean_s, silent_s=silent_s)

    if not loads or 0 in loads:
        assert not wanted
    else:
        assert wanted == (silent_s > pace.LOOK_S if mean_s is None else mean_s >= pace.WORTH_A_PROCESS_S)


@given(st.integers(min_value=0, max_value=5_000), st.integers(min_value=1, max_value=100))
def test_jobs_that_wait_are_dealt_out_evenly_and_all_of_them(waiting: int, processes: int) -> None:
    dealt = []
    for position in range(processes):
        dealt.append(pace.fair_share(waiting - sum(dealt), processes - position))

    assert sum(dealt) == waiting
    assert max(dealt) - min(dealt) <= 1


@given(st.lists(st.integers(min_value=0, max_value=2 * pace.BATCH_CHARS), max_size=2_000))
def test_all_results_are_recorded_some_each_time_and_no_statement_grows_without_bound(
    sizes: list[int],
) -> None:
    left = sizes
    while left:
        count = pace.count_to_record(left)
        assert 1 <= count <= pace.MOST_RECORDED
        assert sum(left[: count - 1]) <= pace.BATCH_CHARS
        left = left[count:]


@given(st.booleans(), st.booleans(), seconds)
def test_results_are_only_recorded_without_a_look_when_a_hint_would_tell_of_more_work(
    is_hinted: bool, hears_hints: bool, looked_s: float
) -> None:
    looks = pace.looks_at_queue(is_hinted=is_hinted, hears_hints=hears_hints, looked_s=looked_s)

    assert looks or (hears_hints and not is_hinted and looked_s < pace.LOOK_AGAIN_S)


@given(means, seconds)
def test_the_time_that_jobs_seem_to_take_follows_the_last_ones(mean_s: float | None, took_s: float) -> None:
    blended = pace.blended(mean_s, took_s)

    if mean_s is None:
        assert blended == took_s
    else:
        assert min(mean_s, took_s) <= blended <= max(mean_s, took_s)


@given(st.floats(min_value=0.001, max_value=100), st.floats(min_value=0.001, max_value=100))
def test_a_shorter_time_counts_more_than_a_longer_one(mean_s: float, by_s: float) -> None:
    shorter = mean_s - pace.blended(mean_s, max(0.0, mean_s - by_s))
    longer = pace.blended(mean_s, mean_s + min(by_s, mean_s)) - mean_s

    assert shorter > longer
