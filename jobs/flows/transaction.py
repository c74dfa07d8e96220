"""Everything that follows from one event, gathered to be written at once (jobs/sql/functions/advance_flows.sql)."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jobs.flows.state import Ref, State
from jobs.flows.store import FlowJob
from jobs.flows.value import FlowModule, FlowValue


@dataclass(slots=True)
class OpenFlow:
    """A flow job with the copy of its state that is being changed."""

    job: FlowJob
    value: FlowValue
    modules: tuple[FlowModule, ...]
    state: State
    is_new: bool = False  # created by this transaction
    is_remembered: bool = False  # as it was when this worker last advanced it: others may have gone on since
    is_held: bool = False  # claimed by this worker: it must be let go
    is_changed: bool = False
    has_ended: bool = False
    wait: str | None = None  # parked, or a time: see `wait_until`
    wait_until: float | None = None
    suspend: int | None = None
    args: dict[str, Any] | None = None  # once they have been read
    has_small_args: bool = False  # small enough to be kept
    results: dict[str, Ref] = field(default_factory=dict)  # of modules that have ended, as far as known here
    # Iterations of the loop in progress, a page of them: (module id, {n: (job id, value)})
    planned: tuple[str, dict[int, tuple[UUID, Any]]] = ("", {})


@dataclass(slots=True)
class Transaction:
    """The writes of one event."""

    worker: str
    lease: tuple[UUID, int]
    flows: dict[UUID, OpenFlow] = field(default_factory=dict)  # inner ones first
    jobs: list[dict[str, Any]] = field(default_factory=list)
    iterations: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    approvers: list[dict[str, Any]] = field(default_factory=list)
    set_args: list[dict[str, Any]] = field(default_factory=list)
    ended: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    # What has ended in this transaction, for questions about it: id -> (status, result text or where it is)
    outcomes: dict[UUID, tuple[str, str | None, Ref | None]] = field(default_factory=dict)
    # Iterations that this transaction plans: (flow, module, job) -> number
    iteration_numbers: dict[tuple[UUID, str, UUID], int] = field(default_factory=dict)

    def end_job(
        self,
        job_id: UUID,
        status: str,
        *,
        text: str | None = None,
        ref: Ref | None = None,
        mem_peak: int | None = None,
        labels: list[str] | None = None,
        isolation: str | None = None,
        instant_in: str | None = None,
    ) -> None:
        """A job has ended with this result. `instant_in`: the workspace of one that was never queued."""
        entry: dict[str, Any] = {"id": str(job_id), "status": status}
        if text is not None:
            self.texts.append(text)
            entry["text"] = len(self.texts)  # arrays of SQL begin at 1
        else:
            entry["ref"] = ref
        if mem_peak is not None:
            entry["mem_peak"] = mem_peak
        if labels:
            entry["labels"] = labels
        if isolation is not None:
            entry["isolation"] = isolation
        if instant_in is not None:
            entry["instant"] = True
            entry["workspace_id"] = instant_in
        self.ended.append(entry)
        self.outcomes[job_id] = (status, text, ref)

    def forgotten_later(self) -> list[dict[str, Any]]:
        """The new jobs that are forgotten some time after the end of the topmost flow: rows of job_cleanup."""
        return [
            {"job_id": job["id"], "top_id": job["root_job"], "after_s": job["delete_after_secs"]}
            for job in self.jobs
            if job.get("delete_after_secs") is not None
        ]

    def document(self) -> dict[str, Any]:
        """The first argument of advance_flows."""
        flows, waits = [], []
        for flow in self.flows.values():
            id = str(flow.job.id)
            if not flow.is_new and (flow.is_changed or flow.is_held):
                flows.append({"id": id, "version": flow.job.version, "state": flow.state.to_json()})
            is_parked = not flow.is_held and flow.wait in (None, "parked")
            if not flow.has_ended and not is_parked:
                wait: dict[str, Any] = {"id": id, "wait": flow.wait or "parked"}
                if flow.wait_until is not None:
                    wait["until"] = flow.wait_until
                if flow.suspend is not None:
                    wait["suspend"] = flow.suspend
                waits.append(wait)
        document: dict[str, Any] = {
            "worker": self.worker,
            "lease": {"id": str(self.lease[0]), "attempt": self.lease[1]},
            "flows": flows,
        }
        for name in ("jobs", "iterations", "steps", "results", "approvers", "set_args", "ended"):
            if rows := getattr(self, name):
                document[name] = rows
        if waits:
            document["waits"] = waits
        if cleanup := self.forgotten_later():
            document["cleanup"] = cleanup
        for job in self.jobs:
            new = self.flows.get(UUID(job["id"]))
            if new is not None and new.is_new:
                job["flow_state"] = new.state.to_json()
        return document
