"""Folders: `f/<name>/...`. Whoever may read or write a folder may read or write what lies in it."""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from workspaces import audit
from workspaces.access import Caller, Right
from workspaces.acls import check_extra_perms, count_below
from workspaces.errors import BadRequest, Conflict, NotFound, PermissionDenied
from workspaces.labels import check_labels
from workspaces.models import ActionKind, Folder
from workspaces.names import check_folder_name, check_owner

SCOPE = "folders"


def create_folder(
    caller: Caller,
    *,
    name: str,
    display_name: str | None = None,
    summary: str | None = None,
    owners: list[str] | None = None,
    extra_perms: dict[str, bool] | None = None,
    labels: list[str] | None = None,
    default_permissioned_as: list[dict[str, str]] | None = None,
) -> Folder:
    """Make a folder. Its maker owns it, unless an admin names other owners. BadRequest, Conflict, PermissionDenied."""
    caller.require_not_operator()
    check_folder_name(name)
    caller.identity.require_scope(SCOPE, "write", name)
    _require_nothing_left(caller, f"f/{name}/")
    owners = _checked_owners(owners or [])
    if not owners or (not caller.is_admin and not set(owners) & set(caller.principals)):
        owners = [*owners, caller.permissioned_as]
    folder = Folder(
        workspace=caller.workspace,
        name=name,
        display_name=_checked_display_name(display_name or name),
        summary=summary,
        owners=owners,
        extra_perms=check_extra_perms(extra_perms or {}),
        labels=check_labels(labels or []),
        default_permissioned_as=_checked_run_as(default_permissioned_as or []),
        created_by=caller.username,
    )
    try:
        with transaction.atomic():
            folder.save(force_insert=True)
            audit.record(caller, "folder.create", ActionKind.CREATE, resource=name)
    except IntegrityError as exc:
        raise Conflict(
            f"folder {name} exists already in workspace {caller.workspace_id}; choose another name"
        ) from exc
    caller.forget_rights()
    return folder


def get_folder(
    caller: Caller, name: str, *, right: Right = Right.READ, rows: QuerySet[Folder] | None = None
) -> Folder:
    """The folder, with at least `right`. Raises NotFound (also for unreadable ones), PermissionDenied."""
    caller.identity.require_scope(SCOPE, "read" if right is Right.READ else "write", name)
    rows = Folder.objects.all() if rows is None else rows
    folder = rows.filter(workspace_id=caller.workspace_id, name=name).first()
    if folder is None or caller.right_on_folder(folder) < Right.READ:
        raise NotFound(
            f"folder {name[:60]} does not exist in workspace {caller.workspace_id}, or you may not read it"
        )
    if right is not Right.READ:
        if not caller.identity.is_job:
            caller.require_not_operator()
        if caller.right_on_folder(folder) < right:
            raise PermissionDenied(
                f"you need to own folder {name}; its owners ({', '.join(folder.owners) or 'none'}) "
                "or an admin of the workspace can make you one"
            )
    return folder


def fetch_for_acls(caller: Caller, path: str, *, right: Right, for_update: bool) -> Folder:
    """`workspaces.acls.Fetch`: folders are named `billing` or `f/billing` there."""
    rows = Folder.objects.select_for_update() if for_update else None
    return get_folder(caller, path.removeprefix("f/"), right=right, rows=rows)


def folder_exists(caller: Caller, name: str) -> bool:
    """Is the name taken?"""
    return Folder.objects.filter(workspace_id=caller.workspace_id, name=name).exists()


def list_folders(caller: Caller) -> QuerySet[Folder]:
    """The folders the caller may read, by name."""
    return Folder.objects.filter(workspace_id=caller.workspace_id, name__in=caller.folders_read).order_by(
        "name"
    )


def update_folder(
    caller: Caller,
    name: str,
    *,
    display_name: str | None = None,
    summary: str | None = None,
    owners: list[str] | None = None,
    extra_perms: dict[str, bool] | None = None,
    labels: list[str] | None = None,
    default_permissioned_as: list[dict[str, str]] | None = None,
) -> None:
    """Change what is given. Owners of the folder only. BadRequest, NotFound, PermissionDenied."""
    changes: dict[str, Any] = {}
    if display_name is not None:
        changes["display_name"] = _checked_display_name(display_name)
    if summary is not None:
        changes["summary"] = summary
    if owners is not None:
        changes["owners"] = _checked_owners(owners)
    if extra_perms is not None:
        changes["extra_perms"] = check_extra_perms(extra_perms)
    if labels is not None:
        changes["labels"] = check_labels(labels)
    if default_permissioned_as is not None:
        changes["default_permissioned_as"] = _checked_run_as(default_permissioned_as)
    with transaction.atomic():
        folder = get_folder(caller, name, right=Right.OWN)
        Folder.objects.filter(pk=folder.pk).update(**changes, edited_at=Now())
        audit.record(
            caller, "folder.update", ActionKind.UPDATE, resource=name, parameters={"changed": sorted(changes)}
        )
    caller.forget_rights()


def delete_folder(caller: Caller, name: str) -> None:
    """Delete the folder's rules; what lies in it stays, for admins only. Owners only. NotFound, PermissionDenied."""
    with transaction.atomic():
        get_folder(caller, name, right=Right.OWN).delete()
        audit.record(caller, "folder.delete", ActionKind.DELETE, resource=name)
    caller.forget_rights()


def add_owner(caller: Caller, name: str, *, owner: str) -> None:
    """Make `owner` an owner of the folder; fine when they are. Owners only."""
    check_owner(owner)
    with transaction.atomic():
        folder = get_folder(caller, name, right=Right.OWN, rows=Folder.objects.select_for_update())
        if owner not in folder.owners:
            Folder.objects.filter(pk=folder.pk).update(owners=[*folder.owners, owner], edited_at=Now())
        audit.record(
            caller, "folder.add_owner", ActionKind.UPDATE, resource=name, parameters={"owner": owner}
        )
    caller.forget_rights()


def remove_owner(caller: Caller, name: str, *, owner: str, may_write: bool | None = None) -> None:
    """Take `owner` off the owners; `may_write` leaves them write (true) or read (false) rights, None none at all."""
    check_owner(owner)
    with transaction.atomic():
        folder = get_folder(caller, name, right=Right.OWN, rows=Folder.objects.select_for_update())
        rules = {key: rule for key, rule in folder.extra_perms.items() if key != owner}
        if may_write is not None:
            rules[owner] = may_write
        owners = [item for item in folder.owners if item != owner]
        Folder.objects.filter(pk=folder.pk).update(owners=owners, extra_perms=rules, edited_at=Now())
        audit.record(
            caller, "folder.remove_owner", ActionKind.UPDATE, resource=name, parameters={"owner": owner}
        )
    caller.forget_rights()


def folder_usage(caller: Caller, name: str) -> dict[str, int]:
    """How many items of each kind lie in the folder: {"script": 2, "variable": 1, ...}."""
    get_folder(caller, name)
    return count_below(caller.workspace_id, f"f/{name}/")


def folder_shape(folder: Folder) -> dict[str, Any]:
    """Folder of the API."""
    return {
        "workspace_id": folder.workspace_id,
        "name": folder.name,
        "display_name": folder.display_name or folder.name,
        "owners": folder.owners,
        "extra_perms": folder.extra_perms,
        "created_by": folder.created_by,
        "edited_at": folder.edited_at,
        # Absent when empty, as in an export: a push compares key by key.
        **({"summary": folder.summary} if folder.summary is not None else {}),
        **(
            {"default_permissioned_as": folder.default_permissioned_as}
            if folder.default_permissioned_as
            else {}
        ),
        **({"labels": folder.labels} if folder.labels else {}),
    }


def _require_nothing_left(caller: Caller, prefix: str) -> None:
    """Who makes a folder may read all in it, so items left of a deleted one must not fall to just anybody."""
    if not caller.is_admin and any(count_below(caller.workspace_id, prefix).values()):
        raise PermissionDenied(
            f"items of a deleted folder are left in {prefix}; only an admin can make it again"
        )


def _checked_owners(owners: list[str]) -> list[str]:
    if len(owners) > 1000:
        raise BadRequest("owners: at most 1000")
    return list(dict.fromkeys(check_owner(owner) for owner in owners))


def _checked_display_name(value: str) -> str:
    if len(value) > 100:
        raise BadRequest("display_name is longer than 100 characters")
    return value


def _checked_run_as(rules: list[dict[str, str]]) -> list[dict[str, str]]:
    for i, rule in enumerate(rules):
        if (
            not isinstance(rule, dict)
            or set(rule) != {"path_glob", "permissioned_as"}
            or not isinstance(rule["path_glob"], str)
        ):
            raise BadRequest(
                f"default_permissioned_as[{i}]: expected an object with path_glob and permissioned_as"
            )
        check_owner(rule["permissioned_as"])
    return rules
