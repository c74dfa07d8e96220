"""Jobs of a dedicated script that are canceled, run out of time, take their process down, or lose their worker."""

import time
from typing import Any

import pytest
from django.db import connection

from jobs import canceling, queue
from jobs.models import CompletedJob, QueuedJob
from workers.dedicated.pace import MOST_SENT

# `x` says what to do: 0 is over at once, 1 waits for a long time, 2 ends the process.
WORK = """
import os, time
calls = 0

def main(x: int = 0):
    global calls
    calls += 1
    print("begun")
    if x == 1:
        time.sleep(600)
    if x == 2:
        os._exit(3)
    return calls
"""
QUICK, ENDLESS, FATAL = 0, 1, 2


@pytest.fixture
def has_begun(wait_until: Any) -> Any:
    """Wait until a job has said that it has begun."""

    def has_begun(job: Any) -> None:
        wait_until(lambda: queue.read_logs(job)[0] == "begun\n")

    return has_begun


def cancel(job: Any) -> None:
    canceling.cancel_job(job_id=job, workspace_id="acme", username="ada", reason="enough")


def test_a_running_job_is_canceled_and_the_next_ones_run(
    deploy: Any, run: Any, start: Any, outcomes: Any, has_begun: Any
) -> None:
    script = deploy(WORK)
    start()
    outcomes([run(script)])
    endless = run(script, x=ENDLESS)
    has_begun(endless)
    behind = [run(script) for _ in range(3)]

    cancel(endless)

    (error,) = outcomes([endless])
    assert error["error"]["name"] == "Canceled"
    assert CompletedJob.objects.get(pk=endless).canceled_by == "ada"
    assert outcomes(behind) == [1, 2, 3]  # in a new process


def test_a_job_that_waits_behind_another_is_canceled_without_running(
    deploy: Any, run: Any, start: Any, outcomes: Any, has_begun: Any, wait_until: Any
) -> None:
    script = deploy(WORK)
    quick = [run(script) for _ in range(50)]
    start()
    outcomes(quick)  # from now on, several are claimed and sent at once
    endless, behind, last = run(script, x=ENDLESS), run(script), run(script)
    has_begun(endless)

    cancel(behind)
    cancel(endless)

    assert [result["error"]["name"] for result in outcomes([endless, behind])] == ["Canceled", "Canceled"]
    assert outcomes([last]) == [1]
    assert queue.read_logs(behind)[0] == ""


def test_a_job_that_runs_out_of_time_fails_alone(deploy: Any, run: Any, start: Any, outcomes: Any) -> None:
    script = deploy(WORK)
    jobs = [run(script, x=ENDLESS, options={"timeout_s": 1}), *(run(script) for _ in range(3))]

    start()

    first, *others = outcomes(jobs)
    assert first["error"]["message"] == "Job timed out after (>1s)"
    assert others == [1, 2, 3]


def test_a_job_that_ends_the_process_fails_alone(deploy: Any, run: Any, start: Any, outcomes: Any) -> None:
    script = deploy(WORK)
    jobs = [run(script, x=x) for x in (QUICK, FATAL, QUICK, FATAL, QUICK)]

    start()

    found = outcomes(jobs)
    assert (found[0], found[2], found[4]) == (1, 1, 1)
    assert "exit code 3" in found[1]["error"]["message"]
    assert "exit code 3" in found[3]["error"]["message"]


def test_jobs_behind_one_that_takes_long_are_left_to_other_workers(
    deploy: Any, run: Any, start: Any, outcomes: Any, has_begun: Any
) -> None:
    script = deploy(WORK)
    quick = [run(script) for _ in range(50)]
    start(name="wk-one")
    outcomes(quick)
    # So many that some are claimed and not sent.
    endless, *behind = [run(script, x=ENDLESS), *(run(script) for _ in range(MOST_SENT + 30))]
    has_begun(endless)

    start(name="wk-two")

    elsewhere = behind[MOST_SENT:]
    outcomes(elsewhere)
    assert set(CompletedJob.objects.filter(pk__in=elsewhere).values_list("worker", flat=True)) == {"wk-two"}
    cancel(endless)
    outcomes(behind)


def test_a_draining_worker_finishes_what_runs_and_leaves_the_rest(
    deploy: Any, run: Any, start: Any, outcomes: Any, has_begun: Any, wait_until: Any
) -> None:
    script = deploy(
        "import time\ndef main(x: float = 0):\n    print('begun')\n    time.sleep(x)\n    return x\n"
    )
    worker = start()
    slow, rest = run(script, x=1), [run(script, x=0.001) for _ in range(5)]
    has_begun(slow)

    worker.drain()

    assert worker.join() == 0
    assert outcomes([slow]) == [1]
    left = QueuedJob.objects.filter(pk__in=rest)
    assert left.count() + CompletedJob.objects.filter(pk__in=rest).count() == 5
    assert not left.filter(running=True).exists()


def test_a_stopped_worker_puts_everything_back(deploy: Any, run: Any, start: Any, has_begun: Any) -> None:
    script = deploy(WORK)
    worker = start()
    jobs = [run(script, x=ENDLESS), *(run(script) for _ in range(5))]
    has_begun(jobs[0])

    assert worker.stop() == 0

    waiting = QueuedJob.objects.filter(pk__in=jobs)
    assert waiting.count() == 6
    assert not waiting.filter(running=True).exists()


def test_a_lease_that_is_lost_ends_the_run_and_records_nothing(
    deploy: Any, run: Any, start: Any, outcomes: Any, has_begun: Any, wait_until: Any
) -> None:
    script = deploy(WORK)
    worker = start()
    job = run(script, x=ENDLESS)
    has_begun(job)
    worker.drain()

    queue.requeue_job(job_id=job, workspace_id="acme")

    assert worker.join() == 0
    waiting = QueuedJob.objects.get(pk=job)
    assert (waiting.running, waiting.attempt) == (False, 1)
    assert not CompletedJob.objects.filter(pk=job).exists()


def test_a_silent_worker_loses_its_jobs_to_another(
    deploy: Any, run: Any, start: Any, outcomes: Any, has_begun: Any, settings: Any
) -> None:
    script = deploy(
        "import time\ndef main(x: float = 0):\n    print('begun')\n    time.sleep(x)\n    return x\n"
    )
    start(name="wk-silent", heartbeat_s=600)
    job = run(script, x=2)
    has_begun(job)
    QueuedJob.objects.filter(pk=job).update(last_ping="2020-01-01T00:00:00Z")

    queue.recover_lost_jobs()
    start(name="wk-other")

    assert outcomes([job]) == [2]
    done = CompletedJob.objects.get(pk=job)
    assert done.restarts == 1


@pytest.fixture
def cut() -> Any:
    """Cut the lane's connection to the database, in the middle of whatever it does; answers whether there was one."""

    def cut() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'windmill worker dedicated'"
            )
            return bool(cursor.fetchone()[0])

    return cut


def test_a_connection_that_is_cut_again_and_again_loses_nothing_and_repeats_nothing(
    deploy: Any, run: Any, start: Any, outcomes: Any, cut: Any, wait_until: Any
) -> None:
    script = deploy("def main(x: int):\n    print('ran', x)\n    return x\n")
    jobs = [run(script, x=number) for number in range(300)]

    start(poll_s=0.01)
    for part in range(1, 6):
        wait_until(
            lambda part=part: CompletedJob.objects.count() >= min(part * 40, 300) and cut(), timeout_s=60
        )

    assert outcomes(jobs) == list(range(300))
    for number, job in enumerate(jobs):
        assert queue.read_logs(job)[0] == f"ran {number}\n"
    assert CompletedJob.objects.filter(restarts=0, status="success").count() == 300


def test_watchers_hear_of_results(
    deploy: Any, run: Any, start: Any, outcomes: Any, database_url: str
) -> None:
    import psycopg

    script = deploy(WORK)
    with psycopg.connect(database_url, autocommit=True) as watcher:
        watcher.execute("LISTEN wm_job")
        jobs = {str(run(script)) for _ in range(20)}
        start()
        heard: set[str] = set()
        deadline = time.monotonic() + 30
        while not jobs <= heard and time.monotonic() < deadline:
            for notice in watcher.notifies(timeout=1, stop_after=1):
                heard |= set(notice.payload.split(","))

    assert jobs <= heard
