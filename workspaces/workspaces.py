"""Workspaces and their members: create, archive, rename, add, change and remove people."""

import re
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from workspaces import audit
from workspaces.access import Caller, Identity, Right, enter_workspace, folder_right, workspaces_of
from workspaces.errors import BadRequest, Conflict, NotFound
from workspaces.models import Account, ActionKind, Folder, Group, GroupMember, Member, Workspace
from workspaces.names import RESERVED_USERNAMES, check_email, check_username, check_workspace_id

# `all` holds every member without rows; the others exist from the start (reference/governance.md section 3).
DEFAULT_GROUPS = {
    "all": "The group that always contains all users of this workspace",
    "wm_deployers": "Members may deploy under another person's identity",
    "error_handler": "The group the workspace error handler acts on behalf of",
    "slack": "The group slack commands act on behalf of",
}


def add_default_groups(workspace: Workspace) -> None:
    """Make the groups that every workspace has; those that exist stay as they are."""
    Group.objects.bulk_create(
        [Group(workspace=workspace, name=name, summary=summary) for name, summary in DEFAULT_GROUPS.items()],
        ignore_conflicts=True,
    )


def username_for(email: str) -> str:
    """A valid username from an address: ada.lovelace@x.org -> adalovelace."""
    letters = re.sub(r"[^a-zA-Z0-9_-]", "", email.split("@", 1)[0])[:40]
    is_good = letters[:1].isalpha() or letters.startswith("_")
    return letters if is_good and letters not in RESERVED_USERNAMES else f"u{letters}"


def create_workspace(
    by: Identity, *, id: str, name: str, username: str | None = None, color: str | None = None
) -> Workspace:
    """Make a workspace with the caller as its admin. BadRequest, Conflict, PermissionDenied."""
    by.require_global()
    by.require_scope("workspaces", "write")
    if settings.CREATE_WORKSPACE_REQUIRE_SUPERADMIN:
        by.require_super_admin()
    check_workspace_id(id)
    check_display_name(name)
    check_color(color)
    username = check_username(username or username_for(by.email))
    try:
        with transaction.atomic():
            workspace = Workspace.objects.create(pk=id, name=name, owner=by.email, color=color)
            if by.account is not None:  # the superadmin secret is nobody who could be a member
                Member.objects.create(workspace=workspace, username=username, email=by.email, is_admin=True)
            add_default_groups(workspace)
            audit.record(
                by,
                "workspaces.create",
                ActionKind.CREATE,
                resource=id,
                workspace_id=id,
                parameters={"name": name},
            )
    except IntegrityError as exc:
        raise Conflict(
            f"workspace {id} exists already (or existed and is archived); choose another id"
        ) from exc
    return workspace


def check_display_name(name: Any) -> str:
    """1 to 100 characters."""
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= 100:
        raise BadRequest("name must be 1 to 100 characters")
    return name


def check_color(color: Any) -> str | None:
    """None, or #rrggbb."""
    if color is not None and not (isinstance(color, str) and re.fullmatch(r"#[0-9a-fA-F]{6}", color)):
        raise BadRequest(f"color {str(color)[:20]!r} is not valid; expected for example #3b82f6")
    return color


def archive_workspace(caller: Caller) -> None:
    """Close a workspace: nobody but superadmins can enter it; nothing is deleted. Admins only."""
    caller.require_admin()
    if caller.workspace_id == "admins":
        raise BadRequest("the admins workspace cannot be archived")
    with transaction.atomic():
        Workspace.objects.filter(pk=caller.workspace_id).update(deleted=True)
        audit.record(caller, "workspaces.archive", ActionKind.UPDATE, resource=caller.workspace_id)


def unarchive_workspace(by: Identity, workspace_id: str) -> None:
    """Open an archived workspace again. Superadmins only."""
    by.require_super_admin()
    with transaction.atomic():
        if not Workspace.objects.filter(pk=workspace_id).update(deleted=False):
            raise NotFound(f"workspace {workspace_id} does not exist")
        audit.record(
            by, "workspaces.unarchive", ActionKind.UPDATE, resource=workspace_id, workspace_id=workspace_id
        )


def add_member(caller: Caller, *, email: str, username: str | None, is_admin: bool, operator: bool) -> Member:
    """Add an account to the workspace. Admins only. The account must exist. BadRequest, Conflict."""
    caller.require_admin()
    email = check_email(email)
    account = Account.objects.filter(pk=email).first()
    if account is None:
        raise BadRequest(
            f"no account has email {email}; a superadmin creates accounts first (POST /api/users/create)"
        )
    username = check_username(username or account.username or username_for(email))
    _check_roles(is_admin, operator)
    try:
        with transaction.atomic():
            member = Member.objects.create(
                workspace=caller.workspace,
                username=username,
                email=email,
                is_admin=is_admin,
                operator=operator,
            )
            audit.record(
                caller,
                "users.add_to_workspace",
                ActionKind.CREATE,
                resource=email,
                parameters={"is_admin": is_admin, "operator": operator},
            )
    except IntegrityError as exc:
        raise Conflict(
            f"{email} is a member of {caller.workspace_id} already, or the username {username} is taken there"
        ) from exc
    return member


def update_member(
    caller: Caller,
    username: str,
    *,
    is_admin: bool | None = None,
    operator: bool | None = None,
    disabled: bool | None = None,
) -> None:
    """Change a member's role. Admins only; the last admin cannot be demoted."""
    caller.require_admin()
    with transaction.atomic():
        member = _locked_member(caller, username)
        before = {"is_admin": member.is_admin, "operator": member.operator, "disabled": member.disabled}
        after = {
            "is_admin": member.is_admin if is_admin is None else is_admin,
            "operator": member.operator if operator is None else operator,
            "disabled": member.disabled if disabled is None else disabled,
        }
        # Giving one role takes the other when only one was named.
        if is_admin and operator is None:
            after["operator"] = False
        if operator and is_admin is None:
            after["is_admin"] = False
        _check_roles(after["is_admin"], after["operator"])
        if before["is_admin"] and not before["disabled"] and (not after["is_admin"] or after["disabled"]):
            _require_another_admin(caller, member)
        Member.objects.filter(pk=member.pk).update(**after)
        audit.record(
            caller,
            "users.update",
            ActionKind.UPDATE,
            resource=username,
            parameters={"before": before, "after": after},
        )


def remove_member(caller: Caller, username: str) -> None:
    """Take a member out of the workspace; what they made stays. Admins only; never the last admin."""
    caller.require_admin()
    with transaction.atomic():
        member = _locked_member(caller, username)
        if member.is_admin and not member.disabled:
            _require_another_admin(caller, member)
        member.delete()
        audit.record(caller, "users.delete", ActionKind.DELETE, resource=username)


def _locked_member(caller: Caller, username: str) -> Member:
    member = Member.objects.select_for_update().filter(workspace=caller.workspace, username=username).first()
    if member is None:
        raise NotFound(f"user {username[:60]} is not a member of workspace {caller.workspace_id}")
    return member


def _require_another_admin(caller: Caller, member: Member) -> None:
    others = (
        Member.objects.select_for_update()
        .filter(workspace=caller.workspace, is_admin=True, disabled=False)
        .exclude(pk=member.pk)
    )
    if not others.exists():
        raise BadRequest(
            f"{member.username} is the last admin of workspace {caller.workspace_id}; make somebody else admin first"
        )


def _check_roles(is_admin: bool, operator: bool) -> None:
    if is_admin and operator:
        raise BadRequest("a member is either admin or operator, not both")


def leave_workspace(caller: Caller) -> None:
    """End one's own membership. BadRequest for the last admin and for superadmins who are no members."""
    if caller.member is None or caller.identity.is_job:
        raise BadRequest(f"you are not a member of workspace {caller.workspace_id}")
    with transaction.atomic():
        member = _locked_member(caller, caller.username)
        if member.is_admin:
            _require_another_admin(caller, member)
        member.delete()
        audit.record(caller, "users.leave_workspace", ActionKind.DELETE, resource=caller.email)


def rename_workspace(caller: Caller, *, name: str) -> None:
    """Change the name people see; the id stays. Admins only."""
    caller.require_admin()
    _change_workspace(caller, "workspaces.update", name=check_display_name(name))


def recolor_workspace(caller: Caller, *, color: str | None) -> None:
    """Change the colour that marks the workspace; None for none. Admins only."""
    caller.require_admin()
    _change_workspace(caller, "workspaces.update", color=check_color(color))


def _change_workspace(caller: Caller, operation: str, **changes: Any) -> None:
    with transaction.atomic():
        Workspace.objects.filter(pk=caller.workspace_id).update(**changes)
        audit.record(caller, operation, ActionKind.UPDATE, resource=caller.workspace_id, parameters=changes)


def workspace_exists(workspace_id: str) -> bool:
    """Is the id taken? Archived workspaces keep theirs."""
    return Workspace.objects.filter(pk=workspace_id).exists()


def username_exists(identity: Identity, *, workspace_id: str, username: str) -> bool:
    """Is the username taken in a workspace? Raises NotFound for workspaces that the caller cannot enter."""
    caller = enter_workspace(identity, workspace_id)
    return Member.objects.filter(workspace=caller.workspace, username=username).exists()


def list_workspaces(identity: Identity) -> QuerySet[Workspace]:
    """The live workspaces that the caller is a member of; for the superadmin secret, which is no member, all."""
    rows = workspaces_of(identity)
    if identity.account is None:
        return rows
    members = Member.objects.filter(email=identity.email, disabled=False)
    return rows.filter(pk__in=members.values("workspace_id"))


def list_all_workspaces(identity: Identity) -> QuerySet[Workspace]:
    """Every workspace of the instance, archived ones too. Superadmins only."""
    identity.require_super_admin()
    identity.require_global()
    return Workspace.objects.order_by("id")


def workspace_shape(workspace: Workspace) -> dict[str, Any]:
    """Workspace of the API."""
    return {
        "id": workspace.id,
        "name": workspace.name,
        "owner": workspace.owner,
        "deleted": workspace.deleted,
        "color": workspace.color,
        **({"parent_workspace_id": workspace.parent_workspace_id} if workspace.parent_workspace_id else {}),
    }


def memberships_shape(identity: Identity) -> dict[str, Any]:
    """UserWorkspaceList of the API: where the caller is a member, and as whom."""
    rows = Member.objects.filter(email=identity.email, workspace__deleted=False)
    if identity.workspace_id is not None:
        rows = rows.filter(workspace_id=identity.workspace_id)
    return {
        "email": identity.email,
        "workspaces": [
            {
                "id": member.workspace_id,
                "name": member.workspace.name,
                "username": member.username,
                "color": member.workspace.color,
                "operator_settings": None,
                "parent_workspace_id": member.workspace.parent_workspace_id,
                "is_dev_workspace": False,
                "created_by": member.workspace.owner,
                "disabled": member.disabled,
            }
            for member in rows.select_related("workspace").order_by("workspace_id")
        ],
    }


def get_member(caller: Caller, username: str) -> Member:
    """A member of the workspace. Raises NotFound."""
    member = Member.objects.filter(workspace=caller.workspace, username=username).first()
    if member is None:
        raise NotFound(f"user {username[:60]} is not a member of workspace {caller.workspace_id}")
    return member


def list_members(caller: Caller) -> QuerySet[Member]:
    """The members of the workspace by username, disabled ones too."""
    return Member.objects.filter(workspace=caller.workspace).order_by("username")


def member_shapes(caller: Caller, members: list[Member]) -> list[dict[str, Any]]:
    """Users of the API, with their groups and folders; four queries however many members."""
    accounts = Account.objects.in_bulk([member.email for member in members])
    groups: dict[int, set[str]] = {member.pk: {"all"} for member in members}
    for member_id, name in GroupMember.objects.filter(member__in=members).values_list(
        "member_id", "group__name"
    ):
        groups[member_id].add(name)
    folders = list(Folder.objects.filter(workspace=caller.workspace))
    return [
        _member_shape(member, accounts.get(member.email), groups[member.pk], folders) for member in members
    ]


def member_detail(member: Member, caller: Caller) -> dict[str, Any]:
    """User of the API, for one member."""
    return member_shapes(caller, [member])[0]


def _member_shape(
    member: Member, account: Account | None, groups: set[str], folders: list[Folder]
) -> dict[str, Any]:
    is_super_admin = account is not None and account.super_admin
    is_admin = member.is_admin or is_super_admin
    principals = (f"u/{member.username}", *(f"g/{name}" for name in groups))
    rights = {
        folder.name: folder_right(folder, is_admin=is_admin, principals=principals) for folder in folders
    }
    return {
        "email": member.email,
        "username": member.username,
        "is_admin": is_admin,
        "name": account.name if account else None,
        "is_super_admin": is_super_admin,
        "created_at": member.created_at,
        "operator": member.operator and not is_admin,
        "disabled": member.disabled,
        "groups": sorted(groups),
        "folders": sorted(name for name, right in rights.items() if right >= Right.WRITE),
        "folders_read": sorted(name for name, right in rights.items() if right >= Right.READ),
        "folders_owners": sorted(name for name, right in rights.items() if right >= Right.OWN),
    }


def user_shape(caller: Caller, *, name: str | None) -> dict[str, Any]:
    """User of reference/governance.md section 2."""
    member = caller.member
    return {
        "email": caller.email,
        "username": caller.username,
        "is_admin": caller.is_admin,
        "name": name,
        "is_super_admin": caller.is_super_admin,
        "created_at": member.created_at if member else caller.workspace.created_at,
        "operator": caller.is_operator,
        "disabled": bool(member and member.disabled),
        "groups": sorted(caller.groups),
        "folders": caller.folders_write,
        "folders_read": caller.folders_read,
        "folders_owners": caller.folders_owned,
        **({} if member else {"non_member": True}),
    }
