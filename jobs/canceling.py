"""Ending jobs before their time: one job, or a flow with everything that runs for it.

Softly: a flow is marked as canceled, starts nothing more and ends when nothing of it is left; steps that wait in the
queue end at once, running ones are stopped by their workers. By force: the whole tree, from the topmost flow down, is
over in this transaction, whatever its workers do.

A tree may grow while it is looked at (a worker is just starting the next step), and a row may be in somebody's hands for
an instant. So one looks again until nothing is left to do, instead of holding locks while waiting for others: locks are
taken as workers take them, steps before the flows around them (jobs/sql/functions/advance_flows.sql).
"""

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeVar
from uuid import UUID

from django.db import OperationalError, connection, transaction
from psycopg.errors import DeadlockDetected

from jobs import sql, wakeups
from jobs.errors import JobNotFound
from jobs.flows import waking
from jobs.models import CompletedJob, QueuedJob
from jobs.queue import append_system_log, canceled_error

logger = logging.getLogger(__name__)
T = TypeVar("T")

MOST_LEVELS = 500  # of jobs within jobs
_LOOKS = 200
_PAUSE_S = 0.01
_DEADLOCKS = 5


@dataclass(frozen=True, slots=True)
class _Queued:
    """A job of the tree that is in the queue."""

    id: UUID
    depth: int
    running: bool
    is_canceled: bool
    is_begun_flow: bool


def cancel_job(
    *, job_id: UUID, workspace_id: str, username: str, reason: str | None, force: bool = False
) -> bool:
    """Cancel a job, and everything that runs for it. True: it is over. False: its workers have been asked to stop it.

    By force a step takes its whole flow with it. Raises JobNotFound, and says so when the job had ended before.
    """
    if not QueuedJob.objects.filter(pk=job_id, workspace_id=workspace_id).exists():
        if CompletedJob.objects.filter(pk=job_id, workspace_id=workspace_id).exists():
            raise JobNotFound(f"job {job_id} has ended already; there is nothing to cancel")
        raise JobNotFound(f"job {job_id} does not exist in workspace {workspace_id}")
    order = _Order(username=username, reason=reason)
    ended = order.end_all(top_of(job_id, workspace_id=workspace_id)) if force else order.end_softly(job_id)
    if job_id not in ended:
        return not QueuedJob.objects.filter(pk=job_id).exists()
    append_system_log(
        job_id=job_id,
        workspace_id=workspace_id,
        text=f"canceled by {username}: (force cancel: {str(force).lower()})\n",
    )
    return True


def cancel_below(job_ids: Sequence[UUID], *, username: str, reason: str | None) -> None:
    """Cancel what runs for flows that are over already."""
    order = _Order(username=username, reason=reason)
    for job_id in job_ids:
        order.end_softly(job_id)


def tree_of(job_ids: Sequence[UUID]) -> list[UUID]:
    """These jobs with all steps and bodies below them, whatever their state."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("whole_tree"), {"ids": list(job_ids), "most": MOST_LEVELS})
        return [row[0] for row in cursor.fetchall()]


class _Order:
    """Somebody's wish that jobs end."""

    def __init__(self, *, username: str, reason: str | None) -> None:
        error = canceled_error(username=username, reason=reason)
        self._parameters: dict[str, Any] = {
            "canceled_by": username,
            "reason": reason,
            "result": json.dumps({"error": error}),
        }

    def end_softly(self, job_id: UUID) -> set[UUID]:
        """Answers the jobs that are over; the others of the tree know that they shall end."""
        ended: set[UUID] = set()
        for look in range(_LOOKS):
            rows = _queued([job_id])
            if not look:
                self._remind([row for row in rows if row.is_canceled])
            todo = [row for row in rows if not row.is_canceled]
            if not todo:
                return ended
            if look:
                time.sleep(_PAUSE_S)
            # Flows first: from then on they start nothing more, and what their steps do now changes nothing.
            _again_after_deadlock(partial(self._mark_flows, [row for row in todo if row.is_begun_flow]))
            others = [row.id for row in todo if not row.is_begun_flow]
            now_over = _again_after_deadlock(partial(self._end_waiting, others))
            self._stop_running([id for id in others if id not in now_over])
            ended |= now_over
        logger.warning("a part of job=%s could not be told that it is canceled", job_id)
        return ended

    def _remind(self, rows: Sequence[_Queued]) -> None:
        """Whoever was asked before may have missed the hint."""
        for row in rows:
            if row.is_begun_flow:
                _again_after_deadlock(partial(waking.wake, [row.id]))
            else:
                wakeups.cancel_requested(row.id)

    def end_all(self, job_id: UUID) -> set[UUID]:
        """Answers the jobs of the tree, which are over now."""
        ended: set[UUID] = set()
        for look in range(_LOOKS):
            rows = _queued([job_id])
            if not rows:
                break
            if look:
                time.sleep(_PAUSE_S)
            ids = [row.id for row in rows]
            ended |= _again_after_deadlock(partial(self._end, ids, force=True))
            for row in rows:
                if row.running and row.id in ended:
                    wakeups.cancel_requested(row.id)
        wakeups.jobs_changed(ended)
        return ended

    def _mark_flows(self, flows: Sequence[_Queued]) -> None:
        inner_first = sorted(flows, key=lambda row: -row.depth)
        with transaction.atomic():
            for _, level in groupby(inner_first, key=lambda row: row.depth):
                ids = [row.id for row in level]
                waking.wake(ids)
                self._mark(ids)

    def _end_waiting(self, ids: Sequence[UUID]) -> set[UUID]:
        with transaction.atomic():
            ended = self._end(ids, force=False)
            waking.wake_parents(ended)
        wakeups.jobs_changed(ended)
        return ended

    def _stop_running(self, ids: Sequence[UUID]) -> None:
        for job_id in self._mark(ids):
            wakeups.cancel_requested(job_id)

    def _mark(self, ids: Sequence[UUID]) -> list[UUID]:
        with connection.cursor() as cursor:
            cursor.execute(sql.load("cancel_running"), {**self._parameters, "ids": list(ids)})
            return [row[0] for row in cursor.fetchall()]

    def _end(self, ids: Sequence[UUID], *, force: bool) -> set[UUID]:
        with connection.cursor() as cursor:
            cursor.execute(sql.load("cancel_queued"), {**self._parameters, "ids": list(ids), "force": force})
            return {row[0] for row in cursor.fetchall()}


def _queued(job_ids: Sequence[UUID]) -> list[_Queued]:
    with connection.cursor() as cursor:
        cursor.execute(sql.load("job_tree"), {"ids": list(job_ids), "most": MOST_LEVELS})
        return [_Queued(*row) for row in cursor.fetchall()]


def top_of(job_id: UUID, *, workspace_id: str) -> UUID:
    """The flow at the top of the tree that a step is in; the job itself when it is no step."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("top_job"), {"id": job_id, "workspace_id": workspace_id, "most": MOST_LEVELS})
        row = cursor.fetchone()
    top: UUID = row[0] if row is not None else job_id
    return top


def _again_after_deadlock(act: Callable[[], T]) -> T:
    """Workers may be told off first, or we: it is enough that one of both begins again."""
    for attempt in range(_DEADLOCKS):
        try:
            return act()
        except OperationalError as exc:
            is_last = attempt == _DEADLOCKS - 1 or connection.in_atomic_block
            if is_last or not isinstance(exc.__cause__, DeadlockDetected):
                raise
            time.sleep(_PAUSE_S)
    raise AssertionError("the last attempt returns or raises")
