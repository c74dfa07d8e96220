"""The flows of one worker: advances them when their steps end, and goes on with the next step in the same slot."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import replace
from uuid import UUID

import psycopg

from jobs.flows.driver import Advanced, FlowDriver
from jobs.flows.steps import Here
from jobs.models import JobStatus
from jobs.queue import Claim, Completion
from workers import failures
from workers.options import JobOptions
from workers.pg_flows import PgFlowStore

logger = logging.getLogger(__name__)

# How long one slot may go on with the steps of one flow before the next one has to queue up like any job: a flow runs on
# without a pause, but nobody waits much longer than this behind one that never ends.
STREAK_S = 1.0


class FlowWorker:
    """Calls for one tree of flows take turns, so that this worker never stands in its own way."""

    def __init__(
        self,
        store: PgFlowStore,
        *,
        worker: str,
        tags: Collection[str],
        languages: Collection[str],
        tell_watchers: Callable[[Collection[UUID]], Awaitable[None]],
        wake_workers: Callable[[Collection[str]], Awaitable[None]],
        look_again_in: Callable[[float], None],
        options: JobOptions,
    ) -> None:
        """`look_again_in`: have this worker claim in so many seconds."""
        self.store = store
        self._options = options
        self._driver = FlowDriver(store, worker=worker, here=Here(tags=set(tags), languages=set(languages)))
        self._tell_watchers = tell_watchers
        self._wake_workers = wake_workers
        self._look_again_in = look_again_in
        self._locks: dict[UUID, tuple[asyncio.Lock, int]] = {}
        self._errands: set[asyncio.Task[None]] = set()

    @property
    def taking(self) -> set[UUID]:
        """Jobs that are claimed for a slot of this worker, or about to be, and not in it yet. Remove those that are."""
        return self._driver.taking

    def listens_to(self, tags: Collection[str]) -> None:
        """From now on the slots take steps with these tags."""
        self._driver.here = replace(self._driver.here, tags=set(tags))

    async def step_ended(self, claim: Claim, completion: Completion, *, streak: float) -> Claim | None:
        """Record the end of a step; answers the job that the slot goes on with. Raises LeaseOver.

        `streak` is when (monotonic time) the slot began with this flow.
        """
        async with self._alone(claim.root_job or claim.id):
            try:
                advanced = await self._driver.step_ended(claim, completion, may_take=_may_take(streak))
            except psycopg.DataError as exc:
                logger.warning("result of job=%s cannot be stored: %s", claim.id, type(exc).__name__)
                message = f"The result cannot be stored: {str(exc).splitlines()[0]}"
                result = failures.as_result("ResultNotStorable", message)
                failed = replace(completion, status=JobStatus.FAILURE, result=result, labels=None)
                advanced = await self._driver.step_ended(claim, failed, may_take=_may_take(streak))
            self._afterwards(advanced)
            return advanced.claim

    async def flow_claimed(self, claim: Claim, *, streak: float) -> Claim | None:
        """Look at a flow that was claimed; answers the job that the slot goes on with. Raises LeaseOver."""
        async with self._alone(claim.root_job or claim.id):
            advanced = await self._driver.flow_claimed(claim, may_take=_may_take(streak))
            self._afterwards(advanced)
            return advanced.claim

    async def close(self) -> None:
        """Finish what was begun."""
        if self._errands:
            await asyncio.wait(self._errands, timeout=5)

    def _afterwards(self, advanced: Advanced) -> None:
        """Hints: losing them costs time only, so nobody waits for them."""
        if advanced.due_in_s is not None:
            self._look_again_in(max(0.0, advanced.due_in_s))
        errand = asyncio.ensure_future(self._tell(advanced))
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    async def _tell(self, advanced: Advanced) -> None:
        if advanced.ended or advanced.forgetful_roots:
            await self._options.flows_advanced(advanced)
        await self._wake_workers(advanced.queued)
        await self._tell_watchers(advanced.changed)

    @contextlib.asynccontextmanager
    async def _alone(self, root_id: UUID) -> AsyncIterator[None]:
        lock, waiting = self._locks.get(root_id, (asyncio.Lock(), 0))
        self._locks[root_id] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._locks[root_id]
            if waiting == 1:
                del self._locks[root_id]
            else:
                self._locks[root_id] = (lock, waiting - 1)


def _may_take(streak: float) -> bool:
    return time.monotonic() - streak < STREAK_S
