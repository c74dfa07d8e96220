"""The machine: what a flow does next. Pure: (flow, state, event) -> (state, effects), by way of questions.

`advance` is a generator: it yields a `Question` wherever the outside must be asked (an expression, approvals, whether a
job has ended), is sent the answer, or is thrown StepFailed or LookupError as the question says, and appends `Effect`s.
It changes the state that it was given; whoever drives it stores that state and performs the effects in one transaction,
or drops both. After any interruption `Wake` looks at everything again, so no event is ever needed twice or missed.

Rules are those of reference/flows.md; the chapter is named where one is not obvious.
"""

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs.flows.protocol import (
    Again,
    ApprovalEvents,
    Approvals,
    ChildEnded,
    Count,
    Counts,
    Effect,
    Ended,
    Event,
    FinishFlow,
    FinishModule,
    Inputs,
    Instant,
    IterationJob,
    NameResult,
    Names,
    Park,
    Plan,
    Question,
    SetApprovers,
    SetArgs,
    Sleep,
    StartBody,
    StartFlow,
    StartStep,
    StepFailed,
    Suspend,
    Truth,
    Value,
)
from jobs.flows.retries import next_delay
from jobs.flows.state import NO_JOB, Children, Progress, Ref, State, args_ref, job_ref, list_ref, value_ref
from jobs.flows.value import (
    AiAgent,
    Branch,
    BranchAll,
    BranchIndex,
    BranchOne,
    FlowModule,
    FlowValue,
    ForLoop,
    Identity,
    RawScript,
    ScriptRef,
    StopAfterIf,
    SubFlow,
    WhileLoop,
    body_ref,
)

FAILURE, PREPROCESSOR = "failure", "preprocessor"
CHUNK = 200  # parallel iterations started in one transaction
_CLOCK_SLACK_S = 0.005
MAX_SLEEP_S = 10 * 365 * 86_400

Steps = Generator[Question, Any, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The flow job as the machine sees it."""

    id: UUID
    value: FlowValue  # of the innermost flow around it
    modules: tuple[FlowModule, ...]  # its own: of the flow, or of the body
    is_body: bool
    now: float  # the database's clock, seconds since 1970
    canceled: dict[str, Any] | None  # the error, once somebody has asked for it
    new_id: Callable[[], UUID]
    random: Callable[[], float]  # 0 to 1


def advance(flow: Flow, state: State, event: Event, effects: list[Effect]) -> Steps:
    """Let `event` happen. Without effects nothing has changed: the event came too late."""
    return _Machine(flow, state, effects).handle(event)


class _Machine:
    def __init__(self, flow: Flow, state: State, effects: list[Effect]) -> None:
        self.flow = flow
        self.state = state
        self.effects = effects
        self._go_on = (
            False  # begin the module at state.step (a loop, not a recursion: skipped steps may be many)
        )

    def handle(self, event: Event) -> Steps:
        if self.flow.canceled is not None:
            yield from self._end_canceled(event)
            return
        try:
            if isinstance(event, ChildEnded):
                yield from self._child_ended(event)
            else:
                yield from self._wake()
            while self._go_on:
                self._go_on = False
                yield from self._begin()
        except StepFailed as exc:  # an expression of the flow itself, between two modules
            yield from self._fail(value_ref(_error(exc.name, exc.message)))

    # --- looking at everything ------------------------------------------------------------------------------------

    def _wake(self) -> Steps:
        state = self.state
        if not state.begun:
            state.begun = True
            value = self.flow.value
            is_skippable = not self.flow.is_body and value.skip_expr is not None
            if is_skippable and (yield Truth(value.skip_expr or "", Names(), "skip_expr")):
                self._finish("skipped", value_ref("stopped early"))
                return
            if state.step < 0:
                yield from self._start_preprocessor()
                return
        if state.asleep_until is not None:
            if self.flow.now < state.asleep_until - _CLOCK_SLACK_S:
                self._do(Sleep(state.asleep_until))
                return
            state.asleep_until = None
        progress = state.module
        if progress is None or progress.type == "WaitingForEvents":
            self._go_on = True
        elif progress.type == "WaitingForPriorSteps":
            yield from self._try_again(progress)
        elif progress.children is not None and progress.children.parallel and progress.job is not None:
            yield from self._recount(progress.children)
        elif progress.children is not None and progress.job is None:
            yield from self._start_next()  # a restart in the middle of a loop
        else:
            yield from self._look_at_child(progress)

    def _look_at_child(self, progress: Progress) -> Steps:
        assert progress.job is not None
        try:
            ended = yield Ended(progress.job)
        except LookupError:
            error = _error("JobLost", f"job {progress.job} of step {progress.id} was deleted", progress.id)
            yield from self._module_failed(value_ref(error), progress.job, may_retry=False)
            return
        if ended is None:
            self._do(Park())
        else:
            yield from self._child_ended(ended)

    def _end_canceled(self, event: Event) -> Steps:
        """Start nothing more; end as soon as nothing runs any more."""
        progress = self.state.module
        if progress is not None and progress.type == "InProgress" and progress.job is not None:
            if progress.children is not None and progress.children.parallel:
                started = progress.children.started
                counts: Counts = yield Count(progress.id, started)
                is_busy = counts.done < started
            else:
                try:
                    is_busy = (yield Ended(progress.job)) is None
                except LookupError:
                    is_busy = False
            if is_busy:
                self._do(Park())
                return
        result = value_ref({"error": self.flow.canceled})
        if progress is not None:
            self._do(
                FinishModule(
                    module_id=progress.id, status=self._status("Failure", progress.job), result=result
                )
            )
        self._finish("canceled", result)

    # --- what ended ---------------------------------------------------------------------------------------------------

    def _child_ended(self, event: ChildEnded) -> Steps:
        progress = self.state.module
        if progress is None or progress.type != "InProgress":
            return
        if progress.children is not None:
            yield from self._iteration_ended(event, progress.children)
            return
        if str(event.job_id) != progress.job:
            return
        job, ref = str(event.job_id), job_ref(event.job_id)
        is_success = event.status in ("success", "skipped")
        is_canceled = event.status == "canceled"
        is_beside = progress.id in (FAILURE, PREPROCESSOR)
        if not is_success and is_beside and (yield from self._retry(ref, job, is_canceled=is_canceled)):
            return
        if progress.id == FAILURE:
            yield from self._failure_handled(ref, job, is_success)
        elif progress.id == PREPROCESSOR:
            yield from self._preprocessed(ref, job, is_success)
        elif is_success:
            if progress.branch is not None:
                self._name_direct_result(ref)
            module = self._module
            stopped = event.stopped if isinstance(module.value, BranchOne) else None
            yield from self._module_succeeded(
                ref, job, stop=module.stop_after_if, names=self._names(result=ref), stopped=stopped
            )
        else:
            yield from self._module_failed(ref, job, is_canceled=is_canceled)

    def _name_direct_result(self, ref: Ref) -> None:
        """What a branch with a single plain step returns is found as `results.<that step>` too."""
        only = _only_plain_step(self._body(self._progress.branch))
        if only is not None:
            self._do(NameResult(module_id=only.id, result=ref))

    def _module_succeeded(
        self,
        ref: Ref,
        job: str | None,
        *,
        stop: StopAfterIf | None = None,
        names: Names | None = None,
        stopped: Any = None,
        is_skipped: bool = False,
    ) -> Steps:
        """The module in progress is done; go on with the next. `stop` is evaluated with `names` first."""
        state, module = self.state, self._module
        self._do(
            FinishModule(
                module_id=module.id, status=self._status("Success", job, is_skipped=is_skipped), result=ref
            )
        )
        if stop is not None and (
            yield Truth(stop.expr, names or Names(), f"step {module.id}, stop_after_if")
        ):
            yield from self._stop(stop, ref, job)
            return
        self._leave_module(ref, None if is_skipped else job)
        if stopped is not None:
            self._stop_here(ref, is_skipped=bool(stopped.get("skip")))
            return
        if module.sleep is not None and state.step < len(self.flow.modules):
            seconds = yield Value(module.sleep, Names(previous=ref), f"step {module.id}, sleep")
            if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
                raise StepFailed(
                    f"step {module.id}, sleep: expected a number of seconds, found {_short(seconds)}"
                )
            if seconds is not None and seconds > 0:
                state.asleep_until = self.flow.now + min(seconds, MAX_SLEEP_S)
                self._do(Sleep(state.asleep_until))
                return
        self._go_on = True

    def _leave_module(self, ref: Ref, job: str | None) -> None:
        state = self.state
        state.previous, state.previous_job, state.module = ref, job, None
        state.keeps_successes = False
        state.step += 1

    def _stop(self, stop: StopAfterIf, ref: Ref, job: str | None) -> Steps:
        """An early stop; with a message it is a failure."""
        if stop.error_message is None:
            self._stop_here(ref, is_skipped=stop.skip_if_stopped)
            return
        progress = self.state.module
        assert progress is not None
        error = _error("EarlyStopError", stop.error_message or f"stop after if: {stop.expr}", progress.id)
        failed = value_ref(error)
        if stop.error_include_result:
            failed = {"with_result": {"error": error, "of": ref}}
        if not stop.skip_if_stopped:
            self._do(FinishModule(module_id=progress.id, status=self._status("Failure", job), result=ref))
        yield from self._fail(failed)

    def _stop_here(self, ref: Ref, *, is_skipped: bool) -> None:
        if self.flow.is_body:
            self.state.stopped = {"skip": is_skipped}
        self._finish("skipped" if is_skipped and not self.flow.is_body else "success", ref)

    def _module_failed(
        self, ref: Ref, job: str | None, *, is_canceled: bool = False, may_retry: bool = True
    ) -> Steps:
        """Chapter 5: retry, else go on with the error, else the failure module, else the flow fails."""
        if may_retry and (yield from self._retry(ref, job, is_canceled=is_canceled)):
            return
        module = self._module
        self._do(FinishModule(module_id=module.id, status=self._status("Failure", job), result=ref))
        if module.continue_on_error and not is_canceled:
            self._leave_module(ref, job)
            self._go_on = True
            return
        yield from self._fail(ref)

    def _retry(self, ref: Ref, job: str | None, *, is_canceled: bool) -> Generator[Question, Any, bool]:
        module, progress = self._module, self.state.module
        assert progress is not None
        if module.retry is None or is_canceled or job is None:
            return False
        delay = next_delay(module.retry, progress.fail_count, random=self.flow.random)
        if delay is None:
            return False
        if module.retry.retry_if is not None:
            names = Names(previous=self.state.previous, refs={"result": ref, "error": {"error": ref}})
            if not (yield Truth(module.retry.retry_if, names, f"step {module.id}, retry_if")):
                return False
        progress.fail_count += 1
        progress.failed_jobs.append(job)
        if _is_container(module):
            progress.children, progress.branch, progress.job = None, None, None
            progress.type, progress.wake_at = "WaitingForPriorSteps", self.flow.now + delay
            yield from self._try_again(progress)
            return True
        job_id = self.flow.new_id()
        progress.job = str(job_id)
        if isinstance(module.value, SubFlow):
            self._do(StartFlow(job_id=job_id, module=module, args_of=job, delay_s=delay))
        else:
            timeout_s = yield from self._timeout(module, Names(previous=self.state.previous))
            self._do(
                StartStep(
                    job_id=job_id,
                    module=module,
                    args_of=job,
                    delay_s=delay,
                    timeout_s=timeout_s,
                    is_preprocessor=progress.id == PREPROCESSOR,
                )
            )
        self._do(Park())
        return True

    def _try_again(self, progress: Progress) -> Steps:
        """A container that failed begins anew once its delay is over."""
        assert progress.wake_at is not None
        if self.flow.now < progress.wake_at - _CLOCK_SLACK_S:
            self._do(Sleep(progress.wake_at))
            return
        progress.type, progress.wake_at = "InProgress", None
        yield from self._start_or_fail(self._module, {})

    def _fail(self, ref: Ref) -> Steps:
        """The flow has failed: its failure module runs once, at the top of the flow."""
        state, handler = self.state, self.flow.value.failure_module
        is_handled = state.module is not None and state.module.id == FAILURE
        if self.flow.is_body or handler is None or is_handled:
            self._finish("failure", ref)
            return
        state.failed = ref
        failed_id = state.module.id if state.module is not None else None
        state.module = Progress(id=FAILURE, parent_module=failed_id)
        names = Names(previous=ref, refs={"error": {"error": ref}}, values={"flow_job_id": str(self.flow.id)})
        try:
            yield from self._start_leaf(handler, names)
        except StepFailed as exc:
            self._finish("failure", value_ref(_error(exc.name, exc.message, FAILURE)))

    def _failure_handled(self, ref: Ref, job: str, is_success: bool) -> Steps:
        status = self._status("Success" if is_success else "Failure", job)
        self._do(FinishModule(module_id=FAILURE, status=status, result=ref))
        if is_success and (
            yield Truth("result?.recover === true", Names(refs={"result": ref}), "failure module")
        ):
            self._finish("success", ref)
        else:
            self._finish("failure", ref)

    # --- beginning a module ---------------------------------------------------------------------------------------------

    def _begin(self) -> Steps:
        state, modules = self.state, self.flow.modules
        if state.step >= len(modules):
            self._finish("success", state.previous or args_ref(self.flow.id))
            return
        module = modules[state.step]
        resumed: dict[str, Any] = {}
        before = modules[state.step - 1] if state.step > 0 else None
        if before is not None and before.suspend is not None and state.previous_job is not None:
            answer = yield from self._approval(before, module)
            if answer is None:
                return
            resumed = answer
        state.module = Progress(id=module.id)
        yield from self._start_or_fail(module, resumed)

    def _start_or_fail(self, module: FlowModule, resumed: dict[str, Any]) -> Steps:
        try:
            yield from self._start(module, Names(previous=self.state.previous, values=resumed))
        except StepFailed as exc:
            job_id = self.flow.new_id()
            error = value_ref(_error(exc.name, exc.message, module.id))
            self._do(Instant(job_id=job_id, module_id=module.id, result=error, status="failure"))
            yield from self._module_failed(job_ref(job_id), str(job_id), may_retry=False)

    def _start(self, module: FlowModule, names: Names) -> Steps:
        if module.skip_if is not None and (yield Truth(module.skip_if, names, f"step {module.id}, skip_if")):
            yield from self._instantly(self.state.previous or args_ref(self.flow.id), is_skipped=True)
            return
        if module.mock is not None:
            yield from self._instantly(value_ref(module.mock.return_value))
            return
        match module.value:
            case Identity():
                yield from self._instantly(self.state.previous or args_ref(self.flow.id))
            case RawScript() | ScriptRef() | AiAgent() | SubFlow():
                yield from self._start_leaf(module, names)
            case ForLoop():
                yield from self._start_for_loop(module, module.value, names)
            case WhileLoop():
                yield from self._start_while_loop(module.value)
            case BranchOne():
                yield from self._start_branch(module, module.value, names)
            case BranchAll():
                yield from self._start_branches(module, module.value)

    def _instantly(self, ref: Ref, *, is_skipped: bool = False) -> Steps:
        job_id, module = self.flow.new_id(), self._module
        self._progress.job = str(job_id)
        self._do(Instant(job_id=job_id, module_id=module.id, result=ref))
        ref = job_ref(job_id)
        stop = None if is_skipped else module.stop_after_if
        yield from self._module_succeeded(
            ref, str(job_id), stop=stop, names=self._names(result=ref), is_skipped=is_skipped
        )

    def _start_leaf(self, module: FlowModule, names: Names) -> Steps:
        args = yield Inputs(module.id, _transforms(module), names)
        timeout_s = yield from self._timeout(module, names)
        job_id = self.flow.new_id()
        self._progress.job = str(job_id)
        if isinstance(module.value, SubFlow):
            self._do(StartFlow(job_id=job_id, module=module, args=args))
        else:
            self._do(StartStep(job_id=job_id, module=module, args=args, timeout_s=timeout_s))
        self._do(Park())

    def _timeout(self, module: FlowModule, names: Names) -> Generator[Question, Any, int | None]:
        if module.timeout is None:
            return None
        seconds = yield Value(module.timeout, names, f"step {module.id}, timeout")
        if seconds is None:
            return None
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 2**31:
            raise StepFailed(
                f"step {module.id}, timeout: expected a number of seconds above 0, found {_short(seconds)}"
            )
        return max(1, int(seconds))

    def _start_preprocessor(self) -> Steps:
        module = self.flow.value.preprocessor_module
        assert module is not None
        self.state.module = Progress(id=PREPROCESSOR)
        job_id = self.flow.new_id()
        transforms = _transforms(module)
        args = (yield Inputs(PREPROCESSOR, transforms, Names())) if transforms else None
        self._progress.job = str(job_id)
        self._do(
            StartStep(
                job_id=job_id,
                module=module,
                args=args,
                args_of=None if transforms else str(self.flow.id),
                is_preprocessor=True,
            )
        )
        self._do(Park())

    def _preprocessed(self, ref: Ref, job: str, is_success: bool) -> Steps:
        is_object = is_success and (
            yield Truth(
                "typeof result === 'object' && result !== null && !Array.isArray(result)",
                Names(refs={"result": ref}),
                PREPROCESSOR,
            )
        )
        status = self._status("Success" if is_object else "Failure", job)
        self._do(FinishModule(module_id=PREPROCESSOR, status=status, result=ref))
        if not is_success:
            yield from self._fail(ref)
        elif not is_object:
            message = "the preprocessor must return an object: the arguments of the flow by name"
            yield from self._fail(value_ref(_error("PreprocessorErr", message, PREPROCESSOR)))
        else:
            self._do(SetArgs(ref))
            self.state.module, self.state.step = None, 0
            self._go_on = True

    # --- approvals (chapter 6) ----------------------------------------------------------------------------------------

    def _approval(
        self, before: FlowModule, module: FlowModule
    ) -> Generator[Question, Any, dict[str, Any] | None]:
        """The names that approvals give to the next module; None while they are missing, or when they are denied."""
        state, suspend = self.state, before.suspend
        assert suspend is not None and state.previous_job is not None
        answer: ApprovalEvents = yield Approvals((state.previous_job, str(self.flow.id)))
        approved = [event for event in answer.events if event.approved]
        denied = next((event for event in answer.events if not event.approved), None)
        waiting = (
            state.module if state.module is not None and state.module.type == "WaitingForEvents" else None
        )
        error = None
        if denied is not None:
            given = denied.value.get("reason") if isinstance(denied.value, dict) else None
            reason = f": {given}" if isinstance(given, str) and given else ""
            error = _error("SuspendedDisapproved", f"Disapproved by {denied.approver or 'unknown'}{reason}")
        elif len(approved) < suspend.required_events:
            if waiting is None:
                waiting = yield from self._wait_for_events(before, module)
            assert waiting.wake_at is not None
            if self.flow.now < waiting.wake_at - _CLOCK_SLACK_S:
                self._do(Suspend(suspend.required_events - len(approved), waiting.wake_at))
                return None
            error = _error("SuspendedTimedOut", "Timed out waiting to be resumed")
        state.approval_conditions = None
        if answer.events:
            names = [
                {"resume_id": event.resume_id, "approver": event.approver or "unknown"}
                for event in answer.events
            ]
            self._do(SetApprovers(module_id=before.id, approvers=names))
        payloads = [event.value for event in approved]
        if error is not None:
            if not suspend.continue_on_disapprove_timeout:
                yield from self._deny(module, error)
                return None
            payloads.append(error)
        return {
            "resume": payloads[-1] if payloads else None,
            "resumes": payloads,
            "approvers": [event.approver or "anonymous" for event in approved],
        }

    def _wait_for_events(self, before: FlowModule, module: FlowModule) -> Generator[Question, Any, Progress]:
        state, suspend = self.state, before.suspend
        assert suspend is not None
        groups: Any = []
        if suspend.user_groups_required is not None:
            where = f"step {before.id}, user_groups_required"
            groups = yield Value(suspend.user_groups_required, Names(previous=state.previous), where)
            if groups is None:
                groups = []
            if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
                raise StepFailed(f"{where}: expected a list of names of groups, found {_short(groups)}")
        if suspend.user_auth_required or suspend.self_approval_disabled or groups:
            state.approval_conditions = {
                "user_auth_required": suspend.user_auth_required,
                "user_groups_required": groups,
                "self_approval_disabled": suspend.self_approval_disabled,
            }
        state.module = Progress(
            id=module.id,
            type="WaitingForEvents",
            job=state.previous_job,
            count=suspend.required_events,
            wake_at=self.flow.now + suspend.timeout_s,
        )
        return state.module

    def _deny(self, module: FlowModule, error: dict[str, Any]) -> Steps:
        """The approval was denied, or came too late: the next module fails without being tried."""
        job_id = self.flow.new_id()
        self.state.module = Progress(id=module.id)
        self._do(Instant(job_id=job_id, module_id=module.id, result=value_ref(error), status="failure"))
        status = self._status("Failure", str(job_id))
        self._do(FinishModule(module_id=module.id, status=status, result=job_ref(job_id)))
        yield from self._fail(job_ref(job_id))

    # --- loops and branches ---------------------------------------------------------------------------------------------

    def _start_for_loop(self, module: FlowModule, loop: ForLoop, names: Names) -> Steps:
        items = yield Value(loop.iterator, names, f"step {module.id}, iterator")
        if not isinstance(items, list):
            raise StepFailed(
                f"Expected an array value in the iterator expression, found: {_short(items)}",
                name="ExecutionErr",
            )
        if not items or not loop.modules:
            yield from self._nothing_to_run(value_ref([]))
            return
        at_once = None
        if loop.parallel and loop.parallelism is not None:
            where = f"step {module.id}, parallelism"
            at_once = yield Value(loop.parallelism, names, where)
            if at_once is not None and (
                isinstance(at_once, bool) or not isinstance(at_once, int | float) or at_once < 1
            ):
                raise StepFailed(f"{where}: expected a number of 1 or more, found {_short(at_once)}")
        ids = tuple(self.flow.new_id() for _ in items)
        self._do(Plan(module_id=module.id, job_ids=ids, values=tuple(items)))
        self._progress.children = Children(
            length=len(items), parallel=loop.parallel, at_once=None if at_once is None else int(at_once)
        )
        yield from self._start_next()

    def _start_while_loop(self, loop: WhileLoop) -> Steps:
        if not loop.modules:
            yield from self._nothing_to_run(value_ref([]))
            return
        self._progress.children = Children(length=None)
        yield from self._start_next()

    def _start_branch(self, module: FlowModule, choice: BranchOne, names: Names) -> Steps:
        chosen: BranchIndex = "default"
        for number, branch in enumerate(choice.branches):
            if branch.expr is None:
                continue
            where = f"step {module.id}, branch {number + 1}"
            if (yield Truth(branch.expr, names, where)):
                chosen = number
                break
        self._progress.branch = chosen
        body = self._body(chosen)
        if not body:
            yield from self._nothing_to_run(self.state.previous or args_ref(self.flow.id))
            return
        job_id = self.flow.new_id()
        only = _only_plain_step(body)
        if only is None:
            self._do(
                StartBody(
                    job_id=job_id,
                    module_id=module.id,
                    body=body_ref(module.id, chosen),
                    previous=self.state.previous,
                )
            )
        else:
            args = yield Inputs(only.id, _transforms(only), names)
            timeout_s = yield from self._timeout(only, names)
            self._do(StartStep(job_id=job_id, module=only, args=args, timeout_s=timeout_s))
        self._progress.job = str(job_id)
        self._do(Park())

    def _start_branches(self, module: FlowModule, branches: BranchAll) -> Steps:
        if not branches.branches:
            yield from self._nothing_to_run(value_ref([]))
            return
        ids = tuple(self.flow.new_id() for _ in branches.branches)
        self._do(Plan(module_id=module.id, job_ids=ids, values=None))
        self._progress.children = Children(length=len(ids), parallel=branches.parallel)
        yield from self._start_next()

    def _nothing_to_run(self, ref: Ref) -> Steps:
        stop = self._module.stop_after_all_iters_if if not isinstance(self._module.value, BranchOne) else None
        names = self._names(result=ref, all_iters=ref)
        yield from self._module_succeeded(ref, str(NO_JOB), stop=stop, names=names)

    def _start_next(self) -> Steps:
        """Start as many iterations (branches) as may run now."""
        children = self._children
        if not children.parallel:
            while True:
                n = children.started
                ended = yield from self._start_iteration(n)
                if ended is None:
                    self._do(Park())
                    return
                assert self._progress.job is not None
                if (yield from self._account(n, self._progress.job, is_success=ended)):
                    return
        assert children.length is not None
        room = (
            children.length
            if children.at_once is None
            else children.at_once - (children.started - children.done)
        )
        count = 0
        while children.started < children.length and room > 0 and count < CHUNK:
            n = children.started
            count += 1
            ended = yield from self._start_iteration(n)
            if ended is None:
                room -= 1
            else:
                self._count_end(n, is_success=ended)
        if children.done == children.length:
            yield from self._all_ended()
        elif children.started < children.length and room > 0:
            self._do(Again())
        else:
            self._do(Park())

    def _start_iteration(self, n: int) -> Generator[Question, Any, bool | None]:
        """None: it runs. An empty branch has succeeded at once, a step whose inputs cannot be computed has failed."""
        module, children = self._module, self._children
        is_loop = not isinstance(module.value, BranchAll)
        if isinstance(module.value, WhileLoop):
            job_id = self.flow.new_id()
            self._do(Plan(module_id=module.id, job_ids=(job_id,), values=(n,), first=n))
        else:
            job_id, _ = yield IterationJob(module.id, n=n)
        children.started += 1
        self._progress.job = str(job_id)
        if self.state.keeps_successes and (yield from self._has_succeeded(job_id)):
            return True
        body = self._body(None if is_loop else n)
        names = Names(iteration=(module.id, n)) if is_loop else Names(previous=self.state.previous)
        only = _only_plain_step(body)
        if not body:  # an empty branch passes on what came before
            previous = self.state.previous or args_ref(self.flow.id)
            self._do(Instant(job_id=job_id, module_id=module.id, result=previous, n=n, loop=module.id))
            return True
        if only is None:
            self._do(
                StartBody(
                    job_id=job_id,
                    module_id=module.id,
                    body=body_ref(module.id, None if is_loop else n),
                    n=n,
                    is_iteration=is_loop,
                    previous=None if is_loop else self.state.previous,
                    side_by_side=children.parallel,
                )
            )
            return None
        try:
            args = yield Inputs(only.id, _transforms(only), names)
            timeout_s = yield from self._timeout(only, names)
        except StepFailed as exc:
            error = value_ref(_error(exc.name, exc.message, only.id))
            self._do(
                Instant(job_id=job_id, module_id=only.id, result=error, status="failure", n=n, loop=module.id)
            )
            return False
        self._do(
            StartStep(
                job_id=job_id,
                module=only,
                args=args,
                timeout_s=timeout_s,
                n=n,
                loop=module.id,
                side_by_side=children.parallel,
            )
        )
        return None

    def _has_succeeded(self, job_id: UUID) -> Generator[Question, Any, bool]:
        try:
            ended = yield Ended(str(job_id))
        except LookupError:
            return False  # new
        return ended is not None and ended.status in ("success", "skipped")

    def _iteration_ended(self, event: ChildEnded, children: Children) -> Steps:
        is_success = event.status in ("success", "skipped")
        if children.parallel:
            try:
                _, n = yield IterationJob(self._module.id, job_id=event.job_id)
            except LookupError:
                return
            self._count_end(n, is_success=is_success)
            if children.done == children.length:
                yield from self._all_ended()
            else:
                yield from self._start_next()
            return
        if str(event.job_id) != self._progress.job:
            return
        is_over = yield from self._account(
            children.started - 1,
            str(event.job_id),
            is_success=is_success,
            is_canceled=event.status == "canceled",
            stopped=event.stopped,
        )
        if not is_over:
            yield from self._start_next()

    def _account(
        self, n: int, job: str, *, is_success: bool, is_canceled: bool = False, stopped: Any = None
    ) -> Generator[Question, Any, bool]:
        """One after another: iteration (branch) n has ended. True: so has the module."""
        module, children = self._module, self._children
        children.done += 1
        so_far = list_ref(self.flow.id, module.id, n + 1)
        is_loop = not isinstance(module.value, BranchAll)
        if is_success and not is_loop:
            only = _only_plain_step(self._body(n))
            if only is not None:
                self._do(NameResult(module_id=only.id, result={"job": job}))
        if not is_success and not self._skips_failure(n):
            yield from self._module_failed(so_far, job, is_canceled=is_canceled)
            return True
        is_last = children.length is not None and children.done >= children.length
        if is_loop and stopped is None and module.stop_after_if is not None:
            names = Names(
                previous=self.state.previous,
                refs={"result": {"job": job}, "all_iters": so_far},
                iteration=(module.id, n),
            )
            stop = module.stop_after_if
            if (yield Truth(stop.expr, names, f"step {module.id}, stop_after_if")):
                if stop.error_message is not None:
                    self._do(
                        FinishModule(module_id=module.id, status=self._status("Failure", job), result=so_far)
                    )
                    message = stop.error_message or f"stop after if: {stop.expr}"
                    yield from self._fail(value_ref(_error("EarlyStopError", message, module.id)))
                    return True
                is_last = True
        if stopped is not None or is_last:
            yield from self._module_succeeded(
                so_far,
                job,
                stop=module.stop_after_all_iters_if,
                names=self._names(result=so_far, all_iters=so_far),
                stopped=None if is_loop else stopped,  # a loop is left, a branch takes its flow along
            )
            return True
        return False

    def _count_end(self, n: int, *, is_success: bool) -> None:
        children = self._children
        children.done += 1
        if not is_success and not self._skips_failure(n):
            children.failed += 1

    def _all_ended(self) -> Steps:
        """Side by side: the last one has ended."""
        module, children = self._module, self._children
        assert children.length is not None
        results = list_ref(self.flow.id, module.id, children.length)
        if children.failed:
            yield from self._module_failed(results, self._progress.job)
            return
        names = self._names(result=results, all_iters=results)
        yield from self._module_succeeded(
            results, self._progress.job, stop=module.stop_after_all_iters_if, names=names
        )

    def _recount(self, children: Children) -> Steps:
        """Iterations may have ended without our hearing of it."""
        counts: Counts = yield Count(self._module.id, children.started)
        children.done = counts.done
        children.failed = sum(not self._skips_failure(n) for n in counts.failed)
        if children.done == children.length:
            yield from self._all_ended()
        else:
            yield from self._start_next()

    def _skips_failure(self, n: int) -> bool:
        value = self._module.value
        if isinstance(value, BranchAll):
            return value.branches[n].skip_failure
        return isinstance(value, ForLoop | WhileLoop) and value.skip_failures

    # --- small helpers --------------------------------------------------------------------------------------------------

    def _do(self, effect: Effect) -> None:
        self.effects.append(effect)

    def _finish(self, status: str, ref: Ref) -> None:
        self.state.module = None
        self._do(FinishFlow(status=status, result=ref))

    @property
    def _progress(self) -> Progress:
        assert self.state.module is not None
        return self.state.module

    @property
    def _children(self) -> Children:
        assert self._progress.children is not None
        return self._progress.children

    @property
    def _module(self) -> FlowModule:
        """The module in progress."""
        id = self._progress.id
        found: FlowModule | None = self.flow.modules[self.state.step] if self.state.step >= 0 else None
        if id == FAILURE:
            found = self.flow.value.failure_module
        elif id == PREPROCESSOR and self.state.step < 0:
            found = self.flow.value.preprocessor_module
        assert found is not None
        return found

    def _body(self, branch: int | str | None) -> tuple[FlowModule, ...]:
        value = self._module.value
        if isinstance(value, BranchOne) and branch == "default":
            return value.default
        if isinstance(value, BranchOne | BranchAll):
            chosen: Branch = value.branches[int(branch or 0)]
            return chosen.modules
        assert isinstance(value, ForLoop | WhileLoop)
        return value.modules

    def _names(self, **refs: Ref) -> Names:
        return Names(previous=self.state.previous, refs=refs)

    def _status(self, type: str, job: str | None, *, is_skipped: bool = False) -> dict[str, Any]:
        """The status object of the module in progress (chapter 8), without lists of jobs."""
        progress = self._progress
        status: dict[str, Any] = {"type": type, "id": progress.id, "job": job or str(NO_JOB)}
        if type == "Success":
            status["skipped"] = is_skipped
        if progress.branch is not None:
            is_default = progress.branch == "default"
            status["branch_chosen"] = (
                {"type": "default"} if is_default else {"type": "branch", "branch": progress.branch}
            )
        if progress.failed_jobs:
            status["failed_retries"] = progress.failed_jobs
        if progress.parent_module is not None:
            status["parent_module"] = progress.parent_module
        return status


def _error(name: str, message: str, step_id: str | None = None) -> dict[str, Any]:
    error = {"name": name, "message": message}
    if step_id is not None:
        error["step_id"] = step_id
    return {"error": error}


def _short(value: Any) -> str:
    """A value for an error message."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _transforms(module: FlowModule) -> Any:
    value = module.value
    return value.input_transforms if isinstance(value, RawScript | ScriptRef | SubFlow | AiAgent) else {}


def _is_container(module: FlowModule) -> bool:
    return isinstance(module.value, ForLoop | WhileLoop | BranchOne | BranchAll)


def _only_plain_step(body: tuple[FlowModule, ...]) -> FlowModule | None:
    """The single step of a body that needs no flow job around it: a script without options that wait or decide."""
    if len(body) != 1:
        return None
    only = body[0]
    needs_flow = (
        only.skip_if is not None
        or only.mock is not None
        or only.stop_after_if is not None
        or only.stop_after_all_iters_if is not None
        or only.retry is not None
        or only.suspend is not None
        or only.sleep is not None
        or only.continue_on_error
    )
    return only if isinstance(only.value, RawScript | ScriptRef) and not needs_flow else None
