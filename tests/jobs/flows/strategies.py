"""Random flows for property tests: JSON of FlowValues that are valid, nearly valid, or anything at all.

flows()         valid flows; parameters say which types of modules and which options appear
broken_flows()  a valid flow with something else at one place
json_values()   any JSON
"""

from collections.abc import Callable, Collection, Iterator
from itertools import count
from string import ascii_lowercase
from typing import Any

from hypothesis import strategies as st

from jobs.flows.value import RESERVED_IDS

Json = Any
Draw = Callable[[st.SearchStrategy[Any]], Any]

CONTAINERS = frozenset({"forloopflow", "whileloopflow", "branchone", "branchall"})
TYPES = CONTAINERS | {"rawscript", "script", "flow", "identity", "aiagent"}
MODULE_OPTIONS = frozenset(
    {
        "summary",
        "stop_after_if",
        "stop_after_all_iters_if",
        "skip_if",
        "sleep",
        "suspend",
        "timeout",
        "retry",
        "cache_ttl",
        "continue_on_error",
        "delete_after",
        "mock",
        "priority",
    }
)
FLOW_OPTIONS = frozenset(
    {
        "failure_module",
        "preprocessor_module",
        "same_worker",
        "preserve_step_tags",
        "concurrency",
        "skip_expr",
        "cache_ttl",
        "flow_env",
        "priority",
        "early_return",
        "delete_after",
        "chat_input_enabled",
    }
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
PREDICATES = st.sampled_from(["true", "false", "result != null", "flow_input.x > 3", "result.stop", ""])
EXPRESSIONS = st.sampled_from(
    ["flow_input.x", "previous_result", "[1, 2, 3]", "results.a", "flow_input.iter.value"]
)
CONTENTS = {"python3": "def main(**args):\n    return args\n", "bash": 'echo "$1"\n'}


def json_values(max_leaves: int = 20) -> st.SearchStrategy[Json]:
    """Any JSON value, among its keys and texts many that mean something in flows."""
    words = st.sampled_from(
        [
            *sorted(TYPES | MODULE_OPTIONS | FLOW_OPTIONS),
            "modules",
            "value",
            "type",
            "id",
            "branches",
            "default",
            "iterator",
            "expr",
            "static",
            "javascript",
            "a",
            "b",
        ]
    )
    return st.recursive(
        SCALARS | words,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(words | TEXTS, inner, max_size=5),
        max_leaves=max_leaves,
    )


@st.composite
def flows(
    draw: Draw,
    *,
    max_modules: int = 6,
    max_depth: int = 3,
    types: Collection[str] = TYPES,
    options: Collection[str] = MODULE_OPTIONS,
    flow_options: Collection[str] = FLOW_OPTIONS,
    predicates: st.SearchStrategy[str] = PREDICATES,
    expressions: st.SearchStrategy[str] = EXPRESSIONS,
    with_ids: bool = True,
    noise: bool = False,
) -> dict[str, Json]:
    """The JSON of a valid FlowValue.

    `max_modules` counts all modules, those inside loops and branches too (not the failure module and the preprocessor);
    `max_depth` is the number of levels. `types`, `options` and `flow_options`: what may appear, by the names of TYPES,
    MODULE_OPTIONS and FLOW_OPTIONS. `predicates`: expressions of conditions; `expressions`: those of input transforms.
    `with_ids=False` leaves the ids of modules out. `noise`: unknown fields and nulls, as other versions write them.
    """
    maker = _Maker(
        draw, max_modules, frozenset(types), frozenset(options), predicates, expressions, with_ids, noise
    )
    return maker.flow(max_depth, frozenset(flow_options))


@st.composite
def broken_flows(draw: Draw, **which: Any) -> Json:
    """A valid flow (parameters as of `flows`) in which one or two places hold another JSON value, or nothing."""
    value = draw(flows(**which))
    for _ in range(draw(st.integers(1, 2))):
        value = _spoiled(draw, value)
    return value


class _Maker:
    def __init__(
        self,
        draw: Draw,
        max_modules: int,
        types: frozenset[str],
        options: frozenset[str],
        predicates: st.SearchStrategy[str],
        expressions: st.SearchStrategy[str],
        with_ids: bool,
        noise: bool,
    ) -> None:
        self.draw = draw
        self.left = max_modules
        self.types = types
        self.options = options
        self.predicates = predicates
        self.expressions = expressions
        self.with_ids = with_ids
        self.noise = noise
        self.ids = _ids()
        self.same_worker = False

    def flow(self, max_depth: int, options: frozenset[str]) -> dict[str, Json]:
        chosen = self.some(options)
        flow: dict[str, Json] = {}
        if "same_worker" in chosen:
            flow["same_worker"] = self.same_worker = self.draw(st.booleans())
        flow["modules"] = self.modules(max_depth, at_least=0)
        for name in ("failure_module", "preprocessor_module"):
            if name in chosen:
                flow[name] = self.special_module(name.removesuffix("_module"))
        flag, seconds = st.booleans(), st.integers(0, 1000)
        values: dict[str, Callable[[], dict[str, Json]]] = {
            "preserve_step_tags": lambda: {"preserve_step_tags": self.draw(flag)},
            "concurrency": lambda: {
                "concurrent_limit": self.draw(st.integers(1, 5)),
                "concurrency_time_window_s": self.draw(seconds),
                "concurrency_key": self.draw(st.sampled_from(["", "key-$args[x]"])),
            },
            "skip_expr": lambda: {"skip_expr": self.draw(self.predicates)},
            "cache_ttl": lambda: {"cache_ttl": self.draw(seconds)},
            "flow_env": lambda: {
                "flow_env": self.draw(st.dictionaries(st.sampled_from("XYZ"), SCALARS, max_size=2))
            },
            "priority": lambda: {"priority": self.draw(st.integers(0, 100))},
            "early_return": lambda: {"early_return": self.draw(st.sampled_from(["a", "b", ""]))},
            "delete_after": lambda: {"delete_after_secs": self.draw(seconds)},
            "chat_input_enabled": lambda: {"chat_input_enabled": self.draw(flag)},
        }
        for name in sorted(chosen & values.keys()):
            flow |= values[name]()
        return self.noisy(flow)

    def some(self, names: frozenset[str]) -> set[str]:
        """A few of the names, often none."""
        return self.draw(st.sets(st.sampled_from(sorted(names)), max_size=3)) if names else set()

    def modules(self, depth: int, at_least: int = 0) -> list[dict[str, Json]]:
        most = min(self.left, 4)
        wanted = self.draw(st.integers(min(at_least, most), most))
        self.left -= wanted
        return [self.module(depth) for _ in range(wanted)]

    def module(self, depth: int) -> dict[str, Json]:
        types = self.types if depth > 1 else self.types - CONTAINERS
        module: dict[str, Json] = {"id": next(self.ids)} if self.with_ids else {}
        type = self.draw(st.sampled_from(sorted(types or {"identity"})))
        module["value"] = self.noisy(self.value(type, depth))
        for name in sorted(self.some(self.options)):
            module |= self.option(name)
        return self.noisy(module)

    def special_module(self, id: str) -> dict[str, Json]:
        types = sorted(self.types & {"rawscript", "script", "flow"}) or ["rawscript"]
        module = {"id": id} if self.with_ids else {}
        return module | {"value": self.value(self.draw(st.sampled_from(types)), 1)}

    def value(self, type: str, depth: int) -> dict[str, Json]:
        draw = self.draw
        if type == "rawscript":
            language = draw(st.sampled_from(sorted(CONTENTS)))
            return {"type": type, "content": CONTENTS[language], "language": language} | self.inputs()
        if type == "script":
            hash = draw(st.none() | st.integers(0, 2**63 - 1).map(lambda hash: f"{hash:016x}"))
            return (
                {"type": type, "path": draw(st.sampled_from(["f/etl/load", "u/ann/x", "hub/1/y"]))}
                | self.inputs()
                | ({"hash": hash} if hash else {})
            )
        if type == "flow":
            return {"type": type, "path": "f/etl/whole"} | self.inputs()
        if type == "forloopflow":
            loop = {
                "type": type,
                "iterator": self.iterator(),
                "skip_failures": draw(st.booleans()),
            } | self.parallel()
            if loop.get("parallel"):
                loop |= draw(
                    st.sampled_from([{}, {"parallelism": 2}, {"parallelism": {"type": "static", "value": 1}}])
                )
            return loop | {"modules": self.modules(depth - 1)}
        if type == "whileloopflow":
            return {"type": type, "skip_failures": draw(st.booleans()), "modules": self.modules(depth - 1)}
        if type == "branchone":
            branches = [
                {"summary": "", "expr": draw(self.predicates), "modules": self.modules(depth - 1)}
                for _ in range(draw(st.integers(0, 3)))
            ]
            return {"type": type, "branches": branches, "default": self.modules(depth - 1)}
        if type == "branchall":
            branches = [
                {"summary": "", "skip_failure": draw(st.booleans()), "modules": self.modules(depth - 1)}
                for _ in range(draw(st.integers(0, 3)))
            ]
            return {"type": type, "branches": branches} | self.parallel()
        if type == "aiagent":
            return {"type": type, "tools": []} | self.inputs()
        return {"type": "identity"}

    def inputs(self) -> dict[str, Json]:
        transforms = st.dictionaries(st.sampled_from(["x", "y", "z"]), self.transform(SCALARS), max_size=2)
        return self.draw(st.just({}) | st.builds(lambda inputs: {"input_transforms": inputs}, transforms))

    def transform(self, values: st.SearchStrategy[Json]) -> st.SearchStrategy[dict[str, Json]]:
        return st.builds(lambda value: {"type": "static", "value": value}, values) | st.builds(
            lambda expr: {"type": "javascript", "expr": expr}, self.expressions
        )

    def iterator(self) -> dict[str, Json]:
        return self.draw(self.transform(st.lists(st.integers(0, 3), max_size=3)))

    def parallel(self) -> dict[str, Json]:
        flag = st.just(False) if self.same_worker else st.booleans()
        return self.draw(st.just({}) | st.builds(lambda parallel: {"parallel": parallel}, flag))

    def option(self, name: str) -> dict[str, Json]:
        draw, flag = self.draw, st.booleans()
        seconds = st.integers(0, 100) | st.floats(0, 5)
        if name in ("stop_after_if", "stop_after_all_iters_if"):
            stop = {"expr": draw(self.predicates), "skip_if_stopped": draw(flag)}
            return {
                name: stop | draw(st.sampled_from([{}, {"error_message": ""}, {"error_message": "enough"}]))
            }
        if name == "skip_if":
            return {name: {"expr": draw(self.predicates)}}
        if name in ("sleep", "timeout"):
            return {name: draw(self.transform(seconds) | seconds)}
        if name == "suspend":
            return {
                name: {"required_events": draw(st.integers(0, 3)), "timeout": draw(st.integers(1, 100))}
                | {key: draw(flag) for key in self.some(_SUSPEND_FLAGS)}
            }
        if name == "retry":
            return {name: self.retry()}
        if name == "delete_after":
            return draw(st.sampled_from([{"delete_after_use": True}, {"delete_after_secs": 5}]))
        if name == "mock":
            return {name: {"enabled": draw(flag), "return_value": draw(SCALARS)}}
        values = {
            "summary": TEXTS,
            "cache_ttl": st.integers(0, 100),
            "continue_on_error": flag,
            "priority": st.integers(0, 100),
        }
        return {name: draw(values[name])}

    def retry(self) -> dict[str, Json]:
        draw, small = self.draw, st.integers(0, 3)
        parts = draw(st.sets(st.sampled_from(["constant", "exponential", "retry_if"])))
        retry: dict[str, Json] = {}
        if "constant" in parts:
            retry["constant"] = {"attempts": draw(small), "seconds": draw(small)}
        if "exponential" in parts:
            retry["exponential"] = {
                "attempts": draw(small),
                "multiplier": draw(small),
                "seconds": draw(small),
                "random_factor": draw(st.integers(0, 100)),
            }
        if "retry_if" in parts:
            retry["retry_if"] = {"expr": draw(self.predicates)}
        return retry

    def noisy(self, fields: dict[str, Json]) -> dict[str, Json]:
        if not self.noise:
            return fields
        return self.draw(st.sampled_from([{}, {"assets": []}, {"retry": None}, {"x-color": "#fff"}])) | fields


_SUSPEND_FLAGS = frozenset(
    {"user_auth_required", "self_approval_disabled", "hide_cancel", "continue_on_disapprove_timeout"}
)


def _ids() -> Iterator[str]:
    for round in count():
        for letter in ascii_lowercase:
            id = letter + (str(round) if round else "")
            if id not in RESERVED_IDS:
                yield id


def _spoiled(draw: Draw, value: Json) -> Json:
    """`value` with something else at one place, drawn step by step from the top."""
    places = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    if not places or draw(st.integers(0, 9)) == 0:
        return draw(json_values(5))
    place = draw(st.sampled_from(places))
    changed = value.copy()
    if isinstance(value, dict) and draw(st.integers(0, 9)) == 0:
        del changed[place]
    else:
        changed[place] = _spoiled(draw, value[place])
    return changed
