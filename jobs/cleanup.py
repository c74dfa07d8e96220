"""Jobs whose arguments, results and logs are to be forgotten some time after the end (delete_after_secs).

Such a job is on the list (`job_cleanup`) from the moment it is queued, so that nothing is missed however it ends. A step
keeps its result until the topmost flow around it has ended, since later steps read it. The monitor forgets what is due,
every round; whoever completes a job or a flow does so at once for those that ask for it (0 seconds).
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, OuterRef

from jobs import sql
from jobs.models import CompletedJob, JobCleanup, QueuedJob

BATCH = 1_000
_LARGEST = 2_147_483_647


def delay_of_extra(extra: Mapping[str, Any]) -> int | None:
    """What the settings of a deployed script say: seconds after the end, None for never. `delete_after_use` is 0 s."""
    after_s = extra.get("delete_after_secs")
    if isinstance(after_s, int) and not isinstance(after_s, bool) and after_s >= 0:
        return min(after_s, _LARGEST)
    return 0 if extra.get("delete_after_use") is True else None


def forget(job_ids: Sequence[UUID]) -> list[UUID]:
    """Empty those of these jobs that have ended: arguments, result and log are gone, also from the cache of results; the
    fact that they ran stays. Answers their ids."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("forget_jobs"), {"ids": list(job_ids)})
        return [row[0] for row in cursor.fetchall()]


def forget_due(top_id: UUID | None = None) -> int:
    """Forget the jobs whose time has come; with `top_id` only that job, or the steps of that flow. Answers how many."""
    forgotten = 0
    with connection.cursor() as cursor:
        cursor.execute(sql.load("settle_cleanup"), {"top_id": top_id})
    while True:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(sql.load("forget_due"), {"top_id": top_id, "batch": BATCH})
                due = [row[0] for row in cursor.fetchall()]
            if due:
                forgotten += len(forget(due))
        if len(due) < BATCH:
            return forgotten


def prune() -> int:
    """Take jobs off the list that were deleted, or whose flow was. Answers how many."""
    top = OuterRef("top_id")
    return (
        JobCleanup.objects.filter(due_at__isnull=True)
        .exclude(Exists(QueuedJob.objects.filter(pk=top)))
        .exclude(Exists(CompletedJob.objects.filter(pk=top)))
        .delete()[0]
    )
