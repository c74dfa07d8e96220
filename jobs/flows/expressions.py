"""Input transforms and predicates of flows: what an expression is worth, in a scope.

Most expressions only point at a value (`results.a.rows[0].id`): those are read here, without V8, with the same outcome.
All others go to jobs.flows.javascript, together for a step. Values are asked of the scope only when an expression
mentions them, or asks for them while it runs.
"""

import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol

import orjson

from jobs.flows import javascript, simple_expressions
from jobs.flows.javascript import Done, Engine, Failed, LimitExceeded, Needs, Program, Values
from jobs.flows.simple_expressions import UNDEFINED, Path, Pathless
from jobs.flows.value import AiFilled, Javascript, Static, Transform
from workspaces.errors import DomainError

MAX_ROUNDS = 100  # of asking for values by computed names, in one call
MAX_SHOWN = 120  # characters of an expression in a message


class Scope(Protocol):
    """What names mean. Every method is asked only when an expression really needs it, and once a call."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """Names of values that are here already: result, error, resume, iter, ..."""

    async def flow_input(self) -> Any: ...
    async def flow_env(self) -> Any: ...
    async def previous_result(self) -> Any: ...

    async def result(self, step_id: str) -> Any:
        """The result of a step; None of an unknown one."""

    async def variable(self, path: str) -> Any: ...
    async def resource(self, path: str) -> Any: ...
    async def flow_user_state(self, key: str) -> Any: ...


class ExpressionFailed(DomainError):
    """An expression has no value. `name` is JavaScript's name of the error."""

    code = "expression_failed"

    def __init__(self, message: str, *, where: str, expr: str, name: str = "Error") -> None:
        super().__init__(f"{where}: {_shown(expr)}: {message}")
        self.where, self.expr, self.name = where, expr, name


async def evaluate(expr: str, scope: Scope, *, where: str, engine: Engine | None = None) -> Any:
    """The JSON value of `expr`; undefined and NaN are None, dates are texts. Raises ExpressionFailed."""
    return (await _Call(scope, engine).run({"": _Task(expr, where)}))[""]


async def evaluate_bool(expr: str, scope: Scope, *, where: str, engine: Engine | None = None) -> bool:
    """Whether JavaScript takes the value of `expr` for true. Raises ExpressionFailed."""
    return (await _Call(scope, engine).run({"": _Task(expr, where, truth=True)}))[""]


async def evaluate_transform(
    transform: Transform, scope: Scope, *, where: str, engine: Engine | None = None
) -> Any:
    """The value of a transform. Static ones pass through unchanged; one that a model fills in is None.

    Raises ExpressionFailed.
    """
    match transform:
        case Static(value=value):
            return value
        case Javascript(expr=expr):
            return await evaluate(expr, scope, where=where, engine=engine)
        case AiFilled():
            return None


async def evaluate_inputs(
    transforms: Mapping[str, Transform], scope: Scope, *, where: str, engine: Engine | None = None
) -> dict[str, Any]:
    """All inputs of a step, in the order of `transforms`; those that a model fills in are left out.

    `where` names the step; the input is added. Raises ExpressionFailed, for the first one that fails.
    """
    tasks = {
        name: _Task(transform.expr, f"{where}, input {name}")
        for name, transform in transforms.items()
        if isinstance(transform, Javascript)
    }
    values = await _Call(scope, engine).run(tasks) if tasks else {}
    return {
        name: transform.value if isinstance(transform, Static) else values[name]
        for name, transform in transforms.items()
        if not isinstance(transform, AiFilled)
    }


# --- the engine of this process ---

_engine: Engine | None = None


def default_engine() -> Engine:
    """The engine of this process; helper processes start with its first use, or by `default_engine().warm_up()`."""
    global _engine
    if _engine is None:
        _engine = Engine()
    return _engine


# --- reading an expression ---


@dataclass(frozen=True, slots=True)
class _Reading:
    """What an expression's text tells. Cached by text."""

    simple: Path | Pathless | None
    mentioned: frozenset[str] | None  # identifiers; None: cannot be known (escapes, eval)
    results: tuple[str, ...]  # steps whose results it names
    program: Program  # without names


_IDENTIFIER = re.compile(r"[\w$]+")
_RESULT = re.compile(
    r"""\bresults\s*(?:\?\.|\.)\s*([A-Za-z_$][\w$]*)|\bresults\s*(?:\?\.)?\s*\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\]"""
)
_HIDES_NAMES = re.compile(r"\\u|\beval\b")
_MAY_CHANGE = re.compile(r"[(=`]|\+\+|--|\bdelete\b")
_AWAITS = re.compile(r"\bawait\b|\\u")
_THENS = re.compile(r"\.\s*(?:then|catch|finally)\s*\(")

# Words with which code reaches beyond its own values, or which the shared isolate does not have (hardening.js).
_WILD = re.compile(
    r"""\\u                                              # may spell any word
    | (?<![=!<>])=(?![=>]) | >>= | <<= | \+\+ | --        # assignments
    | \b(?:eval|this|globalThis|arguments|callee|caller|constructor|prototype|import|__\w+
        |function|class|async|await|yield|for|while|do|with|delete|try|debugger
        |then|compile|fromAsync|define\w+|setPrototypeOf|captureStackTrace|prepareStackTrace|stackTraceLimit
        |Function|Symbol|RegExp|Promise|Proxy|Reflect|Intl|Temporal|Iterator|ShadowRealm|WeakRef|WeakMap|WeakSet
        |\w*Array(?<!\bArray)|ArrayBuffer|DataView|SuppressedError|\w*DisposableStack)\b""",
    re.VERBOSE,
)
# What makes a new variable of the expression's own, and is no other assignment.
_DECLARATION = re.compile(r"\b(?:const|let)\s+(?:[\w$]+|\{[^=(){}]*\}|\[[^=()\[\]]*\])\s*=(?![=>])")


def _is_tame(expr: str) -> bool:
    """Whether the text shows that evaluating it changes nothing but the values it reads. When in doubt, False."""
    return not _WILD.search(_DECLARATION.sub("", expr))


@lru_cache(maxsize=4096)
def read(expr: str) -> _Reading:
    return _Reading(
        simple=simple_expressions.parse(expr),
        mentioned=None if _HIDES_NAMES.search(expr) else frozenset(_IDENTIFIER.findall(expr)),
        results=tuple(dict.fromkeys(next(filter(None, found), "") for found in _RESULT.findall(expr))),
        program=Program(
            source=expr,
            names=(),
            is_pure=not _MAY_CHANGE.search(expr),
            is_tame=_is_tame(expr),
            awaits=bool(_AWAITS.search(expr)),
            thens=bool(_THENS.search(expr)),
        ),
    )


# --- evaluating ---


@dataclass(frozen=True, slots=True)
class _Task:
    expr: str
    where: str
    truth: bool = False

    def failure(self, message: str, name: str = "Error") -> ExpressionFailed:
        return ExpressionFailed(message, where=self.where, expr=self.expr, name=name)


@dataclass(slots=True)
class _Call:
    """One call: what it has loaded, and the engine it uses."""

    scope: Scope
    engine: Engine | None
    values: dict[tuple[str, str], Any] = field(default_factory=dict)  # (kind, name) -> value

    async def run(self, tasks: Mapping[str, _Task]) -> dict[str, Any]:
        done: dict[str, Any] = {}
        hard: dict[str, _Task] = {}
        for name, task in tasks.items():
            simple = read(task.expr).simple
            if isinstance(simple, Pathless):
                value = simple.value
            elif simple is not None and (simple.root in _LOADED or simple.root in self.scope.extra):
                try:
                    value = simple.read(await self._root(simple, task))
                except simple_expressions.NotReadable as exc:
                    raise task.failure(str(exc), "TypeError") from None
            else:
                value = simple_expressions.UNSURE
            if value is simple_expressions.UNSURE:
                hard[name] = task
            elif task.truth:
                done[name] = simple_expressions.is_truthy(value)
            else:
                done[name] = None if value is UNDEFINED else value
        if hard:
            done |= await self._run_v8(hard)
        return done

    # --- without V8 ---

    async def _root(self, path: Path, task: _Task) -> Any:
        if path.root in self.scope.extra:
            return self.scope.extra[path.root]
        return await self._load(path.root, path.step, task)

    async def _load(self, kind: str, name: str, task: _Task) -> Any:
        """What the scope says, asked once a call; `task` is the expression that needs it."""
        key = ("flow_input" if kind == "params" else kind, name)
        if key not in self.values:
            try:
                self.values[key] = await _LOADERS[kind](self.scope, name)
            except DomainError as exc:  # an unknown variable, a missing right
                raise task.failure(exc.message, type(exc).__name__) from exc
        return self.values[key]

    # --- with V8 ---

    async def _run_v8(self, tasks: Mapping[str, _Task]) -> dict[str, Any]:
        engine = self.engine or default_engine()
        first = next(iter(tasks.values()))
        values = Values()
        programs = {name: await self._program(task, values) for name, task in tasks.items()}
        done: dict[str, Any] = {}
        left_s = engine.time_limit_s
        for _ in range(MAX_ROUNDS):
            started = time.monotonic()
            try:
                answers = await engine.evaluate(list(programs.values()), values, limit_s=left_s)
            except LimitExceeded as exc:
                suspects = [tasks[name] for name in programs]
                where = " or ".join(task.where for task in suspects)
                raise replace(suspects[0], where=where).failure(str(exc), "LimitExceeded") from None
            except javascript.EngineLost as exc:
                raise first.failure(f"could not be evaluated: {exc}", "InternalError") from None
            left_s -= time.monotonic() - started
            again: dict[str, Program] = {}
            for (name, program), answer in zip(programs.items(), answers, strict=True):
                match answer:
                    case Done(text=text):
                        done[name] = _decoded(text, tasks[name])
                    case Failed(name=error, message=message, line=line):
                        raise tasks[name].failure(_described(message, line, tasks[name].expr), error)
                    case Needs(asked=asked):
                        again[name] = program
                        for kind, wanted in asked:
                            if not values.has(kind, wanted):
                                values.add(
                                    kind, wanted, _encoded(await self._load(kind, wanted, tasks[name]))
                                )
            if not again:
                return done
            programs = again
        raise tasks[next(iter(programs))].failure(f"asks for more than {MAX_ROUNDS} values by computed names")

    async def _program(self, task: _Task, values: Values) -> Program:
        """The program of an expression, with its parameters; what it mentions is loaded into `values`."""
        reading = read(task.expr)
        names = []
        for name in (*_ROOTS, *self.scope.extra):
            if (reading.mentioned is not None and name not in reading.mentioned) or name in names:
                continue
            names.append(name)
            if name not in values.named:
                value = (
                    self.scope.extra[name] if name in self.scope.extra else await self._load(name, "", task)
                )
                values.named[name] = _encoded(value)
        for name in ("results", *javascript.CALLS):
            if (reading.mentioned is None or name in reading.mentioned) and name not in names:
                names.append(name)
        if "results" in names and "results" not in values.named:
            for step_id in reading.results:
                if not values.has("results", step_id):
                    values.add("results", step_id, _encoded(await self._load("results", step_id, task)))
        return replace(reading.program, names=tuple(names), truth=task.truth)


_ROOTS = ("flow_input", "params", "flow_env", "previous_result")  # `params` is an old name of flow_input
_LOADED = frozenset((*_ROOTS, "results"))
_LOADERS: dict[str, Callable[[Scope, str], Awaitable[Any]]] = {
    "flow_input": lambda scope, _: scope.flow_input(),
    "params": lambda scope, _: scope.flow_input(),
    "flow_env": lambda scope, _: scope.flow_env(),
    "previous_result": lambda scope, _: scope.previous_result(),
    "results": lambda scope, name: scope.result(name),
    "variable": lambda scope, name: scope.variable(name),
    "resource": lambda scope, name: scope.resource(name),
    "flow_user_state": lambda scope, name: scope.flow_user_state(name),
}


# --- JSON ---


def _encoded(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):  # deep, or integers beyond 64 bits: the standard library takes them
        return json.dumps(value).encode()


def _decoded(text: bytes, task: _Task) -> Any:
    if b"\\u0000" in text and _NUL.search(text):
        raise task.failure("the value holds a NUL character (\\u0000), which cannot be stored")
    if b"\\ud" in text:
        text = _whole_characters(text)
    try:
        value = orjson.loads(text)
        if text.count(b"[") + text.count(b"{") > _MAX_DEPTH:
            orjson.dumps(value)  # refuses what is nested too deeply for what follows
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        raise task.failure(f"the value is nested too deeply (more than {_MAX_DEPTH} levels)") from None
    return value


_MAX_DEPTH = 250
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def _whole_characters(text: bytes) -> bytes:
    """Halves of surrogate pairs, which JavaScript allows and UTF-8 does not, as U+FFFD."""
    value = json.dumps(json.loads(text), ensure_ascii=False)
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


# --- messages ---


def _shown(expr: str) -> str:
    line = " ".join(expr.split())
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


def _described(message: str, line: int | None, expr: str) -> str:
    text = message.strip().split("\n")[0][:500]
    is_known = line is not None and 1 <= line <= expr.count("\n") + 1
    return f"{text} (line {line})" if is_known and "\n" in expr.strip() else text
