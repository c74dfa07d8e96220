"""Values that databases write as text, as JSON that keeps all their digits."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from workers.job_process.python_results import to_json
from workers.runtimes.base import ExecutionFailed

_EXACT_DIGITS = 15  # that a double, which is what most readers of JSON make of a number, always gives back
_SHALLOW = 200  # opening brackets; with less of them no document is too deep
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
# What PostgreSQL stores and then cannot search: NUL, half a character, a number beyond every type.
_UNSTORABLE = re.compile(rb"\\u0000|\\u[dD][89a-fA-F]|[eE][+-]?\d{3,}|\d{300}")


def decimal(text: str) -> Any:
    """A decimal number with just the digits it has when a double holds it exactly, else the text."""
    digits = text.replace(".", "").lstrip("-0")
    if len(digits) <= _EXACT_DIGITS and _NUMBER.fullmatch(text):
        return orjson.Fragment(text)
    return text


def document(text: bytes) -> Any:
    """A JSON document as it is. Raises ExecutionFailed for one that nobody could read."""
    try:
        if _UNSTORABLE.search(text):
            return orjson.Fragment(to_json(json.loads(text, parse_int=_whole_number), postprocess=True))
        if text.count(b"[") + text.count(b"{") > _SHALLOW:
            json.loads(text)
    except RecursionError:
        raise ExecutionFailed(
            {"name": "InvalidResult", "message": "A JSON value in the result is nested too deeply."}
        ) from None
    return orjson.Fragment(text)


def _whole_number(digits: str) -> int | str:
    return int(digits) if len(digits) < 300 else digits
