"""How a module ends, and with it perhaps the flow: success, early stop, retry, failure, failure module."""

from abc import ABC, abstractmethod
from typing import Any

from jobs.flows.machine.flow import (
    FAILURE,
    PREPROCESSOR,
    Asking,
    Steps,
    early_stop,
    error_ref,
    in_short,
    is_container,
    is_number,
)
from jobs.flows.machine.part import Part
from jobs.flows.protocol import (
    FinishModule,
    Names,
    Park,
    Sleep,
    StartFlow,
    StartStep,
    StepFailed,
    Truth,
    Value,
)
from jobs.flows.retries import next_delay
from jobs.flows.state import Progress, Ref, value_ref
from jobs.flows.value import FlowModule, StopAfterIf, SubFlow

MAX_SLEEP_S = 10 * 365 * 86_400


class Endings(Part, ABC):
    """`job` is always the job whose result ends the module: the id, as the state keeps it."""

    @abstractmethod
    def start_or_fail(self, module: FlowModule, resumed: dict[str, Any]) -> Steps:
        """See Beginnings."""

    @abstractmethod
    def start_leaf(self, module: FlowModule, names: Names) -> Steps:
        """See Beginnings."""

    # --- success ------------------------------------------------------------------------------------------------------

    def module_succeeded(
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
        module = self.module
        status = self.status("Success", job, is_skipped=is_skipped)
        self.do(FinishModule(module_id=module.id, status=status, result=ref))
        if stop is not None:
            where = f"step {module.id}, stop_after_if"
            if (yield Truth(stop.expr, names or Names(), where)):
                yield from self._stop(stop, ref, job)
                return
        self._leave_module(ref, None if is_skipped else job)
        if stopped is not None:
            self._stop_here(ref, is_skipped=bool(stopped.get("skip")))
            return
        if (yield from self._falls_asleep(module, ref)):
            return
        self.goes_on = True

    def _leave_module(self, ref: Ref, job: str | None) -> None:
        state = self.state
        state.previous, state.previous_job, state.module = ref, job, None
        state.keeps_successes = False
        state.step += 1

    def _falls_asleep(self, module: FlowModule, ref: Ref) -> Asking[bool]:
        """Sleep as the module that has just ended asks for, unless it was the last."""
        if module.sleep is None or self.state.step >= len(self.flow.modules):
            return False
        where = f"step {module.id}, sleep"
        seconds = yield Value(module.sleep, Names(previous=ref), where)
        if seconds is not None and not is_number(seconds):
            raise StepFailed(f"{where}: expected a number of seconds, found {in_short(seconds)}")
        if seconds is None or seconds <= 0:
            return False
        self.state.asleep_until = self.flow.now + min(seconds, MAX_SLEEP_S)
        self.do(Sleep(self.state.asleep_until))
        return True

    def _stop(self, stop: StopAfterIf, ref: Ref, job: str | None) -> Steps:
        """An early stop; with a message it is a failure."""
        if stop.error_message is None:
            self._stop_here(ref, is_skipped=stop.skip_if_stopped)
            return
        error = early_stop(stop, self.progress.id)
        failed = value_ref(error)
        if stop.error_include_result:
            failed = {"with_result": {"error": error, "of": ref}}
        if not stop.skip_if_stopped:
            self.do(FinishModule(module_id=self.progress.id, status=self.status("Failure", job), result=ref))
        yield from self.fail(failed)

    def _stop_here(self, ref: Ref, *, is_skipped: bool) -> None:
        if self.flow.is_body:
            self.state.stopped = {"skip": is_skipped}
        self.finish("skipped" if is_skipped and not self.flow.is_body else "success", ref)

    # --- failure (chapter 5) ------------------------------------------------------------------------------------------

    def module_failed(
        self, ref: Ref, job: str | None, *, is_canceled: bool = False, may_retry: bool = True
    ) -> Steps:
        """Retry, else go on with the error, else the failure module, else the flow fails."""
        if may_retry and (yield from self.retry(ref, job, is_canceled=is_canceled)):
            return
        module = self.module
        self.do(FinishModule(module_id=module.id, status=self.status("Failure", job), result=ref))
        if module.continue_on_error and not is_canceled:
            self._leave_module(ref, job)
            self.goes_on = True
            return
        yield from self.fail(ref)

    def retry(self, ref: Ref, job: str | None, *, is_canceled: bool) -> Asking[bool]:
        """Whether what failed is tried again."""
        module, progress = self.module, self.progress
        if module.retry is None or is_canceled or job is None:
            return False
        delay = next_delay(module.retry, progress.fail_count, random=self.flow.random)
        if delay is None:
            return False
        if module.retry.retry_if is not None:
            names = self.names(result=ref, error={"error": ref})
            if not (yield Truth(module.retry.retry_if, names, f"step {module.id}, retry_if")):
                return False
        progress.fail_count += 1
        progress.failed_jobs.append(job)
        if is_container(module):
            progress.children, progress.branch, progress.job = None, None, None
            progress.type, progress.wake_at = "WaitingForPriorSteps", self.flow.now + delay
            yield from self.try_again(progress)
        else:
            yield from self._repeat(module, job, delay)
        return True

    def _repeat(self, module: FlowModule, failed_job: str, delay_s: float) -> Steps:
        """A new job with the arguments of the one that failed; it waits in the queue until the delay is over."""
        job_id = self.flow.new_id()
        self.progress.job = str(job_id)
        if isinstance(module.value, SubFlow):
            self.do(StartFlow(job_id=job_id, module=module, args_of=failed_job, delay_s=delay_s))
        else:
            timeout_s = yield from self.timeout_s(module, self.names())
            self.do(
                StartStep(
                    job_id=job_id,
                    module=module,
                    args_of=failed_job,
                    delay_s=delay_s,
                    timeout_s=timeout_s,
                    is_preprocessor=self.progress.id == PREPROCESSOR,
                )
            )
        self.do(Park())

    def try_again(self, progress: Progress) -> Steps:
        """A container that failed begins anew once its delay is over."""
        assert progress.wake_at is not None
        if self.flow.is_before(progress.wake_at):
            self.do(Sleep(progress.wake_at))
            return
        progress.type, progress.wake_at = "InProgress", None
        yield from self.start_or_fail(self.module, {})

    def fail(self, ref: Ref) -> Steps:
        """The flow has failed: its failure module runs once, at the top of the flow."""
        state, handler = self.state, self.flow.value.failure_module
        is_handled = state.module is not None and state.module.id == FAILURE
        if self.flow.is_body or handler is None or is_handled:
            self.finish("failure", ref)
            return
        state.failed = ref
        failed_id = state.module.id if state.module is not None else None
        state.module = Progress(id=FAILURE, parent_module=failed_id)
        names = Names(previous=ref, refs={"error": {"error": ref}}, values={"flow_job_id": str(self.flow.id)})
        try:
            yield from self.start_leaf(handler, names)
        except StepFailed as exc:
            self.finish("failure", error_ref(exc.name, exc.message, FAILURE))

    def failure_handled(self, ref: Ref, job: str, is_success: bool) -> Steps:
        """The failure module has ended: its result is the flow's."""
        status = self.status("Success" if is_success else "Failure", job)
        self.do(FinishModule(module_id=FAILURE, status=status, result=ref))
        is_recovered = is_success and (
            yield Truth("result?.recover === true", Names(refs={"result": ref}), "failure module")
        )
        self.finish("success" if is_recovered else "failure", ref)
