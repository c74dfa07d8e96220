"""The worker: claims jobs, runs them in its slots, keeps their leases, records what came of them.

One process, one event loop, and no state that matters: whatever a worker was doing when it died, another one goes on.
Tasks: the claimer, a task a job, the log writer, group commit of results, heartbeat, ping.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from django.db import InterfaceError, OperationalError

from jobs.cache import Hit
from jobs.flows import locking
from jobs.flows.store import LeaseOver
from jobs.models import FLOW_KINDS, JobKind, JobStatus
from jobs.queue import Claim, Completion, JobRequest, canceled_error
from workers import arguments, failures, host, init_script, results
from workers.agent_jobs import AgentJobs
from workers.environment import EnvironmentSource
from workers.flows import FlowWorker
from workers.group_commit import GroupCommit
from workers.held_job import HeldJob, Stop
from workers.job_queue import CancelRequest, JobQueue, Lease, QueueAway, WorkerReport
from workers.logs import JobLog, LogWriter, SilentLog
from workers.occupancy import Occupancy
from workers.options import JobOptions, is_bound
from workers.runner import Runner, RunnerLost, RunRequest
from workers.threads import in_thread
from workspaces import job_tokens
from workspaces.errors import DomainError

T = TypeVar("T")
logger = logging.getLogger(__name__)

IDLE_POLL_S = 1.0  # while notifications arrive: finds jobs that became due, and whatever a lost hint told of
PING_S = 5.0
RECORD_LIMIT_S = 30.0  # how long a leaving worker waits for a database that is away
_AWAY_RETRY_S = 0.5
_LONGEST_TIMER_S = 3600.0  # beyond, polling finds it soon enough
_COMPLETION_BATCH_CHARS = 16 * 1024 * 1024
_COMPLETION_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How a worker behaves. Built from settings by the command, by hand in tests."""

    name: str
    instance: str  # host
    group: str
    tags: Sequence[str]
    slots: int
    version: str
    environment: EnvironmentSource
    poll_s: float  # between claims while notifications do not arrive (SLEEP_QUEUE)
    heartbeat_s: float
    max_timeout_s: int  # TIMEOUT
    default_timeout_s: int | None  # JOB_DEFAULT_TIMEOUT
    token_expiry_s: int
    max_result_size_mb: int
    max_log_size_mb: int
    keep_logs: bool
    restart_limit: int
    init_script: str = ""


class Worker:
    """One worker process. `run` returns its exit code; `drain` and `stop` end it from a signal handler."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        queue: JobQueue,
        runner: Runner,
        housekeeping: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`housekeeping` runs beside the jobs until the worker leaves (jobs.monitor)."""
        self.options = options
        self.jobs_executed = 0
        self._queue = queue
        self._runner = runner
        self._housekeeping = housekeeping
        self._held: dict[Lease, HeldJob] = {}
        self._slot_freed = asyncio.Event()
        self._work_hint = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._draining = asyncio.Event()
        self._stopping = asyncio.Event()
        self._state = "starting"
        self._init_log = ""
        self._last_claim: Claim | None = None
        self._occupancy = Occupancy(slots=options.slots, now=time.monotonic())
        self._logs = LogWriter(queue.append_logs, max_job_chars=options.max_log_size_mb * 1024 * 1024)
        self._options = JobOptions(queue.option_store, runner)
        self._flows = FlowWorker(
            queue.flow_store,
            worker=options.name,
            tags=options.tags,
            languages=runner.languages,
            tell_watchers=queue.tell_watchers,
            wake_workers=queue.wake_workers,
            look_again_in=self._look_again_in,
            options=self._options,
        )
        self._agents = AgentJobs(queue, lend_slot=self._lend_slot)
        self._lent_slots = 0
        self._lost_answers = 0
        self._completions = GroupCommit(
            self._complete,
            weight=lambda completion: len(completion.result),
            max_weight=_COMPLETION_BATCH_CHARS,
            max_items=_COMPLETION_BATCH,
        )

    # --- life --------------------------------------------------------------------------------------------------

    async def run(self, *, drain_timeout_s: float | None = None) -> int:
        """Work until drained or stopped. 0: left in order; 1: init script failed, or results could not be recorded."""
        await self._runner.start()
        unsubscribe = (self._queue.on_work(self._hint), self._queue.on_cancel(self._look_at_lease))
        background = [asyncio.create_task(self._logs.run(), name="logs")]
        try:
            await self._open_queue()
            background += [
                asyncio.create_task(self._keep_leases(), name="heartbeat"),
                asyncio.create_task(self._keep_pinging(), name="ping"),
            ]
            if not self._draining.is_set() and not await self._prepare_host():
                return 1
            if self._housekeeping is not None:
                background.append(asyncio.ensure_future(self._housekeeping()))
            await self._work()
            return await self._leave(drain_timeout_s)
        finally:
            for end in unsubscribe:
                end()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._runner.close()
            await self._flows.close()
            await self._queue.close()

    def drain(self) -> None:
        """Claim nothing more, finish what runs, leave."""
        logger.info("draining worker=%s running=%s", self.options.name, len(self._held))
        self._draining.set()
        self._slot_freed.set()
        self._work_hint.set()

    def stop(self) -> None:
        """Leave now: kill what runs and put it back into the queue."""
        self.drain()
        self._stopping.set()

    @property
    def is_draining(self) -> bool:
        return self._draining.is_set()

    async def _open_queue(self) -> None:
        while not self._draining.is_set():
            try:
                await self._queue.open()
                return
            except QueueAway as exc:
                logger.warning("waiting for the database: %s", exc)
                await _wait(self._draining, timeout_s=_AWAY_RETRY_S)

    async def _work(self) -> None:
        if not self._draining.is_set():
            self._state = "running"
            await self._ping()
            logger.info(
                "ready worker=%s slots=%s tags=%s isolation=%s",
                self.options.name,
                self.options.slots,
                ",".join(self.options.tags),
                self._runner.isolation[0],
            )
        await self._claim_until_drained()

    async def _leave(self, drain_timeout_s: float | None) -> int:
        self._state = "draining"
        await self._ping()
        if self._held:
            await self._finish_jobs(drain_timeout_s)
        for held in list(self._held.values()):
            held.stop_for(Stop.RELEASED)
        try:
            async with asyncio.timeout(RECORD_LIMIT_S):
                await self._all_done()
                await self._queue.leave()
        except (TimeoutError, QueueAway):
            if self._held:
                logger.error(
                    "left without recording jobs=%s: the database was away for more than %s s; they will be restarted",
                    ",".join(str(held.claim.id) for held in self._held.values()),
                    RECORD_LIMIT_S,
                )
                return 1
        logger.info("left worker=%s jobs_executed=%s", self.options.name, self.jobs_executed)
        return 0

    async def _finish_jobs(self, drain_timeout_s: float | None) -> None:
        finished = asyncio.ensure_future(self._all_done())
        stopped = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({finished, stopped}, timeout=drain_timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finished.cancel()
        stopped.cancel()

    async def _all_done(self) -> None:
        while self._held:
            await asyncio.wait([held.task for held in self._held.values() if held.task is not None])

    async def _prepare_host(self) -> bool:
        """Run the init script, as a job that everybody can look at. False: it failed, and so does the worker."""
        script = self.options.init_script
        if not script.strip():
            return True
        logger.info("running the init script worker=%s", self.options.name)
        await self._ping()
        claim = await self._start_init_job(script)
        held = self._hold(claim)
        held.task = asyncio.create_task(self._run_init_script(held, script), name="init script")
        stopped = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({held.task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        held.stop_for(Stop.CANCELED, CancelRequest(self.options.name, "its worker was stopped"))
        await held.task
        if self._state == "failed":
            await self._ping()
        return self._state != "failed"

    async def _start_init_job(self, script: str) -> Claim:
        request = JobRequest(
            workspace_id=init_script.WORKSPACE,
            kind=JobKind.PREVIEW,
            tag=init_script.TAG,
            created_by=self.options.name,
            permissioned_as=f"u/{self.options.name}",
            permissioned_as_email=init_script.EMAIL,
            args={},
            runnable_path=f"init_script_{self.options.name}",
            raw_code=script,
            language="bash",
        )
        while True:
            with contextlib.suppress(QueueAway):
                return await self._queue.start_own(request)

    async def _run_init_script(self, held: HeldJob, script: str) -> None:
        outcome: results.Recorded | None = None
        held.is_executing = True
        try:
            environment = self.options.environment.for_host()
            await init_script.run(
                script, environment=environment, log=held.log, timeout_s=self.options.max_timeout_s
            )
            outcome = results.succeeded("null", max_size_mb=1)
        except init_script.InitScriptFailed as exc:
            message = f"The init script of worker group {self.options.group} failed: {exc}"
            logger.error("%s; the worker stops. End of its output:\n%s", message, exc.log[-2000:])
            self._state, self._init_log = "failed", f"{exc.log}\n{message}\n"
            outcome = results.failed_with("InitScriptErr", message)
        except asyncio.CancelledError:
            if held.stop is None:
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]  # we are in one
            self._state, self._init_log = "failed", "The init script was stopped.\n"
        finally:
            held.is_executing = False
            try:
                await self._record(held, outcome)
            finally:
                held.log.abandon()
                self._let_go(held)

    # --- claiming ----------------------------------------------------------------------------------------------

    async def _claim_until_drained(self) -> None:
        may_hold_unknown_jobs = False
        follow_up = False  # whether the last look makes it likely that there is more
        while not self._draining.is_set():
            free = self.options.slots - len(self._held) + self._lent_slots
            if free <= 0:
                self._slot_freed.clear()
                await self._slot_freed.wait()
                continue
            was_hinted = self._work_hint.is_set()
            self._work_hint.clear()
            try:
                if may_hold_unknown_jobs or self._queue.flow_store.lost_answers > self._lost_answers:
                    self._lost_answers = self._queue.flow_store.lost_answers
                    may_hold_unknown_jobs = True
                    held = [*self._held, *((job_id, 1) for job_id in self._flows.taking)]
                    await self._queue.release_all_but(held)
                    may_hold_unknown_jobs = False
                claims = await self._queue.claim(tags=self.options.tags, limit=free)
            except QueueAway as exc:
                may_hold_unknown_jobs = may_hold_unknown_jobs or exc.outcome_unknown
                continue  # the queue itself waits between attempts
            except Exception:
                logger.exception("a claim failed")
                await _wait(self._draining, timeout_s=IDLE_POLL_S)
                continue
            for claim in claims:
                self._start(claim)
            if len(claims) < free:
                # Rows that another worker was claiming were passed over; should it fail, a second look finds them.
                follow_up = bool(claims) or (was_hinted and not follow_up)
                await _wait(self._work_hint, timeout_s=self._pause_s(follow_up))

    def _pause_s(self, follow_up: bool) -> float:
        if follow_up or not self._queue.hears_wakeups:
            return self.options.poll_s
        return IDLE_POLL_S

    def _hint(self, tag: str | None) -> None:
        if tag is None or tag in self.options.tags:
            self._work_hint.set()

    # --- one job -----------------------------------------------------------------------------------------------

    def _start(self, claim: Claim, *, streak_began: float | None = None) -> None:
        logger.info("claimed job=%s tag=%s attempt=%s", claim.id, claim.tag, claim.attempt)
        self._last_claim = claim
        held = self._hold(claim)
        if streak_began is not None:
            held.streak_began = streak_began
        held.task = asyncio.create_task(self._run_job(held), name=f"job {claim.id}")

    def _hold(self, claim: Claim) -> HeldJob:
        lease = (claim.id, claim.attempt)
        log = JobLog(self._logs, lease) if self.options.keep_logs else SilentLog(self._logs, lease)
        held = self._held[lease] = HeldJob(claim=claim, log=log)
        self._flows.taking.discard(claim.id)
        self._occupancy.started(held.started_at)
        return held

    def _let_go(self, held: HeldJob, *, next_claim: Claim | None = None) -> None:
        """The slot is free, or goes on with the next step of a flow."""
        del self._held[held.lease]
        self._occupancy.finished(time.monotonic())
        self.jobs_executed += 1
        if next_claim is not None:
            self._start(next_claim, streak_began=held.streak_began)
        else:
            self._slot_freed.set()

    @contextlib.contextmanager
    def _lend_slot(self) -> Iterator[None]:
        """Somebody's slot is free while they wait for another job."""
        self._lent_slots += 1
        self._slot_freed.set()
        try:
            yield
        finally:
            self._lent_slots -= 1

    def _look_again_in(self, seconds: float) -> None:
        """Claim in so many seconds: something becomes due that the polls in between would find late."""
        if seconds < _LONGEST_TIMER_S:
            asyncio.get_running_loop().call_later(seconds, self._work_hint.set)

    async def _run_job(self, held: HeldJob) -> None:
        next_claim = None
        try:
            if held.claim.kind in FLOW_KINDS:
                next_claim = await self._advance_flow(held)
            else:
                outcome = await self._execute(held)
                next_claim = await self._record(held, outcome)
                await self._leave_place(held)
        except Exception:
            logger.exception("recording job=%s failed; its lease will run out", held.claim.id)
        finally:
            held.log.abandon()
            self._let_go(held, next_claim=next_claim)

    # --- options -----------------------------------------------------------------------------------------------

    async def _take_place(self, held: HeldJob) -> bool:
        """Whether the job may run now. False: it waits in the queue again."""
        held.is_recording = True  # the lease may end here
        try:
            if await self._options.may_begin(held.claim):
                return True
        finally:
            held.is_recording = False
        held.stop = Stop.HELD_BACK
        return False

    async def _leave_place(self, held: HeldJob) -> None:
        if held.stop is not Stop.HELD_BACK:
            await self._options.left(held.claim)

    # --- flows -------------------------------------------------------------------------------------------------

    async def _advance_flow(self, held: HeldJob) -> Claim | None:
        """Look at a flow; nothing of it stays in this slot but, perhaps, its next step."""
        claim = held.claim
        if not await self._take_place(held):
            return None
        held.is_recording = True  # what comes of it is fenced by the flow's version
        if (hit := await self._options.find_flow_result(claim)) is not None:
            next_claim = await self._record(held, self._from_cache(held, hit))
            await self._leave_place(held)
            return next_claim
        try:
            return await self._flows.flow_claimed(claim, streak=self._streak(held))
        except LeaseOver:
            logger.warning("lost the lease of flow=%s attempt=%s", *held.lease)
            return None
        except Exception:
            logger.exception("advancing flow=%s failed inside the worker", claim.id)
            failed = self._internal_error()
            completion = Completion(*held.lease, failed.status, failed.result)
            if claim.parent_job is not None and claim.flow_step_id is not None:
                await self._queue.complete_step(completion, flow_id=claim.parent_job)
            else:
                await self._queue.complete([completion])
            return None

    async def _record_step(self, held: HeldJob, completion: Completion) -> Claim | None:
        """Record the end of a flow's step; the flow goes on in the same transaction."""
        claim = held.claim
        assert claim.parent_job is not None
        try:
            next_claim = await self._flows.step_ended(claim, completion, streak=self._streak(held))
            logger.info("completed job=%s status=%s", claim.id, completion.status)
            return next_claim
        except LeaseOver:
            if not await self._queue.was_recorded(claim.id):
                logger.warning("lost the lease of job=%s attempt=%s; its result was dropped", *held.lease)
            return None
        except Exception:
            logger.exception("advancing flow=%s after job=%s failed", claim.parent_job, claim.id)
            await self._queue.complete_step(completion, flow_id=claim.parent_job)
            return None

    def _streak(self, held: HeldJob) -> float:
        return float("-inf") if self._draining.is_set() else held.streak_began

    def _internal_error(self) -> results.Recorded:
        return results.failed_with(
            "InternalErr",
            "The worker failed to run this job, through no fault of its code; "
            f"see the log of worker {self.options.name}.",
        )

    async def _execute(self, held: HeldJob) -> results.Recorded | None:
        """The outcome to record; None when there is none because the execution was stopped."""
        held.is_executing = True
        try:
            if held.stop is not None or not await self._take_place(held):
                return None
            return await self._run_code(held)
        except asyncio.CancelledError:
            if held.stop is None:
                raise
            assert held.task is not None
            held.task.uncancel()
            return None
        except RunnerLost as exc:
            if held.claim.restarts < self.options.restart_limit:
                logger.warning("restarting job=%s: %s", held.claim.id, exc)
                held.stop, held.counts_as_restart = Stop.RELEASED, True
                return None
            return results.failed_with(
                "ExecutionErr", f"The worker could not run this job, {held.claim.restarts + 1} times: {exc}"
            )
        except Exception:
            logger.exception("running job=%s failed inside the worker", held.claim.id)
            return self._internal_error()
        finally:
            held.is_executing = False

    async def _run_code(self, held: HeldJob) -> results.Recorded:
        claim = held.claim
        if claim.kind == JobKind.FLOW_DEPENDENCIES:
            return await self._lock_flow(claim)
        has_code = claim.kind != JobKind.AI_AGENT
        if has_code and (problem := self._cannot_run(claim)) is not None:
            return results.failed_with("ExecutionErr", problem)
        around = await self._queue.flow_store.surroundings(claim)
        flow_env = around.env if around is not None else {}
        if (hit := await self._options.find_result(claim, flow_env)) is not None:
            return self._from_cache(held, hit)
        try:
            args, flow_env_values, secrets = await _while_database_is_away(
                lambda: arguments.resolve(claim, flow_env)
            )
        except DomainError as exc:
            return results.failed_with("BadArguments", f"The arguments cannot be prepared: {exc.message}")
        if secrets:
            held.log.mask(secrets)
        timeout_s = self._timeout_s(claim)
        run = self._agents.run if claim.kind == JobKind.AI_AGENT else self._runner.run
        outcome = await run(
            RunRequest(
                claim=claim,
                args=args,
                environment=self.options.environment.build(
                    claim,
                    token=self._token(claim, timeout_s),
                    flow_path=around.path if around is not None else "",
                    flow_env=flow_env_values,
                ),
                timeout_s=timeout_s,
                log=held.log,
                report_memory=held.report_memory,
                share=self._options.share_of(claim),
            )
        )
        if outcome.mem_peak_kb is not None:
            held.report_memory(outcome.mem_peak_kb)
        if outcome.preprocessed_args is not None:
            await self._queue.set_preprocessed(held.lease, outcome.preprocessed_args)
        record = results.succeeded if outcome.is_success else results.failed
        recorded = record(outcome.result, max_size_mb=self.options.max_result_size_mb)
        await self._options.keep_result(claim, recorded, held.log, flow_env)
        return recorded

    def _from_cache(self, held: HeldJob, hit: Hit) -> results.Recorded:
        held.log.write(hit.log_line)
        return results.succeeded(hit.result, max_size_mb=self.options.max_result_size_mb)

    async def _lock_flow(self, claim: Claim) -> results.Recorded:
        """Done here: it reads the code of a flow and runs none of it."""
        try:
            locked = await _while_database_is_away(
                lambda: in_thread(locking.run, claim.id, claim.workspace_id)
            )
        except DomainError as exc:
            return results.failed_with("LockError", exc.message)
        return results.succeeded(json.dumps(locked), max_size_mb=self.options.max_result_size_mb)

    def _cannot_run(self, claim: Claim) -> str | None:
        if claim.code is None:
            return f"There is no code to run: script {claim.runnable_path} was deleted after this job was queued."
        if claim.language not in self._runner.languages:
            known = ", ".join(self._runner.languages) or "no language"
            return (
                f"Worker {self.options.name} has no runtime for {claim.language or 'this kind of job'}; it runs {known}. "
                f"Give the script a tag of workers that run it, or take tag {claim.tag} from this worker."
            )
        return None

    def _timeout_s(self, claim: Claim) -> int:
        wanted = claim.timeout or self.options.default_timeout_s or self.options.max_timeout_s
        return min(wanted, self.options.max_timeout_s)

    def _token(self, claim: Claim, timeout_s: int) -> str:
        return job_tokens.issue(
            workspace_id=claim.workspace_id,
            email=claim.permissioned_as_email,
            username=arguments.token_username(claim),
            permissioned_as=claim.permissioned_as,
            job_id=claim.id,
            attempt=claim.attempt,
            # A minute more than the job: its last call may be under way when it is stopped.
            expires_in_s=min(self.options.token_expiry_s, timeout_s + 60),
        )

    async def _record(self, held: HeldJob, outcome: results.Recorded | None) -> Claim | None:
        """Record what came of a job; answers the job that the slot goes on with, when it was a step of a flow."""
        if held.stop is Stop.RELEASED:
            if not is_bound(held.claim):
                await self._release(held)
                return None
            outcome = results.failed_with(
                "SharedFolderLost",
                f"This step cannot start again elsewhere: worker {self.options.name} stopped while it ran, and what the "
                "steps of this flow share (same_worker) is on that worker.",
            )
        if held.stop not in (Stop.LOST, Stop.HELD_BACK):
            await held.log.finish()
        if held.stop in (Stop.LOST, Stop.HELD_BACK):
            return None
        if held.stop is Stop.CANCELED and held.cancel_request is not None:
            request = held.cancel_request
            error = canceled_error(username=request.canceled_by, reason=request.reason)
            outcome = results.Recorded(JobStatus.CANCELED, failures.error_as_result(error))
        if outcome is None:
            return None
        held.is_recording = True
        claim = held.claim
        is_step = claim.flow_step_id is not None and claim.parent_job is not None
        if is_step and outcome.status != JobStatus.SUCCESS:
            outcome = results.with_step(outcome, claim.flow_step_id or "")
        completion = Completion(*held.lease, outcome.status, outcome.result, held.mem_peak_kb, outcome.labels)
        if is_step:
            return await self._record_step(held, completion)
        recorded = await self._completions.submit(completion)
        if recorded:
            logger.info("completed job=%s status=%s", held.claim.id, outcome.status)
        else:
            logger.warning("lost the lease of job=%s attempt=%s; its result was dropped", *held.lease)
        return None

    async def _complete(self, completions: Sequence[Completion]) -> Sequence[bool]:
        recorded = await self._queue.complete(completions)
        return [completion.id in recorded for completion in completions]

    async def _release(self, held: HeldJob) -> None:
        await held.log.finish()
        held.is_recording = True
        while True:
            try:
                if await self._queue.release(held.lease, count_restart=held.counts_as_restart):
                    logger.info("put back job=%s attempt=%s", *held.lease)
                return
            except QueueAway:
                continue  # released twice: the second matches nothing

    # --- leases ------------------------------------------------------------------------------------------------

    def _look_at_lease(self, job_id: UUID | None) -> None:
        if job_id is None or any(lease[0] == job_id for lease in self._held):
            self._beat_now.set()

    async def _keep_leases(self) -> None:
        while True:
            await _wait(self._beat_now, timeout_s=self.options.heartbeat_s)
            self._beat_now.clear()
            held = list(self._held.values())
            if not held:
                continue
            try:
                kept = await self._queue.heartbeat([(job.lease, job.mem_peak_kb) for job in held])
            except QueueAway:
                self._beat_now.set()  # at once when it is back: the others may think we are dead
                continue
            except Exception:
                logger.exception("a heartbeat failed")
                continue
            for job in held:
                if job.lease not in self._held or job.is_recording:
                    continue
                if job.lease not in kept:
                    logger.warning("lost the lease of job=%s attempt=%s; stopping it", *job.lease)
                    job.log.abandon()
                    job.stop_for(Stop.LOST)
                elif (request := kept[job.lease]) is not None:
                    job.stop_for(Stop.CANCELED, request)

    # --- being seen --------------------------------------------------------------------------------------------

    async def _keep_pinging(self) -> None:
        while True:
            self._occupancy.sample(time.monotonic())
            await self._ping()
            await self._options.look_after_flows()
            await asyncio.sleep(PING_S)

    async def _ping(self) -> None:
        try:
            await self._queue.ping(self._report())
        except QueueAway:
            pass  # the next one will do
        except Exception:
            logger.exception("a ping failed")

    def _report(self) -> WorkerReport:
        now = time.monotonic()
        current = next(iter(self._held), None)
        isolation, note = self._runner.isolation
        return WorkerReport(
            worker=self.options.name,
            worker_instance=self.options.instance,
            worker_group=self.options.group,
            ip=host.ip(),
            state=self._state,
            custom_tags=list(self.options.tags),
            languages=list(self._runner.languages),
            slots=self.options.slots,
            wm_version=self.options.version,
            busy_slots=len(self._held),
            jobs_executed=self.jobs_executed,
            current_job_id=current[0] if current else None,
            last_job_id=self._last_claim.id if self._last_claim else None,
            last_job_workspace_id=self._last_claim.workspace_id if self._last_claim else None,
            occupancy_rate=self._occupancy.rate(now),
            occupancy_rate_15s=self._occupancy.rate(now, 15),
            occupancy_rate_5m=self._occupancy.rate(now, 300),
            occupancy_rate_30m=self._occupancy.rate(now, 1800),
            memory=host.memory_limit(),
            memory_usage=host.memory_usage(),
            wm_memory_usage=host.process_memory(),
            vcpus=host.vcpus(),
            job_isolation=isolation,
            isolation_note=note,
            init_log=self._init_log,
        )


async def _wait(event: asyncio.Event, *, timeout_s: float) -> None:
    """Return once `event` is set, or after `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass


async def _while_database_is_away(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer of `ask`, asked again as long as the database is away."""
    while True:
        try:
            return await ask()
        except (OperationalError, InterfaceError) as exc:
            logger.warning("waiting for the database: %s", exc)
            await asyncio.sleep(_AWAY_RETRY_S)
