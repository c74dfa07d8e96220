"""Native workers: many jobs at once of the kinds that need little of the machine, and no others."""

import subprocess
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from jobs.models import CompletedJob, JobStatus, QueuedJob, WorkerPing
from workers.models import Config
from workers.tags import NATIVE_LANGUAGES

pytestmark = pytest.mark.django_db(transaction=True)
StartProcess = Callable[..., "subprocess.Popen[bytes]"]
Make = Callable[..., UUID]


@pytest.fixture
def finished(wait_until: Any) -> Callable[[UUID], CompletedJob]:
    """Wait for a job's end."""
    return lambda job: wait_until(lambda: CompletedJob.objects.filter(pk=job).first(), timeout_s=60)


@pytest.mark.parametrize("environ", [{"WORKER_GROUP": "native"}, {"NATIVE_MODE": "true"}])
def test_a_native_worker_takes_native_jobs_eight_at_once_and_leaves_others_alone(
    environ: dict[str, str], start_process: StartProcess, make_job: Make, finished: Any
) -> None:
    python = make_job(raw_code="def main():\n    return 1")
    start_process(**environ)

    native = make_job(
        raw_code="export async function main() { return 2 }", language="nativets", tag="nativets"
    )

    assert finished(native).result == 2
    seen = WorkerPing.objects.get()
    assert (seen.slots, seen.native_mode) == (8, True)
    assert set(seen.custom_tags) <= set(NATIVE_LANGUAGES)
    assert set(seen.languages) <= set(seen.runtimes) <= set(NATIVE_LANGUAGES)
    assert QueuedJob.objects.get().id == python


def test_other_work_under_a_tag_of_its_own_fails_with_a_sentence(
    start_process: StartProcess, make_job: Make, finished: Any
) -> None:
    Config.objects.create(
        name="worker__default", config={"native_mode": True, "worker_tags": ["slow-sql", "python3", "flow"]}
    )
    start_process(NUM_WORKERS="3")

    done = finished(make_job(raw_code="def main():\n    return 1", tag="slow-sql"))

    assert done.status == JobStatus.FAILURE
    seen = WorkerPing.objects.get()
    says = f"of group default is native: it runs {', '.join(seen.languages)}, not python3. "
    assert seen.languages and says in str(done.result)
    assert "take tag slow-sql from group default" in str(done.result)
    assert (seen.slots, seen.custom_tags) == (3, ["slow-sql"])
