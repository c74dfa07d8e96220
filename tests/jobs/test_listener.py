"""One LISTEN connection turns notifications into wake-ups, repairs itself, and forgets who stopped waiting."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from jobs import wakeups
from jobs.listener import POLL_DISCONNECTED_S, Listener, get_listener

pytestmark = pytest.mark.django_db(transaction=True)
LONG = 30.0


async def notify(url: str, channel: str, payload: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("SELECT pg_notify(%s, %s)", [channel, payload])


async def listening(url: str) -> Listener:
    listener = Listener(url=url)
    await listener.start()
    async with asyncio.timeout(10):
        await listener.connected()
    return listener


async def test_a_watch_wakes_for_its_job_and_no_other(database_url: str) -> None:
    listener, mine, other = await listening(database_url), uuid4(), uuid4()
    with listener.watch_job(mine) as watch, listener.watch_job(other) as other_watch:
        await notify(database_url, wakeups.JOB_CHANNEL, f"{uuid4()},{mine}")

        assert await watch.wait(LONG) is True
        assert await other_watch.wait(0.01) is False
    await listener.close()


async def test_a_change_between_looking_and_waiting_is_not_missed(database_url: str) -> None:
    listener, job = await listening(database_url), uuid4()
    with listener.watch_job(job) as watch, listener.watch_job(job) as second:
        await notify(database_url, wakeups.JOB_CHANNEL, str(job))
        await second.wait(LONG)

        assert await watch.wait(0) is True
    await listener.close()


async def test_queue_and_cancel_callbacks_get_tag_and_job(database_url: str) -> None:
    listener, job = await listening(database_url), uuid4()
    tags: asyncio.Queue[str | None] = asyncio.Queue()
    cancels: asyncio.Queue[UUID | None] = asyncio.Queue()
    listener.on_queue(tags.put_nowait)
    listener.on_cancel(cancels.put_nowait)

    await notify(database_url, wakeups.QUEUE_CHANNEL, "gpu")
    await notify(database_url, wakeups.CANCEL_CHANNEL, "not a job")
    await notify(database_url, wakeups.CANCEL_CHANNEL, str(job))

    async with asyncio.timeout(LONG):
        assert await tags.get() == "gpu"
        assert await cancels.get() == job
    await listener.close()


async def test_after_a_lost_connection_everybody_is_told_to_look_and_hints_arrive_again(
    database_url: str,
) -> None:
    listener, job = await listening(database_url), uuid4()
    tags: asyncio.Queue[str | None] = asyncio.Queue()
    listener.on_queue(tags.put_nowait)
    with listener.watch_job(job) as watch:
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'windmill listener' AND datname = current_database()"
            )

        assert await watch.wait(LONG) is True
        async with asyncio.timeout(LONG):
            assert await tags.get() is None
            await listener.connected()
        await watch.wait(0.01)
        await notify(database_url, wakeups.JOB_CHANNEL, str(job))
        assert await watch.wait(LONG) is True
    await listener.close()


async def test_without_a_connection_waiting_becomes_polling() -> None:
    listener = Listener(url="postgres://nobody@127.0.0.1:1/none")
    await listener.start()
    with listener.watch_job(uuid4()) as watch:
        await watch.wait(POLL_DISCONNECTED_S)  # the failed attempt to connect wakes everybody once

        async with asyncio.timeout(LONG):
            await watch.wait(100 * LONG)

    await listener.close()


async def test_a_failing_callback_harms_no_other(database_url: str) -> None:
    listener = await listening(database_url)
    tags: asyncio.Queue[Any] = asyncio.Queue()
    listener.on_queue(lambda tag: 1 / 0)  # type: ignore[arg-type, return-value]
    end = listener.on_queue(tags.put_nowait)

    await notify(database_url, wakeups.QUEUE_CHANNEL, "a")

    async with asyncio.timeout(LONG):
        assert await tags.get() == "a"
    end()
    assert len(listener._queue_callbacks) == 1
    await listener.close()


async def test_watches_are_forgotten_when_they_end(database_url: str) -> None:
    listener = await listening(database_url)
    for _ in range(100):
        with listener.watch_job(uuid4()) as watch:
            await watch.wait(0)

    assert not listener._watches
    await listener.close()


async def test_there_is_one_listener_an_event_loop(database_url: str, settings: Any) -> None:
    settings.DATABASE_DIRECT_URL = database_url

    first, second = await asyncio.gather(get_listener(), get_listener())

    assert first is second
    await first.close()
