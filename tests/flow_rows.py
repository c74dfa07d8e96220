"""Rows of a flow's run as a worker leaves them, so that pages can be tested at any moment of it."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from jobs import queue, wakeups
from jobs.flows.state import State, initial_state
from jobs.flows.value import parse_flow_value
from jobs.models import CompletedJob, FlowIteration, FlowStatus, FlowStep, Job, QueuedJob, new_job_id

Json = dict[str, Any]
TAG = "rows"  # no worker listens to it: the test is the worker


class FlowRows:
    """A run of `value`. `start` is when it began."""

    def __init__(
        self,
        value: Json,
        *,
        args: Json | None = None,
        path: str = "f/shared/nightly",
        workspace_id: str = "acme",
        username: str = "alice",
    ) -> None:
        self.value = value
        self.workspace_id = workspace_id
        self.creator: Json = {
            "created_by": username,
            "permissioned_as": f"u/{username}",
            "permissioned_as_email": f"{username}@example.com",
        }
        self.start: datetime = timezone.now() - timedelta(minutes=1)
        self.id = queue.push_job(
            queue.JobRequest(
                workspace_id=self.workspace_id,
                kind="flowpreview",
                tag=TAG,
                **self.creator,
                args=args or {},
                raw_flow=value,
                runnable_path=path,
                flow_state=initial_state(parse_flow_value(value)),
            )
        )
        self.run(self.id)

    def run(self, job_id: UUID, **fields: Any) -> None:
        """A worker has it: for a flow, it is parked."""
        QueuedJob.objects.filter(pk=job_id).update(running=True, worker="w1", started_at=self.start, **fields)

    def state(self, flow_id: UUID | None = None, **fields: Any) -> None:
        """How far the flow (or a body of it) is: fields of jobs.flows.state.State."""
        FlowStatus.objects.update_or_create(
            pk=flow_id or self.id,
            defaults={"workspace_id": self.workspace_id, "state": State(**fields).to_json()},
        )

    def job(
        self,
        step_id: str,
        status: str,
        *,
        flow: UUID | None = None,
        job_id: UUID | None = None,
        kind: str = "flowscript",
        result: Any = None,
        duration_ms: int = 10,
        **fields: Any,
    ) -> UUID:
        """A job of the flow `flow`: ended (a JobStatus), running or queued."""
        made = Job.objects.create(
            id=job_id or new_job_id(),
            workspace_id=self.workspace_id,
            kind=kind,
            tag=TAG,
            **self.creator,
            args={},
            runnable_path=f"f/shared/nightly/{step_id}",
            script_lang="python3",
            raw_code="def main(): ...",
            parent_job=flow or self.id,
            root_job=self.id,
            flow_innermost_root_job=self.id,
            flow_step_id=step_id,
            **fields,
        )
        if status in ("running", "queued"):
            QueuedJob.objects.create(id=made.id, workspace_id=self.workspace_id, tag=TAG)
            if status == "running":
                self.run(made.id)
        elif status != "none":
            self.end(made.id, status, result=result, duration_ms=duration_ms)
        return made.id

    def tell(self) -> None:
        """Who looks at the run is told that something changed, as a worker does."""
        wakeups.jobs_changed([self.id])

    def end(self, job_id: UUID, status: str, *, result: Any = None, duration_ms: int = 10) -> None:
        QueuedJob.objects.filter(pk=job_id).delete()
        CompletedJob.objects.create(
            id=job_id,
            workspace_id=self.workspace_id,
            status=status,
            started_at=self.start,
            completed_at=self.start + timedelta(milliseconds=duration_ms),
            duration_ms=duration_ms,
            result=result,
            worker="w1",
        )

    def step(
        self, step_id: str, job: UUID, *, flow: UUID | None = None, type: str = "Success", **more: Any
    ) -> None:
        """A module that has ended."""
        status = {"type": type, "id": step_id, "job": str(job)} | (
            {"skipped": False} if type == "Success" else {}
        )
        FlowStep.objects.create(
            flow_id=flow or self.id, step_id=step_id, status=status | more, result={"job": str(job)}
        )

    def iterations(self, step_id: str, jobs: list[UUID], *, flow: UUID | None = None) -> None:
        FlowIteration.objects.bulk_create(
            FlowIteration(flow_id=flow or self.id, step_id=step_id, n=n, job_id=job, value=n)
            for n, job in enumerate(jobs)
        )

    def body(
        self, step_id: str, status: str, *, n: int | None = None, body: str | None = None, **given: Any
    ) -> UUID:
        """The flow job of an iteration or branch."""
        made = self.job(step_id, status, kind="flownode", flow_n=n, flow_body=body or step_id, **given)
        self.state(made)
        return made
