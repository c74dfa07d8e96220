"""Flows as text: YAML for people to read and to keep in files, and YAML or JSON back into a flow.

Only YAML that means JSON is read (the core schema of YAML 1.2): no aliases, no tags of one's own, keys are texts, a date
is a text. What `to_yaml` writes means the same to readers of YAML 1.1.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from workspaces import jsontext
from workspaces.errors import BadRequest

MAX_CHARS = 10_000_000  # of a document
INDENT = "  "


class BadText(BadRequest):
    """A text that is no YAML, or none that a flow is written in. `line` and `column` count from 1; None: no place."""

    code = "bad_text"

    def __init__(self, problem: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem if line is None else f"line {line}, column {column}: {problem}")
        self.line, self.column = line, column


# --- writing ---

# Needs no quotes, for a reader of any version: starts with a letter, means no other type, no indicator inside.
_PLAIN = re.compile(
    r"[A-Za-z_/](?:[^\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff:#]|:(?=[^\s])|(?<! )#)*"
)
_OTHER_TYPE = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]')
# Line ends that are not \n, and what no reader accepts unescaped, cannot stand in a block of lines.
_NOT_IN_BLOCK = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_LONGEST_KEY = 500  # characters; readers look for the colon of a longer one in vain


def to_yaml(value: Mapping[str, Any]) -> str:
    """A JSON object (a flow, or a part of one) as YAML: keys in their order, texts of several lines as blocks (|)."""
    if not value:
        return "{}\n"
    lines: list[str] = []
    _write_object(value, "", "", lines)
    return "\n".join(lines) + "\n"


def _write_object(value: Mapping[str, Any], first: str, indent: str, lines: list[str]) -> None:
    """`first` precedes the first key ("- " of a list, or nothing more than the indent)."""
    start = first or indent
    for key, inner in value.items():
        name = _quoted_or_plain(key)
        if len(name) > _LONGEST_KEY:
            lines.append(f"{start}? {name}")
            start, name = indent, ""
        _write(inner, f"{start}{name}:", indent, lines)
        start = indent


def _write(value: Any, head: str, indent: str, lines: list[str]) -> None:
    """A value after `head` ("key:" or "-"), whose own children stand one level below `indent`."""
    inside = indent + INDENT
    if isinstance(value, dict) and value:
        if head.endswith("-"):
            _write_object(value, f"{head} ", inside, lines)
        else:
            lines.append(head)
            _write_object(value, "", inside, lines)
    elif isinstance(value, list) and value:
        lines.append(head)
        for item in value:
            _write(item, f"{inside}-", inside, lines)
    elif isinstance(value, str) and _fits_block(value):
        _write_block(value, head, inside, lines)
    else:
        lines.append(f"{head} {_scalar(value)}")


def _fits_block(text: str) -> bool:
    # A last line of spaces alone would be taken for the end of the block.
    return (
        "\n" in text
        and not text.isspace()
        and not text.endswith((" ", "\t"))
        and not _NOT_IN_BLOCK.search(text)
    )


def _write_block(text: str, head: str, indent: str, lines: list[str]) -> None:
    # The width of the indent is only to be guessed when the text's first line is neither empty nor indented.
    width = str(len(INDENT)) if text[0] in " \t\n" else ""
    body = text.split("\n")
    end = "-" if body[-1] else "" if len(body) < 3 or body[-2] else "+"
    if not body[-1]:
        body.pop()
    lines.append(f"{head} |{width}{end}")
    lines.extend(indent + line if line else "" for line in body)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _quoted_or_plain(value)
    if isinstance(value, float):
        text = json.dumps(value)
        # YAML 1.1 knows no 1e+16, only 1.0e+16.
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return json.dumps(value)


def _quoted_or_plain(text: str) -> str:
    if _PLAIN.fullmatch(text) and text[-1] != " " and text.lower() not in _OTHER_TYPE:
        return text
    return '"' + _TO_ESCAPE.sub(_escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    short = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    code = ord(character)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


# --- reading ---

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = frozenset(["", "~", "null", "Null", "NULL"])
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_STANDARD_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset(["!", _STANDARD_TAG + "str"])
_KNOWN_TAGS = _TEXT_TAGS | {_STANDARD_TAG + name for name in ("null", "bool", "int", "float", "map", "seq")}


def from_yaml(text: str) -> dict[str, Any]:
    """The object that a YAML (or JSON) text means, as JSON values. Raises BadText."""
    if len(text) > MAX_CHARS:
        raise BadText(f"the text has {len(text)} characters; at most {MAX_CHARS} fit")
    value = _json(text)
    if value is None:
        value = _yaml(text)
    if not isinstance(value, dict):
        raise BadText("found no object; a flow has keys such as summary and value", line=1, column=1)
    return value


def flow_from_text(text: str) -> dict[str, Any]:
    """The flow that a YAML or JSON document describes: {value, summary?, description?, schema?, ...}.

    A document that is only a FlowValue ({modules: [...]}) is one too. The steps are not checked here. Raises BadText.
    """
    found = from_yaml(text)
    if "value" not in found and isinstance(found.get("modules"), list):
        found = {"value": found}
    value = found.get("value")
    if not isinstance(value, dict) or not isinstance(value.get("modules"), list):
        raise BadText("value.modules is missing; a flow has a value with a list of modules, its steps")
    return found


def _json(text: str) -> Any:
    """JSON is YAML too, and read much faster; None when it is something else."""
    try:
        return jsontext.parse_json(text) if text.lstrip().startswith("{") else None
    except BadRequest:
        return None


def _yaml(text: str) -> Any:
    try:
        text.encode()
        return _Builder().build(yaml.parse(text, Loader=_Loader))
    except UnicodeEncodeError as exc:
        raise _after(text[: exc.start], "half a surrogate pair (\\ud800 to \\udfff) is no character") from exc
    except yaml.MarkedYAMLError as exc:
        problem = ", ".join(part for part in (exc.context, exc.problem) if part)
        raise _at(exc.problem_mark or exc.context_mark, problem) from exc
    except yaml.reader.ReaderError as exc:
        # The C reader counts bytes.
        before = text.encode()[: exc.position].decode(errors="ignore")
        raise _after(
            before, "a control character may only stand in double quotes, as an escape such as \\x07"
        ) from exc


class _Builder:
    """Builds JSON from the parser's events, without recursion and without ever holding a node twice."""

    def __init__(self) -> None:
        self.open: list[Any] = []  # lists and objects around the next value
        self.keys: list[str | None] = []  # beside each: the key whose value comes next
        self.root: Any = None
        self.documents = 0

    def build(self, events: Iterable[yaml.Event]) -> Any:
        for event in events:
            self.take(event)
        return self.root

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self.add(event, _scalar_value(event))
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            _check_tag(event)
            container: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            self.add(event, container)
            if len(self.open) >= jsontext.MAX_DEPTH:
                raise _at(event.start_mark, f"nested more than {jsontext.MAX_DEPTH} levels deep")
            self.open.append(container)
            self.keys.append(None)
        elif isinstance(event, yaml.CollectionEndEvent):
            self.open.pop()
            self.keys.pop()
        elif isinstance(event, yaml.AliasEvent):
            raise _at(
                event.start_mark,
                f"*{str(event.anchor)[:40]} repeats another part of the text; write it out",
            )
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise _at(event.start_mark, "a second document starts here; expected one")

    def add(self, event: Any, value: Any) -> None:
        if not self.open:
            self.root = value
        elif isinstance(self.open[-1], list):
            self.open[-1].append(value)
        elif (key := self.keys[-1]) is None:
            self.keys[-1] = _checked_key(event, value, self.open[-1])
        else:
            self.open[-1][key] = value
            self.keys[-1] = None


def _checked_key(event: Any, key: Any, container: dict[str, Any]) -> str:
    if not isinstance(key, str):
        hint = f'; write "{event.value[:40]}"' if isinstance(event, yaml.ScalarEvent) else ""
        raise _at(event.start_mark, f"this key is no text{hint}")
    if key in container:
        raise _at(event.start_mark, f"the key {key[:40]!r} is there twice")
    return key


def _scalar_value(event: Any) -> Any:
    _check_tag(event)
    text: str = event.value
    if "\x00" in text:
        raise _at(event.start_mark, "the text contains a NUL character, which cannot be stored")
    if event.tag in _TEXT_TAGS or event.style:  # in quotes or a block: a text, whatever it looks like
        return text
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        try:
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        except ValueError as exc:
            raise _at(event.start_mark, f"the number {text[:40]} is out of range") from exc
    if _FLOAT.fullmatch(text):
        if math.isinf(number := float(text)):
            raise _at(event.start_mark, f"the number {text[:40]} is out of range")
        return number
    if _NOT_FINITE.fullmatch(text):
        raise _at(event.start_mark, f"{text} is no number of JSON; use null, or quotes")
    return text


def _check_tag(event: Any) -> None:
    if event.tag is not None and event.tag not in _KNOWN_TAGS:
        raise _at(
            event.start_mark,
            f"the tag {event.tag[:60]} is not supported; put a text that starts with ! in quotes",
        )


def _after(before: str, problem: str) -> BadText:
    return BadText(problem, line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))


def _at(mark: Any, problem: str) -> BadText:
    return BadText(problem, line=mark.line + 1, column=mark.column + 1) if mark else BadText(problem)
