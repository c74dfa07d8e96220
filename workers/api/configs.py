"""REST routes of worker groups: /api/configs/... (reference/worker.md section 1), and having one start again."""

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from workers.fleet import live_workers, restarts
from workers.groups import configs, schema
from workspaces.api.base import InstanceView
from workspaces.api.fields import TEXT_OK, JsonObject, Name, Shape
from workspaces.api.protocol import text
from workspaces.errors import BadRequest, NotFound


class Config(Shape):
    """A configuration by name: of a worker group with or without the prefix `worker__`, as the route says."""

    name = Name()
    config = JsonObject()


class ConfigsView(InstanceView):
    domain = "configs"


class ListWorkerGroups(ConfigsView):
    """The configured worker groups. Values of variables and scripts are shown to superadmins and devops only."""

    @extend_schema(operation_id="listWorkerGroups", tags=["config"], responses=Config(many=True))
    def get(self, request: Request) -> Response:
        found = configs.list_groups()
        if not self.identity.operates:
            for group in found:
                group["config"] = schema.without_secrets(group["config"])
        return Response(found)


class ListConfigs(ConfigsView):
    """All configurations. For superadmins and devops."""

    @extend_schema(operation_id="listConfigs", tags=["config"], responses=Config(many=True))
    def get(self, request: Request) -> Response:
        self.identity.require_devops()
        return Response(
            [{"name": configs.PREFIX + row["name"], "config": row["config"]} for row in configs.list_groups()]
        )


class GetConfig(ConfigsView):
    """One configuration, null when there is none. For superadmins and devops."""

    @extend_schema(operation_id="getConfig", tags=["config"], responses={200: OpenApiTypes.ANY})
    def get(self, request: Request, name: str) -> Response:
        self.identity.require_devops()
        return Response(configs.get(_group(name)))


class UpdateConfig(ConfigsView):
    """Set or forget a configuration. For superadmins and devops. What has no effect is told in the answer."""

    @extend_schema(
        operation_id="updateConfig", tags=["config"], request=OpenApiTypes.OBJECT, responses=TEXT_OK
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        change = configs.update(name=_group(name), config=request.data, actor=self.identity)
        return text("\n".join([f"updated {configs.PREFIX}{change.name}", *change.warnings]))

    @extend_schema(operation_id="deleteConfig", tags=["config"], responses=TEXT_OK)
    def delete(self, request: Request, name: str) -> HttpResponse:
        group = _group(name)
        configs.delete(name=group, actor=self.identity)
        return text(f"deleted {configs.PREFIX}{group}")


class ListAutoscalingEvents(ConfigsView):
    """What autoscaling did with a group: nothing, workers are not started and stopped by this version."""

    @extend_schema(operation_id="listAutoscalingEvents", tags=["config"], responses={200: list[dict]})
    def get(self, request: Request, worker_group: str) -> Response:
        self.identity.require_devops()
        configs.check_name(worker_group)
        return Response([])


class KubernetesHealthcheck(ConfigsView):
    """Whether autoscaling could steer Kubernetes: it cannot."""

    @extend_schema(operation_id="nativeKubernetesAutoscalingHealthcheck", tags=["config"], responses=TEXT_OK)
    def get(self, request: Request) -> HttpResponse:
        self.identity.require_devops()
        raise BadRequest(
            "this version does not start or stop workers by itself; let a HorizontalPodAutoscaler do it, "
            "on the figures of /api/workers/queue_counts"
        )


class ListPythonVersions(ConfigsView):
    """The Pythons of the live workers, such as ["3.12", "3.11"], newest first."""

    @extend_schema(operation_id="listAvailablePythonVersions", tags=["config"], responses={200: list[str]})
    def get(self, request: Request) -> Response:
        return Response(live_workers.python_versions())


class RestartWorkerGroup(InstanceView):
    """Have the workers of a group finish what they run and start again. For superadmins and devops."""

    domain = "settings"

    @extend_schema(operation_id="restartWorkerGroup", tags=["setting"], request=None, responses=TEXT_OK)
    def post(self, request: Request, worker_group: str) -> HttpResponse:
        return text(restarts.told(worker_group, restarts.restart(name=worker_group, actor=self.identity)))


def _group(name: str) -> str:
    """The group that a configuration of this name is of. Raises NotFound."""
    if not name.startswith(configs.PREFIX):
        raise NotFound(
            f"there is no configuration {name[:60]!r}; those of worker groups are named {configs.PREFIX}<group>"
        )
    group: str = name.removeprefix(configs.PREFIX)
    return group
