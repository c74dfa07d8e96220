"""Housekeeping: lost workers, stale jobs, retention, and one process at a time."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection
from django.db.models.functions import Now

from jobs import monitor, queue
from jobs.models import CompletedJob, Job, JobStatus, LogChunk, QueuedJob, WorkerPing
from workspaces.models import Token

pytestmark = pytest.mark.django_db
Make = Callable[..., UUID]


@pytest.fixture(autouse=True)
def database_is_long_up(settings: Any) -> None:
    """The grace after a restart of the database is over, however young the test server is."""
    settings.HEARTBEAT_SECONDS = 0


@pytest.fixture
def lost_job(make_job: Make) -> Callable[..., queue.Claim]:
    """A job whose worker has been silent for an hour."""

    def make(**given: Any) -> queue.Claim:
        make_job(**given)
        (claim,) = queue.claim_jobs(worker="gone", tags=[given.get("tag", "python3")])
        QueuedJob.objects.filter(pk=claim.id).update(last_ping=Now() - timedelta(hours=1))
        return claim

    return make


def test_the_job_of_a_lost_worker_is_queued_again_and_its_log_says_so(
    lost_job: Callable[..., queue.Claim],
) -> None:
    claim = lost_job()

    monitor.recover()

    row = QueuedJob.objects.get(pk=claim.id)
    assert (row.running, row.restarts) == (False, 1)
    assert "from worker gone (1/3 attempts)" in queue.read_logs(claim.id)[0]


def test_after_the_last_restart_it_fails_with_the_reason(
    lost_job: Callable[..., queue.Claim], settings: Any
) -> None:
    claim = lost_job()
    QueuedJob.objects.filter(pk=claim.id).update(restarts=settings.RESTART_LIMIT)

    monitor.recover()

    done = CompletedJob.objects.get(pk=claim.id)
    assert done.status == JobStatus.FAILURE
    assert "reason: RestartLimit (3)" in done.result["error"]["message"]


@pytest.mark.parametrize(
    ("tag", "reason"), [("init_script", "InitScript"), ("periodic_bash_script", "PeriodicScript")]
)
def test_a_script_that_looks_after_a_host_is_not_started_again(
    lost_job: Callable[..., queue.Claim], tag: str, reason: str
) -> None:
    claim = lost_job(tag=tag)

    monitor.recover()

    assert f"reason: {reason}" in CompletedJob.objects.get(pk=claim.id).result["error"]["message"]


def test_after_an_outage_workers_have_time_to_come_back(settings: Any) -> None:
    settings.HEARTBEAT_SECONDS = 5
    outage = monitor.Outage()
    assert outage.is_over(now=0)

    with pytest.raises(OperationalError), outage.noticed():
        raise OperationalError("the connection is lost")
    assert not outage.is_over(now=time.monotonic() + 3600)  # for as long as it lasts

    with outage.noticed():
        back_at = time.monotonic()
    assert not outage.is_over(now=back_at + 14)
    assert outage.is_over(now=time.monotonic() + 15)


def test_nobody_is_lost_while_nobody_could_report(lost_job: Callable[..., queue.Claim]) -> None:
    claim = lost_job()

    monitor.recover(lost=False)

    assert QueuedJob.objects.get(pk=claim.id).running


def test_a_job_with_heartbeats_is_left_alone(make_job: Make) -> None:
    make_job()
    (claim,) = queue.claim_jobs(worker="busy", tags=["python3"])

    monitor.recover()

    assert QueuedJob.objects.get(pk=claim.id).running


def test_right_after_a_restart_of_the_database_nobody_is_taken_for_dead(
    lost_job: Callable[..., queue.Claim], settings: Any
) -> None:
    settings.HEARTBEAT_SECONDS = 10_000_000
    claim = lost_job()

    monitor.recover()

    assert QueuedJob.objects.get(pk=claim.id).running


def test_monitoring_can_be_switched_off(lost_job: Callable[..., queue.Claim], settings: Any) -> None:
    settings.DISABLE_ZOMBIE_JOBS_MONITORING = True
    claim = lost_job()

    monitor.recover()

    assert QueuedJob.objects.get(pk=claim.id).running


def test_stale_jobs_are_cancelled_when_a_threshold_is_set(make_job: Make, settings: Any) -> None:
    settings.STALE_JOB_THRESHOLD_MINUTES = 5
    fresh, stale, later = make_job(), make_job(tag="nobody"), make_job(scheduled_in_s=3600)
    QueuedJob.objects.filter(pk=stale).update(scheduled_for=Now() - timedelta(minutes=6))

    monitor.recover()

    assert set(QueuedJob.objects.values_list("id", flat=True)) == {fresh, later}
    done = CompletedJob.objects.get(pk=stale)
    assert done.status == JobStatus.CANCELED
    assert "STALE_JOB_THRESHOLD_MINUTES (5)" in done.result["error"]["message"]


def test_retention_forgets_old_jobs_in_batches_with_everything_that_belongs_to_them(
    make_job: Make, settings: Any
) -> None:
    settings.JOB_CLEANUP_BATCH_SIZE = 2
    for _ in range(6):
        make_job()
    claims = queue.claim_jobs(worker="w", tags=["python3"], limit=6)
    for claim in claims:
        queue.append_log((claim.id, claim.attempt), "text")
    queue.complete_jobs([queue.Completion(claim.id, claim.attempt, "success", "1") for claim in claims])
    kept = claims[-1].id
    CompletedJob.objects.exclude(pk=kept).update(
        completed_at=Now() - timedelta(seconds=settings.JOB_RETENTION_SECONDS + 1)
    )

    monitor.clean_up()

    for table, key in ((CompletedJob, "id"), (Job, "id"), (LogChunk, "job_id")):
        assert list(table.objects.values_list(key, flat=True)) == [kept]


def test_silent_workers_and_expired_tokens_are_pruned() -> None:
    WorkerPing.objects.create(worker="silent", worker_instance="h", ping_at=Now() - timedelta(minutes=6))
    WorkerPing.objects.create(worker="alive", worker_instance="h")
    Token.objects.create(token_hash="a", token_prefix="a", email="a", expiration=Now() - timedelta(seconds=1))
    Token.objects.create(token_hash="b", token_prefix="b", email="b")

    monitor.clean_up()

    assert [row.worker for row in WorkerPing.objects.all()] == ["alive"]
    assert [row.token_hash for row in Token.objects.all()] == ["b"]


@pytest.mark.django_db(transaction=True)
def test_a_piece_of_work_is_left_to_the_process_that_is_at_it(lost_job: Callable[..., queue.Claim]) -> None:
    claim = lost_job()
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [monitor._LOCKS["recover"]])
                locked.set()
                done.wait(30)
                cursor.execute("ROLLBACK")
        finally:
            connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait(30)
    monitor.recover()
    assert QueuedJob.objects.get(pk=claim.id).running
    done.set()
    thread.join()

    monitor.recover()

    assert not QueuedJob.objects.get(pk=claim.id).running
