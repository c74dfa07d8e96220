"""A flow as text: the YAML that people read, compare and keep in files, and YAML or JSON back into a flow."""

from collections.abc import Mapping
from typing import Any

import yaml

from workspaces.errors import BadRequest
from workspaces.jsontext import check_storable, parse_json

MAX_TEXT = 5_000_000  # characters of a document
MAX_DEPTH = 200  # containers inside each other


class _Dumper(yaml.CSafeDumper):
    """Block style for texts of several lines, so that code reads as code."""


def _text(dumper: "_Dumper", text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


class _Loader(yaml.CSafeLoader):
    """YAML 1.2's plain values: what else 1.1 reads into them (dates, yes, no, on, off) stays text."""


def _construct_file(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    raise yaml.constructor.ConstructorError(
        None,
        None,
        f"!{suffix} names a file that is not here; take a document that holds its scripts, such as an export",
        node.start_mark,
    )


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")
    ]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
for _word in ("true", "True", "TRUE", "false", "False", "FALSE"):
    _Loader.yaml_implicit_resolvers[_word[0]] = [
        (tag, pattern)
        for tag, pattern in yaml.CSafeLoader.yaml_implicit_resolvers.get(_word[0], [])
        if tag != "tag:yaml.org,2002:timestamp"
    ]
_Loader.add_multi_constructor("!", _construct_file)


def to_yaml(flow: Mapping[str, Any]) -> str:
    """A flow, or a part of one (plain JSON values), as YAML; keys in the order that they have."""
    return yaml.dump(dict(flow), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class BadText(BadRequest):
    """A text that is no YAML, or none that a flow is written in. `line` and `column` from 1; None when unknown."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


def from_yaml(text: str) -> dict[str, Any]:
    """The object that a YAML (or JSON) document describes, as JSON values. Raises BadText."""
    found = _json(text)
    if found is None:
        found = _yaml(text)
    if not isinstance(found, dict):
        raise BadText("a flow is an object with keys such as value; found something else", line=1, column=1)
    return found


def flow_from_text(text: str) -> dict[str, Any]:
    """The flow that a YAML or JSON document describes: {value, summary?, description?, schema?, ...}.

    A document that is only a FlowValue ({modules: [...]}) is one too. The steps are not checked here. Raises BadText,
    BadRequest.
    """
    if len(text) > MAX_TEXT:
        raise BadText(f"the document has {len(text)} characters; at most {MAX_TEXT} fit")
    found = from_yaml(text)
    if "value" not in found and isinstance(found.get("modules"), list):
        found = {"value": found}
    value = found.get("value")
    if not isinstance(value, dict) or not isinstance(value.get("modules"), list):
        raise BadText("value.modules is missing; a flow has a value with a list of modules, its steps")
    check_storable(found)
    return found


def _json(text: str) -> Any:
    """JSON is YAML too, and read much faster; None when it is something else."""
    try:
        return parse_json(text) if text.lstrip().startswith("{") else None
    except BadRequest:
        return None


def _yaml(text: str) -> Any:
    try:
        _check_events(text)
        return _with_text_keys(yaml.load(text, Loader=_Loader))
    except yaml.MarkedYAMLError as exc:
        line, column = _place(exc.problem_mark or exc.context_mark)
        where = f"line {line}, column {column}: " if line is not None else ""
        raise BadText(
            f"the YAML cannot be read: {where}{exc.problem or exc.context}", line=line, column=column
        ) from exc
    except (yaml.YAMLError, ValueError) as exc:
        raise BadText(f"the YAML cannot be read: {str(exc)[:300]}") from exc


def _place(mark: Any) -> tuple[int | None, int | None]:
    """(line, column) from 1."""
    return (None, None) if mark is None else (mark.line + 1, mark.column + 1)


def _check_events(text: str) -> None:
    """Refuse what small texts blow up with: references to other parts (anchors, aliases) and endless nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            line, column = _place(event.start_mark)
            raise BadText(
                f"the YAML refers to another part of itself (*{event.anchor}, line {line}); write it out",
                line=line,
                column=column,
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise BadText(f"the YAML is nested more than {MAX_DEPTH} deep")


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _with_text_keys(item) for key, item in value.items()}
    return [_with_text_keys(item) for item in value] if isinstance(value, list) else value


def _key(key: Any) -> str:
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return str(key)
