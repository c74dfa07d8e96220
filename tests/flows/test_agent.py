"""AI agents as steps: the model is a server of ours that says what it was told to say."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobs.models import Job
from tests.flows.build import flow, js, static, step
from tests.flows.conftest import RunFlow
from tests.workers.ai_agents.chat_server import ChatServer, Reply, chat_server, says

ADD = "def main(a: int, b: int):\n    return a + b\n"


@pytest.fixture
def provider() -> Iterator[Callable[..., ChatServer]]:
    """provider(reply, ...): a running model that gives these answers, one a question."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    open_servers: list[Any] = []

    def start(*replies: Reply) -> ChatServer:
        server = chat_server(*replies)
        open_servers.append(server)
        return asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)

    yield start
    for server in open_servers:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def agent(server: ChatServer, *tools: Any, **inputs: Any) -> Any:
    resource = {"api_key": "sk-secret", "base_url": server.base_url}
    transforms = {
        "provider": static({"kind": "customai", "model": "small", "resource": resource}),
        "user_message": js("flow_input.question"),
        "output_type": static("text"),
        **inputs,
    }
    return {"id": "ask", "value": {"type": "aiagent", "input_transforms": transforms, "tools": list(tools)}}


def adding() -> Any:
    value = {"type": "rawscript", "language": "python3", "content": ADD, "input_transforms": {}}
    return {"id": "add", "summary": "add", "value": {"tool_type": "flowmodule", **value}}


def test_an_agent_answers_and_the_flow_goes_on_with_what_it_said(
    run_flow: RunFlow, provider: Callable[..., ChatServer]
) -> None:
    server = provider(says("Paris"))
    use = step("use", "def main(x): return x.upper()", x="=results.ask.output")
    run = run_flow(flow(agent(server), use), {"question": "Which city?"})
    assert (run.outcome, run.result) == ("success", "PARIS")
    assert server.requests[0]["body"]["messages"][-1]["content"] == "Which city?"


def test_tools_are_jobs_and_their_results_go_back_to_the_model(
    run_flow: RunFlow, provider: Callable[..., ChatServer]
) -> None:
    server = provider(says(None, ("c1", "add", {"a": 2, "b": 40})), says("It is 42."))
    run = run_flow(flow(agent(server, adding())), {"question": "2 + 40?"})
    assert run.outcome == "success", run.result
    assert run.result["output"] == "It is 42."
    told = server.requests[1]["body"]["messages"][-1]
    assert (told["role"], told["content"]) == ("tool", "42")
    tool = Job.objects.get(parent_job=run.module("ask")["job"])
    assert tool.args == {"a": 2, "b": 40}
    call, message = run.module("ask")["agent_actions"]
    assert (call["type"], call["job_id"], call["function_name"]) == ("tool_call", str(tool.id), "add")
    assert message == {"type": "message"}


def test_as_many_agents_as_slots_all_find_a_slot_for_their_tools(
    start_flow: RunFlow, worker: str, provider: Callable[..., ChatServer]
) -> None:
    servers = [provider(says(None, ("c1", "add", {"a": n, "b": 1})), says("done")) for n in range(4)]
    runs = [start_flow(flow(agent(server, adding())), {"question": "?"}) for server in servers]
    assert [run.wait().outcome for run in runs] == ["success"] * 4


def test_a_model_that_refuses_fails_the_step_with_a_sentence_and_no_key(
    run_flow: RunFlow, provider: Callable[..., ChatServer]
) -> None:
    server = provider(Reply(status=401, body={"error": {"message": "bad key sk-secret"}}))
    run = run_flow(flow(agent(server)), {"question": "?"})
    assert run.outcome == "failure"
    assert run.result["error"]["step_id"] == "ask"
    assert "sk-secret" not in str(run.result)
