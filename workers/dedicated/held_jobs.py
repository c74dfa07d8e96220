"""The plain jobs of a lane, from the claim until their results are recorded or they are back in the queue."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from jobs.models import JobStatus
from jobs.queue import Completion, NarrowClaim, canceled_error
from workers import failures, results
from workers.dedicated import pace
from workers.dedicated.background import Background
from workers.dedicated.calls import Answer
from workers.held_job import Stop
from workers.job_queue import CancelRequest, JobQueue, Lease, QueueAway
from workers.logs import JobLog, LogWriter, SilentLog
from workers.runtimes import ExecutionFailed, SandboxUnavailable
from workers.worker_options import WorkerOptions

if TYPE_CHECKING:
    from workers.dedicated.processes import Line, Script

logger = logging.getLogger(__name__)

Ended = tuple["Job", Completion]


@dataclass(eq=False, slots=True)
class Job:
    """A plain job that a lane holds."""

    claim: NarrowClaim
    script: "Script"
    log: JobLog | None = None  # once it has said something
    line: "Line | None" = None  # whose process has it
    is_over: bool = False  # its result is on the way to the database
    stop: Stop | None = None
    request: CancelRequest | None = None

    @property
    def lease(self) -> Lease:
        return self.claim.id, self.claim.attempt


class HeldJobs:
    """The jobs that one lane holds, what they print and what comes of them."""

    def __init__(
        self,
        worker: WorkerOptions,
        *,
        queue: JobQueue,
        logs: LogWriter,
        isolation: tuple[str, str],
        background: Background,
    ) -> None:
        """`isolation` as Runner.isolation."""
        self.worker = worker  # options; others from time to time
        self.isolation, self._isolation_note = isolation
        self.peak_kb = 0  # of all processes so far
        self._queue = queue
        self._logs = logs
        self._background = background
        self._held: dict[str, Job] = {}  # by job id
        self._ended: list[Ended] = []  # to be recorded

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self._held.values()))

    @property
    def ids(self) -> list[UUID]:
        return [job.claim.id for job in self._held.values()]

    @property
    def ended_count(self) -> int:
        """Jobs whose results wait to be recorded."""
        return len(self._ended)

    def add(self, job: Job) -> None:
        """Hold a job that was claimed."""
        self._held[str(job.claim.id)] = job

    def get(self, job_id: str) -> Job | None:
        """The job with this id, if it is held here."""
        return self._held.get(job_id)

    def drop(self, job: Job) -> None:
        """Hold it no longer: it is recorded, or others have it."""
        self._held.pop(str(job.claim.id), None)

    # --- what they print ---

    def log(self, job_id: str, text: str) -> None:
        """A job printed something."""
        if (job := self._held.get(job_id)) is not None and not job.is_over:
            self.log_of(job).write(text)

    def log_of(self, job: Job) -> JobLog:
        """The log of a job, begun when the first one asks for it."""
        if job.log is None:
            make = JobLog if self.worker.keep_logs else SilentLog
            job.log = make(self._logs, job.lease)
            if self.isolation == "none":
                job.log.write(f"this job runs without isolation: {self._isolation_note}\n")
        return job.log

    def silent_log(self, lease: Lease) -> JobLog:
        """For what is said on behalf of no job."""
        return SilentLog(self._logs, lease)

    async def finish_logs(self, ended: Sequence[Ended]) -> None:
        """What jobs said is stored before what came of them: a log that is over takes no more."""
        logs = [job.log for job, _ in ended if job.log is not None]
        if logs:
            await self._logs.finish(logs)

    # --- what comes of them ---

    def answered(self, answers: Sequence[Answer]) -> None:
        """A process has answered."""
        limit_mb = self.worker.max_result_size_mb
        for answer in answers:
            job = self._held.get(answer.job_id)
            if job is None:
                continue
            self.peak_kb = max(self.peak_kb, answer.peak_kb)
            if answer.is_success:
                recorded = results.succeeded(answer.result_json, max_size_mb=limit_mb)
            else:
                recorded = results.failed(f'{{"error":{answer.result_json}}}', max_size_mb=limit_mb)
            self.end(job, recorded)

    def fail(self, job: Job, failed: ExecutionFailed) -> None:
        """The job's own code is to blame."""
        result = failures.error_as_result(failed.error)
        self.end(job, results.failed(result, max_size_mb=self.worker.max_result_size_mb))

    def end_without_result(self, job: Job, reason: SandboxUnavailable) -> None:
        """The machinery died under a job: it starts again, unless that happened too often."""
        if job.stop is None and job.claim.restarts < self.worker.restart_limit:
            logger.warning("restarting job=%s: %s", job.claim.id, reason)
            self._background.begin(self.put_back([job], count_restart=True))
            return
        message = f"The worker could not run this job, {job.claim.restarts + 1} times: {reason}"
        self.end(job, results.failed_with("ExecutionErr", message))

    def end(self, job: Job, recorded: results.Recorded | None) -> None:
        """What came of a job is recorded next, unless it was stopped for another reason."""
        if job.is_over:
            return
        if job.stop in (Stop.LOST, Stop.RELEASED):
            job.is_over = True
            if job.stop is Stop.LOST:
                if job.log is not None:
                    job.log.abandon()
                self.drop(job)
            else:
                self._background.begin(self.put_back([job]))
            return
        if job.stop is Stop.CANCELED and job.request is not None:
            error = canceled_error(username=job.request.canceled_by, reason=job.request.reason)
            recorded = results.Recorded(JobStatus.CANCELED, failures.error_as_result(error))
        if recorded is None:
            return
        job.is_over = True
        completion = Completion(
            *job.lease, recorded.status, recorded.result, None, recorded.labels, self.isolation
        )
        self._ended.append((job, completion))

    def next_ended(self) -> list[Ended]:
        """What to record next: whatever has ended since the last time, as far as one statement should carry it."""
        count = pace.count_to_record(len(completion.result) for _, completion in self._ended)
        ended, self._ended = self._ended[:count], self._ended[count:]
        return ended

    def not_recorded(self, ended: Sequence[Ended]) -> None:
        """They could not be recorded now: they come first, the next time."""
        self._ended[:0] = ended

    # --- back into the queue ---

    async def put_back(self, jobs: Sequence[Job], *, count_restart: bool = False) -> None:
        """Let others have these jobs."""
        for job in jobs:
            job.is_over = True  # the lease ends here
        for job in jobs:
            try:
                if job.log is not None:
                    await self._logs.finish([job.log])
                await self.release(job.lease, count_restart=count_restart)
            except Exception:
                logger.exception("job=%s was not put back; it is when its lease runs out", job.claim.id)
            finally:
                self.drop(job)  # in any case: no heartbeat shall keep it from others
        self._background.wake()

    async def release(self, lease: Lease, *, count_restart: bool = False) -> None:
        """Let others have a job that is not held here, however long the queue is away."""
        while True:
            try:
                await self._queue.release(lease, count_restart=count_restart)
                return
            except QueueAway:
                continue  # released twice: the second matches nothing
            except Exception:
                logger.exception(
                    "job=%s cannot be put back; it starts again when its lease is over", lease[0]
                )
                return
