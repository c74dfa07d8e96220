"""A push and its hint: one round trip outside a transaction, a hint after the commit inside one."""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import connection, transaction
from django.db.utils import DataError

from jobs import pg, queue, wakeups
from jobs.errors import JobIdTaken
from jobs.models import QueuedJob
from jobs.queue import JobRequest

pytestmark = pytest.mark.django_db(transaction=True)
TOUCH = "UPDATE queue SET tag = tag WHERE id = %(id)s"


@pytest.fixture
def listening(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection that hears of queued jobs."""
    with psycopg.connect(database_url, autocommit=True) as listener:
        listener.execute(f"LISTEN {wakeups.QUEUE_CHANNEL}")
        yield listener


def request(**given: Any) -> JobRequest:
    told = {
        "workspace_id": "acme",
        "kind": "preview",
        "tag": f"tag-{uuid4()}",  # hints for one tag are held back for a while
        "created_by": "ada",
        "permissioned_as": "u/ada",
        "permissioned_as_email": "ada@acme.dev",
        "args": {},
        "raw_code": "x",
        "language": "bash",
    }
    return JobRequest(**told | given)


def heard(listener: psycopg.Connection[Any], *, within_s: float = 10) -> list[str]:
    """The tags of the first hints that come, of those that came together."""
    return [hint.payload for hint in listener.notifies(timeout=within_s, stop_after=1)]


def test_who_hears_the_hint_finds_the_job(listening: psycopg.Connection[Any]) -> None:
    wanted = request()

    job_id = queue.push_job(wanted)

    assert heard(listening) == [wanted.tag]
    assert listening.execute("SELECT tag FROM queue WHERE id = %s", [job_id]).fetchone() == (wanted.tag,)


def test_in_a_transaction_the_hint_waits_for_its_commit(listening: psycopg.Connection[Any]) -> None:
    wanted, marker = request(), request()

    with transaction.atomic():
        queue.push_job(wanted)
        on_a_thread(lambda: queue.push_job(marker))
        assert heard(listening) == [marker.tag]

    assert heard(listening) == [wanted.tag]


def on_a_thread(work: Callable[[], Any]) -> None:
    """Do `work` with a connection of its own."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_a_taken_id_is_refused_and_the_connection_goes_on() -> None:
    job_id = queue.push_job(request())

    with pytest.raises(JobIdTaken):
        queue.push_job(request(job_id=job_id))

    assert isinstance(queue.push_job(request()), UUID)


def test_what_the_database_refuses_is_not_queued_nor_told_of(listening: psycopg.Connection[Any]) -> None:
    refused, accepted = request(), request()

    with pytest.raises(DataError):
        queue.push_job(replace(refused, timeout_s=1 << 40))
    queue.push_job(accepted)

    assert heard(listening) == [accepted.tag]
    assert not QueuedJob.objects.filter(tag=refused.tag).exists()


def test_a_hint_that_cannot_be_sent_is_logged_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    job_id = queue.push_job(request())

    with caplog.at_level(logging.WARNING, logger="jobs.pg"):
        count = pg.execute_and_notify(TOUCH, {"id": job_id}, channel="too_long", payload="x" * 9000)

    assert count == 1
    assert "notification not sent channel=too_long" in caplog.text
    assert isinstance(queue.push_job(request()), UUID)
