"""The versions of a lane's script, their warm processes, and which job goes to which of them."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from jobs.dedicated import Dedicated
from jobs.queue import Claim, NarrowClaim
from workers import arguments
from workers.dedicated import pace
from workers.dedicated.background import Background
from workers.dedicated.calls import Answer, Call
from workers.dedicated.held_jobs import HeldJobs, Job
from workers.dedicated.process import WarmProcess
from workers.environment import of_one_job
from workers.runner import Runner, RunnerLost, RunRequest
from workers.runtimes import ExecutionFailed, SandboxUnavailable
from workers.worker_options import WorkerOptions
from workspaces import job_tokens

logger = logging.getLogger(__name__)

_LIMITS_AGE_S = 5.0  # between looks at whether processes still run under the limits that are set now


@dataclass(eq=False, slots=True)
class Script:
    """One version of the script: what a process of it needs to start, and the jobs that wait for one."""

    claim: Claim
    waiting: deque[Job] = field(default_factory=deque)
    lines: "dict[WarmProcess, Line]" = field(default_factory=dict)
    starting: int = 0
    mean_s: float | None = None  # that a job took lately

    @property
    def loads(self) -> list[int]:
        """The calls of each process."""
        return [line.process.load for line in self.lines.values()]

    def take_waiting(self) -> list[Job]:
        """The jobs that wait; they do so no longer."""
        jobs = list(self.waiting)
        self.waiting.clear()
        return jobs


class Line:
    """What a lane sends to one process, and hears from it (workers.dedicated.calls.Listener)."""

    __slots__ = ("_processes", "_since", "calls", "process", "script")

    def __init__(self, processes: "Processes", script: Script, process: WarmProcess) -> None:
        self.script = script
        self.process = process
        self._processes = processes
        self._since = 0.0  # when it began with what it has, or answered last
        self.calls = 0  # of this lane, not answered yet

    def send(self, calls: Sequence[Call]) -> None:
        """Have these run."""
        if not self.process.load:
            self._since = asyncio.get_running_loop().time()
        if not self.calls:
            self._processes.occupied(True)
        self.calls += len(calls)
        self.process.send(calls, self)

    def over(self) -> None:
        """It has nothing to do any more."""
        if self.calls:
            self.calls = 0
            self._processes.occupied(False)

    def on_log(self, job_id: str, text: str) -> None:
        """See Listener."""
        self._processes.held.log(job_id, text)

    def on_answers(self, answers: Sequence[Answer]) -> None:
        """See Listener."""
        now = asyncio.get_running_loop().time()
        took_s, self._since = (now - self._since) / len(answers), now
        self.script.mean_s = pace.blended(self.script.mean_s, took_s)
        if self.calls <= len(answers):
            self.over()
        else:
            self.calls -= len(answers)
        self._processes.answered(self, answers, at=now)

    def on_end(
        self, reason: ExecutionFailed | SandboxUnavailable, begun: Call | None, not_begun: Sequence[Call]
    ) -> None:
        """See Listener."""
        self._processes.process_ended(self, reason, begun, not_begun)


class Processes:
    """All warm processes of one lane."""

    def __init__(
        self,
        dedicated: Dedicated,
        worker: WorkerOptions,
        *,
        runner: Runner,
        held: HeldJobs,
        background: Background,
        hand_over: Callable[[Sequence[NarrowClaim]], None],
        occupied: Callable[[bool], None],
    ) -> None:
        """`hand_over` has jobs run without a process of their own; `occupied` is told that a process has something to
        do or has no more."""
        self.held = held
        self.occupied = occupied
        self.default_timeout_s: int | None = None  # the instance's
        self._dedicated = dedicated
        self._worker = worker
        self._runner = runner
        self._background = background
        self._hand_over = hand_over
        self._versions: dict[int, Script] = {}  # by hash, the one whose jobs came last at the end
        self._answered_at = 0.0
        self._limits_looked_at = float("-inf")
        self._is_looking_at_limits = False

    def __iter__(self) -> Iterator[Script]:
        return iter(list(self._versions.values()))

    @property
    def count(self) -> int:
        """Processes that run or start."""
        return sum(len(script.lines) + script.starting for script in self._versions.values())

    @property
    def busy(self) -> int:
        """Processes that have something to do."""
        return sum(line.calls > 0 for script in self._versions.values() for line in script.lines.values())

    @property
    def waiting(self) -> int:
        """Jobs that no process has yet."""
        return sum(len(script.waiting) for script in self._versions.values())

    def load(self, exchange_s: float) -> pace.Load:
        """What there is to do, and who does it. `exchange_s`: what a statement took lately."""
        current = next(reversed(self._versions.values()), None)
        return pace.Load(
            slots=self._worker.slots,
            processes=self.count,
            held=len(self.held),
            done=self.held.ended_count,
            mean_s=None if current is None else current.mean_s,
            exchange_s=exchange_s,
            is_worth_a_process=current is not None and self._is_worth_a_process(current),
        )

    # --- versions ---

    def version(self, version: int) -> Script | None:
        """The script of this hash, if its jobs have come here."""
        return self._versions.get(version)

    def meet(self, claim: Claim) -> Script | None:
        """A version that was not seen here before; those that nobody uses are forgotten. None: its jobs are no mere
        calls."""
        if claim.code is None or not self._runner.stays_warm(claim.language or ""):
            return None
        for version, script in list(self._versions.items()):
            if not script.waiting and not script.starting and not any(script.loads):
                del self._versions[version]
        script = self._versions[claim.runnable_id or 0] = Script(claim)
        return script

    async def start_ahead(self, claim: Claim) -> None:
        """Start a process of this version before the first job asks for one."""
        if claim.runnable_id in self._versions or not self._runner.stays_warm(claim.language or ""):
            return
        script = self._versions[claim.runnable_id or 0] = Script(claim)
        script.starting += 1
        await self._start(script)

    # --- who gets what ---

    def feed_all(self) -> None:
        """Send whatever waits to the processes."""
        for script in self:
            if script.waiting:
                self._feed(script)

    def _feed(self, script: Script) -> None:
        """Send waiting jobs to the processes that have the fewest, and start one when there is none for them."""
        self.forget_ended(script)
        lines = sorted(
            (line for line in script.lines.values() if line.process.is_open),
            key=lambda line: line.process.load,
        )
        for position, line in enumerate(lines):
            if not script.waiting:
                return
            self._feed_line(line, share=pace.fair_share(len(script.waiting), len(lines) - position))
        while script.waiting and script.starting < min(pace.STARTS, len(script.waiting)):
            if lines and (self.count >= self._worker.slots or not self._is_worth_a_process(script)):
                return
            script.starting += 1
            self._background.begin(self._start(script))

    def _feed_line(self, line: Line, share: int = pace.MOST_SENT) -> None:
        script = line.script
        count = min(pace.window(script.mean_s) - line.process.load, share, len(script.waiting))
        if count <= 0 or not line.process.is_open:
            return
        calls: list[Call] = []
        while len(calls) < count and script.waiting:
            job = script.waiting.popleft()
            job.line = line
            calls.append(self._call(job))
        line.send(calls)

    def _is_worth_a_process(self, script: Script) -> bool:
        silent_s = asyncio.get_running_loop().time() - self._answered_at
        return pace.is_worth_a_process(loads=script.loads, mean_s=script.mean_s, silent_s=silent_s)

    def stuck(self) -> list[Job]:
        """Jobs that wait behind one that takes long: others may do them. They wait here no longer."""
        now = asyncio.get_running_loop().time()
        stuck: list[Job] = []
        for script in self:
            if not script.waiting:
                continue
            if script.lines and not script.starting and now - self._answered_at > pace.STUCK_S:
                script.mean_s = max(script.mean_s or 0.0, pace.STUCK_S)
                stuck += script.take_waiting()
            else:
                self._feed(script)
        return stuck

    # --- calls ---

    def _call(self, job: Job) -> Call:
        claim = job.claim
        timeout_s = self._timeout_s(claim, job.script)
        return Call(
            job_id=str(claim.id),
            args_json=claim.args or "{}",
            env=of_one_job(claim, token=self._token(claim, timeout_s), path=self._dedicated.path),
            timeout_s=timeout_s,
        )

    def _timeout_s(self, claim: NarrowClaim, script: Script) -> int:
        wanted = (
            claim.timeout
            or script.claim.timeout
            or self.default_timeout_s
            or self._worker.default_timeout_s
            or self._worker.max_timeout_s
        )
        return min(wanted, self._worker.max_timeout_s)

    def _token(self, claim: NarrowClaim | Claim, timeout_s: int) -> str:
        return job_tokens.issue(
            workspace_id=self._dedicated.workspace_id,
            email=claim.permissioned_as_email,
            username=arguments.token_username(claim),
            permissioned_as=claim.permissioned_as,
            job_id=claim.id,
            attempt=claim.attempt,
            expires_in_s=min(self._worker.token_expiry_s, timeout_s + 60),
        )

    # --- how they begin ---

    async def _start(self, script: Script) -> None:
        first = script.waiting[0] if script.waiting else None
        try:
            process = await self._runner.warm_process(self._start_request(script, first))
        except ExecutionFailed as failed:
            logger.info("script=%s does not load: %s", self._dedicated, failed.error.get("name"))
            if not script.lines:
                for job in script.take_waiting():
                    self.held.fail(job, failed)
        except (SandboxUnavailable, RunnerLost) as exc:
            logger.warning("no process for script=%s: %s", self._dedicated, exc)
            self._do_without(script)
        except Exception:
            logger.exception("starting a process for script=%s failed", self._dedicated)
            self._do_without(script)
        else:
            if process not in script.lines:
                script.lines[process] = Line(self, script, process)
        finally:
            script.starting -= 1
        if script.waiting:
            self._feed(script)
        self._background.wake()

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
            log=self.held.log_of(first) if first is not None else self.held.silent_log((claim.id, 0)),
            report_memory=lambda peak_kb: None,
            group=self._worker.config,
            dedicated=True,
        )

    def _do_without(self, script: Script) -> None:
        """Without a process of their own jobs go the ordinary way, which knows what to do about that."""
        jobs = script.take_waiting()
        for job in jobs:
            self.held.drop(job)
        if jobs:
            self._hand_over([job.claim for job in jobs])

    # --- how they end ---

    def options_changed(self, worker: WorkerOptions) -> None:
        """Processes that begin from now on have these; those that run leave when they should have others."""
        before, self._worker = self._worker, worker
        if _of_processes(before) == _of_processes(worker):
            return
        for script in self:
            for process in list(script.lines):
                process.leave()
            if script.waiting:
                self._feed(script)

    def look_at_limits(self) -> None:
        """Have processes leave that began under other limits than those that are set now. Costs nothing most times."""
        now = asyncio.get_running_loop().time()
        if self._is_looking_at_limits or now - self._limits_looked_at < _LIMITS_AGE_S:
            return
        self._is_looking_at_limits = True
        self._background.begin(self._let_misfits_leave())

    async def _let_misfits_leave(self) -> None:
        try:
            for script in self:
                if script.lines:
                    await self._runner.let_misfits_leave(self._start_request(script, None))
        except ExecutionFailed:
            pass  # what is said about limits cannot be kept: the next process that starts says so
        finally:
            self._limits_looked_at = asyncio.get_running_loop().time()
            self._is_looking_at_limits = False

    def forget_ended(self, script: Script) -> None:
        """Processes that take no more calls and have none."""
        for process in [one for one in script.lines if not one.is_open and not one.load]:
            script.lines.pop(process).over()

    def answered(self, line: Line, answers: Sequence[Answer], *, at: float) -> None:
        """A process has answered calls; it gets the next ones at once."""
        self._answered_at = at
        self.held.answered(answers)
        if line.script.waiting:
            if line.process.is_open:
                self._feed_line(line)
            else:
                self._feed(line.script)  # it has grown too large, or is to end for another reason
        self._background.wake()

    def process_ended(
        self,
        line: Line,
        reason: ExecutionFailed | SandboxUnavailable,
        begun: Call | None,
        not_begun: Sequence[Call],
    ) -> None:
        """A process has ended. What it had not begun with goes to another one."""
        script = line.script
        script.lines.pop(line.process, None)
        line.over()
        if begun is not None and (job := self.held.get(begun.job_id)) is not None:
            if isinstance(reason, ExecutionFailed):
                self.held.fail(job, reason)
            else:
                self.held.end_without_result(job, reason)
        again = [job for call in not_begun if (job := self.held.get(call.job_id)) is not None]
        for job in reversed(again):
            job.line = None
            if job.stop is not None:
                self.held.end(job, None)
            else:
                script.waiting.appendleft(job)
        if script.waiting:
            self._feed(script)
        self._background.wake()

    async def kill(self, job: Job, line: Line) -> None:
        """See to it that a call that was sent does not go on."""
        await line.process.kill(str(job.claim.id))
        self.forget_ended(line.script)
        # Unless it was answered, or not begun and told so, meanwhile: nobody hears of a call that was killed.
        if not job.is_over and job.line is line:
            job.line = None
            self.held.end(job, None)
            self._background.wake()


def _of_processes(worker: WorkerOptions) -> tuple[object, ...]:
    """What a process has from its start."""
    return worker.environment, worker.config.job_limits, worker.config.network
