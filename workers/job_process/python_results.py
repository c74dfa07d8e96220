"""From what a Python function returned to JSON text that PostgreSQL and browsers accept."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import AsyncGenerator, Generator
from typing import Any

STREAM_PREFIX = "WM_STREAM: "


def to_json(value: Any, *, postprocess: bool) -> str:
    """`value` as JSON. What JSON does not know becomes text, by str().

    With `postprocess`: data frames become lists of rows, bytes base64 text, NaN and the infinities null; NUL
    characters and lone surrogates, which no database stores, are left out. Raises ValueError for a value that
    contains itself, RecursionError for one nested too deeply.
    """
    if not postprocess:
        return json.dumps(value, default=str)
    try:
        text = json.dumps(value, default=_default, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        # Escapes only: a NUL or a surrogate; a false alarm (an escaped backslash) only costs time.
        if "\\u0000" not in text and (text.isascii() or _is_utf8(text)):
            return text
    except TypeError:
        pass  # a key that is neither text nor number
    except ValueError as error:
        if "Circular" in str(error):
            raise ValueError("the result contains itself, which JSON cannot express") from None
    return json.dumps(_cleaned(value), default=_default, ensure_ascii=False, separators=(",", ":"))


def too_large(size: int, limit: int) -> tuple[str, str]:
    """Name and message of the error for a result of `size` bytes."""
    return "ResultTooLarge", (
        f"The result has {size:,} bytes; the limit is {limit:,}. Return less, or store the data and return "
        "where it is."
    )


def stream(chunks: Generator[Any, Any, Any]) -> Any:
    """Print each value as a line of the job's stream while it comes; all of them together are the result:
    one text when all are text, else a list."""
    sent = []
    for chunk in chunks:
        _send(chunk)
        sent.append(chunk)
    return _joined(sent)


async def stream_async(chunks: AsyncGenerator[Any, Any]) -> Any:
    """`stream`, for an asynchronous generator."""
    sent = []
    async for chunk in chunks:
        _send(chunk)
        sent.append(chunk)
    return _joined(sent)


def _send(chunk: Any) -> None:
    text = chunk if isinstance(chunk, str) else to_json(chunk, postprocess=True)
    sys.stdout.write(STREAM_PREFIX + text.replace("\n", "\\n") + "\n")


def _joined(sent: list[Any]) -> Any:
    return "".join(sent) if sent and all(isinstance(chunk, str) for chunk in sent) else sent


def _default(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if package == "pandas" and kind.__name__ == "DataFrame":
        return _cleaned(value.values.tolist())
    if package == "polars" and kind.__name__ == "DataFrame":
        return _cleaned([list(row) for row in value.rows()])
    if package == "pandas" and kind.__name__ in ("NaTType", "NAType"):
        return None
    if package == "numpy" and hasattr(value, "tolist"):
        return _cleaned(value.tolist())
    return str(value)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "ignore").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, dict):
        return {_key(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    converted = _default(value)
    return _cleaned(converted) if isinstance(converted, str) else converted


def _key(key: Any) -> Any:
    return _cleaned(key) if isinstance(key, (str, int, bool, type(None))) else _cleaned(str(key))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
