"""Scripts that look after the host: when they run, and what is seen of them."""

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from queue import Queue
from typing import Any
from uuid import UUID

import pytest

from jobs import queue
from jobs.models import CompletedJob, Job, JobStatus, QueuedJob, WorkerPing
from jobs.queue import Claim, JobRequest
from workers.pg_queue import PgJobQueue

pytestmark = pytest.mark.django_db(transaction=True)
Start = Callable[..., Any]
Make = Callable[..., UUID]


def periodic() -> Any:
    ids = Job.objects.filter(tag="periodic_bash_script").values("id")
    return CompletedJob.objects.filter(id__in=ids).order_by("started_at")


def test_a_periodic_script_runs_at_once_and_then_every_interval_beside_the_jobs(
    start_worker: Start, make_job: Make, wait_until: Any, tmp_path: Any
) -> None:
    worker = start_worker(
        "wk-test",
        periodic_script=f"echo looking; env > {tmp_path}/environment",
        periodic_interval_s=1,
        environ={"PATH": "/bin:/usr/bin", "SECRET_KEY": "s"},
        slots=1,
    )
    make_job(raw_code="wait")

    wait_until(lambda: len(worker.runner.requests) == 1)
    first, second = wait_until(lambda: list(periodic()) if periodic().count() == 2 else None)

    assert {first.status, second.status} == {JobStatus.SUCCESS}
    assert second.started_at - first.started_at >= timedelta(seconds=0.9)
    job = Job.objects.get(id=first.id)
    assert job.runnable_path.startswith("periodic_script_wk-test_")
    assert (job.workspace_id, job.created_by) == ("admins", "wk-test")
    assert queue.read_logs(first.id)[0] == "looking\n"
    assert "SECRET_KEY" not in (tmp_path / "environment").read_text()


def test_a_periodic_script_that_fails_harms_nobody(
    start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    worker = start_worker(periodic_script="echo broken; exit 4", periodic_interval_s=1000)

    done = wait_until(lambda: periodic().first())
    job = make_job(raw_code="return 1")

    assert done.status == JobStatus.FAILURE
    assert done.result["error"]["name"] == "PeriodicScriptErr"
    assert "periodic script of worker group default failed: it ended with exit code 4" in str(done.result)
    assert wait_until(lambda: CompletedJob.objects.filter(pk=job).first()).status == JobStatus.SUCCESS
    assert worker.stop() == 0


def test_a_worker_that_is_stopped_ends_its_script_and_does_not_queue_it_for_others(
    start_worker: Start, wait_until: Any
) -> None:
    worker = start_worker(periodic_script="echo begun; sleep 100", periodic_interval_s=1000)
    running = wait_until(lambda: QueuedJob.objects.filter(running=True).first())
    wait_until(lambda: queue.read_logs(running.id)[0])

    assert worker.stop() == 0

    assert periodic().get().status == JobStatus.CANCELED
    assert not QueuedJob.objects.exists()


def test_without_an_interval_the_worker_does_not_begin_and_says_why(start_worker: Start) -> None:
    worker = start_worker(periodic_script="df -h")

    assert worker.join() == 1
    seen = WorkerPing.objects.get()
    assert seen.state == "failed"
    assert "periodic_script_interval_seconds" in seen.init_log


def test_what_a_worker_does_with_its_init_script_is_seen_while_it_runs(
    start_worker: Start, wait_until: Any
) -> None:
    worker = start_worker(init_script="echo begun; sleep 100")

    seen = wait_until(lambda: WorkerPing.objects.filter(state_note__startswith="running the init").first())
    assert re.fullmatch(r"running the init script since \d{4}-\d\d-\d\d \d\d:\d\d UTC", seen.state_note)
    assert seen.state == "starting"
    wait_until(lambda: QueuedJob.objects.filter(running=True, tag="init_script").exists())
    assert worker.stop() == 0


def test_a_worker_that_is_told_to_leave_does_not_wait_for_an_init_script_that_hangs(
    start_worker: Start, wait_until: Any
) -> None:
    worker = start_worker(init_script="echo begun; sleep 1000")
    running = wait_until(lambda: QueuedJob.objects.filter(running=True, tag="init_script").first())
    wait_until(lambda: queue.read_logs(running.id)[0])

    worker.call(worker.worker.told_to_leave)

    assert worker.join() == 0
    assert CompletedJob.objects.get().status == JobStatus.CANCELED
    assert not WorkerPing.objects.exists()


def test_a_script_that_is_stopped_while_its_job_is_being_recorded_does_not_begin(
    start_worker: Start, tmp_path: Any
) -> None:
    started: Queue[Any] = Queue()

    class StoppedMeanwhile(PgJobQueue):
        async def start_own(self, request: JobRequest) -> Claim:
            claim = await super().start_own(request)
            worker = await asyncio.to_thread(started.get)
            worker.worker._host_scripts.stop()
            return claim

    worker = start_worker(init_script=f"touch {tmp_path}/began", queue_class=StoppedMeanwhile)
    started.put(worker)

    assert worker.join() == 1
    assert not (tmp_path / "began").exists()
    assert CompletedJob.objects.get().status == JobStatus.CANCELED
