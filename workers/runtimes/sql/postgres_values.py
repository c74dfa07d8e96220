"""Arguments to PostgreSQL's text format, and PostgreSQL's values to what becomes JSON.

What comes out of a query, by type: whole numbers as numbers, of any size; numeric as a number when a double holds it
exactly (15 digits), else as text; float as a number, NaN and the infinities as null; json and jsonb as they are; date,
time, timestamp as ISO 8601, with the session's offset where there is one; interval as an ISO 8601 duration; arrays as
lists; bytea as \\x and hexadecimal digits, which is how PostgreSQL itself writes it; everything else (uuid, inet, money,
ranges, enums, rows) as PostgreSQL's own text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap, Buffer, Dumper, Loader, PyFormat
from psycopg.pq import Format
from psycopg.types.string import TextLoader

from jobs.signatures.sql import Parameter
from workers.runtimes.sql.json_values import decimal, document
from workers.runtimes.sql.script import bad_argument

_LIMITS = {"int2": 15, "int4": 31, "int8": 63}
_ALIASES = {
    **dict.fromkeys(("smallint", "smallserial", "int2"), "int2"),
    **dict.fromkeys(("int", "integer", "int4", "serial"), "int4"),
    **dict.fromkeys(("bigint", "int8", "bigserial"), "int8"),
    **dict.fromkeys(("real", "float4"), "float4"),
    **dict.fromkeys(("double", "double precision", "float", "float8"), "float8"),
    **dict.fromkeys(("numeric", "decimal", "dec"), "numeric"),
    **dict.fromkeys(("bool", "boolean"), "bool"),
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "time without time zone": "time",
    "time with time zone": "timetz",
}
_MOMENTS = frozenset({"date", "time", "timetz", "timestamp", "timestamptz", "interval"})
# Sent without a type, so that PostgreSQL takes what the place needs (an enum, a uuid, ...) and text where it needs
# nothing in particular.
_UNTYPED = frozenset(
    {"text", "varchar", "character varying", "char", "character", "bpchar", "name", "string"}
)


@dataclass(frozen=True, slots=True)
class TypedText:
    """A value in PostgreSQL's text format; `oid` 0: of whatever type its place needs."""

    text: str
    oid: int = 0


# --- arguments ---------------------------------------------------------------------------------------------------------


def typed(parameter: Parameter, value: Any) -> TypedText | None:
    """`value` (JSON) for a parameter; None for NULL. Raises ExecutionFailed, naming the argument, if it does not fit."""
    if value is None:
        return None
    name, written = parameter.name, parameter.type
    if not written:
        return TypedText(_untyped_text(value))
    base = written.replace("[]", "")
    base = _ALIASES.get(base, base)
    info = None if base in _UNTYPED else psycopg.postgres.types.get(base)
    if not written.endswith("[]"):
        return TypedText(_scalar(name, base, written, value), info.oid if info else 0)
    if isinstance(value, str) and value.startswith("{"):  # PostgreSQL's own way to write one
        return TypedText(value, info.array_oid if info else 0)
    if not isinstance(value, list):
        raise bad_argument(name, f"should be a list, of type {written}", value)
    array_oid = (
        info.array_oid if info else (psycopg.postgres.types["text"].array_oid if base == "text" else 0)
    )
    return TypedText(_array(name, base, value, written), array_oid)


def _untyped_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(item, dict) for item in value):
        return _array("", "text", value, "list")  # = ANY($1)
    return json.dumps(value, ensure_ascii=False)


def _array(name: str, base: str, items: list[Any], written: str) -> str:
    parts = []
    for item in items:
        if item is None:
            parts.append("NULL")
        elif isinstance(item, list) and base not in ("json", "jsonb"):
            parts.append(_array(name, base, item, written))
        else:
            text = _scalar(name, base, written, item)
            parts.append('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return "{" + ",".join(parts) + "}"


def _scalar(name: str, base: str, written: str, value: Any) -> str:
    if base in _LIMITS or base == "oid":
        return _whole_number(name, base, written, value)
    if base in ("float4", "float8", "numeric"):
        if isinstance(value, str) and re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*|NaN", value):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return repr(value)
        raise bad_argument(name, f"should be a number, of type {written}", value)
    if base == "bool":
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower()
        if isinstance(value, bool):
            return "true" if value else "false"
        raise bad_argument(name, f"should be true or false, of type {written}", value)
    if base in ("json", "jsonb"):
        return json.dumps(value, ensure_ascii=False)
    if base == "bytea":
        return _bytes(name, value)
    if base in _MOMENTS:
        if not isinstance(value, str):
            example = {"date": "2024-12-31", "interval": "1 day", "time": "23:59:59"}.get(
                base, "2024-12-31T23:59:59Z"
            )
            raise bad_argument(name, f"should be text such as {example}, of type {written}", value)
        return value
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise bad_argument(name, f"should be text, of type {written}", value)


def _whole_number(name: str, base: str, written: str, value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?\d{1,30}\s*", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_argument(name, f"should be a whole number, of type {written}", value)
    bits = _LIMITS.get(base, 63)
    if not -(1 << bits) <= value < 1 << bits:
        raise bad_argument(
            name, f"should be between {-(1 << bits)} and {(1 << bits) - 1}, of type {written}", value
        )
    return str(value)


def _bytes(name: str, value: Any) -> str:
    if isinstance(value, str):
        if re.fullmatch(r"\\x(?:[0-9a-fA-F]{2})*", value):
            return value
        try:
            return "\\x" + base64.b64decode(value, validate=True).hex()
        except (binascii.Error, ValueError):
            pass
    raise bad_argument(name, "should be bytes in base64, of type bytea", value)


# --- results -----------------------------------------------------------------------------------------------------------


class _TypedTextDumper(Dumper):
    """Sends each TypedText with its own type."""

    format = Format.TEXT

    def get_key(self, obj: TypedText, format: PyFormat) -> Any:
        return (self.cls, obj.oid)

    def upgrade(self, obj: TypedText, format: PyFormat) -> _TypedTextDumper:
        dumper = _TypedTextDumper(self.cls)
        dumper.oid = obj.oid
        return dumper

    def dump(self, obj: TypedText) -> bytes:
        return obj.text.replace("\0", "").encode("utf-8", "ignore")


class _Numeric(Loader):
    def load(self, data: Buffer) -> Any:
        text = bytes(data).decode()
        return decimal(text) if text[-1].isdigit() else None  # NaN, Infinity


class _Json(Loader):
    def load(self, data: Buffer) -> Any:
        return document(bytes(data))


class _Bytes(Loader):
    def load(self, data: Buffer) -> str:
        return bytes(data).decode("ascii")


_TIMESTAMP = re.compile(r"(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(?:([+-]\d\d)(:?\d\d)?(:\d\d)?)?")


class _Timestamp(Loader):
    """2024-12-31 23:59:59.5+02 -> 2024-12-31T23:59:59.5+02:00. Years BC and infinity stay as they are."""

    def load(self, data: Buffer) -> str:
        text = bytes(data).decode()
        match = _TIMESTAMP.fullmatch(text)
        if match is None:
            return text
        day, time, hours, minutes, seconds = match.groups()
        return f"{day}T{time}" + (f"{hours}{minutes or ':00'}{seconds or ''}" if hours else "")


_INTERVAL = re.compile(
    r"(?:(-?\d+) years? ?)?(?:(-?\d+) mons? ?)?(?:(-?\d+) days? ?)?(?:([-+])?(\d+):(\d\d):(\d\d(?:\.\d+)?))?"
)


class _Interval(Loader):
    """1 year 2 mons -3 days 04:05:06 -> P1Y2M-3DT4H5M6S, which keeps months apart from days."""

    def load(self, data: Buffer) -> str:
        text = bytes(data).decode()
        match = _INTERVAL.fullmatch(text.replace("+", "") if ":" not in text else text.replace(" +", " "))
        if match is None or not text:
            return text
        years, months, days, sign, hours, minutes, seconds = match.groups()
        minus = "-" if sign == "-" else ""
        date = "".join(f"{int(n)}{unit}" for n, unit in ((years, "Y"), (months, "M"), (days, "D")) if n)
        time = ""
        if hours:
            second = seconds.lstrip("0") or "0"
            second = "0" + second if second[0] == "." else second
            parts = ((str(int(hours)), "H"), (str(int(minutes)), "M"), (second, "S"))
            time = "".join(f"{minus}{n}{unit}" for n, unit in parts if n != "0")
        if not date and not time:
            return "PT0S"
        return f"P{date}" + (f"T{time}" if time else "")


def adapters() -> AdaptersMap:
    """What connections for jobs are made with."""
    ours = AdaptersMap(psycopg.adapters)
    ours.register_dumper(TypedText, _TypedTextDumper)
    as_python_has_them = {"bool", "int2", "int4", "int8", "oid", "float4", "float8"}
    loaders: dict[str, type[Loader]] = {
        "numeric": _Numeric,
        "json": _Json,
        "jsonb": _Json,
        "bytea": _Bytes,
        "timestamp": _Timestamp,
        "timestamptz": _Timestamp,
        "interval": _Interval,
    }
    for info in psycopg.postgres.types:
        if info.name not in as_python_has_them:
            ours.register_loader(info.oid, loaders.get(info.name, TextLoader))
    return ours
