"""GraphQL: one request to the resource `api`; its `data` is the result.

Nothing of a user's runs here, so there is no sandbox: the worker itself asks, and reaches what the worker reaches.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import httpx
from graphql import GraphQLError, OperationDefinitionNode, parse

from jobs.signatures.graphql import API
from jobs.signatures.signature import FUNCTION_CALL
from workers.checked_http import CheckedTransport
from workers.runtimes import failures, results
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site

_CONNECT_S = 20.0
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a header's name
_LONGEST_ANSWER_SHOWN = 500  # characters of an answer that is no GraphQL
_MOST_ERRORS = 20  # in a message


class Graphql:
    """Executor for language graphql."""

    language = "graphql"
    default_tag = "graphql"

    def __init__(self, site: Site) -> None:
        self._blocked = site.blocked
        self._client: httpx.AsyncClient | None = None

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run."""
        body = _body(execution)
        url, headers = _target(execution.args.get(API))
        try:
            async with asyncio.timeout(execution.timeout_s):
                status, content = await self._ask(url, headers, body, execution.limits.result_bytes)
        except TimeoutError:
            raise failures.timed_out(execution.timeout_s) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            why = str(error) or type(error).__name__
            raise ExecutionFailed(
                {"name": "RequestFailed", "message": f"No answer from {_shown(url)}: {why}"}
            ) from None
        text = await results.checked(content, what="the answer") if _is_json(content) else None
        return Outcome(result_json=await _data(status, text, content, url), mem_peak_kb=0)

    async def close(self) -> None:
        """Close the connections that are kept."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _ask(self, url: str, headers: Mapping[str, str], body: bytes, limit: int) -> tuple[int, bytes]:
        if self._client is None:
            # No proxies and no .netrc of the worker's: what the resource says decides alone. The job has its own timeout.
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=_CONNECT_S),
                follow_redirects=False,
                trust_env=False,
                transport=CheckedTransport(self._blocked),
                cookies=CookieJar(
                    DefaultCookiePolicy(allowed_domains=[])
                ),  # they would be the next job's as well
            )
        content = bytearray()
        async with self._client.stream("POST", url, headers=dict(headers), content=body) as answer:
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > limit:
                    raise results.result_too_large(len(content), limit, mem_peak_kb=0)
        return answer.status_code, bytes(content)


def _body(execution: Execution) -> bytes:
    """The request. Raises ExecutionFailed for a document that is no GraphQL or has nothing to run."""
    try:
        document = parse(execution.code, max_tokens=50_000)
    except (GraphQLError, RecursionError) as error:
        places = getattr(error, "locations", None) or ()
        line = f" (line {places[0].line})" if places else ""
        message = str(getattr(error, "message", error)).removeprefix("Syntax Error: ")
        raise ExecutionFailed({"name": "GraphQLSyntaxError", "message": message + line}) from None
    operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    if not operations:
        raise ExecutionFailed(
            {"name": "NoOperation", "message": "There is no query, mutation or subscription in this script."}
        )
    variables: dict[str, Any] = {}
    for variable in operations[0].variable_definitions or ():
        name = variable.variable.name.value
        # Left out, the operation's own default applies.
        if execution.args.get(name) is not None and execution.args[name] != FUNCTION_CALL:
            variables[name] = execution.args[name]
    request: dict[str, Any] = {"query": execution.code, "variables": variables}
    if len(operations) > 1:
        if operations[0].name is None:
            raise ExecutionFailed(
                {
                    "name": "NoOperation",
                    "message": "A script with several operations needs a name for the first one.",
                }
            )
        request["operationName"] = operations[0].name.value
    return json.dumps(request).encode()


def _target(api: Any) -> tuple[str, dict[str, str]]:
    """Address and headers out of the resource {base_url, bearer_token, custom_headers}. Raises ExecutionFailed."""
    if not isinstance(api, dict):
        raise _bad_resource(
            f"the argument {API} should be a graphql resource, for example $res:f/folder/name"
        )
    url = api.get("base_url")
    if not isinstance(url, str) or not url.strip():
        raise _bad_resource("it has no base_url")
    url = url.strip()
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_web = False
    if not is_web:
        raise _bad_resource(f"its base_url {url[:100]!r} is no address that begins with http:// or https://")
    headers = {
        "content-type": "application/json",
        "accept": "application/graphql-response+json, application/json",
    }
    token = api.get("bearer_token")
    if token:
        headers["authorization"] = f"Bearer {_header_value('bearer_token', token)}"
    custom = api.get("custom_headers") or {}
    if not isinstance(custom, dict):
        raise _bad_resource("its custom_headers should be an object with a text for each header")
    for name, value in custom.items():
        if not _TOKEN.fullmatch(name):
            raise _bad_resource(f"its custom_headers have a name that is none: {name[:60]!r}")
        headers[name.lower()] = _header_value(f"header {name}", value)
    return url, headers


def _header_value(what: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or not value.isascii():
        raise _bad_resource(f"its {what} should be text of one line, in ASCII")
    return value


def _is_json(content: bytes) -> bool:
    return content.lstrip()[:1] in (b"{", b"[")


async def _data(status: int, text: str | None, content: bytes, url: str) -> str:
    """`data` of the answer as JSON. Raises ExecutionFailed for errors in it and for anything else."""
    answer = await asyncio.to_thread(_parsed, text) if text is not None else None
    if isinstance(answer, dict) and isinstance(answer.get("errors"), list) and answer["errors"]:
        raise ExecutionFailed(_errors(answer["errors"], answer.get("data")))
    if not 200 <= status < 300:
        where = " (redirects are not followed)" if 300 <= status < 400 else ""
        raise ExecutionFailed(
            {
                "name": "HttpError",
                "message": f"{_shown(url)} answered with HTTP status {status}{where}: {_excerpt(content)}",
                "extra": {"status": status},
            }
        )
    if not isinstance(answer, dict) or "data" not in answer:
        raise ExecutionFailed(
            {
                "name": "NotGraphQL",
                "message": f"{_shown(url)} answered with something that is no GraphQL response "
                f"(a JSON object with data): {_excerpt(content)}",
            }
        )
    return await asyncio.to_thread(json.dumps, answer["data"], ensure_ascii=False, separators=(",", ":"))


def _parsed(text: str) -> Any:
    return json.loads(text)


def _errors(errors: list[Any], data: Any) -> dict[str, Any]:
    lines = []
    for error in errors[:_MOST_ERRORS]:
        if not isinstance(error, dict):
            lines.append(str(error)[:_LONGEST_ANSWER_SHOWN])
            continue
        line = str(error.get("message", "an error without a message"))
        if isinstance(error.get("path"), list):
            line += f" (at {'.'.join(map(str, error['path']))})"
        places = error.get("locations")
        if isinstance(places, list) and places and isinstance(places[0], dict):
            line += f" (line {places[0].get('line')})"
        lines.append(line)
    if len(errors) > _MOST_ERRORS:
        lines.append(f"and {len(errors) - _MOST_ERRORS} more")
    extra: dict[str, Any] = {"errors": errors}
    if data is not None:
        extra["data"] = data
    return {"name": "GraphQLError", "message": "\n".join(lines), "extra": extra}


def _excerpt(content: bytes) -> str:
    text = " ".join(content[: 4 * _LONGEST_ANSWER_SHOWN].decode("utf-8", "replace").replace("\0", "").split())
    return text[:_LONGEST_ANSWER_SHOWN] or "nothing"


def _shown(url: str) -> str:
    """The address without a user's name, a password and a query, which may hold a key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _bad_resource(what: str) -> ExecutionFailed:
    return ExecutionFailed({"name": "BadResource", "message": f"The API cannot be called: {what}."})
