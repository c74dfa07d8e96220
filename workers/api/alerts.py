"""REST routes of alerts: /api/settings/critical_alerts/... (reference/worker.md section 8)."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.shapes import iso
from workspaces import alerts
from workspaces.api.base import InstanceView, flag, read_query
from workspaces.api.fields import TEXT_OK, Flag, Shape, Text, Time, Whole
from workspaces.api.parameters import query, switch
from workspaces.api.protocol import text
from workspaces.errors import NotFound
from workspaces.models import Alert


class CriticalAlert(Shape):
    """An alert. Of those that are over the type is recovered_critical_error."""

    id = Whole()
    alert_type = Text()
    message = Text()
    created_at = Time()
    resolved_at = Time(allow_null=True)
    acknowledged = Flag()
    workspace_id = Text(allow_null=True)


class CriticalAlerts(Shape):
    """A page of alerts."""

    alerts = CriticalAlert(many=True)
    total_rows = Whole()
    total_pages = Whole()
    page_size = Whole()


class PageQuery(serializers.Serializer[Any]):
    """Which page."""

    page = serializers.IntegerField(required=False, default=1, min_value=1, max_value=1_000_000)
    page_size = serializers.IntegerField(required=False, default=10, min_value=1, max_value=1000)


class AlertsView(InstanceView):
    domain = "settings"


class ListAlerts(AlertsView):
    """Alerts, newest first. For superadmins and devops."""

    @extend_schema(
        operation_id="getCriticalAlerts",
        tags=["setting"],
        parameters=[
            query("page", kind=int),
            query("page_size", "10 unless given", int),
            switch("acknowledged"),
        ],
        responses=CriticalAlerts,
    )
    def get(self, request: Request) -> Response:
        rows = alerts.list_alerts(self.identity, acknowledged=flag(request, "acknowledged"))
        wanted = read_query(PageQuery, request)
        size, count = wanted["page_size"], rows.count()
        start = (wanted["page"] - 1) * size
        return Response(
            {
                "alerts": [_shape(alert) for alert in rows[start : start + size]],
                "total_rows": count,
                "total_pages": -(-count // size),
                "page_size": size,
            }
        )


class AcknowledgeAlert(AlertsView):
    """Somebody has seen it. For superadmins and devops."""

    @extend_schema(operation_id="acknowledgeCriticalAlert", tags=["setting"], request=None, responses=TEXT_OK)
    def post(self, request: Request, id: str) -> HttpResponse:
        self.identity.require_devops()
        if not (id.isascii() and id.isdigit() and len(id) < 19):
            raise NotFound(f"alert {id[:40]!r} does not exist; ids are whole numbers")
        alerts.acknowledge(self.identity, int(id))
        return text("acknowledged")


class AcknowledgeAllAlerts(AlertsView):
    """Somebody has seen all of them. For superadmins and devops."""

    @extend_schema(
        operation_id="acknowledgeAllCriticalAlerts", tags=["setting"], request=None, responses=TEXT_OK
    )
    def post(self, request: Request) -> HttpResponse:
        return text(f"acknowledged {alerts.acknowledge_all(self.identity)}")


def _shape(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.pk,
        "alert_type": "critical_error" if alert.resolved_at is None else "recovered_critical_error",
        "message": alert.message,
        "created_at": iso(alert.created_at),
        "resolved_at": iso(alert.resolved_at),
        "acknowledged": alert.acknowledged,
        "workspace_id": None,
    }
