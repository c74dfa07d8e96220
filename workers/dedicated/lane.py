"""The lane of one dedicated script: many of its jobs a statement, beside the ordinary claims of the worker.

One task a lane. It records what has ended and claims what comes next in one statement (`JobQueue.exchange`), while the
warm processes work on what they have; nothing is awaited for a single job. At low load the first hint is a claim, the
first answer a completion, each a statement that does only that: there is no timer in between. Jobs that are more than a
call of their script (a step of a flow, a concurrency limit, arguments that name secrets, ...) go the ordinary way, one
by one, from the same claim.

    pace.py        pure: how much at once
    held_jobs.py   the jobs from the claim to the result
    processes.py   the versions of the script, their processes, who gets which job
    background.py  what goes on beside the loop
"""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from uuid import UUID

from jobs.dedicated import Dedicated
from jobs.queue import Claim, NarrowClaim
from workers.dedicated import pace
from workers.dedicated.background import Background
from workers.dedicated.held_jobs import HeldJobs, Job
from workers.dedicated.processes import Processes, Script
from workers.held_job import Stop
from workers.job_queue import CancelRequest, JobQueue, Lease
from workers.logs import LogWriter
from workers.runner import Runner
from workers.worker_options import WorkerOptions

logger = logging.getLogger(__name__)

_IDLE_POLL_S = 1.0
_REFERENCE = re.compile(r'"(?:\$var:|\$res:|var://|res://)')


class Lane:
    """The jobs of one dedicated tag on one worker."""

    def __init__(
        self,
        dedicated: Dedicated,
        worker: WorkerOptions,
        *,
        queue: JobQueue,
        runner: Runner,
        logs: LogWriter,
        run_whole: Callable[[Claim], None],
        known: Callable[[], Collection[UUID]],
        may_begin: Callable[[int], int],
        begun: Callable[[int], None],
        recorded: Callable[[Sequence[UUID]], None],
        occupied: Callable[[bool], None],
    ) -> None:
        """`run_whole` runs a job the ordinary way; call `whole_ended` when it is over. `known` are the jobs that the
        worker holds besides.

        `may_begin` says how many of so many further jobs may begin on this worker; `begun` is told how many have,
        `recorded` which results are in the database, `occupied` that a process has something to do or has no more.
        """
        self.dedicated = dedicated
        self._worker = worker
        self._queue = queue
        self._run_whole = run_whole
        self._known = known
        self._may_begin = may_begin
        self._begun = begun
        self._recorded = recorded
        self._background = Background(dedicated.tag)
        self._held = HeldJobs(
            worker, queue=queue, logs=logs, isolation=runner.isolation, background=self._background
        )
        self._processes = Processes(
            dedicated,
            worker,
            runner=runner,
            held=self._held,
            background=self._background,
            hand_over=lambda claims: self._background.begin(self._run_as_whole(claims)),
            occupied=occupied,
        )
        self._whole: set[UUID] = set()  # jobs that run the ordinary way
        self._may_be_more = True  # in the queue
        self._looked_at = float("-inf")  # the queue
        self._exchange_s = 0.0  # that a statement took lately
        self._is_draining = False

    # --- what the worker says ---------------------------------------------------------------------------------------

    def hint(self) -> None:
        """There may be work."""
        self._may_be_more = True
        self._background.wake()

    def options_changed(self, worker: WorkerOptions) -> None:
        """Jobs that begin from now on run under these."""
        self._worker = self._held.worker = worker
        self._processes.options_changed(worker)

    def drain(self) -> None:
        """Claim nothing more; what no process has yet goes back into the queue."""
        self._is_draining = True
        self._background.wake()

    def stop(self) -> None:
        """Kill what runs, and put all of it back."""
        self.drain()
        for job in self._held:
            self._stop(job, Stop.RELEASED)

    def whole_ended(self, job_id: UUID) -> None:
        """A job that was given to `run_whole` is over."""
        if job_id in self._whole:
            self._whole.discard(job_id)
            self._background.wake()

    def leases(self) -> Iterator[tuple[Lease, int | None]]:
        """What to send heartbeats for, with the memory of its process in kB."""
        for job in self._held:
            yield job.lease, job.line.process.peak_kb if job.line is not None else None

    def holds(self, job_id: UUID) -> bool:
        """Whether it holds a plain job with this id."""
        return self._held.get(str(job_id)) is not None

    def lease_answered(self, lease: Lease, *, is_kept: bool, request: CancelRequest | None) -> None:
        """What a heartbeat said about one of `leases`."""
        job = self._held.get(str(lease[0]))
        if job is None or job.lease != lease or job.is_over:
            return
        if not is_kept:
            logger.warning("lost the lease of job=%s attempt=%s; stopping it", *lease)
            self._stop(job, Stop.LOST)
        elif request is not None:
            self._stop(job, Stop.CANCELED, request)

    def _stop(self, job: Job, reason: Stop, request: CancelRequest | None = None) -> None:
        if job.is_over or (job.stop is not None and reason is not Stop.LOST):
            return
        was_stopped, job.stop, job.request = job.stop is not None, reason, request or job.request
        if job.line is not None:
            if not was_stopped:
                self._background.begin(self._processes.kill(job, job.line))
        elif job in job.script.waiting:
            job.script.waiting.remove(job)
            self._held.end(job, None)
            self._background.wake()

    @property
    def busy(self) -> int:
        """Processes that have something to do."""
        return self._processes.busy

    @property
    def is_idle(self) -> bool:
        """Whether it holds nothing."""
        return not self._held and not self._whole

    # --- the loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until drained and done."""
        if str(self.dedicated) in self._worker.dedicated:
            self._background.begin(self._start_ahead())
        try:
            while not (self._is_draining and self.is_idle):
                try:
                    await self._go_round()
                except Exception:
                    logger.exception("an exchange of tag=%s failed", self.dedicated.tag)
                    await asyncio.sleep(_IDLE_POLL_S)
        finally:
            self._background.cancel()

    async def _go_round(self) -> None:
        if self._is_draining:
            await self._put_back_waiting()
        if not self._held.ended_count and not (self._may_be_more and self._room() > 0):
            await self._pause()
            return
        if pace.gathers(done=self._held.ended_count, waiting=self._processes.waiting):
            await asyncio.sleep(pace.GATHER_S)
        await self._exchange()
        self._processes.look_at_limits()

    async def _start_ahead(self) -> None:
        claim = await self._queue.head_of(self.dedicated)
        if claim is not None:
            await self._processes.start_ahead(claim)
            return
        logger.warning(
            "this worker is dedicated to %s, which does not exist: deploy it, or take it out of the group's "
            "dedicated_workers",
            self.dedicated,
        )

    async def _pause(self) -> None:
        """Until something happens, or it is time to look again."""
        if await self._background.woken(self._pause_s()):
            return
        self._may_be_more = self._may_be_more or not self._held
        self._processes.look_at_limits()
        if stuck := self._processes.stuck():
            await self._held.put_back(stuck)

    def _pause_s(self) -> float:
        if self._held and self._may_be_more and self._processes.count < self._worker.slots:
            return pace.LOOK_S
        if self._processes.waiting:
            return pace.STUCK_S
        return _IDLE_POLL_S if self._queue.hears_wakeups else self._worker.poll_s

    async def _put_back_waiting(self) -> None:
        for script in self._processes:
            if script.waiting:
                await self._held.put_back(script.take_waiting())

    def _room(self) -> int:
        """How many jobs to claim now."""
        if self._is_draining:
            return 0
        if self._whole:
            return self._may_begin(max(0, self._worker.slots - len(self._whole) - len(self._held)))
        return self._may_begin(pace.room(self._processes.load(self._exchange_s)))

    async def _exchange(self) -> None:
        begun_at = asyncio.get_running_loop().time()
        room = self._room()
        ended = self._held.next_ended()
        is_looking = not ended or pace.looks_at_queue(
            is_hinted=self._may_be_more,
            hears_hints=self._queue.hears_wakeups,
            looked_s=begun_at - self._looked_at,
        )
        limit = min(pace.BATCH, room) if is_looking else 0
        if limit:
            self._may_be_more, self._looked_at = False, begun_at
        try:
            await self._held.finish_logs(ended)
            labelled = [completion for _, completion in ended if completion.labels]
            if labelled:
                await self._queue.complete(labelled)
            begun_at = asyncio.get_running_loop().time()
            answer = await self._queue.exchange(
                [completion for _, completion in ended if not completion.labels],
                dedicated=self.dedicated,
                limit=limit,
                mem_peak_kb=self._held.peak_kb or None,
                isolation=self._held.isolation,
                held=self._all_held,
            )
        except BaseException:
            self._held.not_recorded(ended)
            self._may_be_more = True
            raise
        self._exchange_s += (asyncio.get_running_loop().time() - begun_at - self._exchange_s) * 0.2
        for job, _ in ended:
            self._held.drop(job)
        for job_id in answer.lost:
            logger.warning("lost the lease of job=%s; its result was dropped", job_id)
        if ended:
            self._recorded([completion.id for _, completion in ended])
        if limit:
            self._processes.default_timeout_s = answer.default_timeout_s
            self._may_be_more = self._may_be_more or len(answer.claims) >= limit
        if answer.claims:
            await self._take(answer.claims)

    def _all_held(self) -> list[UUID]:
        return [*self._held.ids, *self._known()]

    # --- jobs on their way in -----------------------------------------------------------------------------------------

    async def _take(self, claims: Sequence[NarrowClaim]) -> None:
        """Hand jobs that were claimed to whatever runs them; those that cannot be go back into the queue."""
        try:
            await self._hand_out(claims)
        except Exception:
            logger.exception("jobs of tag=%s were claimed and cannot be started", self.dedicated.tag)
            known = {*self._all_held(), *self._whole}
            for claim in claims:
                if claim.id not in known:
                    await self._held.release((claim.id, claim.attempt))

    async def _hand_out(self, claims: Sequence[NarrowClaim]) -> None:
        whole: list[NarrowClaim] = []
        for claim in claims:
            script = await self._script_of(claim)
            if script is None:
                whole.append(claim)
                continue
            job = Job(claim, script)
            self._held.add(job)
            script.waiting.append(job)
        self._begun(len(claims) - len(whole))
        self._processes.feed_all()
        if whole:
            await self._run_as_whole(whole)

    async def _script_of(self, claim: NarrowClaim) -> Script | None:
        """The version that this job calls. None: it is no mere call, or cannot be."""
        if not claim.is_plain:
            return None
        script = self._processes.version(claim.runnable_id or 0)
        if script is None:
            self._whole.add(claim.id)  # known as held, meanwhile
            try:
                found = await self._queue.whole([(claim.id, claim.attempt)])
            finally:
                self._whole.discard(claim.id)
            script = self._processes.meet(found[0]) if found else None
        return None if claim.args is not None and _REFERENCE.search(claim.args) else script

    async def _run_as_whole(self, claims: Sequence[NarrowClaim]) -> None:
        self._whole.update(claim.id for claim in claims)
        try:
            found = {
                claim.id: claim for claim in await self._queue.whole([(c.id, c.attempt) for c in claims])
            }
        except BaseException:
            self._whole.difference_update(claim.id for claim in claims)
            raise
        for claim in claims:
            if claim.id in found:
                self._run_whole(found[claim.id])
            else:
                self._whole.discard(claim.id)
