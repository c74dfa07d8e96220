"""What the pages of folders, groups and people show: members and levels, read in a few queries whatever the size."""

from dataclasses import dataclass

from workspaces import groups
from workspaces.access import Caller, Right
from workspaces.folders import list_folders
from workspaces.models import Account, Folder, Group, Member
from workspaces.workspaces import DEFAULT_GROUPS, list_members

LEVELS = {"owner": "Owner", "write": "May write", "read": "May read"}


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Somebody (u/ada) or a group (g/team) with a right on a folder."""

    principal: str
    level: str  # a key of LEVELS


@dataclass(frozen=True, kw_only=True)
class ShownFolder:
    """A folder of the list."""

    folder: Folder
    holders: list[Holder]
    may_manage: bool


@dataclass(frozen=True, kw_only=True)
class ShownGroup:
    """A group of the list."""

    group: Group
    members: list[str]
    may_manage: bool
    is_everybody: bool

    @property
    def may_delete(self) -> bool:
        return self.may_manage and self.group.name not in DEFAULT_GROUPS


@dataclass(frozen=True, kw_only=True)
class Person:
    """A member of the workspace, with the account's name."""

    member: Member
    name: str
    is_super_admin: bool
    is_self: bool

    @property
    def role(self) -> str:
        return "admin" if self.member.is_admin else "operator" if self.member.operator else "developer"


def holders_of(folder: Folder) -> list[Holder]:
    """Who has which right on the folder, owners first."""
    found = {owner: "owner" for owner in folder.owners}
    for principal, may_write in sorted(folder.extra_perms.items()):
        found.setdefault(principal, "write" if may_write else "read")
    return [Holder(principal=principal, level=level) for principal, level in found.items()]


def shown_folder(caller: Caller, folder: Folder) -> ShownFolder:
    """One folder with its holders."""
    may_manage = not caller.is_operator and caller.right_on_folder(folder) >= Right.OWN
    return ShownFolder(folder=folder, holders=holders_of(folder), may_manage=may_manage)


def shown_folders(caller: Caller, search: str = "") -> list[ShownFolder]:
    """The folders the caller may read."""
    rows = list_folders(caller)
    if search:
        rows = rows.filter(name__icontains=search)
    return [shown_folder(caller, folder) for folder in rows]


def shown_groups(caller: Caller, rows: list[Group] | None = None) -> list[ShownGroup]:
    """The groups of the workspace with their members."""
    listed = list(groups.list_groups(caller)) if rows is None else rows
    return [
        ShownGroup(
            group=group,
            members=shape["members"],
            may_manage=not caller.is_operator and groups.may_manage(caller, group),
            is_everybody=group.name == groups.EVERYBODY,
        )
        for group, shape in zip(listed, groups.group_shapes(caller, listed), strict=True)
    ]


def people(caller: Caller) -> list[Person]:
    """The members of the workspace, by username."""
    members = list(list_members(caller))
    accounts = {
        email: (name, super_admin)
        for email, name, super_admin in Account.objects.filter(
            pk__in=[member.email for member in members]
        ).values_list("email", "name", "super_admin")
    }
    return [
        Person(
            member=member,
            name=accounts.get(member.email, (None, False))[0] or member.username,
            is_super_admin=accounts.get(member.email, (None, False))[1],
            is_self=member.email == caller.email,
        )
        for member in members
    ]


def principals(caller: Caller) -> list[tuple[str, list[tuple[str, str]]]]:
    """Choices for giving a right: people and groups of the workspace, by heading."""
    users = [f"u/{name}" for name in list_members(caller).values_list("username", flat=True)]
    names = [f"g/{name}" for name in groups.list_groups(caller).values_list("name", flat=True)]
    return [
        (heading, [(name, name) for name in listed])
        for heading, listed in (("Groups", names), ("People", users))
        if listed
    ]
