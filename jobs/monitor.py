"""Housekeeping that any process may do: recover jobs of lost workers, cancel stale ones, forget what has expired.

Every server and worker runs `monitor()`; an advisory lock lets one of them do each piece of work. The lock lasts for the
transaction of that piece (nothing session-scoped survives a transaction-mode pooler), and is there to save work: the
statements themselves may run twice at once without harm.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection, transaction
from django.db.models.functions import Now

from jobs import cache, cleanup, concurrency, locks, queue, temporary_code
from jobs.flows import watchdog
from jobs.models import WorkerPing
from workspaces.models import Token

logger = logging.getLogger(__name__)

CLEANUP_INTERVAL_S = 300.0  # retention and pruning; recovery runs every MONITOR_INTERVAL_SECONDS
GRACE_HEARTBEATS = 3  # that workers have time for when the database was away, before they count as lost
WORKER_GONE = timedelta(minutes=5)  # a worker silent for this long is taken off the list
_LOCKS = {
    "recover": 0x776D0001,
    "stale": 0x776D0002,
    "retention": 0x776D0003,
    "prune": 0x776D0004,
    "forget": 0x776D0005,
    "flows": 0x776D0006,
    "checks": 0x776D0007,
}


class Outage:
    """Whether workers have had time to send heartbeats since the database was away, as far as this process noticed."""

    def __init__(self) -> None:
        self._is_away = False
        self._back_at = float("-inf")

    @contextlib.contextmanager
    def noticed(self) -> Iterator[None]:
        """Around whatever asks the database."""
        try:
            yield
        except DatabaseError:
            self._is_away = True
            raise
        if self._is_away:
            self._is_away, self._back_at = False, time.monotonic()

    def is_over(self, *, now: float) -> bool:
        """Whether those that are silent now (monotonic time) are silent by themselves."""
        return not self._is_away and now - self._back_at >= GRACE_HEARTBEATS * settings.HEARTBEAT_SECONDS


async def monitor(checks: Sequence[Callable[[], int]] = ()) -> None:
    """Keep house until cancelled. A database that is away only postpones it.

    `checks` are further things to look after, which this app does not know.
    """
    last_cleanup = float("-inf")
    outage = Outage()
    while True:
        # Spread the processes over the interval, so that one of them is never far away.
        await asyncio.sleep(settings.MONITOR_INTERVAL_SECONDS * random.uniform(0.8, 1.2))
        try:
            with outage.noticed():
                await _in_thread(partial(recover, lost=outage.is_over(now=time.monotonic())))
            for check in checks:
                await _in_thread(partial(_alone, "checks", check))
            if time.monotonic() - last_cleanup >= CLEANUP_INTERVAL_S:
                await _in_thread(clean_up)
                last_cleanup = time.monotonic()
        except DatabaseError as exc:
            logger.warning("monitor skipped a round: %s", exc)
        except Exception:
            logger.exception("monitor failed; it goes on with the next round")


def recover(*, lost: bool = True) -> None:
    """Restart or fail the jobs of lost workers, cancel those that waited too long, forget those that ask for it.

    `lost=False`: the workers cannot have sent heartbeats lately, so none of them counts as lost.
    """
    if lost and not settings.DISABLE_ZOMBIE_JOBS_MONITORING:
        _alone("recover", _recover_lost_jobs)
    if settings.STALE_JOB_THRESHOLD_MINUTES:
        _alone("stale", queue.cancel_stale_jobs)
    _alone("flows", _watch_flows)
    _alone("forget", cleanup.forget_due)


def clean_up() -> None:
    """Forget old jobs, workers that are gone, tokens and cached results that have expired, places that do not count."""
    for _ in range(settings.JOB_CLEANUP_MAX_BATCHES):
        deleted = _alone("retention", queue.delete_expired_jobs)
        if deleted:
            logger.info("retention deleted jobs=%s", deleted)
        if deleted < settings.JOB_CLEANUP_BATCH_SIZE:
            break
    _alone("prune", _prune)


async def _in_thread(work: Callable[[], object]) -> None:
    def run() -> None:
        try:
            work()
        finally:
            close_old_connections()  # the thread may never be used again

    await sync_to_async(run, thread_sensitive=False)()


def _alone(piece: str, work: Callable[[], int]) -> int:
    """Do `work` unless another process is at it. Answers its count, 0 when it was left to the other."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCKS[piece]])
            if not cursor.fetchone()[0]:
                return 0
        return work()


def _recover_lost_jobs() -> int:
    with connection.cursor() as cursor:
        # While the database was away nobody could send heartbeats: let the workers come back first. (A standby that took
        # over has been up for long: that its predecessor went away is for `monitor` to notice.)
        cursor.execute(
            "SELECT statement_timestamp() - pg_postmaster_start_time() < make_interval(secs => %s)",
            [settings.HEARTBEAT_SECONDS * GRACE_HEARTBEATS],
        )
        if cursor.fetchone()[0]:
            return 0
    return sum(queue.recover_lost_jobs())


def _watch_flows() -> int:
    return watchdog.wake_stuck() + watchdog.cancel_overdue()


def _prune() -> int:
    gone = WorkerPing.objects.filter(ping_at__lt=Now() - WORKER_GONE).delete()[0]
    expired = Token.objects.filter(expiration__lt=Now()).delete()[0]
    return (
        gone
        + expired
        + cache.prune()
        + cleanup.prune()
        + concurrency.prune_places()
        + locks.prune_cache()
        + temporary_code.prune()
    )
