"""The lane of one dedicated script: many of its jobs a statement, beside the ordinary claims of the worker.

One task a lane. It records what has ended and claims what comes next in one statement (`JobQueue.exchange`), while the
warm processes work on what they have; nothing is awaited for a single job. At low load the first hint is a claim, the
first answer a completion: there is no timer in between. Jobs that are more than a call of their script (a step of a
flow, a concurrency limit, arguments that name secrets, ...) go the ordinary way, one by one, from the same claim.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from jobs.dedicated import Dedicated
from jobs.models import JobStatus
from jobs.queue import Claim, Completion, NarrowClaim, canceled_error
from workers import arguments, failures, results
from workers.dedicated.calls import Answer, Call
from workers.dedicated.process import WarmProcess
from workers.environment import of_one_job
from workers.held_job import Stop
from workers.job_queue import CancelRequest, JobQueue, Lease, QueueAway
from workers.logs import JobLog, LogWriter, SilentLog
from workers.runner import Runner, RunnerLost, RunRequest
from workers.runtimes import ExecutionFailed, SandboxUnavailable
from workers.worker_options import WorkerOptions
from workspaces import job_tokens

logger = logging.getLogger(__name__)

BATCH = 100  # jobs a statement, at most
BATCH_CHARS = 16 * 1024 * 1024  # of results a statement, about
AHEAD_S = 0.05  # work that is claimed ahead of processes: more would wait while other workers are idle
GATHER_S = 0.002  # under load, results wait this long for company, as long as the processes have enough to do
SENT_S = (
    0.01  # work that is sent ahead to one process, so that it need not wait for us: it cannot be had back
)
MOST_SENT = 32
MOST_AHEAD = 200
WORTH_A_PROCESS_S = 0.0005  # jobs shorter than this keep one process, and this one, busy
STUCK_S = 0.5  # without an answer: what waits here may be done elsewhere
LOOK_S = 0.005  # how often a lane that could have more processes looks whether it needs them
STARTS = 4  # processes that start at the same time
_IDLE_POLL_S = 1.0
_REFERENCE = re.compile(r'"(?:\$var:|\$res:|var://|res://)')


@dataclass(eq=False, slots=True)
class Script:
    """One version of the script: what a process of it needs to start, and the jobs that wait for one."""

    claim: Claim
    waiting: "deque[Job]" = field(default_factory=deque)
    lines: "dict[WarmProcess, Line]" = field(default_factory=dict)
    starting: int = 0
    mean_s: float | None = None  # that a job took lately


@dataclass(eq=False, slots=True)
class Job:
    """A plain job that this lane holds, from the claim until its result is recorded."""

    claim: NarrowClaim
    script: Script
    log: JobLog | None = None  # once it has said something
    line: "Line | None" = None  # whose process has it
    is_over: bool = False  # its result is on the way to the database
    stop: Stop | None = None
    request: CancelRequest | None = None

    @property
    def lease(self) -> Lease:
        return self.claim.id, self.claim.attempt


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
        self._runner = runner
        self._logs = logs
        self._run_whole = run_whole
        self._known = known
        self._may_begin = may_begin
        self._begun = begun
        self._recorded = recorded
        self.occupied = occupied
        self._scripts: dict[int, Script] = {}
        self._held: dict[str, Job] = {}  # by job id
        self._done: list[tuple[Job, Completion]] = []
        self._whole: set[UUID] = set()  # jobs that run the ordinary way
        self._wake = asyncio.Event()
        self._may_be_more = True  # in the queue
        self._is_draining = False
        self._answered_at = 0.0
        self._exchange_s = 0.0  # that a statement took lately
        self._default_timeout_s: int | None = None
        self._peak_kb = 0
        self._isolation = runner.isolation[0]  # of all processes, as long as the worker runs
        self._tasks: set[asyncio.Task[None]] = set()

    # --- what the worker says ---------------------------------------------------------------------------------------

    def hint(self) -> None:
        """There may be work."""
        self._may_be_more = True
        self._wake.set()

    def options_changed(self, worker: WorkerOptions) -> None:
        """Jobs that begin from now on run under these."""
        before, self._worker = self._worker, worker
        if _of_processes(before) == _of_processes(worker):
            return
        for script in self._scripts.values():
            for process in list(script.lines):
                process.leave()
            if script.waiting:
                self._feed(script)

    def drain(self) -> None:
        """Claim nothing more; what no process has yet goes back into the queue."""
        self._is_draining = True
        self._wake.set()

    def stop(self) -> None:
        """Kill what runs, and put all of it back."""
        self.drain()
        for job in list(self._held.values()):
            self._stop(job, Stop.RELEASED)

    def whole_ended(self, job_id: UUID) -> None:
        """A job that was given to `run_whole` is over."""
        if job_id in self._whole:
            self._whole.discard(job_id)
            self._wake.set()

    def leases(self) -> Iterator[tuple[Lease, int | None]]:
        """What to send heartbeats for, with the memory of its process in kB."""
        for job in self._held.values():
            yield job.lease, job.line.process.peak_kb if job.line is not None else None

    def holds(self, job_id: UUID) -> bool:
        """Whether it holds a plain job with this id."""
        return str(job_id) in self._held

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

    @property
    def busy(self) -> int:
        """Processes that have something to do."""
        return sum(line.calls > 0 for script in self._scripts.values() for line in script.lines.values())

    @property
    def is_idle(self) -> bool:
        """Whether it holds nothing."""
        return not self._held and not self._whole

    # --- the loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until drained and done."""
        if self._worker_names_it():
            self._begin(self._start_ahead())
        try:
            while not (self._is_draining and not self._held and not self._whole):
                if self._is_draining:
                    await self._put_back_waiting()
                if not self._done and not (self._may_be_more and self._room() > 0):
                    await self._pause()
                    continue
                if len(self._done) < BATCH // 2 <= self._waiting():
                    await asyncio.sleep(GATHER_S)
                try:
                    await self._exchange()
                except Exception:
                    logger.exception("an exchange of tag=%s failed", self.dedicated.tag)
                    await asyncio.sleep(_IDLE_POLL_S)
        finally:
            for task in self._tasks:
                task.cancel()

    def _worker_names_it(self) -> bool:
        return str(self.dedicated) in self._worker.dedicated

    async def _pause(self) -> None:
        """Until something happens, or it is time to look again."""
        seconds = self._pause_s()
        if not self._wake.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                self._may_be_more = self._may_be_more or not self._held
                await self._look_at_stuck()
        self._wake.clear()

    def _pause_s(self) -> float:
        if self._held and self._may_be_more and self._processes() < self._worker.slots:
            return LOOK_S
        if any(script.waiting for script in self._scripts.values()):
            return STUCK_S
        return _IDLE_POLL_S if self._queue.hears_wakeups else self._worker.poll_s

    async def _exchange(self) -> None:
        done = self._next_done()
        await self._finish_logs(done)
        labelled = [completion for _, completion in done if completion.labels]
        completions = [completion for _, completion in done if not completion.labels]
        limit = min(BATCH, self._room())
        if limit:
            self._may_be_more = False
        begun_at = asyncio.get_running_loop().time()
        try:
            if labelled:
                await self._queue.complete(labelled)
            answer = await self._queue.exchange(
                completions,
                dedicated=self.dedicated,
                limit=limit,
                mem_peak_kb=self._peak_kb or None,
                isolation=self._isolation,
                held=self._all_held,
            )
        except BaseException:
            self._done[:0] = done
            self._may_be_more = True
            raise
        self._exchange_s += (asyncio.get_running_loop().time() - begun_at - self._exchange_s) * 0.2
        for job, _ in done:
            del self._held[str(job.claim.id)]
        for job_id in answer.lost:
            logger.warning("lost the lease of job=%s; its result was dropped", job_id)
        if done:
            self._recorded([completion.id for _, completion in done])
        self._default_timeout_s = answer.default_timeout_s
        if limit and len(answer.claims) >= limit:
            self._may_be_more = True
        if answer.claims:
            await self._take(answer.claims)

    def _next_done(self) -> list[tuple[Job, Completion]]:
        """What to record next: whatever has ended since the last statement, as far as one statement should carry it."""
        chars, count = 0, 0
        for _, completion in self._done:
            if chars > BATCH_CHARS or count >= 5 * BATCH:
                break
            chars += len(completion.result)
            count += 1
        done, self._done = self._done[:count], self._done[count:]
        return done

    async def _finish_logs(self, done: Sequence[tuple[Job, Completion]]) -> None:
        """What jobs said is stored before what came of them: a log that is over takes no more."""
        logs = [job.log for job, _ in done if job.log is not None]
        if logs:
            await self._logs.finish(logs)

    def _all_held(self) -> list[UUID]:
        return [*(job.claim.id for job in self._held.values()), *self._known()]

    # --- how much at once --------------------------------------------------------------------------------------------

    def _room(self) -> int:
        """How many jobs to claim now."""
        if self._is_draining:
            return 0
        if self._whole:
            return self._may_begin(max(0, self._worker.slots - len(self._whole) - len(self._held)))
        script = self._current()
        count = self._processes()
        wanted = max(1, count) * self._window(script)
        if script is not None and script.mean_s:
            # What is done before the next jobs are here counts double: then there shall be as much again.
            ahead_s = AHEAD_S + 2 * self._exchange_s
            wanted += min(MOST_AHEAD, int(ahead_s * max(1, count) / script.mean_s))
        if count < self._worker.slots and self._is_worth_a_process(script):
            wanted += min(STARTS, self._worker.slots - count)
        return self._may_begin(max(0, wanted - len(self._held) + len(self._done)))

    def _waiting(self) -> int:
        return sum(len(script.waiting) for script in self._scripts.values())

    def _processes(self) -> int:
        return sum(len(script.lines) + script.starting for script in self._scripts.values())

    def _forget_ended(self, script: Script) -> None:
        """Processes that take no more calls and have none."""
        for process in [one for one in script.lines if not one.is_open and not one.load]:
            script.lines.pop(process).over()

    def _current(self) -> Script | None:
        """The version whose jobs came last."""
        return next(reversed(self._scripts.values()), None)

    def _window(self, script: Script | None) -> int:
        """Jobs that one process may have at a time."""
        if script is None or not script.mean_s:
            return 1
        return min(MOST_SENT, max(1, int(SENT_S / script.mean_s)))

    def _is_worth_a_process(self, script: Script | None) -> bool:
        """Whether jobs that find all processes busy should have one more."""
        if script is None or not script.lines or any(not line.process.load for line in script.lines.values()):
            return False
        if script.mean_s is None:
            return asyncio.get_running_loop().time() - self._answered_at > LOOK_S
        return script.mean_s >= WORTH_A_PROCESS_S

    # --- jobs on their way in -----------------------------------------------------------------------------------------

    async def _take(self, claims: Sequence[NarrowClaim]) -> None:
        """Hand jobs that were claimed to whatever runs them; those that cannot be go back into the queue."""
        try:
            await self._hand_out(claims)
        except Exception:
            logger.exception("jobs of tag=%s were claimed and cannot be started", self.dedicated.tag)
            known = {job.claim.id for job in self._held.values()} | {*self._whole, *self._known()}
            for claim in claims:
                if claim.id not in known:
                    await self._release((claim.id, claim.attempt), count_restart=False)

    async def _hand_out(self, claims: Sequence[NarrowClaim]) -> None:
        whole: list[NarrowClaim] = []
        plain = 0
        for claim in claims:
            script = self._scripts.get(claim.runnable_id or 0) if claim.is_plain else None
            if claim.is_plain and script is None:
                script = await self._meet(claim)
            if script is None or (claim.args is not None and _REFERENCE.search(claim.args)):
                whole.append(claim)
                continue
            job = Job(claim, script)
            self._held[str(claim.id)] = job
            script.waiting.append(job)
            plain += 1
        self._begun(plain)
        for script in [script for script in self._scripts.values() if script.waiting]:
            self._feed(script)
        if whole:
            await self._run_as_whole(whole)

    async def _meet(self, claim: NarrowClaim) -> Script | None:
        """A version that was not seen here before. None: its jobs are no mere calls, or cannot be."""
        self._whole.add(claim.id)  # known as held, meanwhile
        try:
            found = await self._queue.whole([(claim.id, claim.attempt)])
        finally:
            self._whole.discard(claim.id)
        if not found or found[0].code is None or not self._runner.stays_warm(found[0].language or ""):
            return None
        for version, script in list(self._scripts.items()):
            if (
                not script.waiting
                and not script.starting
                and not any(line.process.load for line in script.lines.values())
            ):
                del self._scripts[version]
        script = self._scripts[claim.runnable_id or 0] = Script(found[0])
        return script

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

    def _feed(self, script: Script) -> None:
        """Send waiting jobs to the processes that have the fewest, and start one when there is none for them."""
        self._forget_ended(script)
        lines = sorted(
            (line for line in script.lines.values() if line.process.is_open),
            key=lambda line: line.process.load,
        )
        for position, line in enumerate(lines):
            if not script.waiting:
                return
            self._feed_line(line, share=-(-len(script.waiting) // (len(lines) - position)))
        while script.waiting and script.starting < min(STARTS, len(script.waiting)):
            if lines and self._processes() >= self._worker.slots:
                return
            if lines and not self._is_worth_a_process(script):
                return
            script.starting += 1
            self._begin(self._start_process(script))

    def _feed_line(self, line: "Line", share: int = MOST_SENT) -> None:
        script = line.script
        count = min(self._window(script) - line.process.load, share, len(script.waiting))
        if count <= 0 or not line.process.is_open:
            return
        calls: list[Call] = []
        while len(calls) < count and script.waiting:
            job = script.waiting.popleft()
            job.line = line
            calls.append(self._call(job))
        line.send(calls)

    def _call(self, job: Job) -> Call:
        claim = job.claim
        timeout_s = self._timeout_s(claim, job.script)
        return Call(
            job_id=str(claim.id),
            args_json=claim.args or "{}",
            env=of_one_job(claim, token=self._token(claim, timeout_s), path=self.dedicated.path),
            timeout_s=timeout_s,
        )

    def _timeout_s(self, claim: NarrowClaim, script: Script) -> int:
        wanted = (
            claim.timeout
            or script.claim.timeout
            or self._default_timeout_s
            or self._worker.default_timeout_s
            or self._worker.max_timeout_s
        )
        return min(wanted, self._worker.max_timeout_s)

    def _token(self, claim: NarrowClaim | Claim, timeout_s: int) -> str:
        return job_tokens.issue(
            workspace_id=self.dedicated.workspace_id,
            email=claim.permissioned_as_email,
            username=arguments.token_username(claim),
            permissioned_as=claim.permissioned_as,
            job_id=claim.id,
            attempt=claim.attempt,
            expires_in_s=min(self._worker.token_expiry_s, timeout_s + 60),
        )

    # --- processes ----------------------------------------------------------------------------------------------------

    async def _start_ahead(self) -> None:
        """Start a process before the first job asks for one."""
        claim = await self._queue.head_of(self.dedicated)
        if claim is None:
            logger.warning(
                "this worker is dedicated to %s, which does not exist: deploy it, or take it out of the group's "
                "dedicated_workers",
                self.dedicated,
            )
            return
        if claim.runnable_id in self._scripts or not self._runner.stays_warm(claim.language or ""):
            return
        script = self._scripts[claim.runnable_id or 0] = Script(claim)
        script.starting += 1
        await self._start_process(script)

    async def _start_process(self, script: Script) -> None:
        first = script.waiting[0] if script.waiting else None
        try:
            process = await self._runner.warm_process(self._start_request(script, first))
        except ExecutionFailed as failed:
            logger.info("script=%s does not load: %s", self.dedicated, failed.error.get("name"))
            if not script.lines:
                self._fail_waiting(script, failed)
        except (SandboxUnavailable, RunnerLost) as exc:
            logger.warning("no process for script=%s: %s", self.dedicated, exc)
            self._hand_over(script)
        except Exception:
            logger.exception("starting a process for script=%s failed", self.dedicated)
            self._hand_over(script)
        else:
            if process not in script.lines:
                script.lines[process] = Line(self, script, process)
        finally:
            script.starting -= 1
        if script.waiting:
            self._feed(script)
        self._wake.set()

    def _start_request(self, script: Script, first: Job | None) -> RunRequest:
        """What a process is started for: the first job that waits, if there is one."""
        claim = script.claim
        token = ""
        if first is not None:
            differs = {
                name: getattr(first.claim, name)
                for name in NarrowClaim._fields
                if name not in ("args", "is_plain", "timeout", "restarts")
            }
            claim = replace(claim, **differs)
            token = self._token(first.claim, self._timeout_s(first.claim, script))
        return RunRequest(
            claim=claim,
            args={},
            environment=self._worker.environment.build(claim, token=token),
            timeout_s=min(claim.timeout or self._worker.max_timeout_s, self._worker.max_timeout_s),
            log=self._log_of(first) if first is not None else SilentLog(self._logs, (claim.id, 0)),
            report_memory=lambda peak_kb: None,
            group=self._worker.config,
            dedicated=True,
        )

    def _fail_waiting(self, script: Script, failed: ExecutionFailed) -> None:
        result = failures.error_as_result(failed.error)
        while script.waiting:
            self._end(
                script.waiting.popleft(), results.failed(result, max_size_mb=self._worker.max_result_size_mb)
            )

    def _hand_over(self, script: Script) -> None:
        """Without a process of their own jobs go the ordinary way, which knows what to do about that."""
        claims = []
        while script.waiting:
            job = script.waiting.popleft()
            del self._held[str(job.claim.id)]
            self._whole.add(job.claim.id)
            claims.append(job.claim)
        if claims:
            self._begin(self._run_as_whole(claims))

    # --- jobs on their way out ------------------------------------------------------------------------------------------

    def log(self, job_id: str, text: str) -> None:
        """A job printed something."""
        if (job := self._held.get(job_id)) is not None and not job.is_over:
            self._log_of(job).write(text)

    def _log_of(self, job: Job) -> JobLog:
        if job.log is None:
            make = JobLog if self._worker.keep_logs else SilentLog
            job.log = make(self._logs, job.lease)
            name, note = self._runner.isolation
            if name == "none":
                job.log.write(f"this job runs without isolation: {note}\n")
        return job.log

    def answered(self, line: "Line", answers: Sequence[Answer]) -> None:
        """A process has answered calls; it gets the next ones at once."""
        self._answered_at = asyncio.get_running_loop().time()
        limit_mb = self._worker.max_result_size_mb
        for answer in answers:
            job = self._held.get(answer.job_id)
            if job is None:
                continue
            if answer.peak_kb > self._peak_kb:
                self._peak_kb = answer.peak_kb
            if answer.is_success:
                recorded = results.succeeded(answer.result_json, max_size_mb=limit_mb)
            else:
                recorded = results.failed(f'{{"error":{answer.result_json}}}', max_size_mb=limit_mb)
            self._end(job, recorded)
        if line.script.waiting:
            if line.process.is_open:
                self._feed_line(line)
            else:
                self._feed(line.script)  # it has grown too large, or is to end for another reason
        self._wake.set()

    def process_ended(
        self,
        line: "Line",
        reason: ExecutionFailed | SandboxUnavailable,
        begun: Call | None,
        not_begun: Sequence[Call],
    ) -> None:
        """A process has ended. What it had not begun with goes to another one."""
        script = line.script
        script.lines.pop(line.process, None)
        line.over()
        if begun is not None and (job := self._held.get(begun.job_id)) is not None:
            if isinstance(reason, ExecutionFailed):
                result = failures.error_as_result(reason.error)
                self._end(job, results.failed(result, max_size_mb=self._worker.max_result_size_mb))
            else:
                self._end_without_result(job, reason)
        again = [job for call in not_begun if (job := self._held.get(call.job_id)) is not None]
        for job in reversed(again):
            job.line = None
            if job.stop is not None:
                self._end(job, None)
            else:
                script.waiting.appendleft(job)
        if script.waiting:
            self._feed(script)
        self._wake.set()

    def _end_without_result(self, job: Job, reason: SandboxUnavailable) -> None:
        """The machinery died under a job: it starts again, unless that happened too often."""
        if job.stop is None and job.claim.restarts < self._worker.restart_limit:
            logger.warning("restarting job=%s: %s", job.claim.id, reason)
            self._begin(self._put_back([job], count_restart=True))
            return
        message = f"The worker could not run this job, {job.claim.restarts + 1} times: {reason}"
        self._end(job, results.failed_with("ExecutionErr", message))

    def _end(self, job: Job, recorded: results.Recorded | None) -> None:
        """What came of a job is recorded next, unless it was stopped for another reason."""
        if job.is_over:
            return
        if job.stop in (Stop.LOST, Stop.RELEASED):
            job.is_over = True
            if job.stop is Stop.LOST:
                if job.log is not None:
                    job.log.abandon()
                self._held.pop(str(job.claim.id), None)
            else:
                self._begin(self._put_back([job]))
            return
        if job.stop is Stop.CANCELED and job.request is not None:
            error = canceled_error(username=job.request.canceled_by, reason=job.request.reason)
            recorded = results.Recorded(JobStatus.CANCELED, failures.error_as_result(error))
        if recorded is None:
            return
        job.is_over = True
        completion = Completion(
            *job.lease, recorded.status, recorded.result, None, recorded.labels, self._isolation
        )
        self._done.append((job, completion))

    # --- stopping -------------------------------------------------------------------------------------------------------

    def _stop(self, job: Job, reason: Stop, request: CancelRequest | None = None) -> None:
        if job.is_over or (job.stop is not None and reason is not Stop.LOST):
            return
        was_stopped, job.stop, job.request = job.stop is not None, reason, request or job.request
        if job.line is not None:
            if not was_stopped:
                self._begin(self._kill(job, job.line))
        elif job in job.script.waiting:
            job.script.waiting.remove(job)
            self._end(job, None)
            self._wake.set()

    async def _kill(self, job: Job, line: "Line") -> None:
        await line.process.kill(str(job.claim.id))
        self._forget_ended(line.script)
        # Unless it was answered, or not begun and told so, meanwhile: nobody hears of a call that was killed.
        if not job.is_over and job.line is line:
            job.line = None
            self._end(job, None)
            self._wake.set()

    async def _look_at_stuck(self) -> None:
        """Jobs that wait behind one that takes long may be done elsewhere."""
        now = asyncio.get_running_loop().time()
        for script in list(self._scripts.values()):
            if not script.waiting:
                continue
            if script.lines and not script.starting and now - self._answered_at > STUCK_S:
                script.mean_s = max(script.mean_s or 0.0, STUCK_S)
                await self._put_back(self._taken_from(script))
            else:
                self._feed(script)

    async def _put_back_waiting(self) -> None:
        for script in list(self._scripts.values()):
            if script.waiting:
                await self._put_back(self._taken_from(script))

    def _taken_from(self, script: Script) -> list[Job]:
        jobs = list(script.waiting)
        script.waiting.clear()
        return jobs

    async def _put_back(self, jobs: Sequence[Job], *, count_restart: bool = False) -> None:
        for job in jobs:
            job.is_over = True  # the lease ends here
        for job in jobs:
            if job.log is not None:
                await self._logs.finish([job.log])
            await self._release(job.lease, count_restart=count_restart)
            self._held.pop(str(job.claim.id), None)
        self._wake.set()

    async def _release(self, lease: Lease, *, count_restart: bool) -> None:
        while True:
            try:
                await self._queue.release(lease, count_restart=count_restart)
                return
            except QueueAway:
                continue  # released twice: the second matches nothing

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            logger.error("work for tag=%s failed", self.dedicated.tag, exc_info=exc)
        self._wake.set()


def _of_processes(worker: WorkerOptions) -> tuple[Any, ...]:
    """What a process has from its start."""
    return worker.environment, worker.config.job_limits, worker.config.network


class Line:
    """What a lane sends to one process, and hears from it (workers.dedicated.calls.Listener)."""

    __slots__ = ("_lane", "_since", "calls", "process", "script")

    def __init__(self, lane: Lane, script: Script, process: WarmProcess) -> None:
        self.script = script
        self.process = process
        self._lane = lane
        self._since = 0.0  # when it began with what it has, or answered last
        self.calls = 0  # of this lane, not answered yet

    def send(self, calls: Sequence[Call]) -> None:
        """Have these run."""
        if not self.process.load:
            self._since = asyncio.get_running_loop().time()
        if not self.calls:
            self._lane.occupied(True)
        self.calls += len(calls)
        self.process.send(calls, self)

    def over(self) -> None:
        """It has nothing to do any more."""
        if self.calls:
            self.calls = 0
            self._lane.occupied(False)

    def on_log(self, job_id: str, text: str) -> None:
        """See Listener."""
        self._lane.log(job_id, text)

    def on_answers(self, answers: Sequence[Answer]) -> None:
        """See Listener."""
        now = asyncio.get_running_loop().time()
        took_s, self._since = (now - self._since) / len(answers), now
        self.script.mean_s = _blended(self.script.mean_s, took_s)
        if self.calls <= len(answers):
            self.over()
        else:
            self.calls -= len(answers)
        self._lane.answered(self, answers)

    def on_end(
        self, reason: ExecutionFailed | SandboxUnavailable, begun: Call | None, not_begun: Sequence[Call]
    ) -> None:
        """See Listener."""
        self._lane.process_ended(self, reason, begun, not_begun)


def _blended(mean_s: float | None, took_s: float) -> float:
    """What a job takes, by what it took so far and what the last ones took.

    A job never takes longer than it seems to, but often seems to take longer than it does: the answer has to be read, on
    a busy machine. So a shorter time counts more.
    """
    if mean_s is None:
        return took_s
    return mean_s + (took_s - mean_s) * (0.5 if took_s < mean_s else 0.1)
