"""Settings of the instance, and the audit log."""

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces import audit, instance_settings
from workspaces.api.base import InstanceView, WorkspaceView, flag, page_bounds, read_body, read_query
from workspaces.api.fields import TEXT_OK, Body, Json
from workspaces.api.parameters import PAGES, query, switch
from workspaces.api.protocol import text
from workspaces.api.shapes import AuditLog, Setting
from workspaces.errors import NotFound
from workspaces.models import ActionKind


class SettingBody(Body):
    """A value; null unsets."""

    value = Json(required=False, default=None)


class GlobalSetting(InstanceView):
    """A setting of the instance. Superadmins only, but for a few that clients need."""

    domain = "settings"

    @extend_schema(operation_id="getGlobal", tags=["setting"], responses={200: OpenApiTypes.ANY})
    def get(self, request: Request, key: str) -> Response:
        return Response(instance_settings.get_setting(self.identity, key))

    @extend_schema(operation_id="setGlobal", tags=["setting"], request=SettingBody, responses=TEXT_OK)
    def post(self, request: Request, key: str) -> HttpResponse:
        instance_settings.set_setting(self.identity, key, read_body(SettingBody, request)["value"])
        return text(f"set {key}")


class ListGlobalSettings(InstanceView):
    """All settings of the instance that are set. Superadmins only."""

    domain = "settings"

    @extend_schema(operation_id="listGlobalSettings", tags=["setting"], responses=Setting(many=True))
    def get(self, request: Request) -> Response:
        return Response(
            [{"name": row.name, "value": row.value} for row in instance_settings.list_settings(self.identity)]
        )


class AuditQuery(serializers.Serializer[object]):
    """Filters of the audit log."""

    before = serializers.DateTimeField(required=False)
    after = serializers.DateTimeField(required=False)
    username = serializers.CharField(required=False)
    operation = serializers.CharField(required=False)
    operations = serializers.CharField(required=False)
    exclude_operations = serializers.CharField(required=False)
    resource = serializers.CharField(required=False)
    action_kind = serializers.ChoiceField(required=False, choices=["Create", "Update", "Delete", "Execute"])
    before_id = serializers.IntegerField(required=False, min_value=0, max_value=2**63 - 1)


class ListAuditLogs(WorkspaceView):
    """Who did what, newest first. Admins see all, others their own deeds."""

    domain = "audit"

    @extend_schema(
        operation_id="listAuditLogs",
        tags=["audit"],
        parameters=[
            AuditQuery,
            *PAGES,
            switch("all_workspaces", "Of every workspace; superadmins only"),
            query("operations", "Exact names, separated by commas"),
            query("exclude_operations", "Exact names to leave out, separated by commas"),
        ],
        responses=AuditLog(many=True),
    )
    def get(self, request: Request, workspace: str) -> Response:
        wanted = read_query(AuditQuery, request)
        kind = wanted.pop("action_kind", None)
        for name in ("operations", "exclude_operations"):
            if name in wanted:
                wanted[name] = [part for part in wanted[name].split(",") if part]
        rows = audit.list_entries(
            self.caller,
            **wanted,
            action_kind=ActionKind(kind.lower()) if kind else None,
            all_workspaces=flag(request, "all_workspaces", default=False),
        )
        return Response([audit.entry_shape(row) for row in rows[page_bounds(request, default_per_page=30)]])


class GetAuditLog(WorkspaceView):
    """One entry of the audit log."""

    domain = "audit"

    @extend_schema(operation_id="getAuditLog", tags=["audit"], responses=AuditLog)
    def get(self, request: Request, workspace: str, id: str) -> Response:
        if not (id.isascii() and id.isdigit() and len(id) < 19):
            raise NotFound(f"audit entry {id[:40]!r} does not exist; ids are whole numbers")
        return Response(audit.entry_shape(audit.get_entry(self.caller, int(id))))
