"""The worker loop against a real queue; what runs in its slots is scripted."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs import canceling, queue
from jobs.models import CompletedJob, JobStatus, QueuedJob, WorkerPing
from tests.workers.conftest import RunningWorker, ScriptedRunner

pytestmark = pytest.mark.django_db(transaction=True)
Start = Callable[..., RunningWorker]
Make = Callable[..., UUID]


@pytest.fixture
def finished(wait_until: Callable[..., Any]) -> Callable[[UUID], CompletedJob]:
    """Wait for a job's end; answers what came of it."""
    return lambda job_id: wait_until(lambda: CompletedJob.objects.filter(pk=job_id).first())


@pytest.fixture
def is_running(wait_until: Callable[..., Any]) -> Callable[[UUID], Any]:
    """Wait until a job has been claimed."""
    return lambda job_id: wait_until(lambda: QueuedJob.objects.filter(pk=job_id, running=True).exists())


def error_of(job: CompletedJob) -> dict[str, Any]:
    return job.result["error"]


def test_a_job_runs_and_its_result_and_output_are_recorded(
    start_worker: Start, make_job: Make, finished: Any
) -> None:
    start_worker()

    job = make_job(raw_code='print one\nprint two\nmemory 1234\nreturn {"b": 1, "a": 2}')

    done = finished(job)
    assert (done.status, done.worker, done.mem_peak) == (JobStatus.SUCCESS, "wk-test", 1234)
    assert list(done.result.items()) == [("b", 1), ("a", 2)]
    assert queue.read_logs(job) == ("one\ntwo\n", 8)
    assert not QueuedJob.objects.exists()


def test_more_jobs_than_slots_all_run_once_and_the_urgent_ones_first(
    start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    ids = [make_job(raw_code="return 1", priority=n % 3) for n in range(60)]

    runner = start_worker(slots=4).runner
    wait_until(lambda: CompletedJob.objects.count() == 60)

    assert sorted(request.claim.id for request in runner.requests) == sorted(ids)
    priorities = [ids.index(request.claim.id) % 3 for request in runner.requests]
    assert priorities == sorted(priorities, reverse=True)


def test_the_job_gets_the_promised_environment_and_nothing_of_the_workers(
    start_worker: Start, make_job: Make, finished: Any
) -> None:
    worker = start_worker(environ={"PATH": "/bin", "DATABASE_URL": "postgres://secret", "SECRET_KEY": "s"})

    job = make_job(raw_code="return 1", runnable_path="f/a/b")

    finished(job)
    environment = worker.runner.requests[0].environment
    assert environment["WM_JOB_ID"] == str(job)
    assert environment["WM_WORKSPACE"] == "test"
    assert environment["WM_STATE_PATH"] == "f/a/b/user"
    assert environment["BASE_INTERNAL_URL"] == "http://internal.test"
    assert environment["WM_TOKEN"].startswith("jwt_")
    assert not environment.keys() & {"DATABASE_URL", "SECRET_KEY"}


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("fail no such file", JobStatus.FAILURE, "no such file"),
        ("explode", JobStatus.FAILURE, "through no fault of its code"),
        ('return {"wm_failure": "two rows are wrong"}', JobStatus.FAILURE, "two rows are wrong"),
        (f'return "{"x" * 1_100_000}"', JobStatus.FAILURE, "MAX_RESULT_SIZE_MB allows 1"),
        ("return {broken", JobStatus.FAILURE, "cannot be stored"),
    ],
)
def test_a_failure_says_what_went_wrong(
    start_worker: Start, make_job: Make, finished: Any, code: str, status: str, message: str
) -> None:
    start_worker()

    done = finished(make_job(raw_code=code))

    assert done.status == status
    assert message in error_of(done)["message"]


def test_a_result_that_cannot_be_stored_does_not_take_others_with_it(
    start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    runner = ScriptedRunner()
    start_worker(runner=runner, slots=6)
    ids = [make_job(raw_code="wait\nreturn {broken" if n == 3 else "wait\nreturn 1") for n in range(6)]
    wait_until(lambda: len(runner.requests) == 6)

    runner.let_go()

    wait_until(lambda: CompletedJob.objects.count() == 6)
    failed = CompletedJob.objects.exclude(status=JobStatus.SUCCESS).values_list("id", flat=True)
    assert list(failed) == [ids[3]]


def test_labels_in_the_result_label_the_job(start_worker: Start, make_job: Make, finished: Any) -> None:
    start_worker()

    done = finished(make_job(raw_code='return {"wm_labels": ["late", "big"], "rows": 3}'))

    assert done.labels == ["late", "big"]


def test_a_language_without_runtime_fails_with_a_sentence(
    start_worker: Start, make_job: Make, finished: Any
) -> None:
    start_worker()

    done = finished(make_job(language="go", tag="python3"))

    assert "has no runtime for go; it runs python3, bash" in error_of(done)["message"]


def test_a_cancelled_job_is_stopped_at_once_and_recorded_as_canceled(
    start_worker: Start, make_job: Make, finished: Any, is_running: Any
) -> None:
    worker = start_worker(heartbeat_s=60)
    job = make_job(raw_code="print begun\nwait")
    is_running(job)

    canceling.cancel_job(
        job_id=job, workspace_id="test", username="bob", reason="enough"
    )  # its worker may be done by now

    done = finished(job)
    assert (done.status, done.canceled_by) == (JobStatus.CANCELED, "bob")
    assert error_of(done)["message"] == "Job canceled: enough by bob"
    assert worker.runner.cancelled == [job]
    assert "begun" in queue.read_logs(job)[0]


def test_a_forced_cancel_ends_the_job_in_the_database_and_then_on_the_worker(
    start_worker: Start, make_job: Make, is_running: Any, wait_until: Any
) -> None:
    worker = start_worker(heartbeat_s=60)
    job = make_job(raw_code="wait")
    is_running(job)

    assert (
        canceling.cancel_job(job_id=job, workspace_id="test", username="bob", reason=None, force=True) is True
    )

    wait_until(lambda: worker.runner.cancelled == [job])
    assert CompletedJob.objects.get(pk=job).status == JobStatus.CANCELED


def test_a_job_that_was_given_to_another_worker_is_stopped_and_its_result_dropped(
    start_worker: Start, make_job: Make, finished: Any, is_running: Any, wait_until: Any
) -> None:
    first = start_worker("wk-first", heartbeat_s=60)
    job = make_job(raw_code="wait\nreturn 1")
    is_running(job)
    first.call(lambda: first.worker.options.tags.clear())
    wait_until(lambda: not first.worker.options.tags)
    second = start_worker("wk-second")

    queue.requeue_job(job_id=job, workspace_id="test")

    wait_until(lambda: first.runner.cancelled == [job])
    second.runner.let_go()
    assert finished(job).worker == "wk-second"


def test_a_job_whose_runner_died_is_tried_again_and_fails_at_the_limit(
    start_worker: Start, make_job: Make, finished: Any
) -> None:
    worker = start_worker(restart_limit=2)

    done = finished(make_job(raw_code="lose"))

    assert len(worker.runner.requests) == 3
    assert done.status == JobStatus.FAILURE
    assert "the fork server died" in error_of(done)["message"]


def test_a_job_scheduled_for_later_starts_when_it_is_due(
    start_worker: Start, make_job: Make, finished: Any
) -> None:
    start_worker()

    done = finished(make_job(raw_code="return 1", scheduled_in_s=1.5))

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM started_at - job.created_at) FROM completed_job JOIN job USING (id)"
        )
        waited = float(cursor.fetchone()[0])
    assert done.status == JobStatus.SUCCESS
    assert 1.5 <= waited < 3


def test_draining_claims_nothing_more_and_finishes_what_runs(
    start_worker: Start, make_job: Make, is_running: Any, wait_until: Any
) -> None:
    worker = start_worker(slots=1)
    running = make_job(raw_code="wait\nreturn 1")
    is_running(running)
    waiting = make_job(raw_code="return 2")

    worker.drain()
    wait_until(lambda: WorkerPing.objects.filter(worker="wk-test", state="draining").exists())
    worker.runner.let_go()

    assert worker.join() == 0
    assert CompletedJob.objects.get(pk=running).status == JobStatus.SUCCESS
    assert QueuedJob.objects.get().id == waiting
    assert not WorkerPing.objects.exists()


def test_stopping_puts_what_runs_back_into_the_queue(
    start_worker: Start, make_job: Make, is_running: Any
) -> None:
    worker = start_worker()
    job = make_job(raw_code="print begun\nwait")
    is_running(job)

    assert worker.stop() == 0

    row = QueuedJob.objects.get(pk=job)
    assert (row.running, row.worker, row.restarts) == (False, None, 0)
    assert worker.runner.cancelled == [job]


def test_a_worker_shows_itself(start_worker: Start, make_job: Make, wait_until: Any) -> None:
    start_worker("wk-shown", slots=3)

    row = wait_until(lambda: WorkerPing.objects.filter(state="running").first())

    assert (row.worker, row.slots, row.custom_tags, row.languages) == (
        "wk-shown",
        3,
        ["python3", "bash"],
        ["python3", "bash"],
    )
    assert row.memory > row.wm_memory_usage > 0
    assert row.vcpus > 0
    assert row.occupancy_rate == 0


def test_tags_with_a_priority_come_first_whatever_the_priority_of_the_jobs(
    start_worker: Start, make_job: Make, finished: Any
) -> None:
    jobs = [
        make_job(raw_code="return 1", priority=100),
        make_job(raw_code="return 2", tag="bash", language="bash"),
        make_job(raw_code="return 3", tag="gpu"),
    ]

    worker = start_worker(tags=["python3", "bash", "gpu"], priority_tags={"gpu": 2, "bash": 1}, slots=1)

    for job in jobs:
        finished(job)
    assert [request.claim.id for request in worker.runner.requests] == jobs[::-1]


def test_an_init_script_runs_before_the_first_job(
    start_worker: Start, make_job: Make, finished: Any, tmp_path: Any
) -> None:
    job = make_job(raw_code="return 1")

    start_worker(
        init_script=f"echo preparing; env > {tmp_path}/environment",
        environ={"PATH": "/bin", "SECRET_KEY": "s"},
    )

    done = finished(job)
    init = CompletedJob.objects.exclude(pk=job).get()
    assert init.status == JobStatus.SUCCESS
    assert init.completed_at <= done.started_at
    assert queue.read_logs(init.id)[0] == "preparing\n"
    assert "SECRET_KEY" not in (tmp_path / "environment").read_text()


def test_a_failing_init_script_stops_the_worker_and_shows_its_output(
    start_worker: Start, make_job: Make
) -> None:
    job = make_job(raw_code="return 1")

    worker = start_worker(init_script="echo half way; exit 3")

    assert worker.join() == 1
    row = WorkerPing.objects.get()
    assert row.state == "failed"
    assert "half way" in row.init_log
    assert "exit code 3" in row.init_log
    assert QueuedJob.objects.get().id == job
    assert CompletedJob.objects.get().status == JobStatus.FAILURE


def test_output_beyond_the_limit_is_cut_with_a_line_that_says_so(
    start_worker: Start, make_job: Make, finished: Any
) -> None:
    start_worker(max_log_size_mb=1)
    lines = "\n".join(f"print {'x' * 100_000}" for _ in range(15))

    job = make_job(raw_code=lines)

    finished(job)
    text, size = queue.read_logs(job)
    assert size < 1_100_000
    assert text.endswith("[the log is cut here: it exceeds MAX_LOG_SIZE_MB (1)]\n")


def test_no_logs_keeps_none(start_worker: Start, make_job: Make, finished: Any) -> None:
    start_worker(keep_logs=False)

    job = make_job(raw_code="print secret")

    finished(job)
    assert queue.read_logs(job) == ("", 0)


def test_arguments_that_name_something_unreadable_fail_the_job_with_a_sentence(
    start_worker: Start, make_job: Make, finished: Any
) -> None:
    worker = start_worker()

    done = finished(make_job(raw_code="return 1", args={"key": "$var:f/none/such"}))

    assert "The arguments cannot be prepared" in error_of(done)["message"]
    assert worker.runner.requests == []


def test_a_timeout_of_its_own_beats_the_default_and_nothing_beats_the_maximum(
    start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    runner = start_worker(default_timeout_s=300, max_timeout_s=1000).runner

    make_job(raw_code="return 1", timeout_s=20)
    make_job(raw_code="return 1")
    make_job(raw_code="return 1", timeout_s=5000)

    wait_until(lambda: CompletedJob.objects.count() == 3)
    assert sorted(request.timeout_s for request in runner.requests) == [20, 300, 1000]


def test_a_job_that_waits_is_seen_as_occupancy(
    start_worker: Start, make_job: Make, wait_until: Any, is_running: Any
) -> None:
    worker = start_worker(slots=1)
    is_running(make_job(raw_code="wait"))

    report = wait_until(lambda: (r := worker.worker._report()).occupancy_rate_15s and r)

    assert report.busy_slots == 1
    assert 0 < report.occupancy_rate_15s <= 1
    assert json.dumps(report.occupancy_rate)
