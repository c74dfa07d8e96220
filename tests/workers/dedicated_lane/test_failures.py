"""The database refuses what a lane asks of it: the lane goes on, and no job stays with it for ever."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
from django.db.models.functions import Now

from jobs import canceling, queue
from jobs.models import CompletedJob, QueuedJob
from workers.job_queue import Lease
from workers.pg_queue import PgJobQueue

COUNT = 50
ENDLESS = "import time\n\ndef main(x: int = 0):\n    if x:\n        time.sleep(600)\n    return x\n"


class RefusesOnce(PgJobQueue):
    """The first time that a job is put back something is wrong with the statement."""

    refusals = 1

    async def release(self, lease: Lease, *, count_restart: bool) -> bool:
        if self.refusals:
            self.refusals -= 1
            raise psycopg.errors.SyntaxError("a bug of ours")
        return await super().release(lease, count_restart=count_restart)


def test_a_lane_outlives_a_statement_that_is_refused(
    deploy: Any, run: Any, start: Any, outcomes: Callable[..., list[Any]], wait_until: Any
) -> None:
    script = deploy(ENDLESS)
    worker = start(queue_class=RefusesOnce)
    outcomes([run(script) for _ in range(COUNT)])  # so quick that many are claimed ahead
    endless = run(script, x=1)
    behind = [run(script) for _ in range(2 * COUNT)]

    wait_until(lambda: worker.queue.refusals == 0, timeout_s=60)
    _cancel(endless)

    wait_until(lambda: CompletedJob.objects.filter(pk=endless).exists(), timeout_s=30)
    # The one that was refused is nobody's: no heartbeat keeps it from those who would run it.
    wait_until(lambda: QueuedJob.objects.count() == 1, timeout_s=60)
    QueuedJob.objects.update(last_ping=Now() - timedelta(hours=1))
    queue.recover_lost_jobs()
    assert outcomes(behind) == [0] * len(behind)
    assert CompletedJob.objects.filter(restarts=1).count() == 1


def _cancel(job: UUID) -> None:
    canceling.cancel_job(job_id=job, workspace_id="acme", username="ada", reason="enough")
