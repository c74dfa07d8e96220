"""`workers.options.OptionStore` in PostgreSQL: places, cached results and what is to be forgotten, for one worker."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from uuid import UUID

import psycopg
from django.db import Error as DatabaseError

from jobs import cache, cleanup, sql
from jobs.cache import CachedFlow, Hit
from workers.job_queue import Lease, QueueAway
from workers.pg_lane import Lane
from workers.threads import in_thread

logger = logging.getLogger(__name__)


class PgOptionStore:
    """Places are taken on `work`, whose statements take turns with those that end jobs; the rest is on `side`."""

    def __init__(
        self, *, work: Lane, side: Lane, wake_workers: Callable[[Iterable[str]], Awaitable[None]]
    ) -> None:
        self._work = work
        self._side = side
        self._wake_workers = wake_workers

    async def take_place(self, lease: Lease) -> bool:
        while True:
            try:
                rows = await self._work.fetch(sql.load("take_place"), {"id": lease[0], "attempt": lease[1]})
            except QueueAway:
                continue  # asked twice: a place taken stays taken, and a claim given back is over
            outcome, due_at, offered_tags = rows[0]
            if outcome == "held back":
                logger.info("held back job=%s until=%s", lease[0], due_at)
            await self._wake_workers(offered_tags)
            return bool(outcome == "taken")

    async def offer_place(self, key: str, window_s: int) -> None:
        try:
            rows = await self._work.fetch(sql.load("offer_place"), {"key": key, "window_s": window_s})
        except QueueAway:
            return  # those held back look again by themselves
        await self._wake_workers(tag for tag, is_due in rows if is_due)

    async def find_result(self, key: str, *, workspace_id: str) -> Hit | None:
        try:
            rows = await self._side.fetch(sql.load("find_cached"), {"key": key, "workspace_id": workspace_id})
        except QueueAway:
            return None
        return Hit(*rows[0]) if rows else None

    async def keep_result(
        self, key: str, *, workspace_id: str, job_id: UUID, result: str, ttl_s: int
    ) -> None:
        parameters = {
            "key": key,
            "workspace_id": workspace_id,
            "job_id": job_id,
            "result": result,
            "ttl_s": ttl_s,
        }
        try:
            await self._side.fetch(sql.load("store_cached"), parameters)
        except (QueueAway, psycopg.Error) as exc:
            logger.warning("result of job=%s is not cached: %s", job_id, type(exc).__name__)

    async def cached_flow(self, flow_id: UUID) -> CachedFlow | None:
        try:
            rows = await self._side.fetch(sql.load("flow_for_cache"), {"id": flow_id})
        except QueueAway:
            return None
        return CachedFlow(*rows[0]) if rows else None

    async def keep_flow_result(self, key: str, *, flow_id: UUID, ttl_s: int) -> None:
        parameters = {"key": key, "job_id": flow_id, "ttl_s": ttl_s, "max_bytes": cache.MAX_BYTES}
        try:
            if not await self._side.fetch(sql.load("store_cached_flow"), parameters):
                logger.info("result of flow=%s is not cached: too large", flow_id)
        except (QueueAway, psycopg.Error) as exc:
            logger.warning("result of flow=%s is not cached: %s", flow_id, type(exc).__name__)

    async def forget(self, top_id: UUID) -> None:
        try:
            await in_thread(cleanup.forget_due, top_id)
        except DatabaseError as exc:
            logger.warning("the monitor forgets job=%s: %s", top_id, type(exc).__name__)

    async def in_queue(self, job_ids: Collection[UUID]) -> set[UUID]:
        rows = await self._side.fetch(sql.load("in_queue"), {"ids": list(job_ids)})
        return {row[0] for row in rows}
