"""The tools of an AI agent: which scripts and flows they are, what the model fills in, and the job of a call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.dedicated import Dedicated
from jobs.flows.expressions import evaluate_inputs
from jobs.flows.state import State, initial_state
from jobs.flows.store import FlowJob, FlowStore, Runnable
from jobs.flows.value import AgentTool, AiAgent, AiFilled, RawScript, ScriptRef, SubFlow, Transform
from jobs.models import FlowVersion, JobKind, Script
from jobs.queue import Claim, JobRequest
from jobs.signatures import infer_schema
from workers import failures
from workers.ai_agents.conversation import ERROR_NAME, AiAgentRun, PushTool, Tool, WaitResult, tool_name
from workers.networks import BlockedNetworks
from workers.runner import RunOutcome, RunRequest
from workers.threads import in_thread
from workspaces.errors import BadRequest, DomainError, NotFound
from workspaces.jsontext import check_storable

ToolValue = RawScript | ScriptRef | SubFlow
MAX_DESCRIPTION = 1000
# Keywords of JSON Schema that tell a model something; forms have more.
_KEYWORDS = frozenset(
    (
        *(
            "type",
            "title",
            "description",
            "enum",
            "const",
            "default",
            "format",
            "pattern",
            "items",
            "properties",
        ),
        *("required", "additionalProperties", "oneOf", "anyOf", "allOf", "minimum", "maximum"),
        *("minLength", "maxLength", "minItems", "maxItems"),
    )
)


async def run_agent(
    request: RunRequest,
    *,
    store: FlowStore,
    push_tool: PushTool,
    wait_result: WaitResult,
    blocked: BlockedNetworks,
) -> RunOutcome:
    """Run a claimed job of kind aiagent, whose arguments have been resolved. See AiAgentRun.run.

    `push_tool` starts the job of a tool, `wait_result` answers (whether it succeeded, its result) when it has ended.
    The agent keeps its slot while it waits: unless `push_tool` runs the job here, another slot must be free for it.
    """
    try:
        agent, flow = await agent_of(store, request.claim)
        tools = await load_tools(store, agent, flow, request.claim)
    except DomainError as exc:
        return RunOutcome(False, failures.as_result(ERROR_NAME, exc.message))
    run = AiAgentRun(tools, blocked=blocked, is_parallel=agent.parallel)
    return await run.run(request, push_tool=push_tool, wait_result=wait_result)


async def agent_of(store: FlowStore, claim: Claim) -> tuple[AiAgent, FlowJob]:
    """The module that a claimed job of kind aiagent runs, and its flow. Raises NotFound when the flow is gone."""
    flow = await store.load(claim.parent_job) if claim.parent_job is not None else None
    value = await store.definition(flow) if flow is not None else None
    if flow is None or value is None or claim.flow_step_id is None:
        raise NotFound(f"the flow of AI agent {claim.flow_step_id} has ended")
    module = value.module(claim.flow_step_id)
    if not isinstance(module.value, AiAgent):
        raise BadRequest(f"step {module.id} is no AI agent")
    return module.value, flow


async def load_tools(store: FlowStore, agent: AiAgent, flow: FlowJob, claim: Claim) -> list[Tool]:
    """The tools of an agent, ready to be called. Raises DomainError naming the tool that cannot be one."""
    taken: set[str] = set()
    return [await _load(store, tool, flow, claim, taken) for tool in agent.tools]


async def _load(store: FlowStore, tool: AgentTool, flow: FlowJob, claim: Claim, taken: set[str]) -> Tool:
    where = f"step {claim.flow_step_id}, tool {tool.id}"
    value = tool.value
    if tool.tool_type != "flowmodule" or value is None:
        raise BadRequest(
            f"{where}: tools of type {tool.tool_type} are not offered; use a script or flow of the workspace"
        )
    if not isinstance(value, RawScript | ScriptRef | SubFlow):
        raise BadRequest(
            f"{where}: a module of type {value.type} cannot be a tool; put it into a flow and use that"
        )
    try:
        runnable = await _runnable(store, value, flow)
        schema = await _schema(value, runnable)
    except DomainError as exc:
        raise BadRequest(f"{where}: {exc.message}") from exc
    scope = AgentScope(store, flow)
    fixed = await evaluate_inputs(_given(value.input_transforms), scope, where=where)
    call = _Call(store=store, tool=tool, value=value, runnable=runnable, fixed=fixed, flow=flow, claim=claim)
    return Tool(
        id=tool.id,
        name=tool_name(tool.summary or tool.id, taken),
        description=(tool.description or tool.summary or tool.id)[:MAX_DESCRIPTION],
        parameters=parameters(schema, fixed),
        request=call.request,
    )


def _given(transforms: Mapping[str, Transform]) -> dict[str, Transform]:
    return {name: transform for name, transform in transforms.items() if not isinstance(transform, AiFilled)}


async def _runnable(store: FlowStore, value: ToolValue, flow: FlowJob) -> Runnable | None:
    if isinstance(value, ScriptRef):
        return await store.script(flow, path=value.path, hash=value.hash)
    if isinstance(value, SubFlow):
        return await store.flow(flow, path=value.path)
    return None


async def _schema(value: ToolValue, runnable: Runnable | None) -> dict[str, Any]:
    """The JSON Schema of the arguments: that of the deployed script or flow, which people have edited, or of the code."""
    if isinstance(value, RawScript):
        return infer_schema(value.language, value.content).schema
    assert runnable is not None

    def deployed() -> Any:
        if isinstance(value, SubFlow):
            return FlowVersion.objects.filter(pk=runnable.id).values_list("schema", flat=True).first()
        return Script.objects.filter(pk=runnable.id).values_list("schema", flat=True).first()

    schema = await in_thread(deployed)
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        return schema
    if isinstance(value, ScriptRef):
        return infer_schema(runnable.language or "", runnable.code or "").schema
    return {"properties": {}}


def parameters(schema: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """What the model fills in: `schema` without the inputs that the flow has fixed, in words that models know."""
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    kept = {name: _plain(property) for name, property in properties.items() if name not in fixed}
    return {
        "type": "object",
        "properties": kept,
        "required": [name for name in required if name in kept] if isinstance(required, list) else [],
        "additionalProperties": False,
    }


def _plain(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return {}
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key not in _KEYWORDS or value is None or value == "":
            continue
        if key == "properties" and isinstance(value, dict):
            value = {name: _plain(item) for name, item in value.items()}
        elif key == "items":
            value = _plain(value)
        elif key in ("oneOf", "anyOf", "allOf") and isinstance(value, list):
            value = [_plain(item) for item in value]
        plain[key] = value
    return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """Makes the jobs of one tool: children of the agent's job, with its rights; no flow waits for them."""

    store: FlowStore
    tool: AgentTool
    value: ToolValue
    runnable: Runnable | None
    fixed: Mapping[str, Any]
    flow: FlowJob
    claim: Claim

    async def request(self, arguments: dict[str, Any]) -> JobRequest:
        """The job of a call with these arguments of the model's. Raises DomainError."""
        args = arguments | dict(self.fixed)
        check_storable(args)
        claim, runnable = self.claim, self.runnable
        fields: dict[str, Any] = {
            "workspace_id": claim.workspace_id,
            "created_by": claim.created_by,
            "permissioned_as": claim.permissioned_as,
            "permissioned_as_email": claim.permissioned_as_email,
            "args": args,
            "parent_job": claim.id,
            "root_job": claim.root_job or claim.parent_job,
            "priority": self.flow.priority,
            "visible_to_owner": self.flow.visible_to_owner,
        }
        asked: str | None
        if isinstance(self.value, RawScript):
            asked, language = self.value.tag, self.value.language
            path = None if claim.runnable_path is None else f"{claim.runnable_path}/{self.tool.id}"[:255]
            fields |= {
                "kind": JobKind.FLOW_SCRIPT,
                "raw_code": self.value.content,
                "raw_lock": self.value.lock,
                "language": language,
                "runnable_path": path,
            }
        else:
            assert runnable is not None
            fields |= {
                "runnable_id": runnable.id,
                "runnable_path": runnable.path,
                "timeout_s": runnable.timeout,
                "cache_ttl_s": runnable.cache_ttl,
                "delete_after_s": runnable.delete_after_secs,
            }
            if runnable.permissioned_as is not None:
                fields["permissioned_as"] = runnable.permissioned_as
                fields["permissioned_as_email"] = runnable.permissioned_as_email
            if isinstance(self.value, SubFlow):
                assert runnable.value is not None
                asked, language = runnable.tag, "flow"
                fields |= {"kind": JobKind.FLOW, "flow_state": initial_state(runnable.value)}
            else:
                asked, language = self.value.tag_override or runnable.tag, runnable.language or ""
                fields |= {"kind": JobKind.SCRIPT, "language": language}
        if runnable is not None and runnable.is_dedicated:
            is_flow = runnable.value is not None
            return JobRequest(tag=Dedicated(claim.workspace_id, runnable.path, is_flow).tag, **fields)
        tag = await self.store.choose_tag(
            workspace_id=claim.workspace_id, asked=asked, language=language, args=args
        )
        return JobRequest(tag=tag, **fields)


@dataclass(slots=True)
class AgentScope:
    """`expressions.Scope` for the inputs of tools: the flow as it stood when the agent began."""

    store: FlowStore
    flow: FlowJob
    extra: Mapping[str, Any] = field(default_factory=dict)

    async def flow_input(self) -> Any:
        return await self.store.args(self.flow.id) or {}

    async def flow_env(self) -> Any:
        value = await self.store.definition(self.flow)
        return await self.store.interpolated(self.flow, dict(value.flow_env) if value is not None else {})

    async def previous_result(self) -> Any:
        previous = State.from_json(dict(self.flow.state)).previous
        return await self.flow_input() if previous is None else await self.store.value(previous)

    async def result(self, step_id: str) -> Any:
        ref = await self.store.find_result(self.flow.id, step_id)
        return None if ref is None else await self.store.value(ref)

    async def variable(self, path: str) -> Any:
        return await self.store.variable(self.flow, path)

    async def resource(self, path: str) -> Any:
        return await self.store.resource(self.flow, path)

    async def flow_user_state(self, key: str) -> Any:
        return await self.store.user_state(self.flow.root_job or self.flow.id, key)
