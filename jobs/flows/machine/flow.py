"""The flow job as the machine sees it, and what can be said of its modules by looking at them."""

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from jobs.flows.protocol import Question
from jobs.flows.state import Ref, value_ref
from jobs.flows.value import (
    AiAgent,
    BranchAll,
    BranchOne,
    FlowModule,
    FlowValue,
    ForLoop,
    RawScript,
    ScriptRef,
    StopAfterIf,
    SubFlow,
    Transform,
    WhileLoop,
)

FAILURE, PREPROCESSOR = "failure", "preprocessor"
_CLOCK_SLACK_S = 0.005

T = TypeVar("T")
Asking = Generator[Question, Any, T]  # asks questions on its way to a T
Steps = Asking[None]


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

    def is_before(self, moment: float) -> bool:
        """Whether `moment` (seconds since 1970) is still to come."""
        return self.now < moment - _CLOCK_SLACK_S


def transforms_of(module: FlowModule) -> Mapping[str, Transform]:
    """How the inputs of a step are computed."""
    value = module.value
    return value.input_transforms if isinstance(value, RawScript | ScriptRef | SubFlow | AiAgent) else {}


def is_container(module: FlowModule) -> bool:
    """Whether its value is made of modules: a loop or branches."""
    return isinstance(module.value, ForLoop | WhileLoop | BranchOne | BranchAll)


def only_plain_step(body: tuple[FlowModule, ...]) -> FlowModule | None:
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


def is_number(value: Any) -> bool:
    """Whether a value is a number in JSON, where true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def in_short(value: Any) -> str:
    """A value for an error message."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:100]}…"


def error_result(name: str, message: str, step_id: str | None = None) -> dict[str, Any]:
    """The result of whatever failed with this error."""
    error = {"name": name, "message": message}
    if step_id is not None:
        error["step_id"] = step_id
    return {"error": error}


def error_ref(name: str, message: str, step_id: str | None = None) -> Ref:
    """The same, where a reference to a result is wanted."""
    return value_ref(error_result(name, message, step_id))


def early_stop(stop: StopAfterIf, step_id: str) -> dict[str, Any]:
    """The result of a flow that a stop with an error message has ended."""
    return error_result("EarlyStopError", stop.error_message or f"stop after if: {stop.expr}", step_id)
