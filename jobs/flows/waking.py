"""Waking flows: the one thing that a server does to a running flow. A worker then looks at what has changed."""

from collections.abc import Iterable
from uuid import UUID

from django.db import connection

from jobs import sql, wakeups


def wake(flow_ids: Iterable[UUID]) -> None:
    """Have these flow jobs looked at again, with the commit of the caller's transaction. Ids of other jobs are ignored.

    For every fact that a flow waits for or must react to: an approval, a cancel, a step that ended outside of its worker.
    A flow that a worker is advancing at this moment notices by its version, any other is claimed by the next free worker.
    """
    ids = list(flow_ids)
    if not ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(sql.load("wake_flow"), {"ids": ids})
        for _, tag in cursor.fetchall():
            wakeups.job_queued(tag)
    wakeups.jobs_changed(ids)


def wake_parents(job_ids: Iterable[UUID]) -> None:
    """Wake the flows that wait for these jobs, in the transaction that ended them outside of their workers."""
    wake(parents_of(job_ids))


def parents_of(job_ids: Iterable[UUID]) -> list[UUID]:
    """The flows that these jobs are steps of."""
    ids = list(job_ids)
    if not ids:
        return []
    with connection.cursor() as cursor:
        cursor.execute(sql.load("parents_of_steps"), {"ids": ids})
        return [row[0] for row in cursor.fetchall()]
