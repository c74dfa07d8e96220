"""`$var:path` and `$res:path` inside JSON values: replaced by what they name, with the rights of one caller."""

from typing import Any

from workspaces.access import Caller
from workspaces.errors import BadRequest, NotFound
from workspaces.resources import get_resource
from workspaces.variables import get_variable, read_value

MAX_NESTING = 20  # a resource that names a resource that names ...
MAX_DEPTH = 250  # levels of the value that comes out
MAX_CHARACTERS = 100_000_000  # of the value that comes out, counted where references are put in

_VARIABLE = ("$var:", "var://")
_RESOURCE = ("$res:", "res://")


def interpolate(value: Any, *, caller: Caller) -> tuple[Any, list[str]]:
    """Replace every text that is a reference, anywhere in a JSON value and in the resources it names.

    `$var:path` (or `var://path`) becomes the variable's text, `$res:path` (or `res://path`) the resource's value. A text
    is a reference only as a whole. Answers the new value (`value` itself stays as it is) and the plain secrets that were
    put in, for masking them in logs. Raises NotFound or PermissionDenied for what the caller may not read, BadRequest
    for references in a circle or too deep, each with the way to the reference.
    """
    resolver = _Resolver(caller)
    replaced = resolver.resolve(value, (), 0)
    return replaced, sorted(resolver.secrets)


def has_references(value: Any) -> bool:
    """Would `interpolate` change this JSON value? Costs no query."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if item.startswith(_VARIABLE + _RESOURCE):
                return True
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return False


class _Resolver:
    """One run of `interpolate`. Each path is read once, however often it is named."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.secrets: set[str] = set()
        self.characters = 0
        self._variables: dict[str, str] = {}
        self._resources: dict[str, Any] = {}

    def resolve(self, value: Any, trail: tuple[str, ...], depth: int) -> Any:
        """`value` with its references replaced; `trail` are the resources being replaced around it."""
        if depth > MAX_DEPTH:
            raise BadRequest(
                f"the value with its references replaced is nested more than {MAX_DEPTH} levels deep"
            )
        if isinstance(value, str):
            return self._text(value, trail, depth)
        if isinstance(value, dict):
            return {key: self.resolve(inner, trail, depth + 1) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.resolve(inner, trail, depth + 1) for inner in value]
        return value

    def _text(self, text: str, trail: tuple[str, ...], depth: int) -> Any:
        for prefix in _VARIABLE:
            if text.startswith(prefix):
                return self._variable(text[len(prefix) :], trail)
        for prefix in _RESOURCE:
            if text.startswith(prefix):
                return self._resource(text[len(prefix) :], trail, depth)
        # Counted inside resources only: what the caller sent has been measured already.
        if trail:
            self._count(len(text))
        return text

    def _variable(self, path: str, trail: tuple[str, ...]) -> str:
        if path not in self._variables:
            try:
                variable = get_variable(self.caller, path)
                self._variables[path] = read_value(self.caller, variable)
            except NotFound as exc:
                raise NotFound(exc.message + _because(trail)) from exc
            if variable.is_secret and self._variables[path]:
                self.secrets.add(self._variables[path])
        self._count(len(self._variables[path]))
        return self._variables[path]

    def _resource(self, path: str, trail: tuple[str, ...], depth: int) -> Any:
        if path in trail:
            raise BadRequest(f"resource {path} refers to itself: {' -> '.join((*trail, path))}")
        if len(trail) >= MAX_NESTING:
            raise BadRequest(
                f"resources refer to each other more than {MAX_NESTING} deep: {' -> '.join(trail)}"
            )
        if path not in self._resources:
            try:
                self._resources[path] = get_resource(self.caller, path).value
            except NotFound as exc:
                raise NotFound(exc.message + _because(trail)) from exc
        self._count(100)  # an empty value named a million times is large too
        return self.resolve(self._resources[path], (*trail, path), depth)

    def _count(self, characters: int) -> None:
        self.characters += characters
        if self.characters > MAX_CHARACTERS:
            raise BadRequest(f"the value with its references replaced exceeds {MAX_CHARACTERS} characters")


def _because(trail: tuple[str, ...]) -> str:
    return f" (named by {' -> '.join(trail)})" if trail else ""
