"""Behind a connection pooler nothing relies on the next statement meeting the same server process, told or not told."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection, connections
from psycopg.conninfo import conninfo_to_dict

from jobs import pg
from jobs.listener import Listener
from tests.pooler import pooler

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pooled_url(database_url: str) -> Iterator[str]:
    """An address of the tests' database that leads through a pooler."""
    pg.warn_of_pooler.cache_clear()
    with pooler(database_url) as url:
        yield url
    pg.warn_of_pooler.cache_clear()


@pytest.fixture
def on_pooled_connection(pooled_url: str) -> Callable[[Callable[[], Any]], Any]:
    """Do something on a thread whose connection of Django leads through a pooler."""

    def do(work: Callable[[], Any]) -> Any:
        answers: list[Any] = []

        def run() -> None:
            told = conninfo_to_dict(pooled_url)
            other = connections["default"].copy()
            other.settings_dict |= {"HOST": told["host"], "PORT": told["port"]}
            other.settings_dict["OPTIONS"] |= {"sslmode": "disable", "gssencmode": "disable"}
            connections["default"] = other
            try:
                answers.append(work())
            finally:
                other.close()

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return answers[0]

    return do


def test_a_push_is_not_prepared(
    on_pooled_connection: Callable[[Callable[[], Any]], Any], make_job: Callable[..., UUID]
) -> None:
    def push_and_look() -> Any:
        for _ in range(3):
            make_job()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM queue)"
            )
            return cursor.fetchone()

    assert on_pooled_connection(push_and_look) == (0, 3)


async def test_a_listener_polls_and_says_what_to_set(
    pooled_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(15), Listener(url=pooled_url) as listener:
        while "Set DATABASE_DIRECT_URL" not in caplog.text:
            await asyncio.sleep(0.01)

        assert not listener.is_connected


async def test_a_direct_connection_is_told_from_one_through_a_pooler(
    database_url: str, pooled_url: str
) -> None:
    found = []
    for url in (database_url, pooled_url):
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as opened:
            found.append(await pg.is_direct(opened))

    assert found == [True, False]
