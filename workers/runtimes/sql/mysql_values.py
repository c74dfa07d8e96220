"""Arguments to SQL literals of MySQL, and MySQL's values to what becomes JSON.

What comes out of a query, by type: whole numbers as numbers, of any size (BIT too); DECIMAL as a number when a double
holds it exactly (15 digits), else as text; JSON as it is (MariaDB's JSON is text); DATE, DATETIME and TIMESTAMP as
ISO 8601 without an offset, which they do not have, and null where the server has a zero (0000-00-00); TIME as text;
BLOB and BINARY as base64.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pymysql.constants import FIELD_TYPE  # type: ignore[import-untyped]
from pymysql.converters import encoders  # type: ignore[import-untyped]

from jobs.signatures.sql import Parameter, typ_of
from workers.runtimes.sql.json_values import decimal, document
from workers.runtimes.sql.script import bad_argument

_ISO_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:?\d\d)?")


def literal(parameter: Parameter, value: Any, quote: Callable[[str], str]) -> str:
    """`value` (JSON) as SQL; `quote` makes a literal of a text, as the connection's server reads it.

    Raises ExecutionFailed, naming the argument, when it does not fit its type.
    """
    if value is None:
        return "NULL"
    name, written = parameter.name, parameter.type
    typ = typ_of(written, "mysql")
    if not written:
        if isinstance(value, bool | int | float):
            return repr(int(value)) if isinstance(value, bool) else repr(value)
        return quote(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if typ == "int":
        return _whole_number(name, written, value)
    if typ == "float":
        if isinstance(value, str) and re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", value):
            return value.strip()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return repr(value)
        raise bad_argument(name, f"should be a number, of type {written}", value)
    if typ == "bool":
        if value in (True, False, 0, 1, "true", "false"):
            return "1" if value in (True, 1, "true") else "0"
        raise bad_argument(name, f"should be true or false, of type {written}", value)
    if typ == "bytes":
        return _bytes(name, written, value)
    if isinstance(typ, dict) and "object" in typ:
        return quote(json.dumps(value, ensure_ascii=False))
    if isinstance(value, dict | list):
        raise bad_argument(name, f"should be text, of type {written}", value)
    text = value if isinstance(value, str) else json.dumps(value)
    return quote(_moment(text, is_day=typ == "date") if typ in ("date", "datetime") else text)


def _whole_number(name: str, written: str, value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?\d{1,30}\s*", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_argument(name, f"should be a whole number, of type {written}", value)
    return str(value)


def _bytes(name: str, written: str, value: Any) -> str:
    if isinstance(value, str):
        try:
            return f"x'{base64.b64decode(value, validate=True).hex()}'"
        except (binascii.Error, ValueError):
            pass
    raise bad_argument(name, f"should be bytes in base64, of type {written}", value)


def _moment(text: str, *, is_day: bool) -> str:
    """ISO 8601 as MySQL reads it: no T, and UTC instead of an offset. Other texts as they are: MySQL knows more."""
    match = _ISO_MOMENT.fullmatch(text.strip())
    if match is None:
        return text
    day, time, offset = match.groups()
    if is_day:
        return day
    if offset in (None, "Z"):
        return f"{day} {time}"
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    except (ValueError, OverflowError):
        return text


def _iso(text: str) -> str | None:
    return None if text.startswith("0000-00-00") else text.replace(" ", "T")


def _bits(value: bytes) -> int:
    return int.from_bytes(value, "big")


# What PyMySQL makes of columns, by their type; with its own way to write values, which is not used.
CONVERSIONS: dict[Any, Any] = {
    **encoders,
    **dict.fromkeys((FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL), decimal),
    **dict.fromkeys(
        (FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG, FIELD_TYPE.INT24), int
    ),
    FIELD_TYPE.YEAR: int,
    **dict.fromkeys((FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE), float),
    FIELD_TYPE.BIT: _bits,
    **dict.fromkeys((FIELD_TYPE.DATE, FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP), _iso),
    FIELD_TYPE.JSON: lambda text: document(text.encode()),
}
