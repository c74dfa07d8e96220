"""Random flows whose outcome is known: an interpreter of a page, to hold the real machine against.

Steps do not run: their result is a number computed from their id and their arguments, or a failure, as the flow's plan of
failures says. The interpreter knows nothing of jobs, transactions or states.
"""

import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Json = Any


@dataclass(frozen=True)
class Case:
    """A flow, and how often each step fails before it succeeds (always: 99)."""

    value: dict[str, Json]
    failures: dict[str, int]


def result_of(
    step_id: str, args: dict[str, Json], attempt: int, failures: dict[str, int]
) -> tuple[bool, Json]:
    """(whether it succeeds, its result) of the n-th attempt (from 0) at a step."""
    if attempt < failures.get(step_id, 0):
        return False, {"error": {"name": "Boom", "message": f"{step_id} failed", "step_id": step_id}}
    return True, zlib.crc32(json.dumps([step_id, args], sort_keys=True).encode())


# --- random cases ---


@st.composite
def cases(draw: Any, max_modules: int = 4, depth: int = 2) -> Case:
    """A flow of a few modules, up to `depth` levels of loops and branches."""
    maker = _Maker(draw)
    value: dict[str, Json] = {"modules": maker.sequence(max_modules, depth, in_loop=False, known=[])}
    if draw(st.integers(0, 3)) == 0:
        value["failure_module"] = {"id": "failure", "value": _script({"message": _js("error.message")})}
    return Case(value, maker.failures)


def _js(expr: str) -> Json:
    return {"type": "javascript", "expr": expr}


def _script(inputs: dict[str, Json]) -> Json:
    return {
        "type": "rawscript",
        "language": "python3",
        "content": "def main(**k): ...",
        "input_transforms": inputs,
    }


@dataclass
class _Maker:
    draw: Any
    failures: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def one_in(self, n: int) -> bool:
        return bool(self.draw(st.integers(1, n)) == n)

    def sequence(self, most: int, depth: int, *, in_loop: bool, known: list[str]) -> list[Json]:
        modules: list[Json] = []
        seen = list(known)
        for _ in range(self.draw(st.integers(0 if depth < 2 else 1, most))):
            made = self.module(depth, in_loop=in_loop, known=seen)
            modules.append(made)
            seen.append(made["id"])
        return modules

    def module(self, depth: int, *, in_loop: bool, known: list[str]) -> Json:
        self.count += 1
        id = f"m{self.count}"
        kinds = ["step", "step", "step", "identity"]
        if depth > 0:
            kinds += ["loop", "while_loop", "branchone", "branchall"]
        kind = self.draw(st.sampled_from(kinds))
        module: dict[str, Json] = {"id": id, "value": getattr(self, kind)(id, depth, in_loop, known)}
        if kind == "step":
            self.step_options(module)
        if kind == "while_loop":
            module["stop_after_if"] = {"expr": "flow_input.iter.index >= 1", "skip_if_stopped": False}
        if self.one_in(8):
            module["skip_if"] = {"expr": self.draw(st.sampled_from(["true", "false"]))}
        if self.one_in(6):
            module["continue_on_error"] = True
        return module

    def step_options(self, module: dict[str, Json]) -> None:
        if self.one_in(4):
            self.failures[module["id"]] = self.draw(st.sampled_from([1, 2, 99]))
        if self.one_in(4):
            module["retry"] = {"constant": {"attempts": self.draw(st.integers(0, 2)), "seconds": 0}}
        if self.one_in(10):
            module["mock"] = {"enabled": True, "return_value": 7}
        if self.one_in(10):
            stop = {"expr": self.draw(st.sampled_from(["true", "false"])), "skip_if_stopped": self.one_in(2)}
            module["stop_after_if"] = stop

    def step(self, id: str, depth: int, in_loop: bool, known: list[str]) -> Json:
        sources = [{"type": "static", "value": 1}, _js("previous_result")]
        if in_loop:
            sources.append(_js("flow_input.iter.index"))
        sources += [_js(f"results.{other}") for other in known[-3:]]
        return _script({"x": self.draw(st.sampled_from(sources))})

    def identity(self, id: str, depth: int, in_loop: bool, known: list[str]) -> Json:
        return {"type": "identity"}

    def loop(self, id: str, depth: int, in_loop: bool, known: list[str]) -> Json:
        value: dict[str, Json] = {
            "type": "forloopflow",
            "iterator": {"type": "static", "value": self.draw(st.lists(st.integers(0, 9), max_size=3))},
            "modules": self.sequence(2, depth - 1, in_loop=True, known=known),
            "skip_failures": self.one_in(3),
            "parallel": self.one_in(2),
        }
        if value["parallel"] and self.one_in(2):
            value["parallelism"] = self.draw(st.integers(1, 2))
        return value

    def while_loop(self, id: str, depth: int, in_loop: bool, known: list[str]) -> Json:
        modules = self.sequence(2, depth - 1, in_loop=True, known=known)
        return {"type": "whileloopflow", "modules": modules, "skip_failures": self.one_in(3)}

    def branchone(self, id: str, depth: int, in_loop: bool, known: list[str]) -> Json:
        branches = [
            {
                "expr": self.draw(st.sampled_from(["true", "false"])),
                "modules": self._branch(depth, in_loop, known),
            }
            for _ in range(self.draw(st.integers(0, 2)))
        ]
        return {"type": "branchone", "branches": branches, "default": self._branch(depth, in_loop, known)}

    def branchall(self, id: str, depth: int, in_loop: bool, known: list[str]) -> Json:
        branches = [
            {"modules": self._branch(depth, in_loop, known), "skip_failure": self.one_in(3)}
            for _ in range(self.draw(st.integers(0, 3)))
        ]
        return {"type": "branchall", "branches": branches, "parallel": self.one_in(2)}

    def _branch(self, depth: int, in_loop: bool, known: list[str]) -> list[Json]:
        return self.sequence(2, depth - 1, in_loop=in_loop, known=known)


# --- the interpreter ---


@dataclass(frozen=True)
class Ended:
    """What came of a flow, a body or a module. `stop`: an early stop on its way outwards, with its skip flag."""

    is_success: bool
    value: Json
    stop: bool | None = None


_ALWAYS, _NEVER = "true", "false"


def expected(case: Case, args: dict[str, Json]) -> tuple[str, Json]:
    """(status, result) of a run."""
    interpreter = _Interpreter(case.failures)
    ended = interpreter.sequence(case.value["modules"], args, args, {})
    if ended.stop is not None:
        return ("skipped" if ended.stop else "success"), ended.value
    if ended.is_success:
        return "success", ended.value
    handler = case.value.get("failure_module")
    if handler is None:
        return "failure", ended.value
    message = _error(ended.value)
    return "failure", result_of("failure", {"message": message}, 0, {})[1]


def _error(value: Json) -> str:
    return "; ".join(_messages(value))


def _messages(value: Json) -> list[str]:
    if isinstance(value, list):
        return [message for item in value for message in _messages(item)]
    return [value["error"]["message"]] if isinstance(value, dict) and "error" in value else []


class _Interpreter:
    def __init__(self, failures: dict[str, int]) -> None:
        self.failures = failures

    def sequence(self, modules: list[Json], args: Json, previous: Json, outer: dict[str, Json]) -> Ended:
        results = dict(outer)
        for module in modules:
            ended = self.module(module, args, previous, results)
            if not ended.is_success and not module.get("continue_on_error"):
                return ended
            results[module["id"]] = previous = ended.value
            if ended.stop is not None:
                return ended
        return Ended(True, previous)

    def module(self, module: Json, args: Json, previous: Json, results: dict[str, Json]) -> Ended:
        if module.get("skip_if", {}).get("expr") == _ALWAYS:
            return Ended(True, previous)
        value = module["value"]
        if module.get("mock"):
            ended = Ended(True, module["mock"]["return_value"])
        else:
            ended = getattr(self, value["type"])(module, value, args, previous, results)
        stop = module.get("stop_after_if", {})
        if ended.is_success and ended.stop is None and stop.get("expr") == _ALWAYS:
            return Ended(True, ended.value, stop=stop["skip_if_stopped"])
        return ended

    def rawscript(
        self, module: Json, value: Json, args: Json, previous: Json, results: dict[str, Json]
    ) -> Ended:
        inputs = {
            name: _evaluate(transform, args, previous, results)
            for name, transform in value["input_transforms"].items()
        }
        attempts = module.get("retry", {}).get("constant", {}).get("attempts", 0)
        is_success, result = False, None
        for attempt in range(attempts + 1):
            is_success, result = result_of(module["id"], inputs, attempt, self.failures)
            if is_success:
                break
        return Ended(is_success, result)

    def identity(
        self, module: Json, value: Json, args: Json, previous: Json, results: dict[str, Json]
    ) -> Ended:
        return Ended(True, previous)

    def forloopflow(
        self, module: Json, value: Json, args: Json, previous: Json, results: dict[str, Json]
    ) -> Ended:
        items = value["iterator"]["value"] if value["modules"] else []
        return self._loop(module, value, args, results, list(enumerate(items)), is_parallel=value["parallel"])

    def whileloopflow(
        self, module: Json, value: Json, args: Json, previous: Json, results: dict[str, Json]
    ) -> Ended:
        items = (
            [(0, 0), (1, 1)] if value["modules"] else []
        )  # what stop_after_if of all while loops here says
        return self._loop(module, value, args, results, items, is_parallel=False)

    def _loop(
        self,
        module: Json,
        value: Json,
        args: Json,
        results: dict[str, Json],
        items: list[tuple[int, Json]],
        *,
        is_parallel: bool,
    ) -> Ended:
        collected: list[Json] = []
        has_failed = False
        for index, item in items:
            inner = _iterating(args, {"index": index, "value": item})
            ended = self.sequence(value["modules"], inner, inner, results)
            collected.append(ended.value)
            if not ended.is_success and not value["skip_failures"]:
                has_failed = True
                if not is_parallel:
                    return Ended(False, collected)
            if is_parallel:
                continue
            if ended.stop is not None:
                break
        return Ended(not has_failed, collected)

    def branchone(
        self, module: Json, value: Json, args: Json, previous: Json, results: dict[str, Json]
    ) -> Ended:
        chosen = next((b["modules"] for b in value["branches"] if b["expr"] == _ALWAYS), value["default"])
        return self.sequence(chosen, args, previous, results)

    def branchall(
        self, module: Json, value: Json, args: Json, previous: Json, results: dict[str, Json]
    ) -> Ended:
        collected: list[Json] = []
        has_failed = False
        for branch in value["branches"]:
            ended = self.sequence(branch["modules"], args, previous, results)
            collected.append(ended.value)
            if not ended.is_success and not branch["skip_failure"]:
                has_failed = True
                if not value["parallel"]:
                    return Ended(False, collected)
            if ended.stop is not None and not value["parallel"]:
                return Ended(True, collected, stop=ended.stop)
        return Ended(not has_failed, collected)


def _iterating(args: Json, iteration: Json) -> Json:
    shifted = {(f"{name}_parent" if name.startswith("iter") else name): value for name, value in args.items()}
    return shifted | {"iter": iteration}


def _evaluate(transform: Json, args: Json, previous: Json, results: dict[str, Json]) -> Json:
    if transform["type"] == "static":
        return transform["value"]
    expr = transform["expr"]
    if expr == "previous_result":
        return previous
    if expr == "flow_input.iter.index":
        return args["iter"]["index"]
    return results.get(expr.removeprefix("results."))
