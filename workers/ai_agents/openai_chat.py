"""The chat completions API as OpenAI defined it and most providers offer it: a request, an answer, perhaps streamed."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from workers.checked_http import CheckedTransport, is_blocked
from workers.networks import BlockedNetworks

logger = logging.getLogger(__name__)

RETRIES = 3
BACKOFF_S = 0.5  # before the first retry; doubles
MAX_WAIT_S = 30.0  # that a provider may ask for before the next try
MAX_ANSWER_BYTES = 10 * 1024 * 1024
MAX_TOOL_CALLS = 64  # of one answer
_RETRYABLE = {408, 409, 429, 500, 502, 503, 504, 529}

# Where providers offer this API, if the resource does not say.
BASE_URLS = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com/v1",
    "mistral": "https://api.mistral.ai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "googleai": "https://generativelanguage.googleapis.com/v1beta/openai",
    "groq": "https://api.groq.com/openai/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "togetherai": "https://api.together.xyz/v1",
}


class ProviderFailed(Exception):
    """The provider gave no usable answer; the text is for the author of the flow, without secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Who answers, and how to reach them."""

    kind: str  # openai, mistral, ..., azure_openai, customai
    model: str
    base_url: str
    api_key: str = field(default="", repr=False)
    organization: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        if not self.api_key:
            found = {}
        elif self.kind == "azure_openai":
            found = {"api-key": self.api_key}
        else:
            found = {"Authorization": f"Bearer {self.api_key}"}
        return found | ({"OpenAI-Organization": self.organization} if self.organization else {})


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str  # JSON text, as the model wrote it


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model said."""

    content: str | None
    refusal: str | None
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str | None
    usage: Mapping[str, Any] | None

    def as_message(self) -> dict[str, Any]:
        """It, as a message of the conversation that goes on."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.tool_calls
            ]
        return message


class Chat:
    """A conversation's way to its provider. Use as an async context manager."""

    def __init__(
        self,
        provider: Provider,
        *,
        blocked: BlockedNetworks,
        read_timeout_s: float = 300.0,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        """`blocked` are addresses that it must not be at, unless a proxy of this machine is on the way."""
        self._provider = provider
        self._backoff_s = backoff_s
        self._url = f"{provider.base_url.rstrip('/')}/chat/completions"
        self._client = httpx.AsyncClient(
            headers=provider.headers,
            timeout=httpx.Timeout(30.0, connect=10.0, read=read_timeout_s),
            follow_redirects=False,  # the key is for this address only
            transport=None if _has_proxy(self._url) else CheckedTransport(blocked),
        )

    async def __aenter__(self) -> "Chat":
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._client.aclose()

    async def complete(
        self, body: Mapping[str, Any], *, on_text: Callable[[str], None] | None = None
    ) -> Answer:
        """The answer to `body`; with `on_text` it is streamed, and given its text piece by piece.

        Tries again when the provider is busy or away, unless part of an answer has come. Raises ProviderFailed.
        """
        sent = dict(body) | {"model": self._provider.model}
        if on_text is not None:
            sent |= {"stream": True, "stream_options": {"include_usage": True}}
        failures = 0
        while True:
            attempt = _Attempt(on_text)
            try:
                return await self._once(sent, attempt)
            except _Retryable as exc:
                if attempt.has_text or failures == RETRIES:
                    raise ProviderFailed(str(exc)) from None
                wait_s = exc.wait_s if exc.wait_s is not None else self._backoff_s * 2**failures
                failures += 1
                logger.info("provider is asked again retry=%s wait_s=%.1f", failures, wait_s)
                await asyncio.sleep(min(wait_s, MAX_WAIT_S))

    async def _once(self, body: dict[str, Any], attempt: "_Attempt") -> Answer:
        host = self._client.build_request("POST", self._url).url.host
        try:
            async with self._client.stream("POST", self._url, json=body) as response:
                if response.status_code != 200:
                    raise await self._refused(response, host)
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    await attempt.read_stream(response)
                else:
                    attempt.read_whole(await _read(response))
        except httpx.ConnectError as exc:
            if is_blocked(exc):
                raise ProviderFailed(str(exc)) from None
            raise _Retryable(f"cannot connect to {host}") from None
        except httpx.TimeoutException:
            raise _Retryable(f"{host} did not answer in time") from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            raise ProviderFailed(f"the base URL {self._provider.base_url!r} is no http(s) address") from None
        except httpx.HTTPError as exc:
            raise _Retryable(f"the connection to {host} broke: {type(exc).__name__}") from None
        return attempt.answer()

    async def _refused(self, response: httpx.Response, host: str) -> Exception:
        status = response.status_code
        said = (
            "" if status in (401, 403) else _error_text(await _read(response))
        )  # keys are often repeated there
        details = f": {said}" if said else ""
        if status == 401:
            return ProviderFailed(f"{host} does not accept the API key (401)")
        if status == 403:
            return ProviderFailed(f"the API key may not use {self._provider.model} at {host} (403)")
        if status == 404:
            return ProviderFailed(
                f"{host} knows no model {self._provider.model}, or has no chat completions at this address (404){details}"
            )
        if status == 429:
            return _Retryable(f"{host} refuses more requests for now (429){details}", _wait_s(response))
        if status in _RETRYABLE:
            return _Retryable(f"{host} has a problem ({status}){details}", _wait_s(response))
        if response.is_redirect:
            return ProviderFailed(
                f"{host} redirects to another address ({status}); give that one as base URL"
            )
        return ProviderFailed(f"{host} refuses the request ({status}){details}")


class _Retryable(Exception):
    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class _Attempt:
    """An answer while it arrives."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text = on_text
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._finish_reason: str | None = None
        self._usage: Mapping[str, Any] | None = None
        self._has_choice = False

    @property
    def has_text(self) -> bool:
        return bool(self._content)

    def read_whole(self, text: str) -> None:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise ProviderFailed("the provider's answer is no JSON") from None
        self._take(value, "message")

    async def read_stream(self, response: httpx.Response) -> None:
        """Server-sent events: `data: {...}` lines, the last one `data: [DONE]`."""
        async for line in _lines(response):
            if not line.startswith("data:"):
                continue
            data = line.removeprefix("data:").strip()
            if data == "[DONE]":
                return
            try:
                value = json.loads(data)
            except (ValueError, RecursionError):
                raise ProviderFailed(
                    "the provider's stream is broken: one of its events is no JSON"
                ) from None
            self._take(value, "delta")
        if self._finish_reason is None:
            raise _Retryable("the provider's stream ended before its answer was complete")

    def _take(self, value: Any, part: str) -> None:
        if not isinstance(value, dict):
            raise ProviderFailed("the provider's answer is no chat completion")
        if isinstance(value.get("error"), dict | str):
            raise ProviderFailed(f"the provider reports an error: {_error_text(json.dumps(value))}")
        if isinstance(value.get("usage"), dict):
            self._usage = value["usage"]
        choices = value.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                self._has_choice = True
                self._take_choice(choice, part)

    def _take_choice(self, choice: dict[str, Any], part: str) -> None:
        if isinstance(choice.get("finish_reason"), str):
            self._finish_reason = choice["finish_reason"]
        said = choice.get(part)
        if not isinstance(said, dict):
            return
        if text := _text_of(said.get("content")):
            self._content.append(text)
            if self._on_text is not None:
                self._on_text(text)
        if isinstance(said.get("refusal"), str):
            self._refusal.append(said["refusal"])
        calls = said.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else []):
            if isinstance(call, dict):
                self._take_call(call, position)

    def _take_call(self, call: dict[str, Any], position: int) -> None:
        index = call.get("index", position)
        function = call.get("function")
        if not isinstance(index, int) or not isinstance(function, dict):
            return
        if index not in self._calls and len(self._calls) == MAX_TOOL_CALLS:
            raise ProviderFailed(f"the model calls more than {MAX_TOOL_CALLS} tools at once")
        known = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        for target, value in (("id", call.get("id")), ("name", function.get("name"))):
            if isinstance(value, str) and value:
                known[target] = value
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            known["arguments"] += arguments  # in pieces, when streamed
        elif arguments is not None:
            known["arguments"] = json.dumps(arguments)  # some providers send an object

    def answer(self) -> Answer:
        if not self._has_choice:
            raise ProviderFailed("the provider's answer is no chat completion: it holds no choices")
        calls = (self._calls[index] for index in sorted(self._calls))
        return Answer(
            content="".join(self._content) if self._content else None,
            refusal="".join(self._refusal) or None,
            tool_calls=tuple(
                ToolCall(call["id"] or f"call_{number}", call["name"], call["arguments"])
                for number, call in enumerate(calls)
            ),
            finish_reason=self._finish_reason,
            usage=self._usage,
        )


def _has_proxy(url: str) -> bool:
    """Whether the environment of the worker names a proxy for it."""
    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")


async def _lines(response: httpx.Response) -> AsyncIterator[str]:
    size = 0
    async for line in response.aiter_lines():
        size += len(line)
        if size > MAX_ANSWER_BYTES:
            raise ProviderFailed(f"the provider's answer is larger than {MAX_ANSWER_BYTES // 2**20} MB")
        yield line


async def _read(response: httpx.Response) -> str:
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise ProviderFailed(f"the provider's answer is larger than {MAX_ANSWER_BYTES // 2**20} MB")
    return b"".join(pieces).decode(errors="replace")


def _text_of(content: Any) -> str:
    """Text, or the texts of content parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join([p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str)])
    return ""


def _error_text(body: str) -> str:
    """The provider's own words, short."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, list) and value:
        value = value[0]
    error = value.get("error", value.get("message")) if isinstance(value, dict) else None
    if isinstance(error, dict):
        error = error.get("message")
    return " ".join(error.split())[:300] if isinstance(error, str) else ""


def _wait_s(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
