"""A worker follows the configuration of its group while it runs: real processes, as operators run them."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs import queue
from jobs.models import CompletedJob, JobStatus, WorkerPing
from tests.tenancy import make_account, make_workspace
from workers.groups import configs
from workers.worker import RESTART_CODE
from workspaces.access import Identity

pytestmark = pytest.mark.django_db(transaction=True)
StartProcess = Callable[..., "subprocess.Popen[bytes]"]
Make = Callable[..., UUID]


@pytest.fixture
def configure(transactional_db: None) -> Callable[..., configs.Change]:
    """Write the configuration of group `default`."""
    make_account("root@example.com", super_admin=True)
    make_workspace("admins", admin="root@example.com")
    root = Identity(email="root@example.com", super_admin=True)
    return lambda **config: configs.update(name="default", config=config, actor=root)


@pytest.fixture
def bash(make_job: Make) -> Make:
    """Queue a bash job."""
    return lambda code, **given: make_job(raw_code=code, **{"language": "bash", "tag": "bash", **given})


@pytest.fixture
def finished(wait_until: Any) -> Callable[[UUID], CompletedJob]:
    """Wait for a job's end."""
    return lambda job: wait_until(lambda: CompletedJob.objects.filter(pk=job).first(), timeout_s=30)


@pytest.fixture
def listens_to(wait_until: Any) -> Callable[..., None]:
    """Wait until the one worker says that it listens to exactly these tags."""
    return lambda *tags: wait_until(lambda: WorkerPing.objects.get().custom_tags == list(tags), timeout_s=30)


def test_tags_change_at_once_and_what_runs_goes_on(
    configure: Any, start_process: StartProcess, bash: Make, finished: Any, listens_to: Any, wait_until: Any
) -> None:
    configure(worker_tags=["bash"])
    process = start_process()
    running = bash("echo begun; while [ $SECONDS -lt 2 ]; do sleep 0.05; done; echo done")
    wait_until(lambda: "begun" in queue.read_logs(running)[0])
    for_later = bash("echo $REGION", tag="gpu")

    configure(worker_tags=["gpu"], env_vars_static={"REGION": "eu"})
    listens_to("gpu")
    nobody_takes = bash("echo never")

    assert finished(for_later).result == "eu"
    assert finished(running).result == "done"
    assert not CompletedJob.objects.filter(pk=nobody_takes).exists()
    assert process.poll() is None

    configure(worker_tags=["gpu", "bash"])
    assert finished(nobody_takes).result == "never"


def test_a_notification_that_got_lost_costs_time_only(
    configure: Any, start_process: StartProcess, listens_to: Any, tmp_path: Path
) -> None:
    configure(worker_tags=["bash"])
    start_process()

    # As if somebody had written it by hand: workers are told of nothing, but look again when they reconnect.
    with connection.cursor() as cursor:
        cursor.execute("""UPDATE config SET config = '{"worker_tags": ["gpu", 1], "native_mode": false}'""")
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'windmill listener'"
            " AND datname = current_database()"
        )
        cursor.execute("""UPDATE config SET config = '{"worker_tags": ["gpu"], "init_bash": 5}'""")

    listens_to("gpu")
    assert WorkerPing.objects.get().state_note == "init_bash is the number 5; expected a text"
    assert "init_bash is the number 5" in (tmp_path / "worker-0.log").read_text()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"init_bash": "true"}, "init_bash"),
        ({"native_mode": True}, "native_mode"),
        ({"dedicated_workers": ["acme:f/team/script"]}, "dedicated_workers"),
    ],
)
def test_what_cannot_be_followed_makes_the_worker_finish_and_ask_to_be_started_again(
    change: dict[str, Any],
    field: str,
    configure: Any,
    start_process: StartProcess,
    bash: Make,
    wait_until: Any,
    finished: Any,
) -> None:
    configure(worker_tags=["bash"])
    process = start_process()
    running = bash("echo begun; while [ $SECONDS -lt 2 ]; do sleep 0.05; done; echo done")
    wait_until(lambda: "begun" in queue.read_logs(running)[0])

    configure(worker_tags=["bash"], **change)

    seen = wait_until(lambda: WorkerPing.objects.filter(state="draining").first())
    assert seen.state_note == f"restarting to apply {field}"
    waiting = bash("echo for the next worker")
    assert process.wait(timeout=30) == RESTART_CODE
    assert finished(running).status == JobStatus.SUCCESS
    assert not CompletedJob.objects.filter(pk=waiting).exists()


def test_a_worker_leaves_after_as_many_jobs_as_it_was_told_and_takes_no_more(
    start_process: StartProcess, bash: Make, finished: Any
) -> None:
    jobs = [bash(f"echo {number}") for number in range(5)]

    process = start_process("--slots", "2", ready=False, EXIT_AFTER_N_JOBS="3")

    assert process.wait(timeout=60) == 0
    assert [CompletedJob.objects.filter(pk=job).exists() for job in jobs] == [True, True, True, False, False]
    assert not WorkerPing.objects.exists()


def test_variables_that_jobs_may_see_and_the_worker_does_not_have_are_named_in_the_log(
    configure: Any, start_process: StartProcess, bash: Make, finished: Any
) -> None:
    configure(env_vars_allowlist=["REGION", "AWS_PROFILE"])
    start_process(AWS_PROFILE="prod", WHITELIST_ENVS="AWS_REGION")
    job = bash('echo "$AWS_PROFILE"')

    assert finished(job).result == "prod"
    assert queue.read_logs(job)[0] == "not set on this worker: AWS_REGION, REGION\nprod\n"


def test_python_jobs_find_the_modules_of_the_host_which_are_not_installed(
    configure: Any, start_process: StartProcess, make_job: Make, finished: Any, tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as folder:
        os.chmod(folder, 0o755)
        Path(folder, "housemade.py").write_text("VERSION = 'of the host'")
        configure(additional_python_paths=[folder, "/nowhere/at/all"], pip_local_dependencies=["housemade"])
        start_process()
        job = make_job(raw_code="import housemade\ndef main():\n    return housemade.VERSION")

        assert finished(job).result == "of the host"
    assert "additional_python_paths=/nowhere/at/all" in (tmp_path / "worker-0.log").read_text()


def test_a_worker_that_is_told_to_leave_while_it_waits_to_start_again_finishes_and_stays_away(
    configure: Any, start_process: StartProcess, bash: Make, wait_until: Any, finished: Any
) -> None:
    process = start_process()
    running = bash("echo begun; while [ $SECONDS -lt 2 ]; do sleep 0.05; done; echo done")
    wait_until(lambda: "begun" in queue.read_logs(running)[0])
    configure(init_bash="true")
    wait_until(lambda: WorkerPing.objects.filter(state="draining").first())

    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=30) == 0
    assert finished(running).result == "done"


def test_an_init_script_that_hangs_is_put_right_by_another_configuration(
    configure: Any, start_process: StartProcess, wait_until: Any
) -> None:
    configure(init_bash="sleep 1000")
    process = start_process(ready=False)
    wait_until(
        lambda: WorkerPing.objects.filter(state_note__startswith="running the init").exists(), timeout_s=40
    )

    configure(init_bash="true")

    assert process.wait(timeout=30) == RESTART_CODE
    assert not WorkerPing.objects.exists()
    assert CompletedJob.objects.get().status == JobStatus.CANCELED
