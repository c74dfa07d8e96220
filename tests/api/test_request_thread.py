"""Requests borrow threads: one at a time each, the same one while they hold it, given back for the next."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async

from workspaces.api import request_thread
from workspaces.api.request_thread import RequestThread, release_thread

T = TypeVar("T")


@pytest.fixture(autouse=True)
def no_idle_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_thread, "_idle", [])


async def in_request(work: Callable[[], Awaitable[T]]) -> T:
    """`work` as the ASGI handler runs a request."""
    thread = RequestThread()
    try:
        async with ThreadSensitiveContext(executor=thread):
            return await work()
    finally:
        thread.release()


async def which_thread() -> int:
    return await sync_to_async(threading.get_ident)()


async def test_a_request_stays_on_its_thread_and_the_next_one_gets_it() -> None:
    async def asks_twice() -> list[int]:
        return [await which_thread(), await which_thread()]

    first = await in_request(asks_twice)
    second = await in_request(asks_twice)

    assert len({*first, *second}) == 1


async def test_requests_at_the_same_time_have_threads_of_their_own() -> None:
    met = threading.Barrier(2, timeout=10)

    def meet() -> int:
        met.wait()  # passes only when both requests are inside at once
        return threading.get_ident()

    threads = await asyncio.gather(*(in_request(lambda: sync_to_async(meet)()) for _ in range(2)))

    assert len(set(threads)) == 2


async def test_a_waiting_request_holds_no_thread() -> None:
    answered = asyncio.Event()

    async def waits() -> int:
        thread = await which_thread()
        release_thread()
        await answered.wait()
        return thread

    waiting = asyncio.create_task(in_request(waits))
    while not request_thread._idle:
        await asyncio.sleep(0)
    other = await in_request(which_thread)
    answered.set()

    assert other == await waiting


async def test_few_threads_are_kept_after_a_rush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_thread, "MAX_IDLE", 1)
    met = threading.Barrier(3, timeout=10)

    await asyncio.gather(*(in_request(lambda: sync_to_async(met.wait)()) for _ in range(3)))

    assert len(request_thread._idle) == 1
