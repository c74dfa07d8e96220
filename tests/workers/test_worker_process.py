"""`manage.py runworker` as operators run it: real processes, real signals, real jobs in their sandboxes."""

import signal
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest
from django.db.models.functions import Now

from jobs import canceling, queue
from jobs.models import CompletedJob, JobStatus, QueuedJob, WorkerPing

pytestmark = pytest.mark.django_db(transaction=True)
Make = Callable[..., UUID]
StartProcess = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def bash(make_job: Make) -> Callable[..., UUID]:
    """Queue a bash job."""
    return lambda code, **given: make_job(raw_code=code, language="bash", tag="bash", **given)


@pytest.fixture
def printed(wait_until: Any) -> Callable[[UUID, str], Any]:
    """Wait until a job has printed a text."""
    return lambda job, text: wait_until(lambda: text in queue.read_logs(job)[0], timeout_s=30)


@pytest.fixture
def finished(wait_until: Any) -> Callable[[UUID], CompletedJob]:
    """Wait for a job's end."""
    return lambda job: wait_until(lambda: CompletedJob.objects.filter(pk=job).first(), timeout_s=30)


def expire_leases() -> None:
    QueuedJob.objects.filter(running=True).update(last_ping=Now() - timedelta(hours=1))


def test_python_and_bash_run_from_the_queue(
    start_process: StartProcess, make_job: Make, bash: Any, finished: Any
) -> None:
    start_process()

    python = make_job(
        raw_code="def main(n: int):\n    print('hello')\n    return {'n': n + 1}", args={"n": 1}
    )
    shell = bash('name="$1"\necho "hello $name"', args={"name": "you"})

    assert finished(python).result == {"n": 2}
    assert finished(shell).result == "hello you"
    assert queue.read_logs(python)[0] == "hello\n"
    in_force = WorkerPing.objects.get().job_isolation
    assert in_force and {finished(python).isolation, finished(shell).isolation} == {in_force}


def test_the_job_of_a_killed_worker_runs_elsewhere_and_is_recorded_once(
    start_process: StartProcess, bash: Any, printed: Any, finished: Any
) -> None:
    first = start_process()
    job = bash("echo begun on $WM_JOB_ID; sleep 2; echo done")
    printed(job, "begun")

    first.send_signal(signal.SIGKILL)
    first.wait()
    expire_leases()
    queue.recover_lost_jobs()
    start_process()

    done = finished(job)
    assert (done.status, done.result, done.restarts) == (JobStatus.SUCCESS, "done", 1)
    assert not QueuedJob.objects.exists()


def test_a_stopped_worker_that_lost_its_lease_cannot_write_when_it_goes_on(
    start_process: StartProcess, bash: Any, printed: Any, finished: Any, wait_until: Any, tmp_path: Path
) -> None:
    first = start_process("--slots", "1")
    job = bash("echo begun; while ! [ -e stop ]; do sleep 0.1; echo tick; done")
    printed(job, "begun")

    first.send_signal(signal.SIGSTOP)
    expire_leases()
    queue.recover_lost_jobs()
    (claim,) = queue.claim_jobs(worker="second", tags=["bash"])
    before = queue.read_logs(job)[0]
    first.send_signal(signal.SIGCONT)

    wait_until(lambda: "lost the lease" in (tmp_path / "worker-0.log").read_text(), timeout_s=20)
    queue.complete_job((claim.id, claim.attempt), result="by the second")
    assert finished(job).result == "by the second"
    assert queue.read_logs(job)[0] == before
    first.terminate()
    assert first.wait(timeout=30) == 0


def test_sigterm_drains(start_process: StartProcess, bash: Any, printed: Any, wait_until: Any) -> None:
    worker = start_process()
    job = bash("echo begun; sleep 1.5; echo done")
    printed(job, "begun")
    waiting = bash("echo never")

    worker.terminate()

    assert worker.wait(timeout=30) == 0
    assert CompletedJob.objects.get().id == job
    assert QueuedJob.objects.get().id == waiting
    assert not WorkerPing.objects.exists()


def test_a_second_signal_kills_the_jobs_and_puts_them_back(
    start_process: StartProcess, bash: Any, printed: Any, wait_until: Any
) -> None:
    worker = start_process()
    job = bash("echo begun; sleep 600")
    printed(job, "begun")

    worker.terminate()
    wait_until(lambda: WorkerPing.objects.filter(state="draining").exists())
    worker.terminate()

    assert worker.wait(timeout=30) == 0
    row = QueuedJob.objects.get(pk=job)
    assert (row.running, row.restarts) == (False, 0)


def test_a_drain_timeout_does_the_same(start_process: StartProcess, bash: Any, printed: Any) -> None:
    worker = start_process("--drain-timeout", "0.5")
    job = bash("echo begun; sleep 600")
    printed(job, "begun")

    worker.send_signal(signal.SIGINT)

    assert worker.wait(timeout=30) == 0
    assert not QueuedJob.objects.get(pk=job).running


def test_cancelling_kills_all_processes_of_a_job_also_those_in_a_session_of_their_own(
    start_process: StartProcess, bash: Any, printed: Any, finished: Any, wait_until: Any
) -> None:
    worker = start_process()
    job = bash("setsid sleep 4242 & \n sleep 4243 & \n echo begun; wait")
    printed(job, "begun")
    wait_until(lambda: len(sleepers(worker)) == 2)

    canceling.cancel_job(job_id=job, workspace_id="test", username="bob", reason="enough")

    done = finished(job)
    assert done.status == JobStatus.CANCELED
    assert sleepers(worker) == []


def sleepers(worker: "subprocess.Popen[bytes]") -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [])[-1:] in (["4242"], ["4243"]):
            found.append(process.pid)
    return found


def test_a_failing_init_script_ends_the_worker_with_an_error(start_process: StartProcess) -> None:
    worker = start_process(ready=False, INIT_SCRIPT="echo installing; exit 7")

    assert worker.wait(timeout=40) != 0
    assert "installing" in WorkerPing.objects.get(state="failed").init_log


def test_tags_of_other_groups_are_left_to_them(
    start_process: StartProcess, bash: Any, finished: Any, make_job: Make
) -> None:
    elsewhere = make_job(raw_code="def main():\n    return 1")
    start_process(WORKER_GROUP="shells", WORKER_TAGS="bash")

    finished(bash("echo hi"))

    assert QueuedJob.objects.get().id == elsewhere
    assert WorkerPing.objects.get().worker_group == "shells"
