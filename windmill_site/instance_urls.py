"""Routes of the instance itself: version, health, the schema of the API."""

from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpResponse
from django.urls import path
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import WorkerPing
from windmill_site import openapi
from workspaces.api.base import InstanceView
from workspaces.api.fields import TEXT_OK
from workspaces.api.protocol import text

ALIVE_SECONDS = 60  # a worker that pinged within this time counts as alive


class Health(serializers.Serializer[Any]):
    """How the instance is."""

    status = serializers.ChoiceField(choices=["healthy", "degraded", "unhealthy"])
    checked_at = serializers.DateTimeField()
    database_healthy = serializers.BooleanField()
    workers_alive = serializers.IntegerField()


class DetailedHealth(serializers.Serializer[Any]):
    """How the instance is, with figures."""

    status = serializers.ChoiceField(choices=["healthy", "degraded", "unhealthy"])
    checked_at = serializers.DateTimeField()
    version = serializers.CharField()
    checks = serializers.DictField()


class Version(InstanceView):
    """The API level of Windmill that this instance speaks, as `CE v<version>`."""

    public = True

    @extend_schema(operation_id="backendVersion", tags=["settings"], responses=TEXT_OK)
    def get(self, request: Request) -> Any:
        return text(f"CE v{settings.VERSION}")


class UpToDate(InstanceView):
    """Always `yes`: updates are the operator's business, nothing is asked on the network."""

    public = True

    @extend_schema(operation_id="backendUptodate", tags=["settings"], responses=TEXT_OK)
    def get(self, request: Request) -> Any:
        return text("yes")


class License(InstanceView):
    """Empty: there is no licence key."""

    public = True

    @extend_schema(operation_id="getLicenseId", tags=["settings"], responses=TEXT_OK)
    def get(self, request: Request) -> Any:
        return text("")


def _health() -> dict[str, Any]:
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM worker_ping WHERE state <> 'failed'"
                " AND ping_at > statement_timestamp() - make_interval(secs => %s)",
                [ALIVE_SECONDS],
            )
            workers = cursor.fetchone()[0]
        database = True
    except DatabaseError:
        workers, database = 0, False
    status = "unhealthy" if not database else "healthy" if workers else "degraded"
    return {
        "status": status,
        "checked_at": timezone.now(),
        "database_healthy": database,
        "workers_alive": workers,
    }


class HealthStatus(InstanceView):
    """healthy, degraded (no worker alive) or unhealthy (no database; 503). For load balancers."""

    public = True

    @extend_schema(operation_id="healthStatus", tags=["health"], responses={200: Health, 503: Health})
    def get(self, request: Request) -> Response:
        health = _health()
        return Response(health, status=200 if health["database_healthy"] else 503)


class HealthDetailed(InstanceView):
    """Health with the figures behind it, for people signed in."""

    @extend_schema(
        operation_id="healthDetailed", tags=["health"], responses={200: DetailedHealth, 503: DetailedHealth}
    )
    def get(self, request: Request) -> Response:
        health = _health()
        checks: dict[str, Any] = {
            "database": {"healthy": health["database_healthy"]},
            "workers": {"alive": health["workers_alive"]},
        }
        if health["database_healthy"]:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT count(*) FILTER (WHERE NOT running), count(*) FILTER (WHERE running) FROM queue"
                )
                waiting, running = cursor.fetchone()
            checks["queue"] = {"waiting": waiting, "running": running}
            checks["worker_groups"] = sorted(set(WorkerPing.objects.values_list("worker_group", flat=True)))
        return Response(
            {
                "status": health["status"],
                "checked_at": health["checked_at"],
                "version": settings.VERSION,
                "checks": checks,
            },
            status=200 if health["database_healthy"] else 503,
        )


class OpenApiJson(InstanceView):
    """The schema of this API."""

    public = True

    @extend_schema(operation_id="getOpenApiJson", tags=["docs"], responses={200: OpenApiTypes.OBJECT})
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(openapi.as_json(), content_type="application/json")


class OpenApiYaml(InstanceView):
    """The schema of this API as YAML."""

    public = True

    @extend_schema(
        operation_id="getOpenApiYaml", tags=["docs"], responses={(200, "text/yaml"): OpenApiTypes.STR}
    )
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(openapi.as_yaml(), content_type="text/yaml; charset=utf-8")


urlpatterns = [
    path("version", Version.as_view()),
    path("uptodate", UpToDate.as_view()),
    path("ee_license", License.as_view()),
    path("health/status", HealthStatus.as_view()),
    path("health/detailed", HealthDetailed.as_view()),
    path("openapi.json", OpenApiJson.as_view()),
    path("openapi.yaml", OpenApiYaml.as_view()),
]
