"""Two writers at the end of one log: nobody fails, nothing is lost."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection

from jobs import canceling, queue, sql
from jobs.models import CompletedJob

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("force", [True, False])
def test_canceling_while_output_arrives_at_the_same_end_of_the_log(
    force: bool,
    make_job: Callable[..., UUID],
    database_url: str,
    wait_until: Callable[..., Any],
) -> None:
    job_id = make_job()
    if force:  # else: it waits, and somebody writes all the same (a worker that has just put it back)
        (claim,) = queue.claim_jobs(worker="w", tags=["python3"])
        assert claim.id == job_id
    parameters = {"id": job_id, "workspace_id": "test", "logs": "output\n"}

    with psycopg.connect(database_url) as other, ThreadPoolExecutor(1) as pool:
        other.execute(sql.load("append_system_log"), parameters)  # not committed yet
        canceling = pool.submit(_cancel, job_id, force)
        wait_until(_somebody_waits_for_a_row)
        other.commit()
        assert canceling.result(timeout=10)

    assert CompletedJob.objects.get(pk=job_id).status == "canceled"
    log, _ = queue.read_logs(job_id)
    assert log.startswith("output\ncanceled by alice")


def _cancel(job_id: UUID, force: bool) -> bool:
    try:
        return canceling.cancel_job(
            job_id=job_id, workspace_id="test", username="alice", reason=None, force=force
        )
    finally:
        connection.close()


def _somebody_waits_for_a_row() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])
