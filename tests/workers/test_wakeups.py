"""How an idle worker hears of work: at once by notification, by polling when none arrives, and cheaply meanwhile."""

import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from jobs.models import CompletedJob
from tests.workers.conftest import RunningWorker
from workers.pg_queue import PgJobQueue
from workers.worker import IDLE_POLL_S

pytestmark = pytest.mark.django_db(transaction=True)
Start = Callable[..., RunningWorker]
Make = Callable[..., UUID]


class CountingQueue(PgJobQueue):
    """Counts claims, so that a test can wait for the worker to be idle."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.claim_count = 0
        self.idle_claims = 0

    async def claim(self, **given: Any) -> Any:
        claims = await super().claim(**given)
        self.claim_count += 1
        self.idle_claims = 0 if claims else self.idle_claims + 1
        return claims


class DeafQueue(CountingQueue):
    """Notifications never arrive."""

    @property
    def hears_wakeups(self) -> bool:
        return False

    def on_work(self, callback: Any) -> Any:
        return lambda: None


def seconds_until_done(job: UUID, began: float, wait_until: Any) -> float:
    wait_until(lambda: CompletedJob.objects.filter(pk=job).exists())
    return time.monotonic() - began


def test_a_notification_wakes_an_idle_worker_at_once(
    start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    worker = start_worker(queue_class=CountingQueue)
    waits = []
    for _ in range(5):
        idle_since = worker.queue.claim_count
        wait_until(lambda: worker.queue.claim_count > idle_since)  # noqa: B023  asked at once
        began = time.monotonic()
        waits.append(seconds_until_done(make_job(raw_code="return 1"), began, wait_until))

    assert sorted(waits)[2] < IDLE_POLL_S / 4


def test_without_notifications_polling_finds_the_job(
    start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    worker = start_worker(queue_class=DeafQueue, poll_s=0.05)
    wait_until(lambda: worker.queue.idle_claims > 3)

    began = time.monotonic()

    assert seconds_until_done(make_job(raw_code="return 1"), began, wait_until) < 1


def test_an_idle_worker_costs_at_most_two_transactions_a_second(
    start_worker: Start, database_url: str, wait_until: Any
) -> None:
    worker = start_worker(queue_class=CountingQueue)
    wait_until(lambda: worker.queue.idle_claims > 2)

    statements, claims, began = worker.queue.statement_count, worker.queue.claim_count, time.monotonic()
    wait_until(lambda: worker.queue.claim_count >= claims + 6)
    elapsed = time.monotonic() - began

    assert (worker.queue.statement_count - statements) / elapsed <= 2
    with psycopg.connect(database_url, autocommit=True) as connection:
        count = connection.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE application_name LIKE 'windmill%' AND datname = current_database()"
        ).fetchone()
    assert count is not None and count[0] <= 3


def test_many_jobs_cost_less_than_a_statement_each(
    start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    for _ in range(200):
        make_job(raw_code="return 1")

    worker = start_worker(slots=16, queue_class=CountingQueue)
    wait_until(lambda: CompletedJob.objects.count() == 200)

    assert worker.queue.statement_count < 200


def test_output_arrives_while_the_job_runs(
    start_worker: Start, make_job: Make, wait_until: Any, database_url: str
) -> None:
    runner = start_worker().runner
    hints: list[str] = []
    listening = threading.Event()

    def listen() -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("LISTEN wm_job")
            listening.set()
            for notification in connection.notifies(timeout=20, stop_after=1):
                hints.append(notification.payload)

    thread = threading.Thread(target=listen)
    thread.start()
    listening.wait(20)

    job = make_job(raw_code="print hello\nwait\nreturn 1")
    thread.join()

    assert hints == [str(job)]
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert connection.execute("SELECT logs FROM job_logs WHERE job_id = %s", [job]).fetchone() == (
            "hello\n",
        )
    runner.let_go()
