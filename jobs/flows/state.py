"""How far a flow job is: the small JSON in `flow_status.state`, and references to results.

The state does not grow with the flow: finished modules are rows of `flow_step`, iterations rows of `flow_iteration`.
The flow_status that clients see is put together from all of them by jobs.flows.public.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jobs.flows.value import FlowValue

# Where a result is, without loading it (JSON, so that it can be stored):
#   {"job": id}                        the result of a job
#   {"list": [flow id, step id, n]}    the results of the first n iterations or branches of a module, as an array
#   {"args": flow id}                  the arguments of a flow job
#   {"value": ...}                     a small value itself
Ref = dict[str, Any]

NO_JOB = UUID(int=0)  # stands for the job of a module that needed none


def job_ref(job_id: UUID) -> Ref:
    """The result of this job."""
    return {"job": str(job_id)}


def list_ref(flow_id: UUID, step_id: str, count: int) -> Ref:
    """The results of the first `count` iterations (branches) of a module."""
    return {"list": [str(flow_id), step_id, count]}


def args_ref(flow_id: UUID) -> Ref:
    """The arguments of a flow."""
    return {"args": str(flow_id)}


def value_ref(value: Any) -> Ref:
    """A small value itself, such as an error that no job has as its result."""
    return {"value": value}


@dataclass(slots=True, kw_only=True)
class Children:
    """The iterations of a loop, or the branches of a branchall, of the module in progress."""

    length: int | None  # None: a while loop
    started: int = 0
    done: int = 0
    failed: int = 0  # that count: those of branches and loops with skip_failures do not
    parallel: bool = False
    at_once: int | None = None  # parallel ones in flight; None: all

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True, kw_only=True)
class Progress:
    """The module in progress."""

    id: str
    # WaitingForPriorSteps (asleep before a retry of a container), WaitingForEvents (approvals), InProgress
    type: str = "InProgress"
    job: str | None = (
        None  # the job that runs for it: of loops the newest one; WaitingForEvents: the suspended step's
    )
    children: Children | None = None
    branch: int | str | None = None  # branchone: index of the branch, or "default"
    count: int | None = None  # WaitingForEvents: approvals required
    fail_count: int = 0
    failed_jobs: list[str] = field(default_factory=list)  # of retries
    wake_at: float | None = None  # seconds since 1970: deadline of approvals, end of a sleep
    continued: bool = False  # a denied or timed out approval lets the flow go on
    parent_module: str | None = None  # failure module: the step that failed

    def to_json(self) -> dict[str, Any]:
        """Without what has its default: every byte of the state is written with every step."""
        shape = {
            name: value
            for name in self.__slots__
            if name != "children" and (value := getattr(self, name)) not in (None, 0, [], False)
        }
        if self.branch == 0:
            shape["branch"] = 0
        if self.children is not None:
            shape["children"] = self.children.to_json()
        return shape


@dataclass(slots=True, kw_only=True)
class State:
    """Where a flow job stands between two transactions."""

    step: int = 0  # index of the module in progress or next; -1: the preprocessor; len(modules): at the end
    begun: bool = False
    previous: Ref | None = None  # result of the previous module; None: the arguments of the flow
    previous_job: str | None = None  # its job: approvals are for that
    module: Progress | None = None
    asleep_until: float | None = None  # between two modules; seconds since 1970
    failed: Ref | None = None  # what went wrong, while the failure module runs
    stopped: dict[str, bool] | None = None  # ended by stop_after_if: {"skip": ...}, for the module around it
    approval_conditions: dict[str, Any] | None = None
    restarted_from: dict[str, Any] | None = None
    keeps_successes: bool = False  # a restart: iterations that have succeeded already are not run again

    @classmethod
    def from_json(cls, shape: dict[str, Any]) -> "State":
        """The state that `to_json` wrote."""
        given = dict(shape)
        module = given.get("module")
        if module is not None:
            module = dict(module)
            if module.get("children") is not None:
                module["children"] = Children(**module["children"])
            given["module"] = Progress(**module)
        return cls(**given)

    def to_json(self) -> dict[str, Any]:
        """JSON without what has its default."""
        shape: dict[str, Any] = {"step": self.step}
        for name in self.__slots__:
            value = getattr(self, name)
            if name not in ("step", "module") and value not in (None, False):
                shape[name] = value
        if self.module is not None:
            shape["module"] = self.module.to_json()
        return shape


def initial_state(value: FlowValue, *, preprocess: bool = False) -> dict[str, Any]:
    """What a new flow job begins with (`JobRequest.flow_state`). `preprocess`: its arguments are an event for the
    preprocessor."""
    return State(step=-1 if preprocess and value.preprocessor_module is not None else 0).to_json()
