"""Flows that wait for approvals: the rows that a worker leaves behind, for tests of what a server does with them."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from jobs.flows.state import Progress, State
from jobs.models import (
    CompletedJob,
    Flow,
    FlowStatus,
    FlowVersion,
    Job,
    JobKind,
    QueuedJob,
    ResumeEvent,
    new_job_id,
)

SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["amount"],
}


@dataclass
class Waiting:
    """A run of a flow with modules a (which carries `suspend`) and b."""

    workspace_id: str
    id: UUID  # the flow job
    step: UUID  # the job of a

    @property
    def queue(self) -> QueuedJob:
        return QueuedJob.objects.get(pk=self.id)

    @property
    def version(self) -> int:
        """Counts up whenever somebody wants the flow looked at."""
        return FlowStatus.objects.get(pk=self.id).version

    @property
    def is_awake(self) -> bool:
        """May a worker claim it now?"""
        queued = self.queue
        return not queued.running and queued.scheduled_for <= timezone.now()

    @property
    def events(self) -> list[tuple[str | None, bool, Any]]:
        rows = ResumeEvent.objects.filter(flow_id=self.id).order_by("created_at", "id")
        return list(rows.values_list("approver", "approved", "value"))

    def overdue(self) -> None:
        """The deadline passes, and no worker has noticed yet."""
        QueuedJob.objects.filter(pk=self.id).update(suspend_until=timezone.now() - timedelta(seconds=1))

    def go_on(self) -> None:
        """A worker takes the flow to step b, which runs."""
        state = State(step=1, begun=True, previous={"job": str(self.step)}, previous_job=str(self.step))
        state.module = Progress(id="b", job=str(new_job_id()))
        FlowStatus.objects.filter(pk=self.id).update(state=state.to_json())
        QueuedJob.objects.filter(pk=self.id).update(running=True, suspend=0, suspend_until=None)

    def end(self, *, status: str = "success", result: Any = None) -> None:
        """The flow is over."""
        QueuedJob.objects.filter(pk=self.id).delete()
        CompletedJob.objects.create(
            id=self.id, workspace_id=self.workspace_id, status=status, duration_ms=1, result=result
        )


def make_waiting(
    workspace_id: str,
    *,
    created_by: str = "alice",
    path: str = "u/alice/refund",
    suspend: dict[str, Any] | None = None,
    conditions: dict[str, Any] | None = None,
    result: Any = None,
    args: dict[str, Any] | None = None,
    reached: bool = True,
    top: UUID | None = None,
) -> Waiting:
    """A run that waits for the approvals of step a, `reached=False`: step a still runs.

    `suspend` is of the module, `conditions` what the worker made of it, `result` what step a returned. `top`: the run
    is a subflow of this one.
    """
    suspend = {"required_events": 1, **(suspend or {})}
    script = {
        "type": "rawscript",
        "language": "python3",
        "content": "def main(): ...",
        "input_transforms": {},
    }
    value = {
        "modules": [
            {"id": "a", "summary": "Ask finance", "value": script, "suspend": suspend},
            {"id": "b", "value": script},
        ]
    }
    version = FlowVersion.objects.create(
        workspace_id=workspace_id, path=path, value=value, created_by="alice"
    )
    Flow.objects.get_or_create(
        workspace_id=workspace_id,
        path=path,
        defaults={"version_id": version.pk, "edited_by": "alice", "summary": "Refund a customer"},
    )
    run = Waiting(workspace_id, new_job_id(), new_job_id())
    asked: dict[str, Any] = {
        "workspace_id": workspace_id,
        "tag": "by-hand",  # no worker of other tests takes it
        "created_by": created_by,
        "permissioned_as": f"u/{created_by}",
        "permissioned_as_email": f"{created_by}@example.com",
    }
    Job.objects.create(
        id=run.id,
        kind=JobKind.FLOW,
        runnable_id=version.pk,
        runnable_path=path,
        args=args or {},
        parent_job=top,
        root_job=top,
        **asked,
    )
    Job.objects.create(
        id=run.step,
        kind=JobKind.FLOW_SCRIPT,
        runnable_path=f"{path}/a",
        raw_code="def main(): ...",
        script_lang="python3",
        parent_job=run.id,
        root_job=top or run.id,
        flow_step_id="a",
        flow_innermost_root_job=run.id,
        args={},
        **asked,
    )
    now = timezone.now()
    state = State(begun=True, module=Progress(id="a", job=str(run.step)))
    queued: dict[str, Any] = {"running": True}
    if reached:
        state = State(step=1, begun=True, previous={"job": str(run.step)}, previous_job=str(run.step))
        count = suspend["required_events"]
        state.module = Progress(id="b", type="WaitingForEvents", job=str(run.step), count=count)
        state.approval_conditions = conditions
        until = now + timedelta(seconds=1800)
        queued = {"running": False, "suspend": count, "suspend_until": until, "scheduled_for": until}
        CompletedJob.objects.create(
            id=run.step, workspace_id=workspace_id, status="success", duration_ms=1, result=result
        )
    else:
        QueuedJob.objects.create(
            id=run.step, workspace_id=workspace_id, tag="python3", running=True, worker="w1", started_at=now
        )
    FlowStatus.objects.create(id=run.id, workspace_id=workspace_id, state=state.to_json())
    QueuedJob.objects.create(
        id=run.id, workspace_id=workspace_id, tag="by-hand", worker="w1", started_at=now, **queued
    )
    return run
