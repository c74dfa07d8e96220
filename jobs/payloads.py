"""From the body of a webhook call to the arguments of a job (reference/triggers-and-webhooks.md section 1). No I/O."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from workspaces.errors import BadRequest, UnsupportedMedia
from workspaces.jsontext import check_storable, parse_json

MAX_FORM_FIELDS = 10_000
_JSON_TYPES = ("", "application/json", "application/octet-stream", "text/json")
# They authenticate the caller towards us: the script must not be able to act as whoever calls it.
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization"})


@dataclass(frozen=True, kw_only=True)
class Call:
    """An HTTP call as a run route received it."""

    content_type: str = ""
    body: bytes = b""
    form: Mapping[str, str] | None = None  # text fields of a multipart body, already read
    has_files: bool = False  # the multipart body carried files
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    include_headers: Sequence[str] = ()  # names of headers that become arguments
    include_query: Sequence[str] = ()  # names of query parameters that become arguments
    raw: bool = False  # pass the body's text as `raw_string` too
    wrap_body: bool = False  # pass the parsed body as one argument `body`
    payload: str | None = None  # base64 of JSON, for GET


@dataclass(frozen=True, kw_only=True)
class Payload:
    """What a call gives to a script: `args` for main, or `event` for its preprocessor."""

    args: dict[str, Any]
    event: dict[str, Any] | None = None  # {kind: "webhook", body, raw_string, query, headers}


def read_call(call: Call) -> Payload:
    """The arguments that a call means. Raises BadRequest (malformed), UnsupportedMedia."""
    body, metadata = _parsed_body(call)
    raw_string = _text(call.body) if call.raw else None
    if call.wrap_body:
        args: dict[str, Any] = {"body": body}
    elif isinstance(body, dict):
        args = dict(body)
    elif body is None:
        args = {}
    else:
        args = {"body": body}
    if raw_string is not None:
        args["raw_string"] = raw_string
    if metadata is not None:
        args["WEBHOOK__METADATA__"] = metadata
    args |= _included(call)
    event = {
        "kind": "webhook",
        "body": body,
        "raw_string": raw_string,
        "query": {name: value for name, value in call.query.items() if name != "token"},
        "headers": {
            name.lower(): value for name, value in call.headers.items() if name.lower() not in _CREDENTIALS
        },
    }
    check_storable({"args": args, "event": event})
    return Payload(args=args, event=event)


def _parsed_body(call: Call) -> tuple[Any, dict[str, Any] | None]:
    """(the body as JSON, the envelope of a CloudEvent)."""
    media_type = call.content_type.split(";", 1)[0].strip().lower()
    if call.payload is not None:
        return decode_payload(call.payload), None
    if media_type == "multipart/form-data":
        if call.has_files:
            raise BadRequest(
                "files in a multipart body need a workspace object storage, and none is set; send text fields or JSON"
            )
        return dict(call.form or {}), None
    if media_type == "application/x-www-form-urlencoded":
        return _form(call.body), None
    if media_type == "application/cloudevents-batch+json":
        raise UnsupportedMedia("batches of CloudEvents cannot be run as one job; send each event by itself")
    if media_type == "application/cloudevents+json":
        return _cloud_event(call.body)
    if media_type in _JSON_TYPES or media_type.endswith("+json"):
        if not call.body.strip():
            return None, None
        return parse_json(call.body), None
    if not call.body:
        return None, None
    if call.raw:
        return None, None
    raise UnsupportedMedia(
        f"content type {media_type[:80]} cannot be read as arguments; send application/json, or add raw=true to get the "
        "text as argument raw_string"
    )


def decode_payload(payload: str) -> Any:
    """The JSON value of a `payload` query parameter; None when it is empty. Raises BadRequest."""
    standard = (
        payload.replace("-", "+").replace("_", "/").replace(" ", "+")
    )  # "+" arrives as a space when not escaped
    try:
        decoded = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise BadRequest("query: payload is not base64; expected the base64 of a JSON object") from exc
    return parse_json(decoded) if decoded.strip() else None


def _form(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS, errors="strict"
        )
    except UnicodeDecodeError as exc:
        raise BadRequest("the form is not UTF-8 text") from exc
    except ValueError as exc:
        raise BadRequest(f"the form has more than {MAX_FORM_FIELDS} fields") from exc
    return dict(pairs)


def _cloud_event(body: bytes) -> tuple[Any, dict[str, Any]]:
    event = parse_json(body)
    if not isinstance(event, dict):
        raise BadRequest("a CloudEvent must be a JSON object")
    return event.get("data"), {name: value for name, value in event.items() if name != "data"}


def _included(call: Call) -> dict[str, Any]:
    headers = {name.lower(): value for name, value in call.headers.items()}
    args: dict[str, Any] = {}
    for name in call.include_headers:
        key = name.strip().lower()
        if key in _CREDENTIALS:
            raise BadRequest(
                f"include_header names {key}, which holds the caller's credentials; it cannot be an argument"
            )
        if key in headers:
            args[key.replace("-", "_")] = headers[key]
    for name in call.include_query:
        if (key := name.strip()) in call.query and key != "token":
            args[key] = call.query[key]
    return args


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as exc:
        raise BadRequest(f"raw=true needs UTF-8 text, and byte {exc.start} of the body is none") from exc
