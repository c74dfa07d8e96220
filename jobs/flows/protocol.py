"""What goes in and out of the machine: events, questions and effects. Plain data.

The machine has no I/O: what it must know it asks for (a `Question`, answered by whoever drives it), what shall happen it
answers with (a list of `Effect`s, performed together in one transaction, or not at all).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jobs.flows.state import Ref
from jobs.flows.value import FlowModule, Transform
from workspaces.errors import DomainError

# --- events ---


@dataclass(frozen=True, slots=True)
class Wake:
    """Look at everything: the flow is new, something has changed, or a time has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnded:
    """A job that the flow started has ended."""

    job_id: UUID
    status: str  # JobStatus
    stopped: Mapping[str, bool] | None = None  # a body that ended by stop_after_if: {"skip": ...}

    @property
    def is_success(self) -> bool:
        """Whether the flow goes on with its result."""
        return self.status in ("success", "skipped")


Event = Wake | ChildEnded

# --- questions ---


class StepFailed(DomainError):
    """A step cannot be started, for a reason that its author should read. Becomes the result of the step."""

    def __init__(self, message: str, *, name: str = "ExecutionErr") -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the names of an expression stand for, besides flow_input, flow_env and results."""

    previous: Ref | None = None  # previous_result; None: the arguments of the flow
    refs: Mapping[str, Ref] = field(default_factory=dict)  # names of results: result, all_iters
    values: Mapping[str, Any] = field(default_factory=dict)  # names of small values: resume, approvers, ...
    iteration: tuple[str, int] | None = None  # (loop id, n): flow_input.iter is of this iteration


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of a step: {name: value}. May be answered with StepFailed."""

    module_id: str
    transforms: Mapping[str, Transform]
    names: Names


@dataclass(frozen=True, slots=True)
class Value:
    """The value of one transform. May be answered with StepFailed."""

    transform: Transform
    names: Names
    where: str  # "step b, sleep": for errors


@dataclass(frozen=True, slots=True)
class Truth:
    """Whether an expression is true. May be answered with StepFailed."""

    expr: str
    names: Names
    where: str


@dataclass(frozen=True, slots=True)
class Approvals:
    """`ApprovalEvents` for any of these jobs."""

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalEvent:
    """Somebody resumed or denied."""

    resume_id: int
    approver: str | None
    approved: bool
    value: Any


@dataclass(frozen=True, slots=True)
class ApprovalEvents:
    """Oldest first."""

    events: tuple[ApprovalEvent, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """Whether a job has ended: a `ChildEnded`; None while it has not. LookupError is thrown when there is no such job."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Count:
    """`Counts` of the first `started` iterations of a module."""

    module_id: str
    started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many iterations have ended, and which of these did not succeed (their n)."""

    done: int
    failed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class IterationJob:
    """(job id, n) of an iteration by n, or by its job; LookupError is thrown when it is none of this module."""

    module_id: str
    n: int | None = None
    job_id: UUID | None = None


Question = Inputs | Value | Truth | Approvals | Ended | Count | IterationJob

# --- effects ---


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStep:
    """A job that runs the code of a module."""

    job_id: UUID
    module: FlowModule
    args: dict[str, Any] | None = None
    args_of: str | None = None  # a retry: the arguments of this job
    n: int | None = None  # iteration or branch
    loop: str | None = None  # the module whose iteration (branch) it is
    delay_s: float = 0.0
    timeout_s: int | None = None
    is_preprocessor: bool = False
    # Steps of a loop or of branches that run side by side may be taken by any worker; the others go on where we are.
    side_by_side: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartBody:
    """A flow job for the modules of an iteration or of a branch."""

    job_id: UUID
    module_id: str
    body: str  # BodyRef
    n: int | None = None  # iteration or branch
    is_iteration: bool = False  # its flow_input gets `iter`
    previous: Ref | None = None  # previous_result of its first module; None: its arguments
    side_by_side: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFlow:
    """A flow job for another flow."""

    job_id: UUID
    module: FlowModule
    args: dict[str, Any] | None = None
    args_of: str | None = None
    n: int | None = None
    delay_s: float = 0.0
    side_by_side: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """A job that has ended as soon as it begins: skipped and mocked steps, identity, steps that could not be started."""

    job_id: UUID
    module_id: str
    result: Ref
    status: str = "success"
    n: int | None = None  # iteration or branch
    loop: str | None = None  # the module whose iteration (branch) it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The jobs of iterations, in their order, the first is number `first`."""

    module_id: str
    job_ids: tuple[UUID, ...]
    values: tuple[Any, ...] | None  # iter.value; None: branches
    first: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishModule:
    """A module has ended."""

    module_id: str
    status: dict[str, Any]  # §8, without lists of jobs
    result: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class NameResult:
    """`results.<id>` of a module that had no flow job around it (the only step of a branch)."""

    module_id: str
    result: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class SetApprovers:
    """Who approved a module's suspension: [{resume_id, approver}]. Answers to the flow as a whole count for it alone."""

    module_id: str
    job: str  # of the module
    approvers: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Park:
    """Nothing to do until a step ends."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing to do until then."""

    until: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class Suspend:
    """Nothing to do until so many further approvals, or until then."""

    missing: int
    until: float


@dataclass(frozen=True, slots=True)
class Again:
    """There is more to do; store what there is first."""


@dataclass(frozen=True, slots=True)
class SetArgs:
    """The preprocessor's result becomes the arguments of the flow."""

    result: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishFlow:
    """The flow has ended."""

    status: str  # JobStatus
    result: Ref


Effect = (
    StartStep
    | StartBody
    | StartFlow
    | Instant
    | Plan
    | FinishModule
    | NameResult
    | SetApprovers
    | Park
    | Sleep
    | Suspend
    | Again
    | SetArgs
    | FinishFlow
)
