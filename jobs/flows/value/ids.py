"""Ids of modules: which are allowed, and giving one to modules that have none."""

import re
from collections.abc import Iterator
from itertools import count, product
from string import ascii_lowercase
from typing import Any

MAX_ID = 100  # characters
MAX_DEPTH = 100  # levels of modules
MAX_MODULES = 10_000

# Words that mean something else in expressions, in the engine or in an editor.
_RESERVED = (
    "do bg ctx state if else for delete while new in failure preprocessor as Input Result Trigger __proto__"
)
RESERVED_IDS = frozenset(_RESERVED.split())
# results.a, results?.a, results["a"]; not the property of something else that is called results.
_READS_RESULT = re.compile(
    r"""(?<![\w$.])results\s*(?:\??\.\s*([A-Za-z_$][\w$]*)|(?:\?\.)?\[\s*["']([^"']+)["']\s*\])"""
)

Json = Any


def wrong_id(id: str) -> str | None:
    """Why a module may not have this id; None when it may."""
    if len(id) > MAX_ID:
        return f"is longer than {MAX_ID} characters"
    if not id.replace("$", "_").isidentifier():
        return f"{id!r} is no identifier; expected letters, digits and _, not starting with a digit"
    if id in RESERVED_IDS:
        return f"{id!r} is a reserved word; choose another id"
    return None


def fill_ids(value: Json) -> Json:
    """The flow's JSON with an id for each module that has none; the same object when nothing is to be filled.

    Depth-first, a module gets the first of a, b, ..., z, aa, ... that is free; the failure module and the
    preprocessor get their fixed ids. Where a new id could be mistaken for another (see
    `is_ambiguous`) modules keep having none, and parsing reports them. JSON that is no flow comes back as it is.
    """
    if not isinstance(value, dict):
        return value
    filled = {
        key: {"id": id} | module | {"id": id}
        for key, id in (("failure_module", "failure"), ("preprocessor_module", "preprocessor"))
        if isinstance(module := value.get(key), dict) and _id_of(module) is None
    }
    if any(_id_of(module) is None for module in _modules(value)) and not is_ambiguous(value):
        filled["modules"] = _filled_modules(value["modules"], _free_ids(value), 1)
    return value | filled if filled else value


def is_ambiguous(value: dict[str, Json]) -> bool:
    """Whether a missing id could be meant by somebody: some modules have ids, and a result is read that none declares.

    A flow without any ids is not ambiguous: its author counts modules as the editor does, a, b, c, depth first.
    """
    declared = {id for module in _modules(value) if (id := _id_of(module)) is not None}
    return bool(declared) and any(
        name not in declared | {"failure", "preprocessor"} for name in _read_results(value)
    )


def _id_of(module: dict[str, Json]) -> str | None:
    id = module.get("id")
    if id is None or id == "":
        return None
    return id if isinstance(id, str) else "0"  # wrong, which parsing reports; never the id of another


def _modules(value: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """The modules and agents' tools of a flow's JSON, depth first, as far as limits go; not the two with fixed ids."""
    stack = [(module, 1) for module in reversed(_dicts(value.get("modules")))]
    seen = 0
    while stack and seen <= MAX_MODULES:
        module, depth = stack.pop()
        seen += 1
        yield module
        if depth <= MAX_DEPTH:
            inner = [child for modules in _bodies(module.get("value")) for child in modules]
            stack.extend((child, depth + 1) for child in reversed(inner))


def _bodies(value: Json) -> Iterator[list[dict[str, Json]]]:
    if isinstance(value, dict):
        for branch in _dicts(value.get("branches")):
            yield _dicts(branch.get("modules"))
        yield _dicts(value.get("modules"))
        yield _dicts(value.get("default"))
        yield _dicts(value.get("tools"))


def _dicts(value: Json) -> list[dict[str, Json]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _read_results(value: dict[str, Json]) -> Iterator[str]:
    """Ids by which the flow reads results: in its expressions, and of the step that answers early."""
    if isinstance(early := value.get("early_return"), str) and early:
        yield early
    stack: list[Json] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for key, inner in item.items():
                if isinstance(inner, str):
                    if key in ("expr", "skip_expr"):
                        yield from (match[1] or match[2] for match in _READS_RESULT.finditer(inner))
                else:
                    stack.append(inner)
        elif isinstance(item, list):
            stack.extend(item)


def _free_ids(value: Json) -> Iterator[str]:
    taken = {_id_of(module) for module in _modules(value)} | RESERVED_IDS
    for length in count(1):
        for letters in product(ascii_lowercase, repeat=length):
            id = "".join(letters)
            if id not in taken:
                yield id


def _filled_modules(modules: Json, letters: Iterator[str], depth: int) -> Json:
    if not isinstance(modules, list) or depth > MAX_DEPTH:
        return modules
    return [
        _filled_module(module, letters, depth) if isinstance(module, dict) else module for module in modules
    ]


def _filled_module(module: dict[str, Json], letters: Iterator[str], depth: int) -> dict[str, Json]:
    if _id_of(module) is None:
        id = next(letters)
        module = {"id": id} | module | {"id": id}
    value = module.get("value")
    if not isinstance(value, dict):
        return module
    inner = dict(value)
    if isinstance(inner.get("branches"), list):
        inner["branches"] = [_filled_branch(branch, letters, depth) for branch in inner["branches"]]
    for key in ("modules", "default", "tools"):
        if key in inner:
            inner[key] = _filled_modules(inner[key], letters, depth + 1)
    return {**module, "value": inner}


def _filled_branch(branch: Json, letters: Iterator[str], depth: int) -> Json:
    if not isinstance(branch, dict) or "modules" not in branch:
        return branch
    return {**branch, "modules": _filled_modules(branch["modules"], letters, depth + 1)}
