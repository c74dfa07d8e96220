"""Results as jobs hand them over are not to be trusted: this makes them valid, storable JSON, or says why not."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from workers.job_process.python_results import to_json, too_large
from workers.runtimes.base import ExecutionFailed

# A NUL escape, an escaped surrogate, or a number that may leave the range of every number type: PostgreSQL stores it,
# and then fails every search that looks into this result.
_SUSPICIOUS = re.compile(r"\\u0000|\\u[dD][89a-fA-F]|[eE][+-]?\d{3,}|\.\d{1000}")
_THREAD_BYTES = 1 << 20


async def checked(content: bytes, *, what: str) -> str:
    """`content` as JSON text that PostgreSQL stores. Raises ExecutionFailed; `what` names it in the message."""
    if len(content) > _THREAD_BYTES:
        return await asyncio.to_thread(
            checked_now, content, what
        )  # half a second for 100 MB: not in the event loop
    return checked_now(content, what)


def text_result(text: str) -> str:
    """A text as JSON."""
    return to_json(text, postprocess=True)


def result_too_large(size: int, limit: int, *, mem_peak_kb: int) -> ExecutionFailed:
    """The error for a result of at least `size` bytes."""
    name, message = too_large(size, limit)
    return ExecutionFailed({"name": name, "message": message}, mem_peak_kb=mem_peak_kb)


def checked_now(content: bytes, what: str) -> str:
    """`checked`, for content that is short."""
    odd_numbers: list[str] = []
    try:
        text = content.decode()
        value = json.loads(text, parse_constant=odd_numbers.append)  # NaN, Infinity: become null
        if odd_numbers or _SUSPICIOUS.search(text):
            return to_json(value, postprocess=True)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ExecutionFailed(
            {"name": "InvalidResult", "message": f"{what} is not valid JSON: {reason}"}
        ) from None
    return text


def error_object(content: bytes) -> dict[str, Any]:
    """The error a Python job reported, as far as it has the shape of one."""
    try:
        error = json.loads(checked_now(content, "the error"))
    except ExecutionFailed as failed:
        return failed.error
    if (
        isinstance(error, dict)
        and isinstance(error.get("name"), str)
        and isinstance(error.get("message"), str)
    ):
        return error
    return {"name": "ExecutionErr", "message": "The job reported an error without name and message"}
