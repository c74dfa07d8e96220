"""Concurrency limits: never more than N at once, the oldest first, at a cost that a long line does not add to."""

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from jobs import canceling, concurrency, queue, sql
from jobs.concurrency import Limit, limit_of
from jobs.models import ConcurrencyPlace, QueuedJob
from jobs.waiting import why_waiting

Make = Callable[..., UUID]
KEY = "test/script/f/ops/one"


@pytest.fixture
def make_limited(make_job: Make) -> Make:
    """Queue a job with a limit: `places` (1), `window_s` (0), `key`; the rest as in make_job."""

    def make(*, places: int = 1, window_s: int = 0, key: str = KEY, **given: Any) -> UUID:
        limit = Limit(key=key, places=places, window_s=window_s)
        return make_job(**limit.request_fields(), **given)

    return make


def claim(*, tags: list[str] | None = None, limit: int = 1) -> list[queue.Claim]:
    return queue.claim_jobs(worker="w", tags=tags or ["python3"], limit=limit)


def take(claimed: queue.Claim) -> str:
    """Ask for a place: taken, held back or lost."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("take_place"), {"id": claimed.id, "attempt": claimed.attempt})
        return str(cursor.fetchone()[0])


def leave(claimed: queue.Claim, *, window_s: int = 0) -> None:
    """End a job, and say that its place is free."""
    queue.complete_job((claimed.id, claimed.attempt), result=1)
    with connection.cursor() as cursor:
        cursor.execute(sql.load("offer_place"), {"key": claimed.concurrency_key, "window_s": window_s})


def start_one(**given: Any) -> queue.Claim | None:
    """Claim what is due until one job gets a place."""
    while claims := claim(**given):
        if take(claims[0]) == "taken":
            return claims[0]
    return None


def shift_ends(seconds: int) -> None:
    """Let completed jobs have ended that much earlier."""
    with connection.cursor() as cursor:
        for table, column in (("completed_job", "completed_at"), ("concurrency_key", "ended_at")):
            cursor.execute(f"UPDATE {table} SET {column} = {column} - make_interval(secs => %s)", [seconds])


def due_in_s(job: UUID) -> float:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM scheduled_for - clock_timestamp()) FROM queue WHERE id = %s", [job]
        )
        return float(cursor.fetchone()[0])


# --- the rule ---


@pytest.mark.django_db
def test_only_so_many_run_at_once(make_limited: Make) -> None:
    jobs = [make_limited(places=2) for _ in range(4)]

    first, second, third = claim(limit=3)

    assert [take(one) for one in (first, second, third)] == ["taken", "taken", "held back"]
    assert claim() == []  # the fourth was held back with the third
    assert all(10 >= due_in_s(job) > 5 for job in jobs[2:])


@pytest.mark.django_db
def test_a_job_that_is_held_back_is_back_in_the_queue_and_says_why(make_limited: Make) -> None:
    make_limited()
    waiting = make_limited()
    running, held_back = claim(limit=2)
    take(running)

    take(held_back)

    row = QueuedJob.objects.get(pk=waiting)
    assert (row.running, row.started_at, row.worker, row.last_ping, row.attempt) == (
        False,
        None,
        None,
        None,
        1,
    )
    log, _ = queue.read_logs(waiting)
    assert "due to concurrency limits with key test/script/f/ops/one and limit 1 in the last 0 seconds" in log
    assert log.startswith("Re-scheduled job to ")


@pytest.mark.django_db
def test_other_keys_are_not_concerned(make_limited: Make) -> None:
    make_limited()
    make_limited(key="test/script/f/ops/other")

    assert [take(one) for one in claim(limit=2)] == ["taken", "taken"]


@pytest.mark.django_db
def test_a_place_that_is_left_goes_to_the_one_held_back_longest(make_limited: Make) -> None:
    make_limited()
    older, younger = make_limited(), make_limited()
    (running,) = claim()
    take(running)
    for one in claim(limit=2):
        take(one)
    assert claim() == []

    leave(running)

    next_one = start_one()
    assert next_one is not None and next_one.id == older
    assert due_in_s(younger) > 0


@pytest.mark.django_db
def test_a_newcomer_does_not_overtake_one_that_is_held_back(make_limited: Make) -> None:
    make_limited()
    waiting = make_limited()
    running, held_back = claim(limit=2)
    take(running)
    take(held_back)
    queue.complete_job((running.id, running.attempt), result=1)  # and the worker died before it said so
    newcomer = make_limited()

    next_one = start_one()

    assert next_one is not None and next_one.id == waiting
    assert due_in_s(newcomer) > 0


@pytest.mark.django_db
def test_an_urgent_job_goes_first_among_those_held_back(make_limited: Make) -> None:
    make_limited()
    make_limited()
    urgent = make_limited(priority=9)
    running = start_one()
    assert running is not None
    assert start_one() is None
    assert running.id == urgent  # the queue's own order
    later = make_limited(priority=5)
    assert start_one() is None

    leave(running)

    next_one = start_one()
    assert next_one is not None and next_one.id == later


@pytest.mark.django_db
def test_one_that_no_worker_takes_does_not_hold_up_the_others(make_limited: Make) -> None:
    make_limited()
    make_limited(tag="gpu")
    running = start_one()
    assert running is not None
    for one in claim(tags=["gpu"]):
        take(one)
    queue.complete_job((running.id, running.attempt), result=1)
    other = make_limited()
    assert start_one() is None  # it lets the older one go first, which nobody claims

    QueuedJob.objects.filter(pk=other).update(scheduled_for=QueuedJob.objects.get(pk=other).created_at)
    next_one = start_one()

    assert next_one is not None and next_one.id == other


@pytest.mark.django_db
def test_free_places_are_filled_also_when_nobody_said_that_they_are(make_limited: Make) -> None:
    for _ in range(6):
        make_limited(places=3)
    running = claim(limit=6)
    assert [take(one) for one in running].count("taken") == 3
    for one in running[:3]:
        queue.complete_job((one.id, one.attempt), result=1)
    QueuedJob.objects.filter(pk=running[3].id).update(scheduled_for=running[3].created_at)

    started = [start_one(), start_one(), start_one()]

    assert [one.id for one in started if one] == [one.id for one in running[3:]]


@pytest.mark.django_db
def test_a_job_whose_worker_died_leaves_its_place(make_limited: Make) -> None:
    make_limited()
    make_limited()
    running, waiting = claim(limit=2)
    take(running)
    queue.release_job((running.id, running.attempt))  # as the monitor does with lost jobs

    assert take(waiting) == "taken"
    (again,) = claim()
    assert again.id == running.id and take(again) == "held back"


@pytest.mark.django_db
def test_a_flow_keeps_its_place_while_it_waits_for_its_steps(make_limited: Make) -> None:
    make_limited(kind="flow", flow_state={"step": 0})
    make_limited()
    flow, waiting = claim(limit=2)
    take(flow)

    QueuedJob.objects.filter(pk=flow.id).update(running=False, last_ping=None)  # asleep

    assert take(waiting) == "held back"


@pytest.mark.django_db
def test_a_canceled_job_needs_no_place(make_limited: Make) -> None:
    make_limited()
    make_limited()
    running, canceled = claim(limit=2)
    take(running)
    canceling.cancel_job(job_id=canceled.id, workspace_id="test", username="alice", reason=None)

    assert take(canceled) == "taken"


@pytest.mark.django_db
def test_a_claim_that_is_over_takes_no_place(make_limited: Make) -> None:
    make_limited()
    (gone,) = claim()
    queue.release_job((gone.id, gone.attempt))

    assert take(gone) == "lost"
    assert not ConcurrencyPlace.objects.exists()


# --- windows ---


@pytest.mark.django_db
def test_jobs_that_ended_within_the_window_count(make_limited: Make) -> None:
    make_limited(window_s=60)
    waiting = make_limited(window_s=60)
    running, held_back = claim(limit=2)
    take(running)
    leave(running, window_s=60)

    assert take(held_back) == "held back"
    assert 60 >= due_in_s(waiting) > 55  # exactly when the window has passed

    shift_ends(61)
    QueuedJob.objects.filter(pk=waiting).update(scheduled_for=held_back.created_at)
    assert start_one() is not None


@pytest.mark.django_db
def test_those_in_line_are_spread_over_the_windows_to_come(make_limited: Make) -> None:
    jobs = [make_limited(places=2, window_s=30) for _ in range(7)]
    first, second, third = claim(limit=3)
    take(first), take(second)
    leave(first, window_s=30), leave(second, window_s=30)

    take(third)

    assert [round(due_in_s(job) / 30) for job in jobs[2:]] == [1, 1, 2, 2, 3]


# --- many ---


@pytest.mark.django_db
def test_a_long_line_is_pushed_back_in_one_go(make_limited: Make, django_assert_num_queries: Any) -> None:
    for _ in range(300):
        make_limited()
    running, held_back = claim(limit=2)

    with django_assert_num_queries(3):
        take(running)
        take(held_back)
        assert claim() == []

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), count(DISTINCT scheduled_for) FROM queue WHERE was_due_at IS NOT NULL"
        )
        waiting, times = cursor.fetchone()
    assert waiting == 299 and times > 250  # they look again one after the other


@pytest.mark.django_db(transaction=True)
def test_two_that_ask_for_the_last_place_at_once_wait_for_each_other(
    make_limited: Make, wait_until: Any
) -> None:
    make_limited()
    make_limited()
    first, second = claim(limit=2)
    answers = []

    def ask() -> None:
        try:
            answers.append(take(second))
        finally:
            connection.close()

    other = threading.Thread(target=ask)
    with transaction.atomic():
        assert take(first) == "taken"
        other.start()
        wait_until(_somebody_waits_for_a_lock)
    other.join(timeout=20)

    assert answers == ["held back"]


def _somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
            " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("places", [1, 3])
def test_workers_that_race_never_run_more_than_allowed(make_limited: Make, places: int) -> None:
    count = 60
    order = [make_limited(places=places) for _ in range(count)]
    lock = threading.Lock()
    running: set[UUID] = set()
    started: list[UUID] = []
    most = 0

    def work() -> None:
        nonlocal most
        try:
            while len(started) < count:
                for claimed in claim(limit=2):
                    if take(claimed) != "taken":
                        continue
                    with lock:
                        running.add(claimed.id)
                        started.append(claimed.id)
                        most = max(most, len(running))
                    with lock:
                        running.discard(claimed.id)
                    leave(claimed)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert len(started) == count and set(started) == set(order)
    assert most <= places
    assert not QueuedJob.objects.exists()
    if places == 1:
        late = [abs(order.index(job) - place) for place, job in enumerate(started)]
        assert max(late) <= 5  # claims are taken before places: neighbours may change, nobody is left behind


# --- keys ---


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({}, "acme/script/f/ops/one"),
        ({"kind": "flow"}, "acme/flow/f/ops/one"),
        ({"key": "$workspace:$args[user.id]"}, "acme:7"),
        ({"key": "shared"}, "shared"),
        ({"key": "other/script/f/x"}, "acme/other/script/f/x"),
        ({"key": "acme/script/f/x"}, "acme/script/f/x"),
        ({"path": None}, None),
        ({"places": 0}, None),
        ({"places": None}, None),
    ],
)
def test_what_a_limit_is_counted_by(given: dict[str, Any], key: str | None) -> None:
    fields: dict[str, Any] = {
        "workspace_id": "acme",
        "kind": "script",
        "path": "f/ops/one",
        "args": {"user": {"id": 7}},
        "places": 3,
    }

    limit = limit_of(**{**fields, **given})

    assert (limit and limit.key) == key


def test_long_keys_fit() -> None:
    limit = limit_of(
        workspace_id="acme", kind="script", path=None, args={"a": "x" * 900}, places=1, key="k$args[a]"
    )

    assert limit is not None and len(limit.key) == 64


# --- looking after them ---


@pytest.mark.django_db
def test_groups_tell_how_many_of_their_jobs_run(make_limited: Make) -> None:
    make_limited()
    make_limited()
    make_limited(key="idle")
    for one in claim(limit=2):
        take(one)

    assert concurrency.list_groups() == [
        {"concurrency_key": "idle", "total_running": 0},
        {"concurrency_key": KEY, "total_running": 1},
    ]


@pytest.mark.django_db
def test_places_that_no_longer_count_are_pruned(make_limited: Make) -> None:
    make_limited()
    make_limited(key="windowed", window_s=3600)
    make_limited(key="running")
    ended, windowed, running = claim(limit=3)
    for one in (ended, windowed, running):
        take(one)
    leave(ended), leave(windowed)

    concurrency.prune_places()

    assert set(ConcurrencyPlace.objects.values_list("key", flat=True)) == {"windowed", "running"}


@pytest.mark.django_db
def test_a_job_that_is_held_back_can_tell_why(make_limited: Make) -> None:
    make_limited()
    jobs = [make_limited(), make_limited()]
    running, held_back = claim(limit=2)
    take(running)
    take(held_back)

    answers = [why_waiting(job, workspace_id="test") for job in jobs]

    assert [(answer.reason, answer.ahead) for answer in answers] == [("limited", 0), ("limited", 1)]
    assert f"(key {KEY}); running with this key: 1 job." in answers[0].sentence
