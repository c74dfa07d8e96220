"""What the names of an expression mean in a running flow: flow_input, results, previous_result, iter, error, ..."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobs.flows.protocol import Names
from jobs.flows.transaction import OpenFlow
from jobs.flows.value import Javascript, Transform

if TYPE_CHECKING:
    from jobs.flows.driver import _Run

_ITER = "iter"


def with_iteration(args: Mapping[str, Any], iteration: dict[str, Any]) -> dict[str, Any]:
    """flow_input inside a loop: `iter` is the loop's own; that of the loop around it becomes iter_parent, and so on."""
    shifted = {f"{name}_parent" if _is_iteration(name) else name: value for name, value in args.items()}
    return shifted | {_ITER: iteration}


def _is_iteration(name: str) -> bool:
    return re.fullmatch(r"iter(_parent)*", name) is not None


def error_of(value: Any) -> dict[str, Any]:
    """The `error` that a failed result tells of; several of them (a loop) in one."""
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        error: dict[str, Any] = value["error"]
        return error
    errors = _errors_in(value) if isinstance(value, list) else []
    if len(errors) == 1:
        return errors[0]
    if errors:
        messages = "; ".join(str(error.get("message", "")) for error in errors[:10])
        return {"name": "MultipleErrors", "message": messages, "errors": errors}
    return {"name": "Error", "message": str(value)[:1000]}


def _errors_in(value: Any) -> list[dict[str, Any]]:
    """The errors in the results of a loop, whose items may be those of loops in it."""
    if isinstance(value, list):
        return [error for item in value for error in _errors_in(item)]
    error = value.get("error") if isinstance(value, dict) else None
    return [error] if isinstance(error, dict) else []


class RunScope:
    """`expressions.Scope` at one moment of one flow."""

    def __init__(self, run: "_Run", flow: OpenFlow, names: Names) -> None:
        self._run = run
        self._flow = flow
        self._names = names
        self.extra: dict[str, Any] = dict(names.values)
        self._iteration: dict[str, Any] | None = None

    @classmethod
    async def open(
        cls,
        run: "_Run",
        flow: OpenFlow,
        names: Names,
        transforms: Sequence[Transform],
    ) -> "RunScope":
        """The scope of these transforms: results that they name are read, others are not."""
        scope = cls(run, flow, names)
        code = [transform.expr for transform in transforms if isinstance(transform, Javascript)]
        if not code:
            return scope
        for name, ref in names.refs.items():
            if any(re.search(rf"\b{name}\b", text) for text in code):
                scope.extra[name] = await run.load(ref)
        if names.iteration is not None:
            module_id, n = names.iteration
            _, value = await run.iteration(flow, module_id, n)
            scope._iteration = {"index": n, "value": value}
        if any(re.search(rf"\b{_ITER}\b", text) for text in code) and _ITER not in scope.extra:
            found = (await scope.flow_input()).get(_ITER)
            if found is not None:
                scope.extra[_ITER] = found
        return scope

    async def flow_input(self) -> dict[str, Any]:
        args = await self._run.args(self._flow)
        return args if self._iteration is None else with_iteration(args, self._iteration)

    async def flow_env(self) -> Any:
        return await self._run.store.interpolated(self._flow.job, self._flow.value.flow_env or {})

    async def previous_result(self) -> Any:
        if self._names.previous is None:
            return await self.flow_input()
        return await self._run.load(self._names.previous)

    async def result(self, step_id: str) -> Any:
        ref = await self._run.find_result(self._flow, step_id)
        return None if ref is None else await self._run.load(ref)

    async def variable(self, path: str) -> Any:
        return await self._run.store.variable(self._flow.job, path)

    async def resource(self, path: str) -> Any:
        return await self._run.store.resource(self._flow.job, path)

    async def flow_user_state(self, key: str) -> Any:
        job = self._flow.job
        return await self._run.store.user_state(job.root_job or job.id, key)
