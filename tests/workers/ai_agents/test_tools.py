"""Tools of AI agents: scripts and flows with the rights of the flow, schemas that a model understands, jobs of calls."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from jobs.flow_runs import FlowPreview, run_flow_preview
from jobs.flows import deployed
from jobs.flows.deployed import FlowDraft
from jobs.models import JobKind
from jobs.queue import Claim, JobRequest
from jobs.runs import RunOptions
from jobs.scripts import ScriptDraft, deploy_script
from tests.tenancy import enter, join, make_workspace
from tests.workers.ai_agents.chat_server import chat_server, says
from tests.workers.ai_agents.test_conversation import PlainLog, inputs
from tests.workers.ai_agents.test_conversation import claim as some_claim
from workers.ai_agents.conversation import Tool
from workers.ai_agents.tools import agent_of, load_tools, parameters, run_agent
from workers.networks import BlockedNetworks
from workers.pg_queue import PgJobQueue
from workers.runner import RunRequest
from workspaces import variables
from workspaces.access import Caller
from workspaces.errors import DomainError

pytestmark = pytest.mark.django_db(transaction=True)

WEATHER = 'def main(city: str, unit: str = "C", days: int = 1, token: str = ""):\n    return city'
INLINE = "def main(a: int, b: int):\n    return a + b"
IDENTITY_FLOW = {"modules": [{"id": "a", "value": {"type": "identity"}}]}


@pytest.fixture
def ada(database_url: str, settings: Any) -> Caller:
    settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = database_url
    workspace = make_workspace("acme", admin="root2@example.com")
    join(workspace, "ada@example.com")
    return enter(workspace, "ada@example.com")


@pytest_asyncio.fixture
async def queue(ada: Caller) -> AsyncIterator[PgJobQueue]:
    queue = PgJobQueue(worker="wk-test")
    yield queue
    await queue.close()


def agent_flow(*tools: dict[str, Any]) -> dict[str, Any]:
    value = {"type": "aiagent", "input_transforms": {}, "tools": list(tools)}
    return {"modules": [{"id": "b", "value": value}], "flow_env": {"REGION": "north"}}


def claim_of(caller: Caller, flow: UUID) -> Claim:
    return replace(
        some_claim(),
        workspace_id="acme",
        created_by=caller.username,
        permissioned_as=caller.permissioned_as,
        permissioned_as_email=caller.email,
        parent_job=flow,
        root_job=flow,
        flow_step_id="b",
    )


@pytest.fixture
def claim(request: pytest.FixtureRequest, ada: Caller) -> Claim:
    """The agent of a running flow with the tools that the test's parameter lists."""
    deploy_script(ada, ScriptDraft(path="u/ada/weather", content=WEATHER, language="python3", tag="python3"))
    draft = FlowDraft(
        path="u/ada/report", value=IDENTITY_FLOW, schema={"properties": {"topic": {"type": "string"}}}
    )
    deployed.create_flow(ada, draft)
    variables.create_variable(ada, path="u/ada/unit", value="K", is_secret=False, description="")
    preview = FlowPreview(value=agent_flow(*request.param), args={"place": {"city": "Kiel"}})
    return claim_of(ada, run_flow_preview(ada, preview, RunOptions()))


async def loaded(queue: PgJobQueue, claim: Claim) -> list[Tool]:
    agent, flow = await agent_of(queue.flow_store, claim)
    return await load_tools(queue.flow_store, agent, flow, claim)


SCRIPT = {
    "id": "w",
    "summary": "Weather of a city",
    "description": "Says how warm it is",
    "value": {
        "tool_type": "flowmodule",
        "type": "script",
        "path": "u/ada/weather",
        "input_transforms": {
            "city": {"type": "ai"},
            "unit": {
                "type": "javascript",
                "expr": "variable('u/ada/unit') + flow_env.REGION + flow_input.place.city",
            },
            "token": {"type": "static", "value": "$var:u/ada/unit"},
        },
    },
}
CODE = {
    "id": "sum",
    "value": {"tool_type": "flowmodule", "type": "rawscript", "language": "python3", "content": INLINE},
}
FLOW = {"id": "r", "value": {"tool_type": "flowmodule", "type": "flow", "path": "u/ada/report"}}


@pytest.mark.parametrize("claim", [[SCRIPT, CODE, FLOW]], indirect=True)
async def test_tools_are_described_without_what_the_flow_has_fixed(queue: PgJobQueue, claim: Claim) -> None:
    script, code, flow = await loaded(queue, claim)

    assert (script.id, script.name, script.description) == ("w", "Weather_of_a_city", "Says how warm it is")
    assert list(script.parameters["properties"]) == ["city", "days"]
    assert script.parameters["required"] == ["city"]
    assert code.name == code.description == "sum"
    assert code.parameters["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}
    assert flow.parameters["properties"] == {"topic": {"type": "string"}}


@pytest.mark.parametrize("claim", [[SCRIPT, CODE, FLOW]], indirect=True)
async def test_a_call_is_a_job_of_the_agent_that_no_flow_waits_for(queue: PgJobQueue, claim: Claim) -> None:
    script, code, flow = await loaded(queue, claim)

    asked = await script.request({"city": "Ulm"})
    assert asked.args == {"city": "Ulm", "unit": "KnorthKiel", "token": "$var:u/ada/unit"}
    assert (asked.kind, asked.runnable_path, asked.tag) == (JobKind.SCRIPT, "u/ada/weather", "python3")
    assert (asked.parent_job, asked.root_job, asked.flow_step_id) == (claim.id, claim.root_job, None)
    assert (asked.permissioned_as, asked.created_by) == ("u/ada", "ada")

    asked = await code.request({"a": 1, "b": 2})
    assert (asked.kind, asked.raw_code, asked.language) == (JobKind.FLOW_SCRIPT, INLINE, "python3")

    asked = await flow.request({"topic": "x"})
    assert (asked.kind, asked.runnable_path, asked.tag) == (JobKind.FLOW, "u/ada/report", "flow")
    assert asked.flow_state is not None


@pytest.mark.parametrize("claim", [[SCRIPT]], indirect=True)
async def test_what_the_flow_has_fixed_cannot_be_changed_by_the_model(
    queue: PgJobQueue, claim: Claim
) -> None:
    [script] = await loaded(queue, claim)

    asked = await script.request({"city": "Ulm", "token": "mine"})

    assert asked.args["token"] == "$var:u/ada/unit"


def tool(**value: Any) -> list[dict[str, Any]]:
    return [{"id": "t", "value": {"tool_type": "flowmodule", **value}}]


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (tool(tool_type="mcp", resource_path="u/a/b"), "step b, tool t: tools of type mcp are not offered"),
        (tool(type="identity"), "step b, tool t: a module of type identity cannot be a tool"),
        (tool(type="script", path="u/ada/nothing"), "step b, tool t: "),
        (tool(type="script", path="u/bob/private"), "step b, tool t: "),
    ],
    indirect=["claim"],
)
async def test_a_tool_that_cannot_be_one_is_named(queue: PgJobQueue, claim: Claim, message: str) -> None:
    with pytest.raises(DomainError) as refused:
        await loaded(queue, claim)

    assert refused.value.message.startswith(message)


@pytest.mark.parametrize("claim", [[SCRIPT]], indirect=True)
async def test_an_agent_of_a_flow_runs_with_its_tools(queue: PgJobQueue, claim: Claim) -> None:
    asked = []

    async def push(request: JobRequest) -> UUID:
        asked.append(request)
        return UUID(int=1)

    async def wait(job_id: UUID) -> tuple[bool, Any]:
        return True, "mild"

    async with chat_server(says(None, ("x", "Weather_of_a_city", {"city": "Ulm"})), says("Mild.")) as server:
        request = RunRequest(
            claim=claim,
            args=inputs(server),
            environment={},
            timeout_s=20,
            log=PlainLog(),  # type: ignore[arg-type]
            report_memory=lambda _: None,
        )
        outcome = await run_agent(
            request, store=queue.flow_store, push_tool=push, wait_result=wait, blocked=BlockedNetworks()
        )

    assert outcome.is_success
    assert json.loads(outcome.result)["output"] == "Mild."
    assert asked[0].args["city"] == "Ulm"


@pytest.mark.parametrize("claim", [[]], indirect=True)
async def test_a_step_that_is_no_agent(queue: PgJobQueue, claim: Claim) -> None:
    with pytest.raises(DomainError):
        await agent_of(queue.flow_store, replace(claim, flow_step_id="nobody"))


def test_forms_keywords_are_not_for_models() -> None:
    schema = {
        "$schema": "x",
        "order": ["a"],
        "required": ["a", "b"],
        "properties": {
            "a": {
                "type": "object",
                "originalType": "x",
                "properties": {"c": {"type": "string", "password": True}},
            },
            "b": {"type": "array", "items": {"type": "string", "originalType": "string"}},
        },
    }

    assert parameters(schema, {"b": 1}) == {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"c": {"type": "string"}}}},
        "required": ["a"],
        "additionalProperties": False,
    }
