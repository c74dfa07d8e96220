"""Groups: people of a workspace under one name, which access rules may mention as g/<name>."""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from workspaces import audit
from workspaces.access import Caller, Right
from workspaces.acls import count_below, forget_owner
from workspaces.errors import BadRequest, Conflict, NotFound, PermissionDenied
from workspaces.models import ActionKind, Group, GroupMember, Member
from workspaces.names import check_group_name

SCOPE = "groups"
EVERYBODY = "all"  # holds every member without rows


def create_group(caller: Caller, *, name: str, summary: str = "") -> Group:
    """Make a group; its maker is its first member and may manage it. BadRequest, Conflict, PermissionDenied."""
    caller.require_not_operator()
    check_group_name(name)
    if not caller.is_admin and any(count_below(caller.workspace_id, f"g/{name}/").values()):
        raise PermissionDenied(
            f"items of a deleted group are left in g/{name}/; only an admin can make it again"
        )
    try:
        with transaction.atomic():
            group = Group.objects.create(
                workspace=caller.workspace,
                name=name,
                summary=summary,
                extra_perms={caller.permissioned_as: True},
            )
            if caller.member is not None:
                GroupMember.objects.create(group=group, member=caller.member)
            audit.record(caller, "group.create", ActionKind.CREATE, resource=name)
    except IntegrityError as exc:
        raise Conflict(
            f"group {name} exists already in workspace {caller.workspace_id}; choose another name"
        ) from exc
    caller.forget_rights()
    return group


def get_group(
    caller: Caller, name: str, *, right: Right = Right.READ, rows: QuerySet[Group] | None = None
) -> Group:
    """The group; every member of the workspace may read it. More than READ asks for the right to manage it."""
    rows = Group.objects.all() if rows is None else rows
    group = rows.filter(workspace_id=caller.workspace_id, name=name).first()
    if group is None:
        raise NotFound(f"group {name[:60]} does not exist in workspace {caller.workspace_id}")
    if right is not Right.READ:
        if not caller.identity.is_job:
            caller.require_not_operator()
        if not may_manage(caller, group):
            raise PermissionDenied(
                f"you need the right to manage group {name}; an admin of the workspace can give it"
            )
    return group


def may_manage(caller: Caller, group: Group) -> bool:
    """Admins may, and those whom the group's extra_perms give write."""
    return caller.is_admin or any(group.extra_perms.get(name) is True for name in caller.principals)


def fetch_for_acls(caller: Caller, path: str, *, right: Right, for_update: bool) -> Group:
    """`workspaces.acls.Fetch`: groups are named `team` or `g/team` there."""
    rows = Group.objects.select_for_update() if for_update else None
    return get_group(caller, path.removeprefix("g/"), right=right, rows=rows)


def list_groups(caller: Caller, *, only_member_of: bool = False) -> QuerySet[Group]:
    """The groups of the workspace, by name."""
    rows = Group.objects.filter(workspace_id=caller.workspace_id).order_by("name")
    return rows.filter(name__in=caller.groups) if only_member_of else rows


def update_group(caller: Caller, name: str, *, summary: str) -> None:
    """Change what a group says about itself. NotFound, PermissionDenied."""
    with transaction.atomic():
        group = get_group(caller, name, right=Right.OWN)
        Group.objects.filter(pk=group.pk).update(summary=summary)
        audit.record(caller, "group.edit", ActionKind.UPDATE, resource=name)


def delete_group(caller: Caller, name: str) -> None:
    """Delete a group and every mention of it in access rules: a later group of that name starts with none."""
    from workspaces.workspaces import DEFAULT_GROUPS

    with transaction.atomic():
        group = get_group(caller, name, right=Right.OWN)
        if name in DEFAULT_GROUPS:
            raise BadRequest(f"group {name} exists in every workspace and cannot be deleted")
        group.delete()
        forget_owner(caller.workspace_id, f"g/{name}")
        audit.record(caller, "group.delete", ActionKind.DELETE, resource=name)
    caller.forget_rights()


def add_to_group(caller: Caller, name: str, *, username: str) -> None:
    """Put a member into a group; fine when they are in it. BadRequest, NotFound, PermissionDenied."""
    with transaction.atomic():
        group = _editable(caller, name)
        GroupMember.objects.get_or_create(group=group, member=_member(caller, username))
        audit.record(caller, "group.adduser", ActionKind.UPDATE, resource=name, parameters={"user": username})
    caller.forget_rights()


def remove_from_group(caller: Caller, name: str, *, username: str) -> None:
    """Take a member out of a group; fine when they are not in it. BadRequest, NotFound, PermissionDenied."""
    with transaction.atomic():
        group = _editable(caller, name)
        GroupMember.objects.filter(group=group, member=_member(caller, username)).delete()
        audit.record(
            caller, "group.removeuser", ActionKind.UPDATE, resource=name, parameters={"user": username}
        )
    caller.forget_rights()


def group_shapes(caller: Caller, groups: list[Group]) -> list[dict[str, Any]]:
    """Groups of the API with their members' usernames; two queries however many groups."""
    members: dict[int, list[str]] = {group.pk: [] for group in groups}
    listed = GroupMember.objects.filter(group__in=groups).order_by("member__username")
    for group_id, username in listed.values_list("group_id", "member__username"):
        members[group_id].append(username)
    everybody = Member.objects.filter(workspace_id=caller.workspace_id).values_list("username", flat=True)
    return [
        {
            "workspace_id": group.workspace_id,
            "name": group.name,
            "summary": group.summary,
            "members": list(everybody) if group.name == EVERYBODY else members[group.pk],
            "extra_perms": group.extra_perms,
        }
        for group in groups
    ]


def _editable(caller: Caller, name: str) -> Group:
    group = get_group(caller, name, right=Right.OWN)
    if name == EVERYBODY:
        raise BadRequest("group all always holds every member; its members cannot be changed")
    return group


def _member(caller: Caller, username: str) -> Member:
    member = Member.objects.filter(workspace_id=caller.workspace_id, username=username).first()
    if member is None:
        raise NotFound(f"user {username[:60]} is not a member of workspace {caller.workspace_id}")
    return member
