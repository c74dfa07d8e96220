"""A lane: one PostgreSQL connection on which a worker's statements follow one another, and which repairs itself."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Mapping
from typing import Any

import psycopg

from jobs import pg
from workers.job_queue import QueueAway
from workspaces.outages import is_away

logger = logging.getLogger(__name__)

_LONGEST_BACKOFF_S = 5.0
# The hot path is made of index probes, whatever the statistics say. A statement prepared while the queue was empty would
# otherwise keep a plan that scans whole tables, and scan on as they grow.
_ONLY_INDEX_PROBES = (
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; "
    "SET enable_mergejoin = off; SET enable_material = off; SET jit = off; "
    "SET plan_cache_mode = force_generic_plan"
)


class Lane:
    """Runs statements in autocommit, one at a time, in the order in which they were asked for.

    `pooled`: a transaction-mode pooler may stand in front of the database, so nothing is prepared and nothing set. One
    that nobody told of is noticed.
    """

    def __init__(self, *, name: str, url: str, pooled: bool) -> None:
        self.name = name
        self.statement_count = 0
        self._url = url
        self._pooled = pooled
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None
        self._lock = asyncio.Lock()
        self._failures = 0
        self._not_before = 0.0  # monotonic time of the next attempt to connect

    async def fetch(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run one statement; answers its rows.

        Raises QueueAway when the database is away, full, read-only, ... (a further call waits a little, then connects
        again), and psycopg.Error for a statement that the database refuses.
        """
        async with self._lock:
            connection = await self._connected()
            try:
                cursor = await connection.execute(statement, parameters, prepare=not self._pooled)
                self.statement_count += 1
                if self._failures:
                    logger.warning("database back lane=%s attempts=%s", self.name, self._failures)
                    self._failures = 0
                # Not `description`: it names and types all columns, 30 microseconds for a claim.
                return await cursor.fetchall() if cursor.rownumber is not None else []
            except psycopg.Error as exc:
                if not is_away(exc):
                    raise
                await self._drop()  # a fresh connection may lead to another server
                self._failed(exc)
                raise QueueAway(str(exc).strip(), outcome_unknown=True) from exc
            except asyncio.CancelledError:
                # The statement may be half way; a fresh connection is the one safe place to go on from.
                await self._drop()
                raise

    async def close(self) -> None:
        """Close the connection."""
        async with self._lock:
            await self._drop()

    async def _connected(self) -> psycopg.AsyncConnection[tuple[Any, ...]]:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        wait = self._not_before - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        try:
            connection = await psycopg.AsyncConnection.connect(
                **pg.connection_parameters(self._url, application_name=f"windmill worker {self.name}"),
                autocommit=True,
                prepare_threshold=None if self._pooled else 1,  # None would overrule `prepare`
            )
            try:
                await self._set_up(connection)
            except BaseException:
                await connection.close()
                raise
        except psycopg.Error as exc:
            self._failed(exc)
            raise QueueAway(str(exc).strip(), outcome_unknown=False) from exc
        self._connection = connection
        return connection

    async def _set_up(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        if self._pooled:
            return
        if await pg.is_direct(connection):
            await connection.execute(_ONLY_INDEX_PROBES)
        else:
            pg.warn_of_pooler()
            self._pooled = True
            connection.prepare_threshold = None

    def _failed(self, error: psycopg.Error) -> None:
        """Wait before the next attempt, longer each time in a row; the first one is worth a line in the log."""
        self._failures += 1
        backoff = min(_LONGEST_BACKOFF_S, 0.05 * 2 ** min(self._failures, 10))
        self._not_before = time.monotonic() + backoff * random.uniform(0.5, 1.0)
        if self._failures == 1:
            logger.warning(
                "database away lane=%s, asked again until it is back; what ran goes on: %s",
                self.name,
                str(error).strip(),
            )

    async def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                await self._connection.close()
            self._connection = None
