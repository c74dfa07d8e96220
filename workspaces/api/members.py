"""The people of a workspace."""

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces import workspaces
from workspaces.access import Right
from workspaces.api.base import WorkspaceView, page_bounds, read_body
from workspaces.api.fields import BOOLEAN_OK, TEXT_OK, Body, Flag
from workspaces.api.parameters import PAGES
from workspaces.api.protocol import text
from workspaces.api.shapes import User


class WhoAmI(WorkspaceView):
    """The caller inside this workspace: roles, groups, folders."""

    @extend_schema(operation_id="whoami", tags=["user"], responses=User)
    def get(self, request: Request, workspace: str) -> Response:
        account = self.caller.identity.account
        return Response(workspaces.user_shape(self.caller, name=account.name if account else None))


class GetUser(WorkspaceView):
    """A member of the workspace."""

    @extend_schema(operation_id="getUser", tags=["user"], responses=User)
    def get(self, request: Request, workspace: str, username: str) -> Response:
        return Response(workspaces.member_detail(workspaces.get_member(self.caller, username), self.caller))


class WhoIs(GetUser):
    """A member of the workspace."""

    @extend_schema(operation_id="whois", tags=["user"], responses=User)
    def get(self, request: Request, workspace: str, username: str) -> Response:
        return super().get(request, workspace, username)


class ListUsers(WorkspaceView):
    """The members of the workspace."""

    @extend_schema(operation_id="listUsers", tags=["user"], parameters=PAGES, responses=User(many=True))
    def get(self, request: Request, workspace: str) -> Response:
        members = list(workspaces.list_members(self.caller)[page_bounds(request)])
        return Response(workspaces.member_shapes(self.caller, members))


class ListUsernames(WorkspaceView):
    """The usernames of the workspace."""

    @extend_schema(
        operation_id="listUsernames",
        tags=["user"],
        responses=serializers.ListSerializer(child=serializers.CharField()),
    )
    def get(self, request: Request, workspace: str) -> Response:
        return Response(list(workspaces.list_members(self.caller).values_list("username", flat=True)))


class UsernameToEmail(WorkspaceView):
    """The e-mail address of a member."""

    @extend_schema(operation_id="usernameToEmail", tags=["user"], responses=TEXT_OK)
    def get(self, request: Request, workspace: str, username: str) -> HttpResponse:
        return text(workspaces.get_member(self.caller, username).email)


class IsOwnerOfPath(WorkspaceView):
    """Does the caller own what lies at this path (and so may give others rights on it)?"""

    @extend_schema(operation_id="isOwnerOfPath", tags=["user"], responses=BOOLEAN_OK)
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response(self.caller.right_on(path) >= Right.OWN)


class UpdateMemberBody(Body):
    """Roles; what is not given stays."""

    is_admin = Flag(required=False, allow_null=True)
    operator = Flag(required=False, allow_null=True)
    disabled = Flag(required=False, allow_null=True)


class UpdateUser(WorkspaceView):
    """Changes the role of a member. Admins only; the last admin stays admin."""

    @extend_schema(operation_id="updateUser", tags=["user"], request=UpdateMemberBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, username: str) -> HttpResponse:
        workspaces.update_member(self.caller, username, **read_body(UpdateMemberBody, request))
        return text(f"user {username} updated")


class DeleteUser(WorkspaceView):
    """Takes a member out of the workspace; what they made stays. Admins only."""

    @extend_schema(operation_id="deleteUser", tags=["user"], responses=TEXT_OK)
    def delete(self, request: Request, workspace: str, username: str) -> HttpResponse:
        workspaces.remove_member(self.caller, username)
        return text(f"user {username} removed")
