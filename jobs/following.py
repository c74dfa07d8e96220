"""Following a job from the event loop: woken by the listener, looked up in the database, no thread held while waiting.

Shared by the routes that wait (synchronous runs, getupdate, SSE) and the websockets. Queries run on a few threads of
their own and give their connection back at once, so thousands may wait on one small pool.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from django.db import Error, connection

from jobs import queue, sql
from jobs.flows import picture
from jobs.flows.picture import FlowRun
from jobs.listener import JobWatch, get_listener
from jobs.shapes import iso
from workspaces.outages import is_away

P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger(__name__)

BATCH_S = 0.1  # between two updates of one follower: at most ten a second, the first at once
BATCH_CHARS = 256 * 1024  # of log in one update
AWAY_RETRY_S = 0.5  # between looks while the database is away
FLOW_BATCH_S = 0.2  # between two pictures of a flow
_threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="follow")


async def in_database(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a short synchronous function that queries, on a thread that returns its connection afterwards."""
    return await asyncio.get_running_loop().run_in_executor(
        _threads, partial(_and_return_connection, partial(function, *args, **kwargs))
    )


async def patiently(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`in_database`, asked again as long as the database is away: the job goes on meanwhile, and so do those who wait."""
    while True:
        try:
            return await in_database(function, *args, **kwargs)
        except Error as exc:
            if not is_away(exc):
                raise
            logger.warning("a follower waits for the database: %s", exc)
            await asyncio.sleep(AWAY_RETRY_S)


def _and_return_connection(call: Callable[[], T]) -> T:
    try:
        return call()
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job. `result` is JSON text, as stored."""

    status: str  # JobStatus
    result: str

    @property
    def is_success(self) -> bool:
        return self.status in ("success", "skipped")


def read_outcome(job_id: UUID) -> Outcome | None:
    """The outcome, or None while there is none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT status, coalesce(result::text, 'null') FROM completed_job WHERE id = %s", [job_id]
        )
        row = cursor.fetchone()
    return None if row is None else Outcome(*row)


async def wait_for(watch: JobWatch, look: Callable[[], T | None], *, timeout_s: float) -> T | None:
    """What `look` finds in the database once the job is over, which was queued after `watch` began; None when
    `timeout_s` passed without."""
    deadline = time.monotonic() + timeout_s
    while (left := deadline - time.monotonic()) > 0:
        await watch.wait(left)
        found = await patiently(look)
        if found is not None:
            return found
    return None


# --- following ---


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What changes while one looks."""

    id: UUID
    status: str  # queued, running, success, failure, canceled, skipped
    worker: str | None
    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
    canceled_by: str | None
    canceled_reason: str | None
    mem_peak: int | None  # kB
    progress: int | None  # percent

    @property
    def is_completed(self) -> bool:
        return self.completed_at is not None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job's state and its log from an offset on, read in this order: a completed job has no log after this one."""

    state: JobState
    logs: str
    offset: int  # of the first character of `logs`
    next_offset: int
    has_more: bool  # the log goes on after `logs`
    flow_version: int | None = None  # of flows: counts what changed about their steps

    @property
    def is_final(self) -> bool:
        return self.state.is_completed and not self.has_more


def read_snapshot(
    job_id: UUID, offset: int, *, with_logs: bool = True, max_chars: int = BATCH_CHARS
) -> Snapshot | None:
    """What there is now; None when the job is gone."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("follow_job"), {"id": job_id})
        row = cursor.fetchone()
        if row is None:
            return None
        names = [column.name for column in cursor.description]
    values = dict(zip(names, row, strict=True))
    flow_version = values.pop("flow_version")
    state = JobState(**values)
    if not with_logs:
        return Snapshot(state, "", offset, offset, False, flow_version)
    logs, next_offset = queue.read_logs(job_id, offset=offset, max_chars=max_chars)
    return Snapshot(state, logs, offset, next_offset, len(logs) >= max_chars, flow_version)


async def follow_job(
    job_id: UUID, *, offset: int = 0, with_logs: bool = True, with_steps: bool = False, idle_s: float = 5.0
) -> AsyncIterator[Snapshot | None]:
    """Snapshots with what is new each time, the first at once, then whenever something changed, until the final one.

    `with_steps`: of a flow a change of its steps is one too.
    None is yielded about every `idle_s` seconds without news. Ends early when the job is deleted.
    """
    listener = await get_listener()
    known: JobState | None = None
    known_version: int | None = None
    with listener.watch_job(job_id) as watch:
        idle_since = time.monotonic()
        while True:
            looked_at = time.monotonic()
            snapshot = await patiently(read_snapshot, job_id, offset, with_logs=with_logs)
            if snapshot is None:
                return
            stepped = with_steps and snapshot.flow_version != known_version
            if snapshot.logs or snapshot.state != known or stepped or snapshot.is_final:
                yield snapshot
                known, offset, idle_since = snapshot.state, snapshot.next_offset, time.monotonic()
                known_version = snapshot.flow_version
                if snapshot.is_final:
                    return
                # What comes next may gather a little, so that a chatty job costs ten looks a second at most.
                await asyncio.sleep(max(0.0, looked_at + BATCH_S - time.monotonic()))
                if snapshot.has_more:
                    continue
            elif time.monotonic() - idle_since >= idle_s:
                yield None
                idle_since = time.monotonic()
            await watch.wait(idle_s)


def state_json(state: JobState) -> dict[str, Any]:
    """A job's state as the websocket sends it."""
    return {
        "id": str(state.id),
        "status": state.status,
        "running": state.status == "running",
        "worker": state.worker,
        "started_at": iso(state.started_at),
        "completed_at": iso(state.completed_at),
        "duration_ms": state.duration_ms,
        "canceled_by": state.canceled_by,
        "canceled_reason": state.canceled_reason,
        "mem_peak": state.mem_peak,
        "progress": state.progress,
    }


# --- following a flow ---


@dataclass(frozen=True, slots=True)
class FlowNews:
    """What changed in the picture of a flow (jobs.flows.picture): the states of these steps, None for those that have
    none any more. `is_whole`: these are all of them."""

    states: dict[str, dict[str, Any] | None]
    is_whole: bool


class FlowFollower:
    """Follows the picture of one flow run, at most FLOW_BATCH_S apart; a slow picture is asked for less often."""

    def __init__(self, job_id: UUID) -> None:
        self.job_id = job_id
        self._run: FlowRun | None = None
        self._chosen: dict[str, int] | None = {}  # None: nobody looks
        self._known: dict[str, dict[str, Any]] | None = None
        self._changed = asyncio.Event()

    def choose(self, chosen: dict[str, int] | None) -> None:
        """Show these iterations from now on, and everything again; None: nothing until further notice."""
        self._chosen, self._known = chosen, None
        self._changed.set()

    async def look(self) -> FlowNews | None:
        """What is new now; None when nothing is, or when nobody looks."""
        chosen = self._chosen
        if chosen is None:
            return None
        run, states = await patiently(self._read, chosen)
        self._run, known = run, self._known
        if chosen is not self._chosen:  # changed its mind meanwhile
            return None
        self._known = states
        if known is None:
            return FlowNews(dict(states), is_whole=True)
        changed: dict[str, dict[str, Any] | None] = {
            id: state for id, state in states.items() if known.get(id) != state
        }
        changed |= {id: None for id in known if id not in states}
        return FlowNews(changed, is_whole=False) if changed else None

    def _read(self, chosen: dict[str, int]) -> "tuple[FlowRun, dict[str, dict[str, Any]]]":
        run = self._run or picture.read_run(self.job_id)
        return run, picture.step_states(run, chosen)

    async def news(self) -> AsyncIterator[FlowNews]:
        """Everything at first, then what changes. Never ends by itself."""
        listener = await get_listener()
        with listener.watch_job(self.job_id) as watch:
            while True:
                began = time.monotonic()
                self._changed.clear()
                found = await self.look()
                cost = time.monotonic() - began
                if found is not None:
                    yield found
                if self._run is not None and self._known is not None:
                    listener.watch_also(watch, picture.flows_of(self._run, self._known) - {self.job_id})
                await asyncio.sleep(max(FLOW_BATCH_S, 4 * cost) - cost)
                await self._wait(watch)

    async def _wished(self) -> bool:
        await self._changed.wait()
        return True

    async def _wait(self, watch: JobWatch) -> None:
        waits: list[asyncio.Future[bool]] = [asyncio.ensure_future(self._wished())]
        if self._chosen is not None:
            waits.append(asyncio.ensure_future(watch.wait(5.0)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
