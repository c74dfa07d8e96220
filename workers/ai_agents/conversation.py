"""AI agents: a conversation between a model and tools, which are scripts and flows of the workspace.

The agent is one job. The model's answers come from a provider (openai_chat); each tool that it calls is a job of
its own, whose result goes back to the model. The agent ends when the model answers without calling a tool.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs.queue import JobRequest
from workers import failures
from workers.ai_agents.openai_chat import (
    BACKOFF_S,
    BASE_URLS,
    Answer,
    Chat,
    Provider,
    ProviderFailed,
    ToolCall,
)
from workers.masking import Masker
from workers.networks import BlockedNetworks
from workers.runner import RunOutcome, RunRequest
from workspaces.errors import DomainError

ERROR_NAME = "AiAgentError"
DEFAULT_ITERATIONS = 10
MAX_ITERATIONS = 1000
MAX_RESULT_CHARS = 200_000  # of a tool's result that the model gets to see
_ROLES = ("system", "developer", "user", "assistant", "tool")

PushTool = Callable[[JobRequest], Awaitable[UUID]]
WaitResult = Callable[[UUID], Awaitable[tuple[bool, Any]]]  # (is it a success, result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What the model may call. `request` makes the job of one call; it raises DomainError."""

    id: str  # of the module
    name: str  # for the model: letters, digits, _ and -; unique in the agent
    description: str
    parameters: Mapping[str, Any]  # JSON Schema of what the model fills in
    request: Callable[[dict[str, Any]], Awaitable[JobRequest]]


class AgentFailed(Exception):
    """The agent cannot begin or go on; the text is for the author of the flow."""


class AiAgentRun:
    """Runs one job of kind aiagent."""

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        blocked: BlockedNetworks,
        is_parallel: bool = False,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        """`is_parallel`: tools that the model calls together run together. The provider is at no `blocked` address."""
        self._blocked = blocked
        self._tools = {tool.name: tool for tool in tools}
        self._is_parallel = is_parallel
        self._backoff_s = backoff_s

    async def run(self, request: RunRequest, *, push_tool: PushTool, wait_result: WaitResult) -> RunOutcome:
        """Hold the conversation. Cancelling this call ends it at once; jobs of tools are the caller's to cancel.

        The result is {"output", "messages", "usage"}, and "wm_stream" with the text when it was streamed. `messages`
        can be given to another agent as its memory; each says in `agent_action` what it was (Windmill's shape):
        {"type": "message"} or {"type": "tool_call", "job_id", "function_name", "module_id"}.
        """
        masker = Masker(())
        try:
            settings = Settings.read(request.args)
            masker = Masker([settings.provider.api_key])
            async with (
                asyncio.timeout(request.timeout_s),
                Chat(settings.provider, blocked=self._blocked, backoff_s=self._backoff_s) as chat,
            ):
                talk = _Talk(self._tools, settings, chat, request, push_tool, wait_result, masker)
                result = await talk.hold(is_parallel=self._is_parallel)
            return RunOutcome(True, json.dumps(result, ensure_ascii=False))
        except (AgentFailed, ProviderFailed) as exc:
            return RunOutcome(False, failures.as_result(ERROR_NAME, masker.mask(str(exc))))
        except TimeoutError:
            return RunOutcome(
                False, failures.as_result("ExecutionErr", f"Job timed out after (>{request.timeout_s:g}s)")
            )


# --- what the agent is told ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The inputs of an agent, checked."""

    provider: Provider
    messages: list[dict[str, Any]]  # memory and the user's message; without the system prompt
    system_prompt: str
    output_schema: dict[str, Any] | None
    is_streamed: bool
    max_completion_tokens: int | None
    temperature: float | None
    max_iterations: int

    @classmethod
    def read(cls, args: Mapping[str, Any]) -> "Settings":
        """Raises AgentFailed, for what is missing, wrong or not offered."""
        output_type = args.get("output_type") or "text"
        if output_type != "text":
            raise AgentFailed(f"output_type is {_shown(output_type)}; only text is offered")
        if args.get("user_attachments"):
            raise AgentFailed(
                "user_attachments are not offered: put what the model should know into user_message"
            )
        remembered = _memory(args.get("memory"))
        message = _text(args, "user_message")
        if not message and not remembered:
            raise AgentFailed("user_message is empty; say what the model should do")
        messages = [*remembered, {"role": "user", "content": message}] if message else remembered
        return cls(
            provider=_provider(args.get("provider")),
            messages=messages,
            system_prompt=_text(args, "system_prompt"),
            output_schema=_output_schema(args.get("output_schema")),
            is_streamed=bool(args.get("streaming")),
            max_completion_tokens=_whole_number(args, "max_completion_tokens", 1, 10_000_000),
            temperature=_temperature(args.get("temperature")),
            max_iterations=_whole_number(args, "max_iterations", 1, MAX_ITERATIONS) or DEFAULT_ITERATIONS,
        )

    def body(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        """The request for the model's next answer."""
        system = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        body: dict[str, Any] = {"messages": system + messages}
        if tools:
            body["tools"] = tools
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if self.max_completion_tokens is not None:
            # Only OpenAI has renamed it; the others know the old name.
            is_new = self.provider.kind in ("openai", "azure_openai")
            body["max_completion_tokens" if is_new else "max_tokens"] = self.max_completion_tokens
        if self.output_schema is not None:
            schema = {
                "name": "output",
                "schema": self.output_schema,
                "strict": _is_strict(self.output_schema),
            }
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body


def _provider(value: Any) -> Provider:
    if not isinstance(value, dict):
        raise AgentFailed(
            'provider is missing; expected {"kind": "openai", "model": ..., "resource": "$res:path"}'
        )
    kind, model, resource = value.get("kind") or "openai", value.get("model"), value.get("resource")
    if not isinstance(model, str) or not model:
        raise AgentFailed("provider.model is missing; give the name of a model")
    if not isinstance(resource, dict):
        raise AgentFailed("provider.resource is missing; give a resource with an api_key ($res:path)")
    base_url = _first_text(resource, "base_url", "baseUrl") or BASE_URLS.get(str(kind), "")
    if not base_url:
        raise AgentFailed(
            f"provider {_shown(kind)} has no known address; its resource needs the base_url of an OpenAI-compatible API"
        )
    api_key = _first_text(resource, "api_key", "apiKey")
    if not api_key and kind != "customai":
        raise AgentFailed("the provider's resource has no api_key")
    if not api_key.isascii() or not api_key.isprintable():
        raise AgentFailed("the api_key in the provider's resource has characters that no key has")
    return Provider(
        kind=str(kind),
        model=model,
        base_url=base_url,
        api_key=api_key.strip(),
        organization=_first_text(resource, "organization", "organization_id") or None,
    )


def _memory(value: Any) -> list[dict[str, Any]]:
    """Messages from before. Kinds: off (or nothing) and manual."""
    if value in (None, "", "off"):
        return []
    kind = value.get("kind") if isinstance(value, dict) else value
    if kind == "off" or (isinstance(value, dict) and kind == "auto" and value.get("context_length") == 0):
        return []
    if kind != "manual":
        raise AgentFailed(
            f"memory of kind {_shown(kind)} is not offered; pass the earlier messages:"
            ' {"kind": "manual", "messages": [...]}'
        )
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list):
        raise AgentFailed("memory.messages is no list of messages")
    remembered = []
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            roles = ", ".join(_ROLES)
            raise AgentFailed(
                f'memory.messages[{number}] is no message {{"role": one of {roles}, "content": ...}}'
            )
        remembered.append({key: item for key, item in message.items() if key != "agent_action"})
    return remembered


def _output_schema(value: Any) -> dict[str, Any] | None:
    if value in (None, "", {}):
        return None
    if not isinstance(value, dict):
        raise AgentFailed("output_schema is no JSON Schema: expected an object")
    if value.get("type", "object") == "object" and not value.get("properties"):
        return None  # an empty form says nothing about the output
    return {key: item for key, item in value.items() if key not in ("$schema", "order")}


def _is_strict(schema: Any) -> bool:
    """Whether providers accept the schema as a strict one: closed objects in which everything is required."""
    if isinstance(schema, list):
        return all(_is_strict(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    if isinstance(properties := schema.get("properties"), dict):
        required = schema.get("required")
        is_closed = schema.get("additionalProperties") is False
        if not is_closed or not isinstance(required, list) or set(required) != set(properties):
            return False
        return all(_is_strict(item) for item in properties.values())
    if schema.get("type") == "object":
        return False
    return all(_is_strict(schema[key]) for key in ("items", "anyOf", "$defs") if key in schema)


def _text(args: Mapping[str, Any], name: str) -> str:
    value = args.get(name)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _first_text(fields: Mapping[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")


def _whole_number(args: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    value = args.get(name)
    if value is None or value == "":
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or value != int(value)
        or not low <= value <= high
    ):
        raise AgentFailed(f"{name} is {_shown(value)}; expected a whole number from {low} to {high}")
    return int(value)


def _temperature(value: Any) -> float | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2:
        raise AgentFailed(f"temperature is {_shown(value)}; expected a number from 0 to 2")
    return float(value)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:100]


# --- the conversation ---


class _Talk:
    def __init__(
        self,
        tools: Mapping[str, Tool],
        settings: Settings,
        chat: Chat,
        request: RunRequest,
        push_tool: PushTool,
        wait_result: WaitResult,
        masker: Masker,
    ) -> None:
        self._tools = tools
        self._settings = settings
        self._chat = chat
        self._log = request.log
        self._push_tool = push_tool
        self._wait_result = wait_result
        self._masker = masker
        self._messages = list(settings.messages)
        self._actions: dict[int, dict[str, Any]] = {}  # what the messages of this agent were, by position
        self._streamed: list[str] = []
        self._usage: dict[str, int] = {}

    async def hold(self, *, is_parallel: bool) -> dict[str, Any]:
        """The result of the agent. Raises AgentFailed, ProviderFailed."""
        described = [_described(tool) for tool in self._tools.values()]
        for _ in range(self._settings.max_iterations):
            answer = await self._ask(described)
            self._say(answer.as_message(), {"type": "message"} if not answer.tool_calls else None)
            if not answer.tool_calls:
                return self._result(answer)
            if is_parallel:
                done = list(await asyncio.gather(*[self._call(call) for call in answer.tool_calls]))
            else:
                done = [await self._call(call) for call in answer.tool_calls]
            for call, (text, action) in zip(answer.tool_calls, done, strict=True):
                self._say({"role": "tool", "tool_call_id": call.id, "content": text}, action)
        raise AgentFailed(
            f"the model still calls tools after {self._settings.max_iterations} answers;"
            " raise max_iterations if it needs more"
        )

    async def _ask(self, described: list[dict[str, Any]]) -> Answer:
        begun = time.monotonic()
        body = self._settings.body(self._messages, described)
        on_text = self._stream if self._settings.is_streamed else None
        answer = await self._chat.complete(body, on_text=on_text)
        self._count(answer.usage)
        names = ", ".join(call.name for call in answer.tool_calls)
        self._write(
            f"{self._settings.provider.model} answered after {time.monotonic() - begun:.1f} s"
            + (f" and calls {names}\n" if names else "\n")
        )
        return answer

    def _say(self, message: dict[str, Any], action: dict[str, Any] | None) -> None:
        if action is not None:
            self._actions[len(self._messages)] = action
        self._messages.append(message)

    def _result(self, answer: Answer) -> dict[str, Any]:
        if answer.refusal and not answer.content:
            raise AgentFailed(f"the model refuses: {answer.refusal[:300]}")
        output: Any = answer.content or ""
        if self._settings.output_schema is not None:
            output = _parsed_output(answer)
        messages = [
            message | {"agent_action": self._actions[number]} if number in self._actions else message
            for number, message in enumerate(self._messages)
        ]
        result: dict[str, Any] = {"output": output, "messages": messages, "usage": self._usage or None}
        if self._settings.is_streamed:
            result["wm_stream"] = "".join(self._streamed)
        return result

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        """Tokens of all answers together."""
        for name, value in (usage or {}).items():
            if isinstance(value, int) and not isinstance(value, bool):
                self._usage[name] = self._usage.get(name, 0) + value

    # --- tools ---

    async def _call(self, call: ToolCall) -> tuple[str, dict[str, Any] | None]:
        """What the model is told, and the action; a failure of the tool is the model's to handle."""
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return f"Error: there is no tool {_shown(call.name)}; the tools are: {known}", None
        try:
            arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            return "Error: the arguments are no JSON", None
        if not isinstance(arguments, dict):
            return "Error: the arguments are no JSON object", None
        allowed = tool.parameters.get("properties", {})
        unknown = [name for name in arguments if name not in allowed]
        if unknown:
            return f"Error: {tool.name} has no arguments {', '.join(map(_shown, unknown))}", None
        begun = time.monotonic()
        try:
            job_id = await self._push_tool(await tool.request(arguments))
        except DomainError as exc:
            self._write(f"tool {tool.name} cannot run: {exc.message}\n")
            return f"Error: the tool cannot run: {exc.message}", None
        self._write(f"tool {tool.name} runs as job {job_id}\n")
        is_success, result = await self._wait_result(job_id)
        verb = "returned" if is_success else "failed"
        self._write(f"tool {tool.name} {verb} after {time.monotonic() - begun:.1f} s\n")
        action = {
            "type": "tool_call",
            "job_id": str(job_id),
            "function_name": tool.name,
            "module_id": tool.id,
        }
        return _told(is_success, result), action

    # --- the log ---

    def _write(self, text: str) -> None:
        self._log.write(self._masker.mask(text))

    def _stream(self, text: str) -> None:
        self._streamed.append(text)
        line = text.replace("\r", "").replace("\n", "\\n")
        self._log.write(f"WM_STREAM: {line}\n")


def _described(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _told(is_success: bool, result: Any) -> str:
    if is_success:
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    else:
        error = result.get("error") if isinstance(result, dict) else None
        message = error.get("message") if isinstance(error, dict) else None
        text = f"Error: {message if isinstance(message, str) else json.dumps(result, ensure_ascii=False)}"
    if len(text) <= MAX_RESULT_CHARS:
        return text
    return f"{text[:MAX_RESULT_CHARS]}\n[cut: {len(text)} characters, {MAX_RESULT_CHARS} are shown]"


def _parsed_output(answer: Answer) -> Any:
    if answer.finish_reason == "length":
        raise AgentFailed("the model's answer was cut off; raise max_completion_tokens")
    try:
        return json.loads(answer.content or "")
    except (ValueError, RecursionError):
        start = _shown((answer.content or "")[:80])
        raise AgentFailed(
            f"the model's answer is no JSON although output_schema asks for it: {start}"
        ) from None


def tool_name(text: str, taken: set[str]) -> str:
    """A name that models accept for a tool called `text`; added to `taken`."""
    base = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")[:60] or "tool"
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name
