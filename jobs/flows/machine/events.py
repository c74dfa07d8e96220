"""What an event means for a flow, as far as it is."""

from jobs.flows.machine.beginnings import Beginnings
from jobs.flows.machine.flow import FAILURE, PREPROCESSOR, Asking, Steps, error_ref
from jobs.flows.protocol import (
    ChildEnded,
    Count,
    Counts,
    Ended,
    Event,
    FinishModule,
    Names,
    Park,
    Sleep,
    StepFailed,
    Truth,
)
from jobs.flows.state import Progress, job_ref, value_ref
from jobs.flows.value import BranchOne


class Machine(Beginnings):
    """Good for one event."""

    def handle(self, event: Event) -> Steps:
        """Change the state and collect the effects."""
        if self.flow.canceled is not None:
            yield from self._end_canceled()
            return
        try:
            if isinstance(event, ChildEnded):
                yield from self._child_ended(event)
            else:
                yield from self._wake()
            while self.goes_on:
                self.goes_on = False
                yield from self.begin()
        except StepFailed as exc:  # an expression of the flow itself, between two modules
            yield from self.fail(error_ref(exc.name, exc.message))

    # --- looking at everything ------------------------------------------------------------------------------------

    def _wake(self) -> Steps:
        state = self.state
        if not state.begun:
            state.begun = True
            value = self.flow.value
            is_skippable = not self.flow.is_body and value.skip_expr is not None
            if is_skippable and (yield Truth(value.skip_expr or "", Names(), "skip_expr")):
                self.finish("skipped", value_ref("stopped early"))
                return
            if state.step < 0:
                yield from self.start_preprocessor()
                return
        if state.asleep_until is not None:
            if self.flow.is_before(state.asleep_until):
                self.do(Sleep(state.asleep_until))
                return
            state.asleep_until = None
        progress = state.module
        if progress is None or progress.type == "WaitingForEvents":
            self.goes_on = True
        elif progress.type == "WaitingForPriorSteps":
            yield from self.try_again(progress)
        elif progress.children is not None and progress.children.parallel and progress.job is not None:
            yield from self.recount()
        elif progress.children is not None and progress.job is None:
            yield from self.start_next()  # a restart in the middle of a loop
        else:
            yield from self._look_at_child(progress)

    def _look_at_child(self, progress: Progress) -> Steps:
        assert progress.job is not None
        try:
            ended = yield Ended(progress.job)
        except LookupError:
            error = error_ref("JobLost", f"job {progress.job} of step {progress.id} was deleted", progress.id)
            yield from self.module_failed(error, progress.job, may_retry=False)
            return
        if ended is None:
            self.do(Park())
        else:
            yield from self._child_ended(ended)

    # --- a job of the flow has ended ----------------------------------------------------------------------------------

    def _child_ended(self, event: ChildEnded) -> Steps:
        progress = self.state.module
        if progress is None or progress.type != "InProgress":
            return
        if progress.children is not None:
            yield from self.iteration_ended(event)
            return
        if str(event.job_id) != progress.job:
            return
        job, ref = str(event.job_id), job_ref(event.job_id)
        is_canceled = event.status == "canceled"
        is_beside = progress.id in (FAILURE, PREPROCESSOR)
        if not event.is_success and is_beside and (yield from self.retry(ref, job, is_canceled=is_canceled)):
            return
        if progress.id == FAILURE:
            yield from self.failure_handled(ref, job, event.is_success)
        elif progress.id == PREPROCESSOR:
            yield from self.preprocessed(ref, job, event.is_success)
        elif event.is_success:
            if progress.branch is not None:
                self.name_direct_result(progress.branch, ref)
            module = self.module
            stopped = event.stopped if isinstance(module.value, BranchOne) else None
            yield from self.module_succeeded(
                ref, job, stop=module.stop_after_if, names=self.names(result=ref), stopped=stopped
            )
        else:
            yield from self.module_failed(ref, job, is_canceled=is_canceled)

    # --- somebody has canceled the flow -------------------------------------------------------------------------------

    def _end_canceled(self) -> Steps:
        """Start nothing more; end as soon as nothing runs any more."""
        progress = self.state.module
        if progress is not None and (yield from self._is_busy(progress)):
            self.do(Park())
            return
        result = value_ref({"error": self.flow.canceled})
        if progress is not None:
            status = self.status("Failure", progress.job)
            self.do(FinishModule(module_id=progress.id, status=status, result=result))
        self.finish("canceled", result)

    def _is_busy(self, progress: Progress) -> Asking[bool]:
        """Whether jobs of this module still run."""
        if progress.type != "InProgress" or progress.job is None:
            return False
        if progress.children is not None and progress.children.parallel:
            started = progress.children.started
            counts: Counts = yield Count(progress.id, started)
            return counts.done < started
        try:
            return (yield Ended(progress.job)) is None
        except LookupError:
            return False
