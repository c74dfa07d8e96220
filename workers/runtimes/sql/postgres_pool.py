"""Connections to PostgreSQL that outlive a job.

Our own, because psycopg_pool connects in the background: what is wrong with a password or a host would reach its log
and not the job, which would only learn that it waited too long.
"""

from __future__ import annotations

import asyncio
import logging
import select
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

logger = logging.getLogger(__name__)

Connection = psycopg.AsyncConnection[Any]
_TIDY_S = 5.0  # how long a server may take to forget a job


@dataclass
class _Group:
    """The connections of one key."""

    idle: deque[tuple[Connection, float]] = field(default_factory=deque)  # and since when; the newest last
    open: int = 0  # in use, being tidied or idle
    tidying: int = 0


class PostgresPool:
    """At most `per_key` connections for each key and `total` altogether; unused ones are closed after `idle_s`.

    What a job did to its session is undone (DISCARD ALL) after the job, while nobody waits for it; a connection for
    which that fails is closed.
    """

    def __init__(self, *, per_key: int = 5, total: int = 50, idle_s: float = 60.0) -> None:
        self._per_key = per_key
        self._total = total
        self._idle_s = idle_s
        self._groups: dict[Hashable, _Group] = {}
        self._open = 0
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reaping: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def connection(
        self, key: Hashable, connect: Callable[[], Awaitable[Connection]]
    ) -> AsyncIterator[Connection]:
        """One that nobody else has, from the pool or new. Whatever `connect` raises is raised."""
        connection = await self._take(key)
        if connection is None:
            try:
                connection = await connect()
            except BaseException:
                self._in_background(self._gone(key))
                raise
        try:
            yield connection
        finally:
            self._groups[key].tidying += 1
            self._in_background(self._give_back(key, connection))

    @property
    def open_connections(self) -> int:
        """How many there are, in use or not."""
        return self._open

    async def close(self) -> None:
        """Close what is idle. Call it when no job runs any more."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        if self._reaping is not None:
            self._reaping.cancel()
        for group in self._groups.values():
            while group.idle:
                await group.idle.pop()[0].close()
        self._groups.clear()
        self._open = 0

    async def _take(self, key: Hashable) -> Connection | None:
        """An idle connection; None when a new one may be made, which is counted already."""
        async with self._changed:
            while True:
                group = self._groups.setdefault(key, _Group())
                while group.idle:
                    connection, _ = group.idle.pop()
                    if not _is_broken(connection):
                        return connection
                    self._forget(group)
                    await connection.close()
                # One that is being tidied is there sooner than a new one.
                if not group.tidying and group.open < self._per_key:
                    if self._open >= self._total:
                        await self._close_oldest()
                    if self._open < self._total:
                        group.open += 1
                        self._open += 1
                        return None
                await self._changed.wait()

    async def _close_oldest(self) -> None:
        idle = [group for group in self._groups.values() if group.idle]
        if idle:
            group = min(idle, key=lambda group: group.idle[0][1])
            connection, _ = group.idle.popleft()
            self._forget(group)
            await connection.close()

    async def _give_back(self, key: Hashable, connection: Connection) -> None:
        is_clean = False
        try:
            async with asyncio.timeout(_TIDY_S):
                is_clean = await _tidied(connection)
        except (psycopg.Error, TimeoutError, OSError) as error:
            logger.debug("closing a connection that could not be tidied: %s", error)
        finally:
            if not is_clean:
                await connection.close()
            async with self._changed:
                group = self._groups[key]
                group.tidying -= 1
                if is_clean:
                    group.idle.append((connection, time.monotonic()))
                else:
                    self._forget(group)
                self._reap_later()
                self._changed.notify_all()

    async def _gone(self, key: Hashable) -> None:
        async with self._changed:
            self._forget(self._groups[key])
            self._reap_later()
            self._changed.notify_all()

    def _forget(self, group: _Group) -> None:
        group.open -= 1
        self._open -= 1

    def _reap_later(self) -> None:
        if self._reaping is None:
            loop = asyncio.get_running_loop()
            self._reaping = loop.call_later(self._idle_s, lambda: self._in_background(self._reap()))

    async def _reap(self) -> None:
        async with self._changed:
            self._reaping = None
            old = time.monotonic() - self._idle_s
            for key, group in list(self._groups.items()):
                while group.idle and group.idle[0][1] <= old:
                    connection, _ = group.idle.popleft()
                    self._forget(group)
                    await connection.close()
                if not group.open:
                    del self._groups[key]
            if self._groups:
                self._reap_later()
            self._changed.notify_all()

    def _in_background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _tidied(connection: Connection) -> bool:
    """Bring the session to what it was when it was new; False when that cannot be done."""
    if connection.closed:
        return False
    status = connection.info.transaction_status
    if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        await connection.rollback()
    elif status != TransactionStatus.IDLE:
        return False
    await connection.execute("DISCARD ALL")
    return connection.info.transaction_status == TransactionStatus.IDLE


def _is_broken(connection: Connection) -> bool:
    """Whether the server said something while nobody asked: most often that it goes away. Costs no round trip."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
