"""What the monitor does for flows: those that nobody would look at again, and those that run for too long."""

import logging

from django.db import connection, transaction

from jobs import canceling, sql
from jobs.errors import JobNotFound
from jobs.flows import waking

logger = logging.getLogger(__name__)


def wake_stuck() -> int:
    """Have flows looked at that wait for a step which is not there. Answers how many."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(sql.load("stuck_flows"))
            stuck = [row[0] for row in cursor.fetchall()]
        waking.wake(stuck)
    for flow_id in stuck:
        logger.warning("woke flow=%s: it waited for a step that had ended", flow_id)
    return len(stuck)


def cancel_overdue() -> int:
    """Cancel flows that have run for longer than their timeout, steps and all. Answers how many."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("overdue_flows"))
        overdue = cursor.fetchall()
    for flow_id, workspace_id, timeout_s in overdue:
        logger.warning("canceling flow=%s: it has run for more than its timeout=%s", flow_id, timeout_s)
        try:
            canceling.cancel_job(
                job_id=flow_id,
                workspace_id=workspace_id,
                username="timeout",
                reason=f"the flow ran for longer than its timeout of {timeout_s} s",
            )
        except JobNotFound:
            continue  # it has just ended
    return len(overdue)
