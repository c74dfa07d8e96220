"""Expressions that are a path (`results.a.rows[0].id`) or a literal (`"x"`, `42`): read without JavaScript.

The outcome is the one that JavaScript gives, errors included; where that would take knowledge of JavaScript's own
objects (`.length`, `.toString`), the answer is UNSURE and V8 decides. One deliberate difference: integers beyond 2^53
keep their digits here.
"""

import re
from dataclasses import dataclass
from typing import Any, Final


class _Marker:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


UNDEFINED: Final = _Marker("undefined")
UNSURE: Final = _Marker("unsure")


class NotReadable(Exception):
    """The TypeError of reading a property of null or undefined; the text is V8's."""


@dataclass(frozen=True, slots=True)
class Pathless:
    """A literal."""

    value: Any


@dataclass(frozen=True, slots=True)
class Path:
    """A name and what is read of it."""

    root: str
    step: str  # of root "results": the step's id
    keys: tuple[tuple[str | int, bool], ...]  # (key, whether `?.` stands before it)

    def read(self, value: Any) -> Any:
        """Follow the keys from `value`. UNDEFINED, UNSURE, or a JSON value. Raises NotReadable."""
        for key, is_optional in self.keys:
            if value is None or value is UNDEFINED:
                if is_optional:
                    return UNDEFINED
                kind = "null" if value is None else "undefined"
                raise NotReadable(f"Cannot read properties of {kind} (reading '{key}')")
            if isinstance(value, dict):
                name = str(key)
                if name in value:
                    value = value[name]
                elif name in INHERITED:
                    return UNSURE
                else:
                    value = UNDEFINED
            elif isinstance(value, list) and isinstance(key, int):
                value = value[key] if key < len(value) else UNDEFINED
            else:
                return UNSURE
        return value


# What every JavaScript object has without saying so.
INHERITED = frozenset(
    (
        *(
            "constructor",
            "hasOwnProperty",
            "isPrototypeOf",
            "propertyIsEnumerable",
            "toLocaleString",
            "toString",
        ),
        *(
            "valueOf",
            "__proto__",
            "__defineGetter__",
            "__defineSetter__",
            "__lookupGetter__",
            "__lookupSetter__",
        ),
    )
)

_NAME = r"[A-Za-z_$][A-Za-z0-9_$]*"
_INDEX = r"0|[1-9][0-9]{0,8}"
_KEY = re.compile(
    rf"""\s*(?:
        (?P<dot>\?\.|\.)\s*(?P<name>{_NAME})
      | (?P<optional>\?\.)?\s*\[\s*(?:(?P<index>{_INDEX})|"(?P<double>[^"\\\n\r]*)"|'(?P<single>[^'\\\n\r]*)')\s*\]
    )""",
    re.VERBOSE | re.ASCII,
)
_ROOT = re.compile(rf"\s*({_NAME})", re.ASCII)
_END = re.compile(r"[\s;]*\Z", re.ASCII)
_NUMBER = re.compile(rf"-?(?:{_INDEX})(?:\.[0-9]{{1,9}})?\Z", re.ASCII)
_TEXT = re.compile(r""""([^"\\\n\r]*)"\Z|'([^'\\\n\r]*)'\Z""")
_WORDS = {"true": True, "false": False, "null": None, "undefined": UNDEFINED, "": UNDEFINED}
MAX_CHARS = 1000


def parse(expr: str) -> Path | Pathless | None:
    """What `expr` is, or None: JavaScript that V8 must evaluate."""
    if len(expr) > MAX_CHARS:
        return None
    literal = _END.sub("", expr).lstrip(" \t\r\n")
    if literal in _WORDS:
        return Pathless(_WORDS[literal])
    if _NUMBER.match(literal):
        return Pathless(float(literal) if "." in literal else int(literal))
    if text := _TEXT.match(literal):
        return Pathless(text[1] if text[1] is not None else text[2])
    return _path(expr)


def _path(expr: str) -> Path | None:
    root = _ROOT.match(expr)
    if root is None:
        return None
    keys: list[tuple[str | int, bool]] = []
    position = root.end()
    while key := _KEY.match(expr, position):
        position = key.end()
        index = key["index"]
        name = key["name"] or key["double"] or key["single"] or ""
        keys.append((int(index) if index else name, (key["dot"] or key["optional"]) == "?."))
    if not _END.match(expr, position):
        return None
    if root[1] != "results":
        return Path(root[1], "", tuple(keys))
    if not keys:
        return None
    return Path("results", str(keys[0][0]), tuple(keys[1:]))


def is_truthy(value: Any) -> bool:
    """JavaScript's opinion of a JSON value (or UNDEFINED): empty lists and objects are true."""
    return value is not UNDEFINED and (isinstance(value, (dict, list)) or bool(value))
