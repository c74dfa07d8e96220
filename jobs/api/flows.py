"""REST routes of flows: /api/w/<workspace>/flows/..."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.flows import deployed
from jobs.models import FlowVersion
from jobs.shapes import flow_json, flow_summary, iso
from workspaces.api.base import WorkspaceView, flag, page_bounds, read_body
from workspaces.api.fields import (
    BOOLEAN_OK,
    TEXT_CREATED,
    TEXT_OK,
    Flag,
    Json,
    JsonObject,
    Name,
    Text,
    Texts,
    Whole,
)
from workspaces.api.parameters import PAGES, query, switch
from workspaces.api.protocol import text
from workspaces.errors import BadRequest

MAX_VERSION = 2**63 - 1


class FlowView(WorkspaceView):
    domain = deployed.SCOPE


def parse_version(text: str) -> int:
    """The number of a flow version in an address. Raises BadRequest."""
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_VERSION):
        raise BadRequest(f"flow version {text[:40]!r} is not valid; expected a number")
    return int(text)


class NewFlow(serializers.Serializer):
    """A flow to deploy. Fields of Windmill that this instance does not act on are kept and given back."""

    path = Name(max_length=255)
    value = JsonObject()
    summary = Text(required=False, allow_null=True, max_length=10_000)
    description = Text(required=False, allow_null=True, max_length=1_000_000)
    schema = Json(required=False)
    tag = Text(required=False, allow_null=True)
    timeout = Whole(required=False, allow_null=True)
    priority = Whole(required=False, allow_null=True)
    visible_to_runner_only = Flag(required=False, allow_null=True)
    on_behalf_of_email = Text(required=False, allow_null=True, max_length=255)
    labels = Texts(required=False, allow_null=True)
    deployment_message = Text(required=False, allow_null=True)


class ChangedFlow(NewFlow):
    """A flow as it shall be from now on."""

    path = Name(max_length=255, required=False)
    parent_version = serializers.IntegerField(
        required=False,
        allow_null=True,
        max_value=MAX_VERSION,
        help_text="The version that the change was made to; refused when another one was deployed since",
    )


def _draft(body: dict[str, Any], request: Request, *, path: str) -> deployed.FlowDraft:
    sent: dict[str, Any] = dict(request.data)  # read_body refused anything but an object
    schema = body.get("schema")
    if schema is not None and not isinstance(schema, dict):
        raise BadRequest("schema must be a JSON Schema object")
    return deployed.FlowDraft(
        path=path,
        value=body["value"],
        summary=body.get("summary") or "",
        description=body.get("description") or "",
        schema=schema,
        tag=body.get("tag"),
        timeout_s=body.get("timeout"),
        priority=body.get("priority"),
        visible_to_runner_only=body.get("visible_to_runner_only"),
        on_behalf_of_email=body.get("on_behalf_of_email"),
        labels=body.get("labels"),
        extra={name: sent[name] for name in deployed.EXTRA_FIELDS if sent.get(name) is not None},
    )


class CreateFlow(FlowView):
    """Deploy a flow at a free path. Answers the path."""

    @extend_schema(operation_id="createFlow", request=NewFlow, responses=TEXT_CREATED)
    def post(self, request: Request, workspace: str) -> Any:
        body = read_body(NewFlow, request)
        deployed.create_flow(
            self.caller,
            _draft(body, request, path=body["path"]),
            deployment_message=body.get("deployment_message") or "",
        )
        return text(body["path"], 201)


class UpdateFlow(FlowView):
    """Deploy a new version; another `path` in the body moves the flow there. Answers the path."""

    @extend_schema(operation_id="updateFlow", request=ChangedFlow, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, path: str) -> Any:
        body = read_body(ChangedFlow, request)
        new_path = body.get("path") or path
        deployed.update_flow(
            self.caller,
            path,
            _draft(body, request, path=new_path),
            base_version=body.get("parent_version"),
            deployment_message=body.get("deployment_message") or "",
        )
        return text(new_path)


class GetByPath(FlowView):
    """The flow at a path, archived or not, as its live version."""

    @extend_schema(
        operation_id="getFlowByPath", parameters=[switch("with_starred_info")], responses={200: dict}
    )
    def get(self, request: Request, workspace: str, path: str) -> Response:
        flow = deployed.get_newest(self.caller, path)
        return Response(flow_json(flow, deployed.live_version(flow)))


class GetVersion(FlowView):
    """One version."""

    @extend_schema(operation_id="getFlowVersion", responses={200: dict})
    def get(self, request: Request, workspace: str, version: str) -> Response:
        return Response(flow_json(*deployed.get_version(self.caller, parse_version(version))))


class Exists(FlowView):
    """Is the path taken by a live flow?"""

    @extend_schema(operation_id="existsFlowByPath", responses=BOOLEAN_OK)
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response(deployed.flow_exists(self.caller, path))


class List(FlowView):
    """The flows, without what they do."""

    @extend_schema(
        operation_id="listFlows",
        parameters=[
            *PAGES,
            switch("order_desc"),
            query("created_by"),
            query("path_start"),
            query("path_exact"),
            switch("show_archived"),
            switch("starred_only"),
            switch("include_draft_only"),
            switch("with_deployment_msg"),
            switch("without_description"),
            switch("dedicated_worker"),
            query("label"),
        ],
        responses={200: list[dict]},
    )
    def get(self, request: Request, workspace: str) -> Response:
        given = {name: value for name, value in request.query_params.dict().items() if value}
        rows = deployed.list_flows(
            self.caller,
            show_archived=flag(request, "show_archived", default=False),
            created_by=given.get("created_by"),
            path_start=given.get("path_start"),
            path_exact=given.get("path_exact"),
            label=given.get("label"),
            dedicated_worker=flag(request, "dedicated_worker"),
            order_desc=flag(request, "order_desc", default=True),
        )
        if flag(request, "starred_only", default=False):
            rows = rows.none()  # nothing can be starred yet
        page = list(rows[page_bounds(request)])
        shapes = [flow_summary(flow) for flow in page]
        if flag(request, "with_deployment_msg", default=False):
            versions = deployed.versions_of(page)
            for flow, shape in zip(page, shapes, strict=True):
                shape["deployment_msg"] = versions[flow.version_id].deployment_message or None
        if flag(request, "without_description", default=False):
            for shape in shapes:
                shape["description"] = None
        return Response(shapes)


class ListPaths(FlowView):
    """Every live path."""

    @extend_schema(operation_id="listFlowPaths", responses={200: list[str]})
    def get(self, request: Request, workspace: str) -> Response:
        return Response(deployed.list_paths(self.caller))


class ListSearch(FlowView):
    """Path and value of every live flow: what a search over code looks at."""

    @extend_schema(operation_id="listSearchFlow", responses={200: list[dict]})
    def get(self, request: Request, workspace: str) -> Response:
        return Response(
            [{"path": path, "value": value} for path, value in deployed.list_contents(self.caller)]
        )


class History(FlowView):
    """All versions at a path, newest first."""

    @extend_schema(operation_id="getFlowHistory", parameters=PAGES, responses={200: list[dict]})
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response([_version(row) for row in deployed.history(self.caller, path)[page_bounds(request)]])


class LatestVersion(FlowView):
    """Number and time of the live version."""

    @extend_schema(operation_id="getFlowLatestVersion", responses={200: dict})
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response(_version(deployed.live_version(deployed.get_newest(self.caller, path))))


class FlowDeploymentMessageBody(serializers.Serializer):
    deployment_msg = Text(allow_null=True, required=False, max_length=10_000)


class UpdateHistory(FlowView):
    """Change the message of a version."""

    @extend_schema(operation_id="updateFlowHistory", request=FlowDeploymentMessageBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, version: str, path: str | None = None) -> Any:
        message = read_body(FlowDeploymentMessageBody, request).get("deployment_msg") or ""
        deployed.set_deployment_message(self.caller, parse_version(version), message, path=path)
        return text(f"updated the message of {version}")


class UpdateHistoryAtPath(UpdateHistory):
    """The same, under the address of older clients."""

    @extend_schema(
        operation_id="updateFlowHistoryAtPath", request=FlowDeploymentMessageBody, responses=TEXT_OK
    )
    def post(self, request: Request, workspace: str, version: str, path: str | None = None) -> Any:
        return super().post(request, workspace, version, path)


class DeploymentStatus(FlowView):
    """The job that locks the live version's inline scripts, and what went wrong in it."""

    @extend_schema(operation_id="getFlowDeploymentStatus", responses={200: dict})
    def get(self, request: Request, workspace: str, path: str) -> Response:
        version = deployed.live_version(deployed.get_newest(self.caller, path))
        job = version.dependency_job
        return Response({"lock_error_logs": version.lock_error_logs, "job_id": str(job) if job else None})


class ArchiveBody(serializers.Serializer):
    archived = Flag(required=False, allow_null=True)


class Archive(FlowView):
    """Take a flow out of use, or with `archived: false` back into it."""

    @extend_schema(operation_id="archiveFlowByPath", request=ArchiveBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, path: str) -> Any:
        archived = read_body(ArchiveBody, request).get("archived", True) is not False
        deployed.archive_flow(self.caller, path, archived=archived)
        return text(f"{'archived' if archived else 'unarchived'} {path}")


class Delete(FlowView):
    """Forget a flow and its history. Admins only."""

    @extend_schema(operation_id="deleteFlowByPath", request=None, responses=TEXT_OK)
    def delete(self, request: Request, workspace: str, path: str) -> Any:
        deployed.delete_flow(self.caller, path)
        return text(f"deleted {path}")

    @extend_schema(operation_id="deleteFlowByPathPost", request=None, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, path: str) -> Any:
        return self.delete(request, workspace, path)


class FlowMuteBody(serializers.Serializer):
    muted = Flag(required=False, allow_null=True)


class ToggleErrorHandler(FlowView):
    """Switch the workspace's error handler off or on for a flow."""

    @extend_schema(operation_id="toggleWorkspaceErrorHandlerForFlow", request=FlowMuteBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, path: str) -> Any:
        muted = bool(read_body(FlowMuteBody, request).get("muted"))
        deployed.mute_error_handler(self.caller, path, muted=muted)
        return text(f"the workspace error handler is {'muted' if muted else 'active'} for {path}")


def _version(version: FlowVersion) -> dict[str, Any]:
    return {
        "id": version.pk,
        "created_at": iso(version.created_at),
        "created_by": version.created_by,
        "deployment_msg": version.deployment_message or None,
    }
