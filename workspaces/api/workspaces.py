"""Workspaces: those of the instance, and the one a route is in."""

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces import workspaces
from workspaces.api.base import InstanceView, WorkspaceView, page_bounds, read_body
from workspaces.api.fields import BOOLEAN_OK, TEXT_CREATED, TEXT_OK, Body, Flag, Name, Text
from workspaces.api.parameters import PAGES
from workspaces.api.protocol import text
from workspaces.api.shapes import UserWorkspaceList, WorkspaceSettings, WorkspaceShape


class ListWorkspaces(InstanceView):
    """The workspaces one is a member of."""

    domain = "workspaces"

    @extend_schema(operation_id="listWorkspaces", tags=["workspace"], responses=WorkspaceShape(many=True))
    def get(self, request: Request) -> Response:
        return Response(
            [workspaces.workspace_shape(row) for row in workspaces.list_workspaces(self.identity)]
        )


class ListWorkspacesAsSuperAdmin(InstanceView):
    """All workspaces, archived ones too. Superadmins only."""

    domain = "workspaces"

    @extend_schema(
        operation_id="listWorkspacesAsSuperAdmin",
        tags=["workspace"],
        parameters=PAGES,
        responses=WorkspaceShape(many=True),
    )
    def get(self, request: Request) -> Response:
        rows = workspaces.list_all_workspaces(self.identity)[page_bounds(request)]
        return Response([workspaces.workspace_shape(row) for row in rows])


class ListUserWorkspaces(InstanceView):
    """The workspaces one is a member of, and under which username."""

    domain = "workspaces"

    @extend_schema(operation_id="listUserWorkspaces", tags=["workspace"], responses=UserWorkspaceList)
    def get(self, request: Request) -> Response:
        return Response(workspaces.memberships_shape(self.identity))


class CreateWorkspaceBody(Body):
    """A new workspace."""

    id = Name()
    name = Name()
    username = Text(required=False, allow_null=True)
    color = Text(required=False, allow_null=True)


class CreateWorkspace(InstanceView):
    """Makes a workspace with the caller as its admin."""

    domain = "workspaces"

    @extend_schema(
        operation_id="createWorkspace",
        tags=["workspace"],
        request=CreateWorkspaceBody,
        responses=TEXT_CREATED,
    )
    def post(self, request: Request) -> HttpResponse:
        workspace = workspaces.create_workspace(self.identity, **read_body(CreateWorkspaceBody, request))
        return text(f"Created workspace {workspace.id}", 201)


class ExistsWorkspaceBody(Body):
    """Which workspace."""

    id = Text()


class ExistsWorkspace(InstanceView):
    """Is a workspace id taken?"""

    domain = "workspaces"
    verb = "read"

    @extend_schema(
        operation_id="existsWorkspace", tags=["workspace"], request=ExistsWorkspaceBody, responses=BOOLEAN_OK
    )
    def post(self, request: Request) -> Response:
        return Response(workspaces.workspace_exists(read_body(ExistsWorkspaceBody, request)["id"]))


class ExistsUsernameBody(Body):
    """Which username, where."""

    id = Text(help_text="Workspace")
    username = Text()


class ExistsUsername(InstanceView):
    """Is a username taken in a workspace?"""

    domain = "workspaces"
    verb = "read"

    @extend_schema(
        operation_id="existsUsername", tags=["workspace"], request=ExistsUsernameBody, responses=BOOLEAN_OK
    )
    def post(self, request: Request) -> Response:
        body = read_body(ExistsUsernameBody, request)
        taken = workspaces.username_exists(self.identity, workspace_id=body["id"], username=body["username"])
        return Response(taken)


class UnarchiveWorkspace(InstanceView):
    """Opens an archived workspace again. Superadmins only."""

    domain = "workspaces"

    @extend_schema(operation_id="unarchiveWorkspace", tags=["workspace"], request=None, responses=TEXT_OK)
    def post(self, request: Request, workspace_id: str) -> HttpResponse:
        workspaces.unarchive_workspace(self.identity, workspace_id)
        return text(f"Unarchived workspace {workspace_id}")


class ArchiveWorkspace(WorkspaceView):
    """Closes the workspace for everybody but superadmins. Admins only."""

    domain = "workspaces"

    @extend_schema(operation_id="archiveWorkspace", tags=["workspace"], request=None, responses=TEXT_OK)
    def post(self, request: Request, workspace: str) -> HttpResponse:
        workspaces.archive_workspace(self.caller)
        return text(f"Archived workspace {workspace}")


class NewNameBody(Body):
    """A name."""

    new_name = Text()


class ChangeWorkspaceName(WorkspaceView):
    """Changes the name people see. Admins only."""

    domain = "workspaces"

    @extend_schema(
        operation_id="changeWorkspaceName", tags=["workspace"], request=NewNameBody, responses=TEXT_OK
    )
    def post(self, request: Request, workspace: str) -> HttpResponse:
        workspaces.rename_workspace(self.caller, name=read_body(NewNameBody, request)["new_name"])
        return text(f"updated workspace name to {self.caller.workspace_id}")


class ColorBody(Body):
    """A colour such as #3b82f6, or null."""

    color = Text(required=False, allow_null=True, default=None)


class ChangeWorkspaceColor(WorkspaceView):
    """Changes the colour that marks the workspace. Admins only."""

    domain = "workspaces"

    @extend_schema(
        operation_id="changeWorkspaceColor", tags=["workspace"], request=ColorBody, responses=TEXT_OK
    )
    def post(self, request: Request, workspace: str) -> HttpResponse:
        workspaces.recolor_workspace(self.caller, color=read_body(ColorBody, request)["color"])
        return text("updated workspace color")


class GetWorkspaceName(WorkspaceView):
    """The name people see."""

    domain = "workspaces"

    @extend_schema(operation_id="getWorkspaceName", tags=["workspace"], responses=TEXT_OK)
    def get(self, request: Request, workspace: str) -> HttpResponse:
        return text(self.caller.workspace.name)


class GetSettings(WorkspaceView):
    """The settings of the workspace."""

    domain = "workspaces"

    @extend_schema(operation_id="getSettings", tags=["workspace"], responses=WorkspaceSettings)
    def get(self, request: Request, workspace: str) -> Response:
        row = self.caller.workspace
        return Response({"workspace_id": row.id, "name": row.name, "color": row.color})


class AddUserBody(Body):
    """Whom to add, as what."""

    email = Name(max_length=255)
    is_admin = Flag()
    operator = Flag(required=False, default=False)
    username = Text(required=False, allow_null=True, default=None)


class AddUser(WorkspaceView):
    """Adds an account to the workspace. Admins only."""

    domain = "workspaces"

    @extend_schema(operation_id="addUser", tags=["workspace"], request=AddUserBody, responses=TEXT_CREATED)
    def post(self, request: Request, workspace: str) -> HttpResponse:
        member = workspaces.add_member(self.caller, **read_body(AddUserBody, request))
        return text(f"user with email {member.email} added", 201)


class LeaveWorkspace(WorkspaceView):
    """Ends one's own membership."""

    domain = "workspaces"
    operators_may_write = True

    @extend_schema(operation_id="leaveWorkspace", tags=["workspace"], request=None, responses=TEXT_OK)
    def post(self, request: Request, workspace: str) -> HttpResponse:
        workspaces.leave_workspace(self.caller)
        return text(f"left workspace {workspace}")
