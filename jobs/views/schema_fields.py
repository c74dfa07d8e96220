"""Form fields from a JSON Schema for pages that work without JavaScript: what to draw, and what was posted.

The names of the controls are `arg:<name of the argument>`. Schemas are written by users: anything odd becomes a field for
JSON text. (Where there is JavaScript, `wm-schema-form` draws richer forms of the same schemas.)
"""

import base64
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest

from jobs.signatures import validate_args
from workspaces.errors import BadRequest
from workspaces.jsontext import parse_json

MOST_FIELDS = 200
_PREFIX = "arg:"
_WORDS = {
    "number": "number",
    "checkbox": "",
    "datetime-local": "UTC",
    "list": "one a line",
    "json": "JSON",
}


@dataclass(frozen=True, slots=True)
class Option:
    """A choice of a select or of a group of checkboxes; `value` is its position."""

    value: str
    label: str
    chosen: bool


@dataclass(slots=True, kw_only=True)
class Field:
    """One control. `kind`: text, password, email, textarea, number, checkbox, select, choices, date, time,
    datetime-local, file, list (texts, one a line) or json."""

    name: str  # of the argument
    id: str
    kind: str
    label: str
    required: bool
    help: str = ""
    value: str = ""  # as typed
    checked: bool = False
    options: list[Option] = field(default_factory=list)
    minimum: str = ""
    maximum: str = ""
    step: str = ""
    placeholder: str = ""
    error: str = ""

    @property
    def control(self) -> str:
        """The name of the control."""
        return _PREFIX + self.name

    @property
    def words(self) -> str:
        """What to type, beside the label."""
        return _WORDS.get(self.kind, "")

    @property
    def described_by(self) -> str:
        """For aria-describedby."""
        return " ".join(
            f"{self.id}-{part}" for part, there in (("help", self.help), ("error", self.error)) if there
        )


@dataclass(frozen=True, slots=True)
class Posted:
    """A form that came back: its values, ready to use when there are no errors, and the fields to show again."""

    values: dict[str, Any]
    fields: list[Field]
    has_errors: bool
    problem: str = ""  # with the form as a whole


def fields_of(schema: Mapping[str, Any] | None, *, prefix: str = "field") -> list[Field]:
    """The fields of a schema, filled with its defaults. `prefix` keeps ids of several forms in a page apart."""
    properties = _properties(schema)
    required = (schema or {}).get("required")
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return [
        _field(name, properties[name], id=f"{prefix}-{number}", required=name in names)
        for number, name in enumerate(_order(schema, properties))
    ]


def read_form(schema: Mapping[str, Any] | None, request: HttpRequest, *, prefix: str = "field") -> Posted:
    """What was posted, checked against the schema. Fields that were left empty are absent."""
    properties = _properties(schema)
    fields = fields_of(schema, prefix=prefix)
    values: dict[str, Any] = {}
    for one in fields:
        try:
            value = _read(one, properties[one.name], request)
        except BadRequest as exc:
            one.error = exc.message
            continue
        if value is not None:
            values[one.name] = value
    problem = ""
    by_name = {one.name: one for one in fields}
    for found in validate_args(dict(schema) if schema else None, values):
        shown = by_name.get(found.field)
        if shown is None:
            problem = f"{problem} {found.message}".strip()
        elif not shown.error:
            inside = ".".join(str(part) for part in found.path[1:])
            shown.error = f"{inside}: {found.message}" if inside else found.message
    has_errors = bool(problem) or any(one.error for one in fields)
    return Posted(values, fields, has_errors, problem)


def _properties(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    found = (schema or {}).get("properties")
    if not isinstance(found, dict):
        return {}
    shown = list(found.items())[:MOST_FIELDS]
    return {name: value if isinstance(value, dict) else {} for name, value in shown}


def _order(schema: Mapping[str, Any] | None, properties: Mapping[str, Any]) -> list[str]:
    order = (schema or {}).get("order")
    named = (
        [name for name in order if isinstance(name, str) and name in properties]
        if isinstance(order, list)
        else []
    )
    return list(dict.fromkeys([*named, *properties]))


# --- drawing ---


def _field(name: str, schema: dict[str, Any], *, id: str, required: bool) -> Field:
    kind = _kind(schema)
    default = schema.get("default")
    made = Field(
        name=name,
        id=id,
        kind=kind,
        label=_text(schema.get("title")) or name,
        required=required and kind not in ("checkbox", "choices"),
        help=_text(schema.get("description")),
        placeholder=_text(schema.get("placeholder")),
    )
    if kind == "checkbox":
        made.checked = default is True
    elif kind in ("select", "choices"):
        chosen = default if kind == "choices" and isinstance(default, list) else [default]
        made.options = _options(schema, chosen)
    elif kind == "number":
        made.step = "1" if _type(schema) == "integer" else "any"
        made.minimum = _number(schema.get("minimum", schema.get("min")))
        made.maximum = _number(schema.get("maximum", schema.get("max")))
        made.value = _number(default)
    elif kind == "json":
        made.value = "" if default is None else json.dumps(default, indent=2, ensure_ascii=False)
    elif kind == "list":
        made.value = "\n".join(map(str, default)) if isinstance(default, list) else ""
    elif kind == "datetime-local":
        made.value = _text(default).removesuffix("Z")[:16]
    elif kind != "file":
        made.value = _text(default)
    return made


def _kind(schema: dict[str, Any]) -> str:
    type_, format_ = _type(schema), schema.get("format")
    if type_ in ("string", "integer", "number") and _choices(schema):
        return "select"
    if type_ == "string":
        if schema.get("contentEncoding") == "base64":
            return "file"
        if schema.get("password") is True:
            return "password"
        known = {"date": "date", "date-time": "datetime-local", "time": "time", "email": "email"}
        if isinstance(format_, str) and format_ in known:
            return known[format_]
        rows = schema.get("minRows")
        return "textarea" if format_ == "textarea" or (isinstance(rows, int) and rows > 1) else "text"
    if type_ in ("integer", "number"):
        return "number"
    if type_ == "boolean":
        return "checkbox"
    items = schema.get("items")
    if type_ == "array" and isinstance(items, dict) and items.get("type") == "string":
        return "choices" if _choices(schema) else "list"
    return "json"


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), None)
    return kind if isinstance(kind, str) else ""


def _choices(schema: dict[str, Any]) -> list[Any]:
    source = schema
    if _type(schema) == "array" and isinstance(schema.get("items"), dict):
        source = schema["items"] if not isinstance(schema.get("enum"), list) else schema
    found = source.get("enum")
    return [value for value in found if value is not None][:1000] if isinstance(found, list) else []


def _options(schema: dict[str, Any], chosen: list[Any]) -> list[Option]:
    labels = schema.get("enumLabels")
    named = labels if isinstance(labels, dict) else {}
    return [
        Option(str(number), _text(named.get(str(value))) or _label(value), value in chosen)
        for number, value in enumerate(_choices(schema))
    ]


def _label(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return str(value) if is_number else ""


# --- reading ---


def _read(one: Field, schema: dict[str, Any], request: HttpRequest) -> Any:
    """The value of one field, None when it was left empty; what was typed stays in the field. Raises BadRequest."""
    if one.kind == "checkbox":
        one.checked = one.control in request.POST
        return one.checked
    if one.kind == "choices":
        return _read_choices(one, schema, request.POST.getlist(one.control))
    if one.kind == "file":
        file = request.FILES.get(one.control)
        is_file = isinstance(file, UploadedFile) and bool(file.size)
        return base64.b64encode(file.read()).decode() if is_file and file is not None else None
    one.value = request.POST.get(one.control, "")
    if one.kind == "select":
        found = _read_choices(one, schema, [one.value])
        return found[0] if found else None
    if not one.value.strip():
        return None
    match one.kind:
        case "number":
            return _read_number(one.value.strip())
        case "json":
            try:
                return parse_json(one.value)
            except BadRequest as exc:
                raise BadRequest(
                    f"Should be JSON; {exc.message.removeprefix('the body is not valid JSON: ')}."
                ) from exc
        case "list":
            return [line.strip() for line in one.value.splitlines() if line.strip()]
        case "datetime-local":
            return f"{one.value}Z" if re.fullmatch(r"[\d-]+T[\d:.]+", one.value) else one.value
    return one.value.replace("\r\n", "\n")


def _read_choices(one: Field, schema: dict[str, Any], posted: list[str]) -> list[Any]:
    choices = _choices(schema)
    positions = [
        int(text) for text in posted if re.fullmatch(r"\d{1,4}", text, re.ASCII) and int(text) < len(choices)
    ]
    chosen = [choices[position] for position in dict.fromkeys(positions)]
    one.options = _options(schema, chosen)
    return chosen


def _read_number(text: str) -> int | float:
    if re.fullmatch(r"[+-]?\d{1,30}", text, re.ASCII):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadRequest("Should be a number.")
    return number
