"""Strict JSON in: what PostgreSQL can store and clients can read back, or a sentence why not."""

import json
import math
from typing import Any

from workspaces.errors import BadRequest

MAX_DEPTH = 200


def parse_json(raw: bytes | str) -> Any:
    """Parse a JSON text. Raises BadRequest for anything that is not JSON, is nested too deeply, holds NaN, a number out
    of range, a NUL character or half a surrogate pair (none of which the database can store)."""
    try:
        text = raw.decode("utf-8-sig") if isinstance(raw, bytes) else raw
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except UnicodeDecodeError as exc:
        raise BadRequest(f"the body is not UTF-8 text (byte {exc.start})") from exc
    except json.JSONDecodeError as exc:
        raise BadRequest(
            f"the body is not valid JSON: {exc.msg} (line {exc.lineno}, column {exc.colno})"
        ) from exc
    except RecursionError as exc:
        raise BadRequest(f"the JSON is nested more than {MAX_DEPTH} levels deep") from exc
    except ValueError as exc:  # an integer of thousands of digits
        raise BadRequest(f"the body holds a number that is out of range: {exc}") from exc
    check_storable(value)
    return value


def check_storable(value: Any) -> None:
    """Raises BadRequest when a JSON value cannot be stored (see `parse_json`)."""
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise BadRequest(f"the JSON is nested more than {MAX_DEPTH} levels deep")
        if isinstance(item, str):
            _check_text(item)
        elif isinstance(item, dict):
            for key, inner in item.items():
                _check_text(key)
                pending.append((inner, depth + 1))
        elif isinstance(item, list):
            pending.extend((inner, depth + 1) for inner in item)


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise BadRequest("the body contains a NUL character (\\u0000), which cannot be stored")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as exc:
            raise BadRequest(
                "the body contains half a surrogate pair (\\ud800 to \\udfff), which is no character"
            ) from exc


def _refuse_constant(name: str) -> Any:
    raise BadRequest(f"the body holds {name}, which is not JSON; use null")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadRequest(f"the number {text[:40]} is out of range")
    return number
