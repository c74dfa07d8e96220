"""The lane of a dedicated script: what comes of its jobs, whatever they are like."""

from typing import Any

import pytest

from jobs import queue
from jobs.models import CompletedJob, QueuedJob
from tests.workers.dedicated_lane.conftest import entry_of
from workspaces import variables
from workspaces.access import Caller

COUNT = """
calls = 0

def main(x: int = 0):
    global calls
    calls += 1
    return [calls, x]
"""
SAY = """
def main(x: int = 0):
    print("this is", x)
    if x % 3 == 2:
        raise ValueError(f"no {x}")
    return x
"""


def log_of(job: Any) -> str:
    return queue.read_logs(job)[0]


def test_jobs_run_one_after_another_in_a_process_that_keeps_its_state(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    script = deploy(COUNT)
    jobs = [run(script, x=number) for number in range(300)]

    worker = start()

    assert outcomes(jobs) == [[number + 1, number] for number in range(300)]
    assert worker.worker.jobs_executed == 300
    assert CompletedJob.objects.filter(isolation=worker.runner.isolation[0]).count() == 300


def test_a_job_that_comes_later_finds_the_same_process(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    script = deploy(COUNT)
    start()

    first = outcomes([run(script, x=1)])
    second = outcomes([run(script, x=2)])

    assert (first, second) == ([[1, 1]], [[2, 2]])


def test_each_job_has_its_own_log_and_its_own_error(deploy: Any, run: Any, start: Any, outcomes: Any) -> None:
    script = deploy(SAY)
    jobs = [run(script, x=number) for number in range(60)]

    start()

    for number, (job, result) in enumerate(zip(jobs, outcomes(jobs), strict=True)):
        assert log_of(job) == f"this is {number}\n"
        if number % 3 == 2:
            assert (result["error"]["name"], result["error"]["message"]) == ("ValueError", f"no {number}")
        else:
            assert result == number
    assert CompletedJob.objects.filter(status="failure").count() == 20


def test_each_job_sees_its_own_variables_and_a_token_of_its_own(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    names = ["WM_JOB_ID", "WM_TOKEN", "WM_WORKSPACE", "WM_JOB_PATH", "WM_STATE_PATH", "WM_USERNAME"]
    script = deploy(f"import os\ndef main():\n    return {{name: os.environ[name] for name in {names}}}\n")
    jobs = [run(script) for _ in range(5)]

    start()

    seen = outcomes(jobs)
    assert [one["WM_JOB_ID"] for one in seen] == [str(job) for job in jobs]
    assert len({one["WM_TOKEN"] for one in seen}) == 5
    assert {one["WM_JOB_PATH"] for one in seen} == {"u/ada/fast"}
    assert {one["WM_STATE_PATH"] for one in seen} == {"u/ada/fast/user"}
    assert {(one["WM_WORKSPACE"], one["WM_USERNAME"]) for one in seen} == {("acme", "ada")}


def test_urgent_jobs_come_first(deploy: Any, run: Any, start: Any, outcomes: Any) -> None:
    script = deploy(COUNT)
    late = [run(script, x=number) for number in range(3)]
    urgent_script = deploy(COUNT + "# urgent\n", priority=50)
    urgent = run(urgent_script, x=100)

    start()

    outcomes([*late, urgent])
    started = CompletedJob.objects.order_by("started_at", "completed_at").values_list("pk", flat=True)
    assert started[0] == urgent


def test_labels_and_declared_failures_are_recorded_as_ever(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    script = deploy(
        "def main(x: int):\n"
        "    return {'wm_labels': ['blue'], 'x': x} if x else {'wm_failure': 'nothing to do'}\n"
    )
    jobs = [run(script, x=1), run(script, x=0)]

    start()

    outcomes(jobs)
    labelled, failed = (CompletedJob.objects.get(pk=job) for job in jobs)
    assert (labelled.status, labelled.labels) == ("success", ["blue"])
    assert labelled.isolation in ("namespaces", "user-namespaces", "none")
    assert (failed.status, failed.result["error"]["message"]) == ("failure", "nothing to do")


def test_a_result_that_cannot_be_stored_does_not_take_others_with_it(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    # PostgreSQL refuses what is nested deeper than its own stack allows.
    script = deploy("def main(x: int):\n    v = x\n    for _ in range(x):\n        v = [v]\n    return v\n")
    jobs = [run(script, x=x) for x in (0, 1, 900, 0)]

    start(max_result_size_mb=1)

    found = outcomes(jobs)
    assert (found[0], found[1], found[3]) == (0, [1], 0)


def test_arguments_that_name_secrets_are_replaced_and_masked(
    ada: Caller, deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    variables.create_variable(ada, path="u/ada/password", value="open sesame", is_secret=True)
    script = deploy("def main(x: str):\n    print('it is', x)\n    return len(x)\n")
    jobs = [run(script, x="$var:u/ada/password"), run(script, x="plain")]

    start()

    assert outcomes(jobs) == [11, 5]
    assert "open sesame" not in log_of(jobs[0])
    assert log_of(jobs[1]) == "it is plain\n"


@pytest.mark.parametrize(
    "extra",
    [
        {"concurrent_limit": 1, "concurrency_time_window_s": 0},
        {"cache_ttl": 60},
        {"delete_after_secs": 1000},
    ],
)
def test_jobs_that_want_more_than_a_call_get_it_in_the_same_process(
    deploy: Any, run: Any, start: Any, outcomes: Any, extra: dict[str, Any]
) -> None:
    script = deploy(COUNT, extra=extra)
    start()

    first = outcomes([run(script, x=7)])
    second = outcomes([run(script, x=7)])

    assert first == [[1, 7]]
    assert second == ([[1, 7]] if "cache_ttl" in extra else [[2, 7]])


def test_more_of_them_than_slots_all_run(deploy: Any, run: Any, start: Any, outcomes: Any) -> None:
    script = deploy(COUNT, extra={"delete_after_secs": 1000})
    jobs = [run(script, x=number) for number in range(12)]

    start()

    assert sorted(result[1] for result in outcomes(jobs)) == list(range(12))


def test_jobs_queued_before_a_redeploy_run_with_the_old_code(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    old = deploy("def main(x: int = 0):\n    return 'old'\n")
    before = [run(old) for _ in range(20)]
    new = deploy("def main(x: int = 0):\n    return 'new'\n")
    after = [run(new) for _ in range(20)]

    start()

    assert outcomes(before) == ["old"] * 20
    assert outcomes(after) == ["new"] * 20


def test_a_redeploy_while_it_works_needs_no_restart(deploy: Any, run: Any, start: Any, outcomes: Any) -> None:
    start()
    first = outcomes([run(deploy("def main():\n    return 1\n"))])

    second = outcomes([run(deploy("def main():\n    return 2\n"))])

    assert (first, second) == ([1], [2])


def test_what_does_not_load_fails_each_job_with_the_authors_own_line(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    script = deploy("import json\nraise RuntimeError('not today')\ndef main():\n    return 1\n")
    jobs = [run(script) for _ in range(5)]

    start()

    for result in outcomes(jobs):
        assert result["error"]["message"] == "not today"
        assert "line 2" in result["error"]["stack"]


def test_a_version_that_works_follows_one_that_does_not_load(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    start()
    broken = outcomes([run(deploy("def main(:\n"))])

    fixed = outcomes([run(deploy("def main():\n    return 'fixed'\n"))])

    assert broken[0]["error"]["name"] == "SyntaxError"
    assert fixed == ["fixed"]


def test_several_scripts_share_a_worker(deploy: Any, run: Any, start: Any, outcomes: Any) -> None:
    one = deploy("def main():\n    return 1\n", path="u/ada/one")
    two = deploy("def main():\n    return 2\n", path="u/ada/two")
    jobs = [run(script) for script in (one, two) * 10]

    start(entry_of("u/ada/one"), entry_of("u/ada/two"))

    assert outcomes(jobs) == [1, 2] * 10


def test_a_worker_that_was_only_given_the_tag_works_too(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    script = deploy(COUNT)
    jobs = [run(script) for _ in range(50)]

    start(dedicated=[])

    assert outcomes(jobs)[-1] == [50, 0]


def test_a_script_that_does_not_exist_yet_is_told_about_and_runs_once_it_does(
    deploy: Any, run: Any, start: Any, outcomes: Any, caplog: Any, wait_until: Any
) -> None:
    start()
    wait_until(lambda: "dedicated to acme:u/ada/fast, which does not exist" in caplog.text)

    assert outcomes([run(deploy(COUNT), x=3)]) == [[1, 3]]


def test_slots_are_processes_for_jobs_that_take_long(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    script = deploy(
        "import os, time\ndef main():\n    time.sleep(0.05)\n    return os.environ['WM_JOB_ID']\n"
    )
    jobs = [run(script) for _ in range(60)]

    worker = start(slots=4)

    assert outcomes(jobs) == [str(job) for job in jobs]
    key = next(iter(worker.runner.dedicated._kept))
    assert 2 <= len(worker.runner.dedicated.processes(key)) <= 4


def test_jobs_of_others_with_this_tag_run_without_its_process(
    deploy: Any, start: Any, outcomes: Any, make_job: Any
) -> None:
    deploy(COUNT)
    other = make_job(tag="acme:u/ada/fast", raw_code="def main():\n    return 'mine'\n", workspace_id="other")

    start()

    assert outcomes([other]) == ["mine"]
    assert not QueuedJob.objects.exists()
