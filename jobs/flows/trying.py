"""Inputs of a step as the editor tries them: worked out with what a test of the flow has left behind."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync, sync_to_async

from jobs.flows import expressions, peeking, picture
from jobs.flows.javascript import Engine
from jobs.flows.value import AiAgent, RawScript, ScriptRef, SubFlow, parse_flow_value
from jobs.listings import get_job
from jobs.models import Job
from workspaces.access import Caller
from workspaces.errors import BadRequest

LIMIT_S = 5.0  # of V8, for all inputs of a step


@lru_cache(maxsize=1)
def _engine() -> Engine:
    """Started with its first use, and ended after a minute without any: most servers need none."""
    return Engine(lanes=0, max_lanes=1, time_limit_s=LIMIT_S)


def inputs_of(caller: Caller, test_id: UUID, value: dict[str, Any], step_id: str) -> dict[str, Any]:
    """The arguments that the step would get, by name, were the flow `value` at this step after the test `test_id`.

    Variables and resources stay references ($var:path, $res:path): whoever runs the step replaces them.
    Raises BadRequest (no such step, or one without inputs), BadFlow, JobNotFound, ExpressionFailed.
    """
    test = get_job(caller, workspace_id=caller.workspace_id, job_id=test_id)
    modules = {module.id: module for _, module in parse_flow_value(value).every_module()}
    step = modules.get(step_id)
    if step is None or not isinstance(step.value, RawScript | ScriptRef | SubFlow | AiAgent):
        raise BadRequest(f"step {step_id[:100]!r} has no inputs")
    scope = _Scope(test.id, value, step_id)
    evaluate = async_to_sync(expressions.evaluate_inputs)
    return evaluate(step.value.input_transforms, scope, where=f"step {step_id}", engine=_engine())


class _Scope:
    """jobs.flows.expressions.Scope over a test."""

    def __init__(self, test_id: UUID, value: dict[str, Any], step_id: str) -> None:
        self._test_id, self._value, self._step_id = test_id, value, step_id

    @property
    def extra(self) -> Mapping[str, Any]:
        return {"resume": {}, "resumes": [], "approvers": [], "error": {}}

    async def flow_input(self) -> Any:
        return await sync_to_async(self._flow_input)()

    async def flow_env(self) -> Any:
        return self._value.get("flow_env") or {}

    async def result(self, step_id: str) -> Any:
        return await sync_to_async(peeking.whole)(self._test_id, step_id)

    async def previous_result(self) -> Any:
        before = _before(self._value.get("modules"), self._step_id)
        return await (self.result(before) if before else self.flow_input())

    async def variable(self, path: str) -> Any:
        return f"$var:{path}"

    async def resource(self, path: str) -> Any:
        return f"$res:{path}"

    async def flow_user_state(self, key: str) -> Any:
        return None

    def _flow_input(self) -> Any:
        """Those of the flow, or of the iteration that the step ran in last: they hold `iter`."""
        ran = Job.objects.filter(flow_innermost_root_job=self._test_id, flow_step_id=self._step_id)
        parent = ran.order_by("-created_at").values_list("parent_job", flat=True).first()
        args = Job.objects.filter(pk=parent or self._test_id).values_list("args", flat=True).first()
        return args or {}


def _before(modules: Any, step_id: str) -> str | None:
    """The id of the step before this one in its list; None for a first one."""
    given = [module for module in modules if isinstance(module, dict)] if isinstance(modules, list) else []
    for before, module in zip([None, *given], given, strict=False):
        if module.get("id") == step_id:
            return str(before["id"]) if before else None
        for _, inside in picture.bodies(module):
            found = _before(inside, step_id)
            if found is not None:
                return found
    return None
