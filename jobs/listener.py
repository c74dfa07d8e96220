"""One LISTEN connection a process: turns notifications into wake-ups of whoever waits in its event loop.

A notification is a hint (DESIGN.md decision 7). Waiting therefore always ends by itself after a while, sooner while the
connection is down, and after every reconnect all subscribers are told that anything may have changed.

    listener = await get_listener()
    with listener.watch_job(job_id) as watch:
        while not (done := await look_in_the_database()):
            await watch.wait(timeout_s=30)

Look first, then wait: a change between the two ends the wait at once.
"""

import asyncio
import contextlib
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from uuid import UUID

import psycopg
from django.conf import settings

from jobs import pg, wakeups

logger = logging.getLogger(__name__)

POLL_S = 2.0  # between looks while notifications arrive: covers one that was lost
POLL_DISCONNECTED_S = 0.25  # while they do not
_LONGEST_BACKOFF_S = 5.0
_POOLER_S = 60.0  # between looks whether a pooler is still in the way

QueueCallback = Callable[[str | None], None]  # the tag that has work; None: any may have
CancelCallback = Callable[[UUID | None], None]  # the job to look at; None: any
GroupCallback = Callable[[str | None], None]  # the worker group that is configured anew; None: any may be


class JobWatch:
    """A subscription to one job. Made by `Listener.watch_job`."""

    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._changed = asyncio.Event()
        self.also: frozenset[str] = frozenset()  # further jobs; see `Listener.watch_also`

    def notify(self) -> None:
        """Something about the job changed."""
        self._changed.set()

    async def wait(self, timeout_s: float) -> bool:
        """Return when the job may have changed (True), or when it is time to look anyway (False): after `timeout_s`
        or the polling interval, whichever is sooner."""
        try:
            async with asyncio.timeout(min(timeout_s, self._listener.poll_interval_s)):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True


class Listener:
    """Listens on `channels` (jobs.wakeups) and dispatches in the event loop that started it.

    Callbacks run in the loop and must be quick; one that raises is logged and harms no other.
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        channels: Sequence[str] = (wakeups.QUEUE_CHANNEL, wakeups.JOB_CHANNEL, wakeups.CANCEL_CHANNEL),
    ) -> None:
        self._url = url or settings.DATABASE_DIRECT_URL
        self._channels = tuple(channels)
        self._watches: defaultdict[str, set[JobWatch]] = defaultdict(set)
        self._queue_callbacks: list[QueueCallback] = []
        self._cancel_callbacks: list[CancelCallback] = []
        self._group_callbacks: list[GroupCallback] = []
        self._task: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()

    async def __aenter__(self) -> "Listener":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_connected(self) -> bool:
        """Whether notifications arrive at present."""
        return self._connected.is_set()

    @property
    def poll_interval_s(self) -> float:
        """How long a waiter may go without looking."""
        return POLL_S if self.is_connected else POLL_DISCONNECTED_S

    async def start(self) -> None:
        """Begin to listen, in the background. A database that is away is no error: waiters poll until it is back."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="listener")

    async def connected(self) -> None:
        """Return once notifications arrive."""
        await self._connected.wait()

    async def close(self) -> None:
        """Stop listening. Waits that are under way go on by polling."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    @contextlib.contextmanager
    def watch_job(self, job_id: UUID) -> Iterator[JobWatch]:
        """Watch one job for changes of its log or state, as long as the `with` block lasts."""
        assert wakeups.JOB_CHANNEL in self._channels, "this listener does not hear of jobs"
        key, watch = str(job_id), JobWatch(self)
        self._watches[key].add(watch)
        try:
            yield watch
        finally:
            self.watch_also(watch, ())
            self._forget(key, watch)

    def watch_also(self, watch: JobWatch, job_ids: Iterable[UUID]) -> None:
        """Wake this watch for these jobs too, and no longer for those named in an earlier call."""
        wanted = frozenset(map(str, job_ids))
        before, watch.also = watch.also, wanted
        for key in wanted - before:
            self._watches[key].add(watch)
        for key in before - wanted:
            self._forget(key, watch)

    def _forget(self, key: str, watch: JobWatch) -> None:
        self._watches[key].discard(watch)
        if not self._watches[key]:
            del self._watches[key]

    def on_queue(self, callback: QueueCallback) -> Callable[[], None]:
        """Call back with each tag that got work. The answer ends the subscription."""
        assert wakeups.QUEUE_CHANNEL in self._channels, "this listener does not hear of the queue"
        self._queue_callbacks.append(callback)
        return lambda: self._queue_callbacks.remove(callback)

    def on_cancel(self, callback: CancelCallback) -> Callable[[], None]:
        """Call back with each job whose worker should look at its lease. The answer ends the subscription."""
        assert wakeups.CANCEL_CHANNEL in self._channels, "this listener does not hear of cancels"
        self._cancel_callbacks.append(callback)
        return lambda: self._cancel_callbacks.remove(callback)

    def on_group(self, callback: GroupCallback) -> Callable[[], None]:
        """Call back with each worker group whose configuration changed. The answer ends the subscription."""
        assert wakeups.GROUP_CHANNEL in self._channels, "this listener does not hear of worker groups"
        self._group_callbacks.append(callback)
        return lambda: self._group_callbacks.remove(callback)

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    **pg.connection_parameters(self._url, application_name="windmill listener"),
                    autocommit=True,
                ) as connection:
                    if not await pg.is_direct(connection):
                        # A LISTEN would belong to a server process that others use, too, and tell us nothing.
                        pg.warn_of_pooler()
                        await connection.close()
                        await asyncio.sleep(_POOLER_S)
                        continue
                    # One statement a round trip would do too; one round trip for all is what a reconnect storm likes.
                    await connection.execute(
                        "; ".join(f"LISTEN {channel}" for channel in self._channels).encode()
                    )
                    if failures:
                        logger.info("listening again after attempts=%s", failures)
                    failures = 0
                    self._connected.set()
                    self._everything_may_have_changed()
                    async for notification in connection.notifies():
                        self._dispatch(notification.channel, notification.payload)
            except (psycopg.Error, OSError) as exc:
                logger.warning("listener lost its connection, polling until it is back: %s", exc)
            finally:
                self._connected.clear()
            # Everybody's waits become short: wake them, or they sleep on for a long interval.
            self._everything_may_have_changed()
            failures += 1
            await asyncio.sleep(
                min(_LONGEST_BACKOFF_S, 0.1 * 2 ** min(failures, 10)) * random.uniform(0.5, 1.0)
            )

    def _dispatch(self, channel: str, payload: str) -> None:
        if channel == wakeups.JOB_CHANNEL:
            for key in payload.split(","):
                for watch in self._watches.get(key, ()):
                    watch.notify()
        elif channel == wakeups.QUEUE_CHANNEL:
            self._call_queue(payload)
        elif channel == wakeups.CANCEL_CHANNEL:
            try:
                self._call_cancel(UUID(payload))
            except ValueError:  # anybody with a database account can send anything
                logger.warning("ignored a notification on %s that names no job", channel)
        elif channel == wakeups.GROUP_CHANNEL:
            self._call_group(payload)

    def _everything_may_have_changed(self) -> None:
        for watches in list(self._watches.values()):
            for watch in watches:
                watch.notify()
        self._call_queue(None)
        self._call_cancel(None)
        self._call_group(None)

    def _call_queue(self, tag: str | None) -> None:
        for callback in list(self._queue_callbacks):
            try:
                callback(tag)
            except Exception:
                logger.exception("a queue callback failed")

    def _call_cancel(self, job_id: UUID | None) -> None:
        for callback in list(self._cancel_callbacks):
            try:
                callback(job_id)
            except Exception:
                logger.exception("a cancel callback failed")

    def _call_group(self, group: str | None) -> None:
        for callback in list(self._group_callbacks):
            try:
                callback(group)
            except Exception:
                logger.exception("a group callback failed")


_listeners: dict[asyncio.AbstractEventLoop, Listener] = {}


async def get_listener() -> Listener:
    """The listener for job changes of this process (of this event loop), started at first use."""
    loop = asyncio.get_running_loop()
    listener = _listeners.get(loop)
    if listener is None:
        for closed in [other for other in _listeners if other.is_closed()]:
            del _listeners[closed]
        listener = _listeners[loop] = Listener(channels=(wakeups.JOB_CHANNEL,))
    await listener.start()
    return listener
