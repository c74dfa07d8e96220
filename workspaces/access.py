"""The one door from a request to an object (DESIGN.md decision 12).

`Identity` is who called: an account through one of its tokens, a running job, or the superadmin secret.
`Caller` is that identity inside one workspace, with its rights. Every query of workspace data goes through
`Caller.readable` or `Caller.get`, every write asks `Caller.require_write` or `Caller.require_new_path`; no other module
decides about rights on paths.

Rights on an item, first that applies (reference/governance.md section 3): workspace admin or superadmin; owner of the
path prefix (u/me, member of g/group, folder by its owners and extra_perms); the item's own extra_perms. An item's rules
add to its folder's, never subtract. What a caller cannot read does not exist for them (404); what they can read but not
change is a 403 that names the missing right.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import Model, Q, QuerySet

from workspaces import scopes
from workspaces.errors import BadRequest, NotFound, NotSignedIn, PermissionDenied
from workspaces.models import Account, Folder, Group, GroupMember, Member, Workspace
from workspaces.names import parse_path
from workspaces.pairs import fetch_pair

M = TypeVar("M", bound=Model)
SUPERADMIN_SECRET_EMAIL = "superadmin@windmill.dev"


class Right(enum.IntEnum):
    """What a caller may do with an item; higher includes lower."""

    NONE = 0
    READ = 1
    WRITE = 2
    OWN = 3  # change who has rights


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who called, whatever the workspace. Built by `workspaces.tokens.authenticate` only."""

    email: str
    super_admin: bool = False
    devops: bool = False
    account: Account | None = None  # None: superadmin secret, or a job of somebody without an account
    token_hash: str | None = None
    token_label: str | None = None
    scopes: tuple[str, ...] | None = None  # None: unrestricted
    workspace_id: str | None = None  # the only workspace this token is good for
    read_only: bool = False
    job_id: UUID | None = None  # set for job tokens
    username: str | None = None  # job tokens: the name the job runs under
    permissioned_as: str | None = None  # job tokens: u/<username> or g/<group>

    @property
    def is_job(self) -> bool:
        """Is this a running job that acts for somebody?"""
        return self.permissioned_as is not None

    def require_super_admin(self) -> None:
        """Raises PermissionDenied unless superadmin (and never for a job token)."""
        if not self.super_admin or self.is_job:
            raise PermissionDenied("this needs a superadmin of the instance")

    @property
    def operates(self) -> bool:
        """Is this somebody who runs the instance, superadmin or devops? Their jobs do not, whoever wrote their code."""
        return (self.super_admin or self.devops) and not self.is_job

    def require_devops(self) -> None:
        """Raises PermissionDenied unless superadmin or devops (and never for a job token)."""
        if not self.operates:
            raise PermissionDenied("this needs a superadmin or devops role on the instance")

    def require_scope(self, domain: str, action: str, path: str | None = None) -> None:
        """Raises PermissionDenied when this token is limited to other things."""
        if self.read_only and action != "read":
            raise PermissionDenied("this token is read-only")
        if not scopes.allows(self.scopes, domain, action, path):
            wanted = f"{domain}:{action}" + (f":{path}" if path else "")
            raise PermissionDenied(f"this token lacks the scope {wanted}")

    def require_global(self) -> None:
        """Raises PermissionDenied for tokens confined to one workspace (job tokens among them)."""
        if self.workspace_id is not None:
            raise PermissionDenied(f"this token is confined to workspace {self.workspace_id}")


class Caller:
    """An identity inside one workspace. Groups and folders are read when first needed; admins never need them."""

    def __init__(self, *, identity: Identity, workspace: Workspace, member: Member | None) -> None:
        self.identity = identity
        self.workspace = workspace
        self.member = member
        self.email = identity.email
        self.is_super_admin = identity.super_admin
        self.is_admin = identity.super_admin or (member is not None and member.is_admin)
        self.is_operator = member is not None and member.operator and not self.is_admin
        self.username: str = member.username if member else (identity.username or identity.email)

    @property
    def workspace_id(self) -> str:
        return self.workspace.id

    @property
    def permissioned_as(self) -> str:
        """Whose rights a job started by this caller has."""
        return self.identity.permissioned_as or f"u/{self.username}"

    @cached_property
    def groups(self) -> frozenset[str]:
        """Names of the caller's groups; `all` holds every member."""
        if self.identity.permissioned_as and self.identity.permissioned_as.startswith("g/"):
            return frozenset({self.identity.permissioned_as[2:], "all"})
        if self.member is None:
            return frozenset()
        names = GroupMember.objects.filter(member=self.member).values_list("group__name", flat=True)
        return frozenset({*names, "all"})

    @cached_property
    def principals(self) -> tuple[str, ...]:
        """The names under which access rules may mention this caller."""
        user = () if self.permissioned_as.startswith("g/") else (f"u/{self.username}",)
        return (*user, *(f"g/{name}" for name in sorted(self.groups)))

    @cached_property
    def _folder_rights(self) -> dict[str, Right]:
        folders = Folder.objects.filter(workspace=self.workspace)
        if not self.is_admin:
            folders = folders.filter(
                Q(owners__overlap=list(self.principals)) | _mentioned_in_extra_perms(self.principals)
            )
        return {folder.name: self.right_on_folder(folder) for folder in folders}

    def right_on_folder(self, folder: Folder) -> Right:
        """This caller's right on a folder and on all that lies in it."""
        return folder_right(folder, is_admin=self.is_admin, principals=self.principals)

    def forget_rights(self) -> None:
        """Look groups and folders up again at the next question: they were changed through this caller."""
        for name in ("groups", "principals", "_folder_rights"):
            self.__dict__.pop(name, None)

    @property
    def folders_read(self) -> list[str]:
        return sorted(self._folder_rights)

    @property
    def folders_write(self) -> list[str]:
        return sorted(name for name, right in self._folder_rights.items() if right >= Right.WRITE)

    @property
    def folders_owned(self) -> list[str]:
        return sorted(name for name, right in self._folder_rights.items() if right >= Right.OWN)

    # --- paths ----------------------------------------------------------------------------------------------------

    def right_on(self, path: str, extra_perms: dict[str, Any] | None = None) -> Right:
        """This caller's right on an item at `path` with these rules of its own."""
        if self.is_admin:
            return Right.OWN
        kind, _, rest = path.partition("/")
        owner = rest.split("/", 1)[0]
        if kind == "u":
            right = Right.OWN if f"u/{owner}" in self.principals else Right.NONE
        elif kind == "g":
            right = Right.WRITE if owner in self.groups else Right.NONE
        elif kind == "f":
            right = self._folder_rights.get(owner, Right.NONE)
        else:
            right = Right.NONE
        return max(right, _right_by_extra_perms(extra_perms or {}, self.principals))

    def readable(
        self,
        queryset: QuerySet[M],
        *,
        path: str = "path",
        extra_perms: str | None = "extra_perms",
        scope: str | None = None,
    ) -> QuerySet[M]:
        """The rows of this workspace that the caller may read. `path`, `extra_perms` name the columns.

        `scope` is the token scope domain: a token limited to some paths of it sees only those.
        """
        rows = queryset.filter(workspace_id=self.workspace_id)
        patterns = scopes.readable_paths(self.identity.scopes, scope) if scope else None
        if patterns is not None:
            allowed = Q(pk__in=[])
            for pattern in patterns:
                covers_all_below = pattern.endswith("*")
                allowed |= (
                    Q(**{f"{path}__startswith": pattern[:-1]}) if covers_all_below else Q(**{path: pattern})
                )
            rows = rows.filter(allowed)
        return (
            rows
            if self.is_admin
            else rows.filter(self.readable_condition(path=path, extra_perms=extra_perms))
        )

    @property
    def readable_owners(self) -> list[str]:
        """The prefixes (`u/me`, `g/team`, `f/sales`) below which a caller that is no admin reads everything."""
        mine = [f"u/{self.username}"] if f"u/{self.username}" in self.principals else []
        return [
            *mine,
            *(f"g/{group}" for group in sorted(self.groups)),
            *(f"f/{name}" for name in self.folders_read),
        ]

    def readable_condition(self, *, path: str = "path", extra_perms: str | None = "extra_perms") -> Q:
        """The condition of `readable` for callers that are not admins."""
        allowed = Q(pk__in=[])
        for owner in self.readable_owners:
            allowed |= Q(**{f"{path}__startswith": f"{owner}/"})
        if extra_perms is not None:
            allowed |= Q(**{f"{extra_perms}__has_any_keys": list(self.principals)})
        return allowed

    def get(
        self,
        queryset: QuerySet[M],
        path: str,
        *,
        right: Right = Right.READ,
        what: str | None = None,
        scope: str | None = None,
    ) -> M:
        """The item at `path`, with at least `right`. Raises NotFound (also for unreadable items), PermissionDenied.

        `scope` is the token scope domain that the call needs on this path; None when another scope covers it.
        """
        if scope is not None:
            self.identity.require_scope(scope, "read" if right <= Right.READ else "write", path)
        what = what or str(queryset.model._meta.verbose_name)
        item: Any = queryset.filter(workspace_id=self.workspace_id, path=path).first()
        if item is None or self.right_on(path, item.extra_perms) < Right.READ:
            raise NotFound(
                f"{what} {path[:255]} does not exist in workspace {self.workspace_id}, or you may not read it"
            )
        if right > Right.READ:
            self.require_write(path, item.extra_perms, right=right)
        found: M = item
        return found

    def require_write(
        self, path: str, extra_perms: dict[str, Any] | None = None, *, right: Right = Right.WRITE
    ) -> None:
        """Raises PermissionDenied, naming the right and who can give it, unless the caller may change `path`.

        What an operator may not do by hand, a job that they started may: its code was written by somebody else.
        """
        if not self.identity.is_job:
            self.require_not_operator()
        if self.right_on(path, extra_perms) < right:
            who = f"an owner of {'/'.join(path.split('/')[:2])} or an admin of the workspace"
            raise PermissionDenied(
                f"you need the right to {'manage' if right is Right.OWN else 'write'} {path}; {who} can give it"
            )

    def require_new_path(self, path: str, *, scope: str | None = None) -> None:
        """Check a path for something new: well-formed, in an existing folder, writable. BadRequest, PermissionDenied.

        `scope` as in `get`.
        """
        parsed = parse_path(path)
        if scope is not None:
            self.identity.require_scope(scope, "write", path)
        if (
            parsed.kind == "f"
            and not Folder.objects.filter(workspace=self.workspace, name=parsed.owner).exists()
        ):
            raise BadRequest(
                f"folder {parsed.owner} does not exist in workspace {self.workspace_id}; create it first"
            )
        if (
            parsed.kind == "g"
            and not Group.objects.filter(workspace=self.workspace, name=parsed.owner).exists()
        ):
            raise BadRequest(
                f"group {parsed.owner} does not exist in workspace {self.workspace_id}; create it first"
            )
        self.require_write(path)

    # --- roles ----------------------------------------------------------------------------------------------------

    def require_admin(self) -> None:
        """Raises PermissionDenied unless admin of this workspace (or superadmin)."""
        if not self.is_admin:
            raise PermissionDenied(f"this needs an admin of workspace {self.workspace_id}")

    def require_not_operator(self) -> None:
        """Raises PermissionDenied for operators, who run and view only."""
        if self.is_operator:
            raise PermissionDenied(
                f"operators of workspace {self.workspace_id} can run and view, not change; "
                "ask an admin for the developer role"
            )


def enter_workspace(identity: Identity, workspace_id: str) -> Caller:
    """The identity inside a workspace. Raises NotFound for outsiders and archived workspaces alike, PermissionDenied."""
    if identity.workspace_id is not None and identity.workspace_id != workspace_id:
        raise PermissionDenied(f"this token is confined to workspace {identity.workspace_id}")
    missing = NotFound(f"workspace {workspace_id[:60]} does not exist, or you are not a member of it")
    workspace, member = fetch_pair(
        Workspace,
        Member,
        on="r.workspace_id = l.id AND r.email = %s",
        where="l.id = %s",
        values=[identity.email, workspace_id],
    )
    if workspace is None or (workspace.deleted and not identity.super_admin):
        raise missing
    if member is not None and member.disabled and not identity.super_admin:
        raise PermissionDenied(
            f"your membership of workspace {workspace_id} is disabled; an admin of it can enable it"
        )
    runs_as_group = (identity.permissioned_as or "").startswith("g/")
    if member is None and not identity.super_admin and not runs_as_group:
        raise missing
    return Caller(identity=identity, workspace=workspace, member=None if runs_as_group else member)


def identity_for_job(
    *,
    workspace_id: str,
    email: str,
    username: str,
    permissioned_as: str,
    job_id: UUID | None = None,
    token_label: str | None = None,
) -> Identity:
    """The identity of a job: the rights of `permissioned_as`, confined to the job's workspace, never global ones.

    The rights are looked up now, so what was revoked since the job was queued is gone. Raises NotSignedIn when the
    account is disabled.
    """
    account = Account.objects.filter(pk=email).first()
    if account is not None and account.disabled:
        raise NotSignedIn(f"the account {email}, which this job runs as, is disabled")
    runs_as_user = permissioned_as.startswith("u/")
    # Whoever holds the superadmin secret needs no account, and neither do the jobs that they start.
    by_secret = (
        account is None and email == SUPERADMIN_SECRET_EMAIL and settings.SUPERADMIN_SECRET is not None
    )
    return Identity(
        email=email,
        super_admin=runs_as_user and (by_secret or (account is not None and account.super_admin)),
        account=account,
        token_label=token_label,
        workspace_id=workspace_id,
        job_id=job_id,
        username=username,
        permissioned_as=permissioned_as,
    )


def caller_for_job(
    *, workspace_id: str, email: str, username: str, permissioned_as: str, job_id: UUID | None = None
) -> Caller:
    """The caller that a worker resolves a job's `$var:` and `$res:` with. NotSignedIn, NotFound, PermissionDenied."""
    identity = identity_for_job(
        workspace_id=workspace_id,
        email=email,
        username=username,
        permissioned_as=permissioned_as,
        job_id=job_id,
    )
    return enter_workspace(identity, workspace_id)


def workspaces_of(identity: Identity) -> QuerySet[Workspace]:
    """The live workspaces this identity may enter; a superadmin may enter all."""
    rows = Workspace.objects.filter(deleted=False)
    if identity.workspace_id is not None:
        rows = rows.filter(pk=identity.workspace_id)
    if identity.super_admin:
        return rows
    members = Member.objects.filter(email=identity.email, disabled=False)
    return rows.filter(pk__in=members.values("workspace_id"))


def folder_right(folder: Folder, *, is_admin: bool, principals: Iterable[str]) -> Right:
    """The right on a folder of somebody with these names (u/alice, g/team, ...)."""
    if is_admin or not set(folder.owners).isdisjoint(principals):
        return Right.OWN
    return _right_by_extra_perms(folder.extra_perms, principals)


def _right_by_extra_perms(extra_perms: dict[str, Any], principals: Iterable[str]) -> Right:
    """The best right that a map {"u/alice": true (write) | false (read)} gives to any of these names."""
    given = [extra_perms[name] for name in principals if name in extra_perms]
    return Right.WRITE if any(given) else Right.READ if given else Right.NONE


def _mentioned_in_extra_perms(principals: Iterable[str]) -> Q:
    return Q(extra_perms__has_any_keys=list(principals))
