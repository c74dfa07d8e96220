"""REST routes that start flows: /api/w/<workspace>/jobs/run/f..., run_wait_result/f..., run_and_stream/f..., restart/f...

They read their queries and bodies as the routes of scripts do (jobs.api.runs).
"""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from jobs import flow_runs
from jobs.api.flows import MAX_VERSION, parse_version
from jobs.api.job import parse_job_id
from jobs.api.replies import read_early_reply, read_reply
from jobs.api.runs import (
    QueueView,
    RunQuery,
    RunView,
    StreamView,
    WaitView,
    payload_of,
    run_options,
    run_query,
)
from jobs.dependency_runs import checked_stand_ins
from jobs.flow_runs import FlowPreview, RestartWish
from jobs.flows import deployed, restarting
from jobs.flows.restart_plan import Place
from jobs.models import Flow, FlowVersion
from jobs.runs import RunOptions
from workspaces.api.base import read_body
from workspaces.api.fields import TEXT_CREATED, Flag, Json, JsonObject, Name, Text, Whole
from workspaces.api.protocol import text
from workspaces.errors import BadRequest


class FlowPreviewBody(serializers.Serializer):
    """A flow to run without deploying it."""

    value = JsonObject()
    path = Text(required=False, allow_null=True)
    args = Json(required=False)
    tag = Text(required=False, allow_null=True)
    restarted_from = JsonObject(required=False, allow_null=True)


class RunFlow(RunView):
    """Starts a deployed flow."""

    def flow(self, **address: Any) -> tuple[Flow, FlowVersion]:
        raise NotImplementedError

    def start(self, request: Request, options: RunOptions, wanted: dict[str, Any], **address: Any) -> UUID:
        flow, version = self.flow(**address)
        # A waiting client gets the result of this step as soon as it is there, while the flow goes on.
        self.early_return = (version.value or {}).get("early_return")
        return flow_runs.run_flow(self.caller, flow, version, payload_of(request, wanted), options)


class RunFlowPath(RunFlow):
    def flow(self, **address: Any) -> tuple[Flow, FlowVersion]:
        return deployed.get_to_run(self.caller, path=address["path"])


class RunFlowVersion(RunFlow):
    def flow(self, **address: Any) -> tuple[Flow, FlowVersion]:
        return deployed.get_to_run(self.caller, version=parse_version(address["version"]))


class RunFlowPreview(RunView):
    """Starts a flow as it is written."""

    def start(self, request: Request, options: RunOptions, wanted: dict[str, Any], **address: Any) -> UUID:
        body = read_body(FlowPreviewBody, request)
        args = body.get("args")
        if args is not None and not isinstance(args, dict):
            raise BadRequest("args must be a JSON object, keyed by the names of the flow's inputs")
        self.early_return = body["value"].get("early_return")
        preview = FlowPreview(
            value=body["value"],
            path=body.get("path"),
            args=args or {},
            tag=body.get("tag"),
            restart=RestartWish.from_json(body["restarted_from"]) if body.get("restarted_from") else None,
        )
        return flow_runs.run_flow_preview(self.caller, preview, options)


# --- asynchronous: answer the id ---


class QueueFlowPath(QueueView, RunFlowPath):
    """Run the live version at a path. Answers the job's id."""

    @extend_schema(operation_id="runFlowByPath", request=dict, parameters=[RunQuery], responses=TEXT_CREATED)
    def post(self, request: Request, workspace: str, path: str) -> Any:
        return self.queue(request, path=path)


class QueueFlowVersion(QueueView, RunFlowVersion):
    """Run one version. Answers the job's id."""

    @extend_schema(
        operation_id="runFlowByVersion", request=dict, parameters=[RunQuery], responses=TEXT_CREATED
    )
    def post(self, request: Request, workspace: str, version: str) -> Any:
        return self.queue(request, version=version)


class QueueFlowPreview(QueueView, RunFlowPreview):
    """Run a flow as it is written. Answers the job's id."""

    @extend_schema(
        operation_id="runFlowPreview",
        request=FlowPreviewBody,
        parameters=[RunQuery],
        responses=TEXT_CREATED,
    )
    def post(self, request: Request, workspace: str) -> Any:
        return self.queue(request)


class PlaceBody(serializers.Serializer):
    """A step, and of a loop or of branches which iteration or branch (from 0)."""

    step_id = Name(max_length=255)
    branch_or_iteration_n = Whole(required=False, allow_null=True, min_value=0)


class RestartBody(PlaceBody):
    """Where to begin again."""

    flow_version = serializers.IntegerField(required=False, allow_null=True, max_value=MAX_VERSION)
    nested_path = serializers.ListField(child=PlaceBody(), required=False, allow_null=True)
    failed_only = Flag(required=False, allow_null=True)  # of a loop or branches: run again only what failed


class Restart(RunView):
    """Run an ended flow again from a step; what came before is taken over. Answers the new job's id."""

    @extend_schema(
        operation_id="restartFlowAtStep", request=RestartBody, parameters=[RunQuery], responses=TEXT_CREATED
    )
    def post(self, request: Request, workspace: str, id: str) -> Any:
        body = read_body(RestartBody, request)
        return self._restart(
            request,
            id,
            step_id=body["step_id"],
            branch_or_iteration_n=body.get("branch_or_iteration_n"),
            flow_version=body.get("flow_version"),
            nested_path=[
                Place(place["step_id"], place.get("branch_or_iteration_n"))
                for place in body.get("nested_path") or ()
            ],
            failed_only=bool(body.get("failed_only")),
        )

    def _restart(self, request: Request, id: str, **wish: Any) -> Any:
        options = run_options(request, run_query(request))
        return text(str(restarting.restart(self.caller, parse_job_id(id), options=options, **wish)), 201)


class RestartFrom(Restart):
    """The same, under the address of older clients."""

    @extend_schema(
        operation_id="restartFlowAtStepByPath", request=None, parameters=[RunQuery], responses=TEXT_CREATED
    )
    def post(self, request: Request, workspace: str, id: str, step_id: str = "", n: str = "") -> Any:
        if not (n.isascii() and n.isdigit() and len(n) < 10):
            raise BadRequest(f"{n[:40]!r} is no iteration or branch; expected a number from 0")
        # Older clients say 0 for "the step as a whole" of anything but loops and branches.
        return self._restart(request, id, step_id=step_id, branch_or_iteration_n=int(n) or None)


class StandInsBody(serializers.Serializer):
    """What counts instead of what is deployed: files by path, and names of raw_temp/store by path of the script."""

    raw_workspace_dependencies = JsonObject(required=False, allow_null=True)
    temp_script_refs = JsonObject(required=False, allow_null=True)


class FlowDependenciesBody(StandInsBody):
    flow_value = JsonObject()
    path = Text(required=False, allow_null=True)


class QueueFlowDependencies(RunView):
    """Queue a job that answers the flow with its inline scripts locked: {updated_flow_value}. Answers the job's id."""

    @extend_schema(
        operation_id="runFlowDependenciesAsync", request=FlowDependenciesBody, responses=TEXT_CREATED
    )
    def post(self, request: Request, workspace: str) -> Any:
        body = read_body(FlowDependenciesBody, request)
        options = run_options(request, run_query(request))
        stand_ins = checked_stand_ins(body.get("raw_workspace_dependencies"), body.get("temp_script_refs"))
        job_id = flow_runs.run_dependencies(
            self.caller, body["flow_value"], path=body.get("path"), options=options, stand_ins=stand_ins
        )
        return text(str(job_id), 201)


# --- synchronous: answer the result ---


class WaitFlow(WaitView):
    """Waits for a flow, or for the step whose result the flow returns early."""

    early_return: Any = None  # id of that step

    def look(self, job_id: UUID) -> HttpResponse | None:
        answer = read_reply(job_id)
        if answer is not None or not isinstance(self.early_return, str):
            return answer
        return read_early_reply(job_id, self.early_return)


class WaitFlowPath(WaitFlow, RunFlowPath):
    """Run the live version at a path and answer its result."""

    @extend_schema(
        operation_id="runWaitResultFlowByPath", request=dict, parameters=[RunQuery], responses={200: dict}
    )
    async def post(self, request: Request, workspace: str, path: str) -> HttpResponseBase:
        return await self.wait(request, path=path)

    @extend_schema(operation_id="runWaitResultFlowByPathGet", parameters=[RunQuery], responses={200: dict})
    async def get(self, request: Request, workspace: str, path: str) -> HttpResponseBase:
        return await self.wait(request, path=path)


class WaitFlowVersion(WaitFlow, RunFlowVersion):
    """Run one version and answer its result."""

    @extend_schema(
        operation_id="runWaitResultFlowByVersion", request=dict, parameters=[RunQuery], responses={200: dict}
    )
    async def post(self, request: Request, workspace: str, version: str) -> HttpResponseBase:
        return await self.wait(request, version=version)

    @extend_schema(operation_id="runWaitResultFlowByVersionGet", parameters=[RunQuery], responses={200: dict})
    async def get(self, request: Request, workspace: str, version: str) -> HttpResponseBase:
        return await self.wait(request, version=version)


class WaitFlowPreview(WaitFlow, RunFlowPreview):
    """Run a flow as it is written and answer its result."""

    @extend_schema(
        operation_id="runFlowPreviewAndWaitResult",
        request=FlowPreviewBody,
        parameters=[RunQuery],
        responses={200: dict},
    )
    async def post(self, request: Request, workspace: str) -> HttpResponseBase:
        return await self.wait(request)


# --- streaming: answer as it goes ---


class StreamFlowPath(StreamView, RunFlowPath):
    """Run the live version at a path and follow it."""

    @extend_schema(
        operation_id="runAndStreamFlowByPath", request=dict, parameters=[RunQuery], responses={200: str}
    )
    async def post(self, request: Request, workspace: str, path: str) -> HttpResponseBase:
        return await self.stream(request, path=path)

    @extend_schema(operation_id="runAndStreamFlowByPathGet", parameters=[RunQuery], responses={200: str})
    async def get(self, request: Request, workspace: str, path: str) -> HttpResponseBase:
        return await self.stream(request, path=path)


class StreamFlowVersion(StreamView, RunFlowVersion):
    """Run one version and follow it."""

    @extend_schema(
        operation_id="runAndStreamFlowByVersion", request=dict, parameters=[RunQuery], responses={200: str}
    )
    async def post(self, request: Request, workspace: str, version: str) -> HttpResponseBase:
        return await self.stream(request, version=version)

    @extend_schema(operation_id="runAndStreamFlowByVersionGet", parameters=[RunQuery], responses={200: str})
    async def get(self, request: Request, workspace: str, version: str) -> HttpResponseBase:
        return await self.stream(request, version=version)
