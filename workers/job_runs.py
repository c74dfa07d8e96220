"""What a worker does with one job that it has claimed: runs or advances it, and records what came of it."""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jobs import dedicated, locks
from jobs.cache import Hit
from jobs.dependencies import LANGUAGES_WITH_LOCKS
from jobs.flows import locking
from jobs.flows.store import LeaseOver
from jobs.models import FLOW_KINDS, JobKind, JobStatus
from jobs.queue import Claim, Completion, canceled_error
from workers import arguments, failures, job_limits, results
from workers.ai_agents.jobs import AgentJobs
from workers.flows import FlowWorker
from workers.group_commit import GroupCommit
from workers.held_job import HeldJob, Stop
from workers.job_queue import JobQueue, QueueAway
from workers.options import JobOptions, is_bound
from workers.preparing import while_database_is_away
from workers.runner import Runner, RunnerLost, RunRequest
from workers.runtimes import ExecutionFailed
from workers.threads import in_thread
from workers.worker_options import WorkerOptions
from workspaces import job_tokens
from workspaces.errors import DomainError

logger = logging.getLogger(__name__)

_COMPLETION_BATCH_CHARS = 16 * 1024 * 1024
_COMPLETION_BATCH = 500


class JobRuns:
    """The jobs of one worker, from the claim to the end of the lease."""

    def __init__(
        self,
        worker: WorkerOptions,
        *,
        queue: JobQueue,
        runner: Runner,
        flows: FlowWorker,
        options: JobOptions,
        agents: AgentJobs,
        is_draining: Callable[[], bool],
    ) -> None:
        """`is_draining`: whether slots shall not go on with the next step of a flow."""
        self._worker = worker
        self._queue = queue
        self._runner = runner
        self._flows = flows
        self._options = options
        self._agents = agents
        self._is_draining = is_draining
        self._completions = GroupCommit(
            self._complete,
            weight=lambda completion: len(completion.result),
            max_weight=_COMPLETION_BATCH_CHARS,
            max_items=_COMPLETION_BATCH,
        )

    def options_changed(self, worker: WorkerOptions) -> None:
        """Jobs that begin from now on run under these."""
        self._worker = worker

    async def run(self, held: HeldJob) -> Claim | None:
        """Do all that is to be done with a job; answers the one that its slot goes on with."""
        next_claim = None
        try:
            if held.claim.kind in FLOW_KINDS:
                next_claim = await self._advance_flow(held)
            else:
                outcome = await self._execute(held)
                next_claim = await self.record(held, outcome)
                await self._leave_place(held)
        except Exception:
            logger.exception("recording job=%s failed; its lease will run out", held.claim.id)
        return next_claim

    # --- places among its like ---------------------------------------------------------------------------------------

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

    # --- flows -------------------------------------------------------------------------------------------------------

    async def _advance_flow(self, held: HeldJob) -> Claim | None:
        """Look at a flow; nothing of it stays in this slot but, perhaps, its next step."""
        claim = held.claim
        if not await self._take_place(held):
            return None
        held.is_recording = True  # what comes of it is fenced by the flow's version
        if (hit := await self._options.find_flow_result(claim)) is not None:
            next_claim = await self.record(held, self._from_cache(held, hit))
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

    def _streak(self, held: HeldJob) -> float:
        return float("-inf") if self._is_draining() else held.streak_began

    # --- running code ------------------------------------------------------------------------------------------------

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
            if held.claim.restarts < self._worker.restart_limit:
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
        if claim.kind == JobKind.DEPENDENCIES:
            return await self._lock_script(held)
        if claim.kind == JobKind.FLOW_DEPENDENCIES:
            return await self._lock_flow(held)
        has_code = claim.kind != JobKind.AI_AGENT
        if has_code and (problem := self._cannot_run(claim)) is not None:
            return results.failed_with("ExecutionErr", problem)
        around = await self._queue.flow_store.surroundings(claim)
        flow_env = around.env if around is not None else {}
        if (hit := await self._options.find_result(claim, flow_env)) is not None:
            return self._from_cache(held, hit)
        try:
            args, flow_env_values, secrets = await while_database_is_away(
                lambda: arguments.resolve(claim, flow_env)
            )
        except DomainError as exc:
            return results.failed_with("BadArguments", f"The arguments cannot be prepared: {exc.message}")
        if secrets:
            held.log.mask(secrets)
        if missing := self._worker.environment.missing():
            # In the log of the job, because that is where somebody looks who wonders why a variable is empty.
            held.log.write(f"not set on this worker: {', '.join(missing)}\n")
        timeout_s = self._timeout_s(claim)
        if has_code and claim.language not in job_limits.RUN_BY_WORKER:
            held.isolation = self._runner.isolation[0]
        run = self._runner.run if has_code else self._agents.run
        outcome = await run(
            RunRequest(
                claim=claim,
                args=args,
                environment=self._worker.environment.build(
                    claim,
                    token=self._token(claim, timeout_s),
                    flow_path=around.path if around is not None else "",
                    flow_env=flow_env_values,
                ),
                timeout_s=timeout_s,
                log=held.log,
                report_memory=held.report_memory,
                share=self._options.share_of(claim),
                dedicated=dedicated.has_process(
                    claim.tag, claim.workspace_id, claim.runnable_path, claim.flow_step_id
                ),
                group=self._worker.config,
            )
        )
        if outcome.mem_peak_kb is not None:
            held.report_memory(outcome.mem_peak_kb)
        if outcome.preprocessed_args is not None:
            await self._queue.set_preprocessed(held.lease, outcome.preprocessed_args)
        record = results.succeeded if outcome.is_success else results.failed
        recorded = record(outcome.result, max_size_mb=self._worker.max_result_size_mb)
        await self._options.keep_result(claim, recorded, held.log, flow_env)
        return recorded

    def _from_cache(self, held: HeldJob, hit: Hit) -> results.Recorded:
        held.log.write(hit.log_line)
        return results.succeeded(hit.result, max_size_mb=self._worker.max_result_size_mb)

    async def _lock_script(self, held: HeldJob) -> results.Recorded:
        """A dependency job: what a version, or code that is not deployed, depends on. None of the code is run."""
        claim = held.claim
        deployed = claim.runnable_id
        try:
            lock = await self._lock(held, claim)
        except ExecutionFailed as failed:
            message = str(failed.error.get("message"))
            if deployed is not None:
                await while_database_is_away(
                    lambda: in_thread(locks.record_failure, deployed, job_id=claim.id, message=message)
                )
            return results.failed_with(str(failed.error.get("name")), message)
        if deployed is None:
            result: dict[str, Any] = {"status": locks.STATUS, "lock": lock}
        else:
            author = locks.Author(claim.created_by, claim.permissioned_as, claim.permissioned_as_email)
            result = await while_database_is_away(
                lambda: in_thread(locks.record, deployed, job_id=claim.id, lock=lock, author=author)
            )
        return results.succeeded(json.dumps(result), max_size_mb=self._worker.max_result_size_mb)

    async def _lock_flow(self, held: HeldJob) -> results.Recorded:
        """The same for the inline scripts of a flow, one after the other."""
        claim = held.claim
        try:
            begun = await while_database_is_away(
                lambda: in_thread(locking.begin, claim.id, claim.workspace_id)
            )
        except DomainError as exc:
            return results.failed_with("LockError", exc.message)
        found: dict[str, str] = {}
        for script in begun.scripts:
            step = replace(
                claim, language=script.language, code=script.content, runnable_path=script.path, lock=None
            )
            held.log.write(f"dependencies of step {script.id} ({script.language})\n")
            try:
                found[script.id] = await self._lock(held, step)
            except ExecutionFailed as failed:
                message = str(failed.error.get("message"))
                await while_database_is_away(
                    lambda id=script.id, message=message: in_thread(locking.fail, begun, id, message)  # type: ignore[misc]
                )
                return results.failed_with("LockError", f"step {script.id}: {message}")
        locked = await while_database_is_away(lambda: in_thread(locking.finish, begun, found))
        return results.succeeded(json.dumps(locked), max_size_mb=self._worker.max_result_size_mb)

    async def _lock(self, held: HeldJob, claim: Claim) -> str:
        if claim.language not in LANGUAGES_WITH_LOCKS:
            return ""
        if (problem := self._cannot_run(claim)) is not None:
            raise ExecutionFailed({"name": "ExecutionErr", "message": problem})
        timeout_s = self._timeout_s(claim)
        held.isolation = self._runner.isolation[0]
        return await self._runner.lock(
            RunRequest(
                claim=claim,
                args={},
                environment=self._worker.environment.build(claim, token=self._token(claim, timeout_s)),
                timeout_s=timeout_s,
                log=held.log,
                report_memory=held.report_memory,
                group=self._worker.config,
            )
        )

    def _cannot_run(self, claim: Claim) -> str | None:
        if claim.code is None:
            return f"There is no code to run: script {claim.runnable_path} was deleted after this job was queued."
        if not self._worker.runs(claim.language or ""):
            native = [language for language in self._runner.languages if self._worker.runs(language)]
            runs = ", ".join(native) or "nothing that is installed there"
            return (
                f"Worker {self._worker.name} of group {self._worker.group} is native: it runs {runs}, "
                f"not {claim.language or 'this kind of job'}. Give the script a tag of "
                f"other workers, take tag {claim.tag} from group {self._worker.group}, or switch native mode off there."
            )
        told = self._runner.runtimes.get(claim.language or "", {})
        if "missing" in told:
            return (
                f"{told['missing']} is not installed where worker {self._worker.name} runs, and {claim.language} needs "
                f"it. Install it there ({told['install']}) and restart the worker, or give the script a tag of workers "
                "that have it."
            )
        if claim.language not in self._runner.languages:
            known = ", ".join(self._runner.languages) or "no language"
            return (
                f"Worker {self._worker.name} has no runtime for {claim.language or 'this kind of job'}; it runs {known}. "
                f"Give the script a tag of workers that run it, or take tag {claim.tag} from this worker."
            )
        return None

    def _timeout_s(self, claim: Claim) -> int:
        wanted = claim.timeout or self._worker.default_timeout_s or self._worker.max_timeout_s
        return min(wanted, self._worker.max_timeout_s)

    def _token(self, claim: Claim, timeout_s: int) -> str:
        return job_tokens.issue(
            workspace_id=claim.workspace_id,
            email=claim.permissioned_as_email,
            username=arguments.token_username(claim),
            permissioned_as=claim.permissioned_as,
            job_id=claim.id,
            attempt=claim.attempt,
            # A minute more than the job: its last call may be under way when it is stopped.
            expires_in_s=min(self._worker.token_expiry_s, timeout_s + 60),
        )

    # --- recording ---------------------------------------------------------------------------------------------------

    async def record(self, held: HeldJob, outcome: results.Recorded | None) -> Claim | None:
        """Record what came of a job; answers the job that the slot goes on with, when it was a step of a flow."""
        if held.stop is Stop.RELEASED:
            if not is_bound(held.claim):
                await self._release(held)
                return None
            outcome = results.failed_with(
                "SharedFolderLost",
                f"This step cannot start again elsewhere: worker {self._worker.name} stopped while it ran, and what the "
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
        completion = Completion(
            *held.lease, outcome.status, outcome.result, held.mem_peak_kb, outcome.labels, held.isolation
        )
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

    def _internal_error(self) -> results.Recorded:
        return results.failed_with(
            "InternalErr",
            "The worker failed to run this job, through no fault of its code; "
            f"see the log of worker {self._worker.name}.",
        )
