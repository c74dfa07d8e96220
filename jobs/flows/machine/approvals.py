"""Between a step that asks for approvals and the next one (chapter 6)."""

from typing import Any

from jobs.flows.machine.endings import Endings
from jobs.flows.machine.flow import Asking, Steps, error_result, in_short
from jobs.flows.protocol import (
    ApprovalEvent,
    ApprovalEvents,
    Approvals,
    FinishModule,
    Instant,
    SetApprovers,
    StepFailed,
    Suspend,
    Value,
)
from jobs.flows.state import Progress, job_ref, value_ref
from jobs.flows.value import FlowModule


class Suspensions(Endings):
    """A flow waits with the next module in progress, as WaitingForEvents."""

    def approval(self, before: FlowModule, module: FlowModule) -> Asking[dict[str, Any] | None]:
        """The names that approvals of `before` give to `module`; None while they are missing, or when they are denied."""
        state, suspend = self.state, before.suspend
        assert suspend is not None and state.previous_job is not None
        answer: ApprovalEvents = yield Approvals((state.previous_job, str(self.flow.id)))
        approved = [event for event in answer.events if event.approved]
        denied = next((event for event in answer.events if not event.approved), None)
        error = None
        if denied is not None:
            error = _disapproved(denied)
        elif len(approved) < suspend.required_events:
            waiting = state.module
            if waiting is None or waiting.type != "WaitingForEvents":
                waiting = yield from self._wait_for_events(before, module)
            assert waiting.wake_at is not None
            if self.flow.is_before(waiting.wake_at):
                self.do(Suspend(suspend.required_events - len(approved), waiting.wake_at))
                return None
            error = error_result("SuspendedTimedOut", "Timed out waiting to be resumed")
        state.approval_conditions = None
        if answer.events:
            approvers = [
                {"resume_id": event.resume_id, "approver": event.approver or "unknown"}
                for event in answer.events
            ]
            self.do(SetApprovers(module_id=before.id, job=state.previous_job, approvers=approvers))
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

    def _wait_for_events(self, before: FlowModule, module: FlowModule) -> Asking[Progress]:
        state, suspend = self.state, before.suspend
        assert suspend is not None
        groups: Any = []
        if suspend.user_groups_required is not None:
            where = f"step {before.id}, user_groups_required"
            groups = yield Value(suspend.user_groups_required, self.names(), where)
            if groups is None:
                groups = []
            if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
                raise StepFailed(f"{where}: expected a list of names of groups, found {in_short(groups)}")
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
        self.do(Instant(job_id=job_id, module_id=module.id, result=value_ref(error), status="failure"))
        status = self.status("Failure", str(job_id))
        self.do(FinishModule(module_id=module.id, status=status, result=job_ref(job_id)))
        yield from self.fail(job_ref(job_id))


def _disapproved(event: ApprovalEvent) -> dict[str, Any]:
    given = event.value.get("reason") if isinstance(event.value, dict) else None
    reason = f": {given}" if isinstance(given, str) and given else ""
    return error_result("SuspendedDisapproved", f"Disapproved by {event.approver or 'unknown'}{reason}")
