"""Folders."""

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces import folders
from workspaces.api.base import WorkspaceView, flag, page_bounds, read_body
from workspaces.api.fields import BOOLEAN_OK, TEXT_OK, Body, Flag, JsonObject, Name, Rules, Text, Texts
from workspaces.api.parameters import PAGES, switch
from workspaces.api.protocol import text
from workspaces.api.shapes import FolderShape, FolderUsage

_KINDS = {  # of items, as the usage names them
    "scripts": "script",
    "flows": "flow",
    "apps": "app",
    "resources": "resource",
    "variables": "variable",
    "schedules": "schedule",
}


class UpdateFolderBody(Body):
    """What to change of a folder."""

    display_name = Text(required=False, allow_null=True)
    summary = Text(required=False, allow_null=True)
    owners = Texts(required=False, allow_null=True)
    extra_perms = Rules(required=False, allow_null=True)
    labels = Texts(required=False, allow_null=True)
    default_permissioned_as = serializers.ListField(
        child=JsonObject(), required=False, allow_null=True, max_length=1000
    )


class CreateFolderBody(UpdateFolderBody):
    """A new folder."""

    name = Name()


class CreateFolder(WorkspaceView):
    """Makes a folder; its maker owns it."""

    domain = "folders"

    @extend_schema(operation_id="createFolder", tags=["folder"], request=CreateFolderBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str) -> HttpResponse:
        folder = folders.create_folder(self.caller, **read_body(CreateFolderBody, request))
        return text(f"Created folder {folder.name}")


class UpdateFolder(WorkspaceView):
    """Changes a folder. Its owners only."""

    domain = "folders"

    @extend_schema(operation_id="updateFolder", tags=["folder"], request=UpdateFolderBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, name: str) -> HttpResponse:
        folders.update_folder(self.caller, name, **read_body(UpdateFolderBody, request))
        return text(f"Updated folder {name}")


class GetFolder(WorkspaceView):
    """A folder and its access rules."""

    domain = "folders"

    @extend_schema(operation_id="getFolder", tags=["folder"], responses=FolderShape)
    def get(self, request: Request, workspace: str, name: str) -> Response:
        return Response(folders.folder_shape(folders.get_folder(self.caller, name)))


class ListFolders(WorkspaceView):
    """The folders one may read."""

    domain = "folders"

    @extend_schema(
        operation_id="listFolders", tags=["folder"], parameters=PAGES, responses=FolderShape(many=True)
    )
    def get(self, request: Request, workspace: str) -> Response:
        rows = folders.list_folders(self.caller)[page_bounds(request)]
        return Response([folders.folder_shape(folder) for folder in rows])


class ListFolderNames(WorkspaceView):
    """The names of the folders one may read."""

    domain = "folders"

    @extend_schema(
        operation_id="listFolderNames",
        tags=["folder"],
        parameters=[switch("only_member_of", "Only those one may write")],
        responses=serializers.ListSerializer(child=serializers.CharField()),
    )
    def get(self, request: Request, workspace: str) -> Response:
        writable_only = flag(request, "only_member_of", default=False)
        names = [folder.name for folder in folders.list_folders(self.caller)]
        return Response([name for name in names if not writable_only or name in self.caller.folders_write])


class ExistsFolder(WorkspaceView):
    """Is a folder name taken?"""

    domain = "folders"

    @extend_schema(operation_id="existsFolder", tags=["folder"], responses=BOOLEAN_OK)
    def get(self, request: Request, workspace: str, name: str) -> Response:
        return Response(folders.folder_exists(self.caller, name))


class GetFolderUsage(WorkspaceView):
    """How many items lie in a folder."""

    domain = "folders"

    @extend_schema(operation_id="getFolderUsage", tags=["folder"], responses=FolderUsage)
    def get(self, request: Request, workspace: str, name: str) -> Response:
        counts = folders.folder_usage(self.caller, name)
        return Response({plural: counts.get(kind, 0) for plural, kind in _KINDS.items()})


class DeleteFolder(WorkspaceView):
    """Deletes a folder; what lies in it stays, for admins only."""

    domain = "folders"

    @extend_schema(operation_id="deleteFolder", tags=["folder"], responses=TEXT_OK)
    def delete(self, request: Request, workspace: str, name: str) -> HttpResponse:
        folders.delete_folder(self.caller, name)
        return text(f"Deleted folder {name}")


class OwnerBody(Body):
    """u/<username> or g/<group>."""

    owner = Name()


class AddOwner(WorkspaceView):
    """Makes somebody an owner of a folder."""

    domain = "folders"

    @extend_schema(operation_id="addOwnerToFolder", tags=["folder"], request=OwnerBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, name: str) -> HttpResponse:
        owner = read_body(OwnerBody, request)["owner"]
        folders.add_owner(self.caller, name, owner=owner)
        return text(f"Added {owner} to folder {name}")


class RemoveOwnerBody(OwnerBody):
    """Whom, and what right they keep: write (true), read (false), none (null)."""

    write = Flag(required=False, allow_null=True, default=None)


class RemoveOwner(WorkspaceView):
    """Takes somebody off the owners of a folder."""

    domain = "folders"

    @extend_schema(
        operation_id="removeOwnerToFolder", tags=["folder"], request=RemoveOwnerBody, responses=TEXT_OK
    )
    def post(self, request: Request, workspace: str, name: str) -> HttpResponse:
        body = read_body(RemoveOwnerBody, request)
        folders.remove_owner(self.caller, name, owner=body["owner"], may_write=body["write"])
        return text(f"Removed {body['owner']} from folder {name}")
