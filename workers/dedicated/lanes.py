"""The lanes of one worker: which of its tags have one, and what the worker tells and asks all of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from uuid import UUID

from jobs import dedicated
from jobs.dedicated import Dedicated
from jobs.queue import Claim
from workers.dedicated.lane import Lane
from workers.job_queue import CancelRequest, JobQueue, Lease
from workers.logs import LogWriter
from workers.runner import Runner
from workers.worker_options import WorkerOptions

logger = logging.getLogger(__name__)


def scripts_of(options: WorkerOptions) -> list[Dedicated]:
    """The scripts that a worker has lanes for: those it is dedicated to, and those whose tag it was given.

    The steps of a dedicated flow are claimed with all other jobs; they find their processes by themselves.
    """
    named = [*options.dedicated, *(tag for tag in options.tags if dedicated.is_entry(tag))]
    found = [dedicated.parse(entry) for entry in dict.fromkeys(named)]
    return [one for one in found if not one.is_flow and one.tag in options.tags]


class Lanes:
    """All lanes of a worker, each a task of its own."""

    def __init__(
        self,
        *,
        queue: JobQueue,
        runner: Runner,
        logs: LogWriter,
        run_whole: Callable[[Claim], None],
        known: Callable[[], Collection[UUID]],
        may_begin: Callable[[int], int],
        begun: Callable[[int], None],
        ended: Callable[[int], None],
        occupied: Callable[[bool], None],
        tell_watchers: Callable[[Collection[UUID]], Awaitable[None]],
    ) -> None:
        """`ended` is told how many results were recorded; the others are those of Lane."""
        self._queue = queue
        self._runner = runner
        self._logs = logs
        self._run_whole = run_whole
        self._known = known
        self._may_begin = may_begin
        self._begun = begun
        self._ended = ended
        self._occupied = occupied
        self._tell_watchers = tell_watchers
        self._lanes: dict[str, Lane] = {}  # by tag
        self._tasks: dict[Lane, asyncio.Task[None]] = {}
        self._is_draining = False
        self._untold: list[UUID] = []
        self._telling: asyncio.Task[None] | None = None

    @property
    def tags(self) -> Collection[str]:
        """The tags that nobody else on this worker may claim."""
        return self._lanes.keys()

    @property
    def busy(self) -> int:
        """Processes that have something to do."""
        return sum(lane.busy for lane in self._tasks)

    @property
    def is_idle(self) -> bool:
        """Whether none of them holds a job."""
        return all(lane.is_idle for lane in self._tasks)

    def follow(self, options: WorkerOptions) -> None:
        """Have lanes for what the options name, from now on; those that are not named any more finish what they have."""
        if self._is_draining:
            return
        wanted = {one.tag: one for one in scripts_of(options)}
        for tag in self._lanes.keys() - wanted.keys():
            self._lanes.pop(tag).drain()
        for tag in wanted.keys() - self._lanes.keys():
            lane = self._lanes[tag] = Lane(
                wanted[tag],
                options,
                queue=self._queue,
                runner=self._runner,
                logs=self._logs,
                run_whole=self._run_whole,
                known=self._known,
                may_begin=self._may_begin,
                begun=self._begun,
                recorded=self._recorded,
                occupied=self._occupied,
            )
            task = self._tasks[lane] = asyncio.create_task(lane.run(), name=f"lane {tag}")
            task.add_done_callback(lambda task, lane=lane: self._over(lane, task))  # type: ignore[misc]
        for lane in self._lanes.values():
            lane.options_changed(options)

    def hint(self, tag: str | None) -> bool:
        """There may be work with this tag (None: with any). False: it is not for a lane."""
        if tag is not None:
            lane = self._lanes.get(tag)
            if lane is None:
                return False
            lane.hint()
            return True
        for lane in self._lanes.values():
            lane.hint()
        return False

    def drain(self) -> None:
        """Claim nothing more, finish what runs."""
        self._is_draining = True
        for lane in self._tasks:
            lane.drain()

    def stop(self) -> None:
        """Kill what runs and put it back."""
        self.drain()
        for lane in self._tasks:
            lane.stop()

    async def over(self) -> None:
        """Return when all lanes have ended: they were drained."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))
        if self._telling is not None:
            await asyncio.wait([self._telling])

    async def close(self) -> None:
        """Drop whatever is left."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def whole_ended(self, job_id: UUID) -> None:
        """A job that ran the ordinary way is over."""
        for lane in self._tasks:
            lane.whole_ended(job_id)

    def leases(self) -> Iterator[tuple[Lease, int | None]]:
        """See Lane.leases."""
        for lane in self._tasks:
            yield from lane.leases()

    def holds(self, job_id: UUID) -> bool:
        """See Lane.holds."""
        return any(lane.holds(job_id) for lane in self._tasks)

    def leases_answered(self, asked: Sequence[Lease], kept: Mapping[Lease, CancelRequest | None]) -> None:
        """What a heartbeat said about `leases`."""
        for lane in list(self._tasks):
            for lease in asked:
                lane.lease_answered(lease, is_kept=lease in kept, request=kept.get(lease))

    # --- inside ---

    def _over(self, lane: Lane, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(lane, None)
        if not task.cancelled() and (exc := task.exception()) is not None:
            logger.error("the lane of tag=%s ended", lane.dedicated.tag, exc_info=exc)

    def _recorded(self, job_ids: Sequence[UUID]) -> None:
        """Tell watchers, many jobs at once: whatever is recorded while one hint is on its way goes with the next."""
        self._ended(len(job_ids))
        self._untold.extend(job_ids)
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        try:
            while self._untold:
                job_ids, self._untold = self._untold, []
                await self._tell_watchers(job_ids)
        finally:
            self._telling = None
