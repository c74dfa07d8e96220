"""What driving flows needs of the database: reads by key, and one write. PostgreSQL is one implementation (workers)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from jobs.flows.protocol import ApprovalEvents, ChildEnded, Counts
from jobs.flows.state import Ref
from jobs.flows.value import FlowValue


class FlowChanged(Exception):
    """Another process has advanced one of the flows, or woken it: load them again."""


class LeaseOver(Exception):
    """The job whose end this was has been given to somebody else, or ended otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowJob:
    """A flow job that is in the queue, and how far it is."""

    id: UUID
    workspace_id: str
    kind: str
    runnable_id: int | None
    runnable_path: str | None
    parent_job: UUID | None
    root_job: UUID | None
    flow_step_id: str | None  # set: its parent is a flow that waits for it
    flow_innermost_root_job: UUID | None
    flow_body: str | None
    flow_n: int | None
    tag: str
    priority: int
    created_by: str
    permissioned_as: str
    permissioned_as_email: str
    trigger_kind: str | None
    trigger: str | None
    visible_to_owner: bool
    preprocessed: bool | None
    same_worker: bool
    cache_ttl: int | None
    concurrency_key: str | None
    concurrency_time_window_s: int | None
    canceled_by: str | None
    canceled_reason: str | None
    version: int
    state: Mapping[str, Any]

    @property
    def definition_of(self) -> UUID:
        """The job that holds the definition of this flow's modules."""
        return self.flow_innermost_root_job or self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Runnable:
    """A deployed script or flow that a step names."""

    id: int  # script hash, or flow version
    path: str
    tag: str | None
    language: str | None = None  # scripts
    code: str | None = None  # scripts
    lock: str | None = None  # scripts: what the code depends on, pinned
    envs: list[str] | None = None  # scripts: ["KEY=value"]
    timeout: int | None = None  # seconds
    priority: int | None = None
    cache_ttl: int | None = None
    delete_after_secs: int | None = None
    concurrent_limit: int | None = None
    concurrency_key: str | None = None
    concurrency_time_window_s: int | None = None
    permissioned_as: str | None = None  # on behalf of somebody else
    permissioned_as_email: str | None = None
    value: FlowValue | None = None  # flows
    is_dedicated: bool = False  # its jobs have a tag of their own (jobs.dedicated)


@dataclass(frozen=True, slots=True)
class Applied:
    """The answer to a write."""

    moment: datetime  # the database's clock
    default_timeout_s: int | None  # the instance's default for jobs that say nothing


class FlowStore(Protocol):
    """All methods wait for a database that is away. What does not exist (any more) is None unless said otherwise."""

    def now(self) -> float:
        """The database's clock, seconds since 1970, as far as it is known without asking."""

    async def load(self, flow_id: UUID) -> FlowJob | None:
        """A flow job that has not ended."""

    async def definition(self, flow_job: FlowJob) -> FlowValue | None:
        """What the innermost flow around (or at) this job says."""

    async def args(self, job_id: UUID) -> dict[str, Any] | None:
        """The arguments of a job."""

    async def value(self, ref: Ref) -> Any:
        """The result that a Ref names; null when it is gone."""

    async def ended(self, job_id: UUID) -> ChildEnded | None:
        """How a job ended; None while it has not. Raises LookupError when there is no such job."""

    async def count(self, flow_id: UUID, module_id: str, started: int) -> Counts:
        """What has become of the first `started` iterations of a module."""

    async def iterations(
        self, flow_id: UUID, module_id: str, first: int, limit: int
    ) -> list[tuple[UUID, Any]]:
        """(job id, value) of iterations from number `first` on."""

    async def iteration_of(self, flow_id: UUID, module_id: str, job_id: UUID) -> int | None:
        """The number of the iteration that this job is."""

    async def find_result(self, flow_id: UUID, step_id: str) -> Ref | None:
        """`results.<step_id>` as seen from a flow: its own steps, then those of the flows around it."""

    async def approvals(self, job_ids: Sequence[UUID]) -> ApprovalEvents:
        """Approvals and denials for any of these jobs."""

    async def script(self, flow_job: FlowJob, *, path: str, hash: int | None) -> Runnable:
        """A deployed script, with the rights that the flow runs with. Raises DomainError."""

    async def flow(self, flow_job: FlowJob, *, path: str) -> Runnable:
        """A deployed flow, with the rights that the flow runs with. Raises DomainError."""

    async def variable(self, flow_job: FlowJob, path: str) -> Any:
        """A variable's text. Raises DomainError."""

    async def resource(self, flow_job: FlowJob, path: str) -> Any:
        """A resource's value, references in it replaced. Raises DomainError."""

    async def interpolated(self, flow_job: FlowJob, value: Any) -> Any:
        """`$var:` and `$res:` in a value replaced. Raises DomainError."""

    async def user_state(self, root_id: UUID, key: str) -> Any:
        """A value that the steps of a flow share."""

    async def choose_tag(
        self, *, workspace_id: str, asked: str | None, language: str, args: dict[str, Any]
    ) -> str:
        """See jobs.tags.choose_tag. Raises BadRequest."""

    async def apply(self, document: Mapping[str, Any], texts: Sequence[str]) -> Applied:
        """Perform everything, or raise FlowChanged or LeaseOver."""
