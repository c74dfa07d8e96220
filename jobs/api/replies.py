"""The HTTP answer of a synchronous run: the result as stored, or what a composite result asks for.

A composite result is an object with `windmill_status_code`, `windmill_content_type` or `windmill_headers`, and `result`
as its body (reference/triggers-and-webhooks.md section 1).
"""

import json
import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.http import HttpResponse

from jobs import sql
from jobs.following import Outcome, read_outcome
from workspaces.errors import Unprocessable

MAX_HEADERS = 100
MAX_HEADER_VALUE = 8_000  # characters
# What a script may not say in our name: about this connection, this site's sign-in, or the whole origin.
_OURS = frozenset(
    [
        "clear-site-data",
        "connection",
        "content-encoding",
        "content-length",
        "content-security-policy",
        "date",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "public-key-pins",
        "server",
        "service-worker-allowed",
        "set-cookie",
        "set-cookie2",
        "strict-transport-security",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "www-authenticate",
        "x-frame-options",
        "access-control-allow-credentials",
        "x-content-type-options",
    ]
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MEDIA_TYPE = re.compile(r"[!#$&^_.+0-9A-Za-z-]+/[!#$&^_.+0-9A-Za-z-]+(\s*;[\x20-\x7e]*)?")
# A page that a script returns is shown, but never as a part of this site: no cookies, no API calls as the reader.
_SANDBOX = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"


class BadReply(Unprocessable):
    """The script asked for an HTTP answer that cannot be sent."""

    code = "bad_reply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """A composite result, its body still as stored."""

    status_code: str | None
    content_type: str | None
    headers: Any  # JSON
    body: str | None  # JSON text; None: no `result`
    body_text: str | None  # the same without quotes when it is a string


def read_reply(job_id: UUID) -> HttpResponse | None:
    """The answer to whoever waits for this job; None while it is not over. Raises BadReply. Queries."""
    outcome = read_outcome(job_id)
    return None if outcome is None else reply(job_id, outcome)


def read_early_reply(flow_id: UUID, step_id: str) -> HttpResponse | None:
    """The answer to whoever waits for a flow that returns the result of this step; None until then. Raises BadReply."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("early_result"), {"flow_id": flow_id, "step_id": step_id})
        row = cursor.fetchone()
    if row is None:
        return None
    job_id, is_failure, result = row
    if job_id is not None and (answer := read_reply(UUID(job_id))) is not None:
        return answer
    return HttpResponse(result or "null", status=422 if is_failure else 200, content_type="application/json")


def reply(job_id: UUID, outcome: Outcome) -> HttpResponse:
    """The answer to whoever waited. Raises BadReply. Queries when the result is composite."""
    composite = read_composite(job_id) if '"windmill_' in outcome.result else None
    if composite is not None:
        return composite_reply(composite, is_success=outcome.is_success)
    return HttpResponse(
        outcome.result, status=200 if outcome.is_success else 422, content_type="application/json"
    )


def read_composite(job_id: UUID) -> Composite | None:
    """The parts of a composite result; None when the result is an ordinary one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT result ->> 'windmill_status_code', result ->> 'windmill_content_type',"
            " (result -> 'windmill_headers')::text, (result -> 'result')::text, result ->> 'result'"
            " FROM completed_job WHERE id = %s AND json_typeof(result) = 'object'",
            [job_id],
        )
        row = cursor.fetchone()
    if row is None or (row[0] is None and row[1] is None and row[2] in (None, "null")):
        return None
    headers = json.loads(row[2]) if row[2] is not None else None
    return Composite(status_code=row[0], content_type=row[1], headers=headers, body=row[3], body_text=row[4])


def composite_reply(composite: Composite, *, is_success: bool) -> HttpResponse:
    """The answer that a composite result describes. Raises BadReply when it is not HTTP."""
    if composite.status_code is not None:
        status = _status(composite.status_code)
    elif composite.body is None and is_success:
        status = 204
    else:
        status = 200 if is_success else 422
    body: str = ""
    content_type = "application/json"
    if composite.content_type is not None:
        if not _MEDIA_TYPE.fullmatch(composite.content_type):
            raise BadReply(f"windmill_content_type {composite.content_type[:80]!r} is not a media type")
        content_type = composite.content_type
        body = composite.body_text if composite.body_text is not None else composite.body or ""
    elif composite.body is not None:
        body = composite.body
    if status in (204, 304):
        body = ""
    response = HttpResponse(body, status=status, content_type=content_type)
    for name, value in _headers(composite.headers).items():
        response.headers[name] = value
    if not response.headers["Content-Type"].lower().startswith("application/json"):
        response.headers["Content-Security-Policy"] = _SANDBOX
    return response


def _status(text: str) -> int:
    if text.isascii() and text.isdigit() and 200 <= int(text[:4]) <= 599:
        return int(text)
    raise BadReply(f"windmill_status_code is {text[:40]!r}; expected a number from 200 to 599")


def _headers(given: Any) -> dict[str, str]:
    """The headers that may be sent; those that are this server's own are left out. Raises BadReply."""
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > MAX_HEADERS:
        raise BadReply(f"windmill_headers must be an object of at most {MAX_HEADERS} texts")
    headers = {}
    for name, value in given.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not _HEADER_NAME.fullmatch(name) or not _is_header_value(value):
            raise BadReply(f"windmill_headers.{name[:80]!r} cannot be sent as an HTTP header")
        if name.lower() not in _OURS:
            headers[name] = value
    return headers


def _is_header_value(value: Any) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= MAX_HEADER_VALUE
        and all(char == "\t" or " " <= char <= "~" or "\xa0" <= char <= "\xff" for char in value)
    )
