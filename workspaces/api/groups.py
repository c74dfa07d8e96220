"""Groups of a workspace, and access rules of single items."""

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces import acls, groups
from workspaces.api.base import WorkspaceView, flag, page_bounds, read_body
from workspaces.api.fields import TEXT_OK, Body, Flag, Name, Text, map_of
from workspaces.api.parameters import PAGES, switch
from workspaces.api.protocol import text
from workspaces.api.shapes import GroupShape


class SummaryBody(Body):
    """What the group says about itself."""

    summary = Text(required=False, allow_null=True, default="")


class CreateGroupBody(SummaryBody):
    """A new group."""

    name = Name()


class CreateGroup(WorkspaceView):
    """Makes a group; its maker manages it."""

    domain = "groups"

    @extend_schema(operation_id="createGroup", tags=["group"], request=CreateGroupBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str) -> HttpResponse:
        body = read_body(CreateGroupBody, request)
        group = groups.create_group(self.caller, name=body["name"], summary=body["summary"] or "")
        return text(f"Created group {group.name}")


class GetGroup(WorkspaceView):
    """A group and its members."""

    domain = "groups"

    @extend_schema(operation_id="getGroup", tags=["group"], responses=GroupShape)
    def get(self, request: Request, workspace: str, name: str) -> Response:
        return Response(groups.group_shapes(self.caller, [groups.get_group(self.caller, name)])[0])


class ListGroups(WorkspaceView):
    """The groups of the workspace."""

    domain = "groups"

    @extend_schema(
        operation_id="listGroups", tags=["group"], parameters=PAGES, responses=GroupShape(many=True)
    )
    def get(self, request: Request, workspace: str) -> Response:
        rows = list(groups.list_groups(self.caller)[page_bounds(request)])
        return Response(groups.group_shapes(self.caller, rows))


class ListGroupNames(WorkspaceView):
    """The names of the groups."""

    domain = "groups"

    @extend_schema(
        operation_id="listGroupNames",
        tags=["group"],
        parameters=[switch("only_member_of", "Only those one is a member of")],
        responses=serializers.ListSerializer(child=serializers.CharField()),
    )
    def get(self, request: Request, workspace: str) -> Response:
        mine = flag(request, "only_member_of", default=False)
        return Response([group.name for group in groups.list_groups(self.caller, only_member_of=mine)])


class UpdateGroup(WorkspaceView):
    """Changes what a group says about itself."""

    domain = "groups"

    @extend_schema(operation_id="updateGroup", tags=["group"], request=SummaryBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, name: str) -> HttpResponse:
        groups.update_group(self.caller, name, summary=read_body(SummaryBody, request)["summary"] or "")
        return text(f"Edited group {name}")


class DeleteGroup(WorkspaceView):
    """Deletes a group and every mention of it in access rules."""

    domain = "groups"

    @extend_schema(operation_id="deleteGroup", tags=["group"], responses=TEXT_OK)
    def delete(self, request: Request, workspace: str, name: str) -> HttpResponse:
        groups.delete_group(self.caller, name)
        return text(f"Deleted group {name}")


class UsernameBody(Body):
    """A member of the workspace."""

    username = Name()


class AddUserToGroup(WorkspaceView):
    """Puts a member into a group."""

    domain = "groups"

    @extend_schema(operation_id="addUserToGroup", tags=["group"], request=UsernameBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, name: str) -> HttpResponse:
        username = read_body(UsernameBody, request)["username"]
        groups.add_to_group(self.caller, name, username=username)
        return text(f"Added {username} to group {name}")


class RemoveUserFromGroup(WorkspaceView):
    """Takes a member out of a group."""

    domain = "groups"

    @extend_schema(operation_id="removeUserToGroup", tags=["group"], request=UsernameBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, name: str) -> HttpResponse:
        username = read_body(UsernameBody, request)["username"]
        groups.remove_from_group(self.caller, name, username=username)
        return text(f"Removed {username} from group {name}")


class GetRules(WorkspaceView):
    """The access rules of an item: {"u/alice": true (write), "g/team": false (read)}."""

    domain = "acls"

    @extend_schema(
        operation_id="getGranularAcls", tags=["granular_acl"], responses=map_of({"type": "boolean"})
    )
    def get(self, request: Request, workspace: str, kind: str, path: str) -> Response:
        return Response(acls.get_rules(self.caller, kind, path))


class RuleBody(Body):
    """Who, and whether they may write (true) or only read (false)."""

    owner = Name()
    write = Flag(required=False, allow_null=True, default=False)


class AddRule(WorkspaceView):
    """Gives somebody a right on an item."""

    domain = "acls"

    @extend_schema(operation_id="addGranularAcls", tags=["granular_acl"], request=RuleBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, kind: str, path: str) -> HttpResponse:
        body = read_body(RuleBody, request)
        acls.set_rule(self.caller, kind, path, owner=body["owner"], may_write=bool(body["write"]))
        return text("Successfully modified granular acl")


class RemoveRuleBody(Body):
    """Whom to forget."""

    owner = Name()


class RemoveRule(WorkspaceView):
    """Takes away the right of somebody on an item."""

    domain = "acls"

    @extend_schema(
        operation_id="removeGranularAcls", tags=["granular_acl"], request=RemoveRuleBody, responses=TEXT_OK
    )
    def post(self, request: Request, workspace: str, kind: str, path: str) -> HttpResponse:
        acls.remove_rule(self.caller, kind, path, owner=read_body(RemoveRuleBody, request)["owner"])
        return text("Successfully removed granular acl")
