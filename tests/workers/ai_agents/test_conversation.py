"""AI agents against a provider that really speaks HTTP."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from jobs.queue import Claim, JobRequest
from tests.workers.ai_agents.chat_server import ChatServer, Reply, chat_server, says, streams
from workers.ai_agents.conversation import MAX_RESULT_CHARS, AiAgentRun, Tool, tool_name
from workers.networks import BlockedNetworks
from workers.runner import RunOutcome, RunRequest
from workspaces.errors import BadRequest

KEY = "sk-secret-key-1234"


class PlainLog:
    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


class Tools:
    """Runs tools: answers by name, recorded calls."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._jobs: dict[UUID, str] = {}

    def tool(self, name: str, **properties: Any) -> Tool:
        async def request(arguments: dict[str, Any]) -> JobRequest:
            if arguments.get("city") == "Atlantis":
                raise BadRequest("there is no such city")
            return job_request(name, arguments)

        schema = {"type": "object", "properties": properties, "required": list(properties)}
        return Tool(
            id=f"id_{name}", name=name, description=f"Does {name}", parameters=schema, request=request
        )

    async def push(self, request: JobRequest) -> UUID:
        job_id = uuid4()
        self.calls.append((request.runnable_path or "", request.args))
        self._jobs[job_id] = request.runnable_path or ""
        return job_id

    async def wait(self, job_id: UUID) -> tuple[bool, Any]:
        answer = self.answers[self._jobs[job_id]]
        if isinstance(answer, Exception):
            return False, {"error": {"name": "Error", "message": str(answer)}}
        return True, answer


def job_request(path: str, args: dict[str, Any]) -> JobRequest:
    return JobRequest(
        workspace_id="test",
        kind="script",
        tag="python3",
        created_by="ada",
        permissioned_as="u/ada",
        permissioned_as_email="ada@example.com",
        args=args,
        runnable_path=path,
    )


def claim() -> Claim:
    now = datetime.now(UTC)
    return Claim(
        id=uuid4(),
        attempt=1,
        scheduled_for=now,
        started_at=now,
        created_at=now,
        restarts=0,
        workspace_id="test",
        kind="aiagent",
        runnable_path="f/a/flow/b",
        tag="flow",
        args={},
        created_by="ada",
        permissioned_as="u/ada",
        permissioned_as_email="ada@example.com",
        parent_job=uuid4(),
        root_job=None,
        flow_step_id="b",
        trigger_kind=None,
        trigger=None,
        timeout=None,
        script_entrypoint_override=None,
        language=None,
        code=None,
        envs=None,
        has_preprocessor=None,
        flow_innermost_root_job=None,
        same_worker=False,
        cache_ttl=None,
        concurrency_key=None,
        concurrent_limit=None,
        concurrency_time_window_s=None,
    )


def inputs(server: ChatServer | None = None, **changes: Any) -> dict[str, Any]:
    resource = {"api_key": KEY, "base_url": server.base_url if server else "http://127.0.0.1:9/v1"}
    provider = {"kind": "openai", "model": "gpt-test", "resource": resource}
    return {"provider": provider, "user_message": "What is the weather?"} | changes


async def run(
    args: dict[str, Any],
    *,
    tools: Tools | None = None,
    offered: list[Tool] | None = None,
    log: PlainLog | None = None,
    timeout_s: float = 20,
    is_parallel: bool = False,
    blocked: BlockedNetworks | None = None,
) -> RunOutcome:
    tools = tools or Tools()
    request = RunRequest(
        claim=claim(),
        args=args,
        environment={},
        timeout_s=timeout_s,
        log=log or PlainLog(),  # type: ignore[arg-type]
        report_memory=lambda _: None,
    )
    agent = AiAgentRun(
        offered or [], blocked=blocked or BlockedNetworks(), is_parallel=is_parallel, backoff_s=0.01
    )
    return await agent.run(request, push_tool=tools.push, wait_result=tools.wait)


def result_of(outcome: RunOutcome) -> Any:
    assert outcome.is_success, outcome.result
    return json.loads(outcome.result)


def error_of(outcome: RunOutcome) -> str:
    assert not outcome.is_success
    return json.loads(outcome.result)["error"]["message"]


# --- conversations ---


async def test_a_question_gets_an_answer() -> None:
    async with chat_server(says("Sunny.", usage={"prompt_tokens": 7, "total_tokens": 9})) as server:
        args = inputs(server, system_prompt="Be brief.", temperature=0.5, max_completion_tokens=50)
        outcome = await run(args)

    assert result_of(outcome) == {
        "output": "Sunny.",
        "messages": [
            {"role": "user", "content": "What is the weather?"},
            {"role": "assistant", "content": "Sunny.", "agent_action": {"type": "message"}},
        ],
        "usage": {"prompt_tokens": 7, "total_tokens": 9},
    }
    [request] = server.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["authorization"] == f"Bearer {KEY}"
    assert request["body"] == {
        "model": "gpt-test",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is the weather?"},
        ],
        "temperature": 0.5,
        "max_completion_tokens": 50,
    }


async def test_a_tool_runs_as_a_job_and_its_result_goes_back_to_the_model() -> None:
    tools = Tools(weather={"sky": "clear", "°C": 21})
    log = PlainLog()
    first = says(None, ("call_a", "weather", {"city": "Kiel"}), usage={"total_tokens": 10})
    async with chat_server(first, says("21 °C.", usage={"total_tokens": 5})) as server:
        offered = [tools.tool("weather", city={"type": "string"})]
        result = result_of(await run(inputs(server), tools=tools, offered=offered, log=log))

    assert tools.calls == [("weather", {"city": "Kiel"})]
    assert result["output"] == "21 °C."
    assert result["usage"] == {"total_tokens": 15}
    [_, asked, told, _] = result["messages"]
    assert asked["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Kiel"}'}
    job_id = told["agent_action"].pop("job_id")
    assert told == {
        "role": "tool",
        "tool_call_id": "call_a",
        "content": '{"sky": "clear", "°C": 21}',
        "agent_action": {"type": "tool_call", "function_name": "weather", "module_id": "id_weather"},
    }
    assert f"tool weather runs as job {job_id}" in log.text
    assert server.requests[0]["body"]["tools"][0]["function"]["name"] == "weather"
    sent = server.requests[1]["body"]["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert not any("agent_action" in message for message in sent)


@pytest.mark.parametrize("is_parallel", [False, True])
async def test_tools_that_are_called_together_are_answered_in_order(is_parallel: bool) -> None:
    tools = Tools(one=1, two="zwei")
    async with chat_server(says(None, ("x", "one", {}), ("y", "two", {})), says("done")) as server:
        offered = [tools.tool("one"), tools.tool("two")]
        await run(inputs(server), tools=tools, offered=offered, is_parallel=is_parallel)

    told = server.requests[1]["body"]["messages"][2:]
    assert [(message["tool_call_id"], message["content"]) for message in told] == [("x", "1"), ("y", "zwei")]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("weather", '{"city": "Kiel"}', "Error: the station is closed"),
        ("weather", '{"city": "Atlantis"}', "Error: the tool cannot run: there is no such city"),
        ("weather", '{"planet": "Mars"}', 'Error: weather has no arguments "planet"'),
        ("weather", "{", "Error: the arguments are no JSON"),
        ("weather", "[1]", "Error: the arguments are no JSON object"),
        ("launch", "{}", 'Error: there is no tool "launch"; the tools are: weather'),
    ],
)
async def test_what_goes_wrong_with_a_tool_is_told_to_the_model(name: str, arguments: str, told: str) -> None:
    tools = Tools(weather=RuntimeError("the station is closed"))
    reply = says(None, ("x", name, {}))
    reply.body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = arguments
    async with chat_server(reply, says("Sorry.")) as server:
        offered = [tools.tool("weather", city={"type": "string"})]
        outcome = await run(inputs(server), tools=tools, offered=offered)

    assert result_of(outcome)["output"] == "Sorry."
    assert server.requests[1]["body"]["messages"][-1]["content"] == told


async def test_a_huge_tool_result_is_cut() -> None:
    tools = Tools(big="x" * (MAX_RESULT_CHARS + 5))
    async with chat_server(says(None, ("x", "big", {})), says("ok")) as server:
        await run(inputs(server), tools=tools, offered=[tools.tool("big")])

    content = server.requests[1]["body"]["messages"][-1]["content"]
    assert content.endswith(f"[cut: {MAX_RESULT_CHARS + 5} characters, {MAX_RESULT_CHARS} are shown]")


async def test_a_model_that_never_stops_calling_tools_is_stopped() -> None:
    tools = Tools(again=1)
    async with chat_server(*[says(None, ("x", "again", {})) for _ in range(3)]) as server:
        outcome = await run(inputs(server, max_iterations=3), tools=tools, offered=[tools.tool("again")])

    assert error_of(outcome).startswith("the model still calls tools after 3 answers")
    assert len(tools.calls) == 3


async def test_earlier_messages_come_before_the_new_one() -> None:
    earlier = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello", "agent_action": {"type": "message"}},
    ]
    async with chat_server(says("ok")) as server:
        outcome = await run(inputs(server, memory={"kind": "manual", "messages": earlier}))

    contents = [message["content"] for message in server.requests[0]["body"]["messages"]]
    assert contents == ["Hi", "Hello", "What is the weather?"]
    assert len(result_of(outcome)["messages"]) == 4


# --- output with a schema ---


@pytest.mark.parametrize(("is_closed", "is_strict"), [(True, True), (False, False)])
async def test_output_with_a_schema_is_parsed(is_closed: bool, is_strict: bool) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "order": ["n"],
    }
    if is_closed:
        schema["additionalProperties"] = False
    async with chat_server(says('{"n": 3}')) as server:
        outcome = await run(inputs(server, output_schema=schema))

    assert result_of(outcome)["output"] == {"n": 3}
    del schema["order"]
    asked = server.requests[0]["body"]["response_format"]
    expected = {"name": "output", "schema": schema, "strict": is_strict}
    assert asked == {"type": "json_schema", "json_schema": expected}


async def test_output_that_is_no_json_fails() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    async with chat_server(says("three")) as server:
        outcome = await run(inputs(server, output_schema=schema))

    assert error_of(outcome) == 'the model\'s answer is no JSON although output_schema asks for it: "three"'


# --- streaming ---


async def test_streamed_text_appears_in_the_log_as_it_comes() -> None:
    log = PlainLog()
    deltas = [{"role": "assistant", "content": "Sun"}, {"content": "ny,\nwarm"}]
    async with chat_server(streams(*deltas)) as server:
        result = result_of(await run(inputs(server, streaming=True), log=log))

    assert (result["output"], result["wm_stream"]) == ("Sunny,\nwarm", "Sunny,\nwarm")
    assert result["usage"] == {"total_tokens": 5}
    assert "WM_STREAM: Sun\nWM_STREAM: ny,\\nwarm\n" in log.text
    assert server.requests[0]["body"]["stream"] is True


async def test_tool_calls_arrive_in_pieces_too() -> None:
    tools = Tools(weather="mild")
    pieces = [
        {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "weather", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Kiel"}'}}]},
    ]
    first = streams(*pieces, finish_reason="tool_calls")
    async with chat_server(first, streams({"content": "Mild."})) as server:
        offered = [tools.tool("weather", city={"type": "string"})]
        result = result_of(await run(inputs(server, streaming=True), tools=tools, offered=offered))

    assert tools.calls == [("weather", {"city": "Kiel"})]
    assert result["output"] == "Mild."


async def test_a_stream_that_breaks_off_in_the_middle_fails() -> None:
    broken = streams({"content": "Sun"}, finish_reason=None, is_cut=True)
    async with chat_server(broken) as server:
        outcome = await run(inputs(server, streaming=True))

    assert error_of(outcome) == "the provider's stream ended before its answer was complete"


async def test_a_stream_that_breaks_off_before_its_text_is_asked_for_again() -> None:
    broken = streams(finish_reason=None, is_cut=True)
    async with chat_server(broken, streams({"content": "Sunny"})) as server:
        outcome = await run(inputs(server, streaming=True))

    assert result_of(outcome)["output"] == "Sunny"


# --- providers that fail ---


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_provider_is_asked_again(status: int) -> None:
    busy = Reply(status=status, body={"error": {"message": "busy"}})
    async with chat_server(busy, busy, busy, says("ok")) as server:
        outcome = await run(inputs(server))

    assert result_of(outcome)["output"] == "ok"
    assert len(server.requests) == 4


async def test_a_provider_that_stays_busy_fails_the_agent() -> None:
    busy = Reply(429, {"error": {"message": "slow down"}}, headers=(("Retry-After", "0"),))
    async with chat_server(*[busy] * 5) as server:
        outcome = await run(inputs(server))

    assert error_of(outcome) == "127.0.0.1 refuses more requests for now (429): slow down"
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(401, {"error": {"message": f"bad key {KEY}"}}), "127.0.0.1 does not accept the API key (401)"),
        (Reply(403, {"error": f"no {KEY}"}), "the API key may not use gpt-test at 127.0.0.1 (403)"),
        (
            Reply(400, {"error": {"message": f"wrong\n tool, {KEY}"}}),
            "127.0.0.1 refuses the request (400): wrong tool, *****",
        ),
        (
            Reply(404, "<html>"),
            "127.0.0.1 knows no model gpt-test, or has no chat completions at this address (404)",
        ),
        (
            Reply(302, "", headers=(("Location", "http://evil.test"),)),
            "127.0.0.1 redirects to another address (302); give that one as base URL",
        ),
        (Reply(200, "no"), "the provider's answer is no JSON"),
        (Reply(200, [1]), "the provider's answer is no chat completion"),
        (Reply(200, {}), "the provider's answer is no chat completion: it holds no choices"),
        (Reply(200, {"error": {"message": "overloaded"}}), "the provider reports an error: overloaded"),
        (Reply(200, {"choices": [{"message": {"refusal": "No."}}]}), "the model refuses: No."),
        (Reply(events=["x"]), "the provider's answer is no chat completion"),
    ],
)
async def test_errors_of_providers_are_short_and_without_the_key(reply: Reply, message: str) -> None:
    log = PlainLog()
    async with chat_server(reply) as server:
        outcome = await run(inputs(server), log=log)

    assert error_of(outcome) == message
    assert KEY not in outcome.result + log.text


async def test_an_address_where_nobody_listens() -> None:
    outcome = await run(inputs())

    assert error_of(outcome) == "cannot connect to 127.0.0.1"


async def test_a_silent_provider_ends_with_the_timeout_of_the_job() -> None:
    async with chat_server() as server:
        outcome = await run(inputs(server), timeout_s=0.2)

    assert error_of(outcome) == "Job timed out after (>0.2s)"


async def test_canceling_ends_the_wait_for_the_provider() -> None:
    async with chat_server() as server:
        agent = asyncio.create_task(run(inputs(server)))
        await asyncio.wait_for(server.asked.wait(), 5)
        agent.cancel()
        with pytest.raises(asyncio.CancelledError):
            await agent


# --- inputs ---


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"provider": None}, "provider is missing"),
        ({"provider": {"kind": "openai", "resource": {}}}, "provider.model is missing"),
        ({"provider": {"kind": "openai", "model": "m"}}, "provider.resource is missing"),
        ({"provider": {"kind": "openai", "model": "m", "resource": {}}}, "has no api_key"),
        (
            {"provider": {"kind": "aws_bedrock", "model": "m", "resource": {"api_key": "k"}}},
            "has no known address",
        ),
        (
            {"provider": {"model": "m", "resource": {"api_key": "k", "base_url": "ftp://x"}}},
            "is no http(s) address",
        ),
        ({"provider": {"model": "m", "resource": {"api_key": "k\r\nX: y"}}}, "characters that no key has"),
        ({"user_message": ""}, "user_message is empty"),
        ({"output_type": "image"}, 'output_type is "image"; only text is offered'),
        ({"user_attachments": [{"s3": "x"}]}, "user_attachments are not offered"),
        ({"memory": {"kind": "auto", "context_length": 10}}, 'memory of kind "auto" is not offered'),
        ({"memory": {"kind": "manual", "messages": [{"role": "boss"}]}}, "memory.messages[0] is no message"),
        ({"output_schema": "x"}, "output_schema is no JSON Schema"),
        ({"temperature": 3}, "temperature is 3; expected a number from 0 to 2"),
        ({"max_iterations": 0}, "max_iterations is 0; expected a whole number from 1 to 1000"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens is 1.5"),
    ],
)
async def test_inputs_that_cannot_work_are_refused_with_the_reason(
    changes: dict[str, Any], message: str
) -> None:
    assert message in error_of(await run(inputs(**changes)))


async def test_other_spellings_of_resources_and_other_providers() -> None:
    async with chat_server(says("ok"), says("ok"), says("ok")) as server:
        resource = {"apiKey": KEY, "baseUrl": server.base_url + "/", "organization": "org-1"}
        await run(
            inputs(provider={"kind": "mistral", "model": "m", "resource": resource}, max_completion_tokens=9)
        )
        await run(inputs(provider={"kind": "azure_openai", "model": "m", "resource": resource}))
        keyless = {"base_url": server.base_url}
        await run(inputs(provider={"kind": "customai", "model": "m", "resource": keyless}))

    mistral, azure, custom = server.requests
    assert mistral["headers"]["openai-organization"] == "org-1"
    assert mistral["body"]["max_tokens"] == 9
    assert azure["headers"]["api-key"] == KEY
    assert "authorization" not in azure["headers"] and "authorization" not in custom["headers"]


def test_names_of_tools_suit_models_and_are_unique() -> None:
    taken: set[str] = set()

    names = [
        tool_name(text, taken) for text in ("Get the weather!", "get weather", "get_weather", "天気", "天気")
    ]

    assert names == ["Get_the_weather", "get_weather", "get_weather_2", "tool", "tool_2"]


async def test_a_provider_at_a_blocked_address_is_not_asked() -> None:
    async with chat_server(says("credentials")) as server:
        outcome = await run(inputs(server), blocked=BlockedNetworks(["127.0.0.0/8"]))

    assert "127.0.0.1 cannot be reached from jobs: 127.0.0.0/8" in error_of(outcome)
    assert server.requests == []
