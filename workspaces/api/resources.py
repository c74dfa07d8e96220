"""Resources and their types."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces import references, resource_types, resources
from workspaces.api.base import WorkspaceView, flag, page_bounds, read_body
from workspaces.api.fields import (
    BOOLEAN_OK,
    TEXT_CREATED,
    TEXT_OK,
    Body,
    Flag,
    Json,
    Name,
    Rules,
    Text,
    Texts,
    map_of,
)
from workspaces.api.parameters import PAGES, query, switch
from workspaces.api.protocol import text
from workspaces.api.shapes import (
    ListedResource,
    NamedResource,
    ResourceShape,
    ResourceTypeShape,
    SearchedResource,
)


class CreateResourceBody(Body):
    """A new resource."""

    path = Name()
    value = Json()
    resource_type = Name()
    description = Text(required=False, allow_null=True, default="")
    labels = Texts(required=False, allow_null=True)
    extra_perms = Rules(required=False, allow_null=True)


class CreateResource(WorkspaceView):
    """Makes a resource, or with update_if_exists overwrites the one at its path."""

    domain = "resources"
    operators_may_write = True  # through a job; the domain decides

    @extend_schema(
        operation_id="createResource",
        tags=["resource"],
        parameters=[switch("update_if_exists")],
        request=CreateResourceBody,
        responses=TEXT_CREATED,
    )
    def post(self, request: Request, workspace: str) -> HttpResponse:
        body = read_body(CreateResourceBody, request)
        body["description"] = body["description"] or ""
        resources.create_resource(
            self.caller, **body, update_if_exists=flag(request, "update_if_exists", default=False)
        )
        return text(f"resource {body['path']} created", 201)


class UpdateResourceBody(Body):
    """What to change of a resource; what is not given stays."""

    path = Name(required=False, allow_null=True)
    value = Json(required=False)
    resource_type = Name(required=False, allow_null=True)
    description = Text(required=False, allow_null=True)
    labels = Texts(required=False, allow_null=True)


class UpdateResource(WorkspaceView):
    """Changes a resource; with a new path, moves it."""

    domain = "resources"
    operators_may_write = True

    @extend_schema(
        operation_id="updateResource", tags=["resource"], request=UpdateResourceBody, responses=TEXT_OK
    )
    def post(self, request: Request, workspace: str, path: str) -> HttpResponse:
        body = read_body(UpdateResourceBody, request)
        path = resources.update_resource(self.caller, path, new_path=body.pop("path", None), **body)
        return text(f"resource {path} updated (npath: {path})")


class ValueBody(Body):
    """A value."""

    value = Json()


class UpdateResourceValue(WorkspaceView):
    """Replaces the value of a resource."""

    domain = "resources"
    operators_may_write = True

    @extend_schema(
        operation_id="updateResourceValue", tags=["resource"], request=ValueBody, responses=TEXT_OK
    )
    def post(self, request: Request, workspace: str, path: str) -> HttpResponse:
        resources.update_resource(self.caller, path, value=read_body(ValueBody, request)["value"])
        return text(f"value of resource {path} updated")


class GetResource(WorkspaceView):
    """A resource, references in its value left as they are."""

    domain = "resources"

    @extend_schema(operation_id="getResource", tags=["resource"], responses=ResourceShape)
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response(resources.resource_shape(resources.get_resource(self.caller, path)))


class GetResourceValue(WorkspaceView):
    """The value of a resource, references left as they are."""

    domain = "resources"

    @extend_schema(operation_id="getResourceValue", tags=["resource"], responses={200: OpenApiTypes.ANY})
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response(resources.get_resource(self.caller, path).value)


class GetResourceValueInterpolated(WorkspaceView):
    """The value of a resource, its references replaced by what the caller may read."""

    domain = "resources"

    @extend_schema(
        operation_id="getResourceValueInterpolated", tags=["resource"], responses={200: OpenApiTypes.ANY}
    )
    def get(self, request: Request, workspace: str, path: str) -> Response:
        value, _ = references.interpolate(f"$res:{path}", caller=self.caller)
        return Response(value)


class ListResources(WorkspaceView):
    """The resources one may read."""

    domain = "resources"

    @extend_schema(
        operation_id="listResource",
        tags=["resource"],
        parameters=[
            *PAGES,
            query("resource_type", "Types, separated by commas"),
            query("resource_type_exclude", "Types to leave out, separated by commas"),
            query("path_start", "Paths that start with this"),
            query("path", "Paths that contain this"),
            query("value", "Values that contain this"),
            query("description", "Descriptions that contain this"),
            query("broad_filter", "Path, description or value contains this"),
            query("label"),
        ],
        responses=ListedResource(many=True),
    )
    def get(self, request: Request, workspace: str) -> Response:
        wanted = request.query_params
        rows = list(
            resources.list_resources(
                self.caller,
                types=_split(wanted.get("resource_type")),
                exclude_types=_split(wanted.get("resource_type_exclude")),
                path_start=wanted.get("path_start"),
                path=wanted.get("path"),
                value=wanted.get("value"),
                description=wanted.get("description"),
                broad=wanted.get("broad_filter"),
                label=wanted.get("label"),
            )[page_bounds(request)]
        )
        linked = resources.linked_variables(self.caller, rows)
        return Response([resources.listed_shape(row, linked.get(row.path)) for row in rows])


class ListResourceNames(WorkspaceView):
    """The resources of a type, by path."""

    domain = "resources"

    @extend_schema(operation_id="listResourceNames", tags=["resource"], responses=NamedResource(many=True))
    def get(self, request: Request, workspace: str, name: str) -> Response:
        rows = resources.list_resources(self.caller, types=[name]).values_list("path", flat=True)
        return Response([{"name": path, "path": path} for path in rows])


class ListSearchResources(WorkspaceView):
    """The resources one may read, for a search in the browser."""

    domain = "resources"

    @extend_schema(
        operation_id="listSearchResource", tags=["resource"], responses=SearchedResource(many=True)
    )
    def get(self, request: Request, workspace: str) -> Response:
        return Response(list(resources.list_resources(self.caller).values("path", "value")[:10_000]))


class ExistsResource(WorkspaceView):
    """Is there a resource at this path?"""

    domain = "resources"

    @extend_schema(operation_id="existsResource", tags=["resource"], responses=BOOLEAN_OK)
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response(resources.resource_exists(self.caller, path))


class DeleteResource(WorkspaceView):
    """Deletes a resource."""

    domain = "resources"
    operators_may_write = True

    @extend_schema(operation_id="deleteResource", tags=["resource"], responses=TEXT_OK)
    def delete(self, request: Request, workspace: str, path: str) -> HttpResponse:
        resources.delete_resource(self.caller, path)
        return text(f"resource {path} deleted")


class FileExtensions(WorkspaceView):
    """The types whose value is a file: {"caddyfile": {"format_extension": "caddyfile", "is_fileset": false}}."""

    domain = "resources"

    @extend_schema(
        operation_id="fileResourceTypeToFileExtMap",
        tags=["resource"],
        responses=map_of({"type": "object"}),
    )
    def get(self, request: Request, workspace: str) -> Response:
        return Response(resource_types.file_extensions(self.caller))


class UpdateResourceTypeBody(Body):
    """What to change of a type; what is not given stays."""

    schema = Json(required=False)
    description = Text(required=False, allow_null=True)
    format_extension = Text(required=False, allow_null=True)
    is_fileset = Flag(required=False, allow_null=True)
    display_name = Text(required=False, allow_null=True)


class CreateResourceTypeBody(UpdateResourceTypeBody):
    """A new type."""

    name = Name()


class CreateResourceType(WorkspaceView):
    """Defines a type in this workspace."""

    domain = "resources"

    @extend_schema(
        operation_id="createResourceType",
        tags=["resource"],
        request=CreateResourceTypeBody,
        responses=TEXT_CREATED,
    )
    def post(self, request: Request, workspace: str) -> HttpResponse:
        body = read_body(CreateResourceTypeBody, request)
        body["description"] = body.get("description") or ""
        body["is_fileset"] = bool(body.get("is_fileset"))
        created = resource_types.create_resource_type(self.caller, **body)
        return text(f"resource_type {created.name} created", 201)


class UpdateResourceType(WorkspaceView):
    """Changes a type of this workspace, as its maker or an admin."""

    domain = "resources"

    @extend_schema(
        operation_id="updateResourceType",
        tags=["resource"],
        request=UpdateResourceTypeBody,
        responses=TEXT_OK,
    )
    def post(self, request: Request, workspace: str, name: str) -> HttpResponse:
        resource_types.update_resource_type(self.caller, name, **read_body(UpdateResourceTypeBody, request))
        return text(f"resource_type {name} updated")


class GetResourceType(WorkspaceView):
    """A type of this workspace, else the shared one of that name."""

    domain = "resources"

    @extend_schema(operation_id="getResourceType", tags=["resource"], responses=ResourceTypeShape)
    def get(self, request: Request, workspace: str, name: str) -> Response:
        found = resource_types.get_resource_type(self.caller, name)
        return Response(resource_types.resource_type_shape(found))


class ListResourceTypes(WorkspaceView):
    """The types of this workspace and the shared ones."""

    domain = "resources"

    @extend_schema(operation_id="listResourceType", tags=["resource"], responses=ResourceTypeShape(many=True))
    def get(self, request: Request, workspace: str) -> Response:
        rows = resource_types.list_resource_types(self.caller)
        return Response([resource_types.resource_type_shape(row) for row in rows])


class ListResourceTypeNames(WorkspaceView):
    """The names of those types."""

    domain = "resources"

    @extend_schema(
        operation_id="listResourceTypeNames",
        tags=["resource"],
        responses=serializers.ListSerializer(child=serializers.CharField()),
    )
    def get(self, request: Request, workspace: str) -> Response:
        return Response([row.name for row in resource_types.list_resource_types(self.caller)])


class ExistsResourceType(WorkspaceView):
    """Is there a type of this name?"""

    domain = "resources"

    @extend_schema(operation_id="existsResourceType", tags=["resource"], responses=BOOLEAN_OK)
    def get(self, request: Request, workspace: str, name: str) -> Response:
        return Response(any(row.name == name for row in resource_types.list_resource_types(self.caller)))


class DeleteResourceType(WorkspaceView):
    """Deletes a type of this workspace; resources of that type stay."""

    domain = "resources"

    @extend_schema(operation_id="deleteResourceType", tags=["resource"], responses=TEXT_OK)
    def delete(self, request: Request, workspace: str, name: str) -> HttpResponse:
        resource_types.delete_resource_type(self.caller, name)
        return text(f"resource_type {name} deleted")


def _split(raw: Any) -> list[str] | None:
    return [part for part in raw.split(",") if part] if raw else None
