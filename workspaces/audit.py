"""The audit log: who did what, written in the transaction of the deed itself.

`record` writes it. Queueing a job, the one deed that happens many times a second, writes `columns` in its own statement.
"""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from workspaces.access import Caller, Identity
from workspaces.errors import NotFound
from workspaces.models import ActionKind, AuditEntry

INSTANCE = "admins"  # entries of no workspace are kept under the admins workspace, as in Windmill


def record(
    who: Caller | Identity,
    operation: str,
    kind: ActionKind,
    *,
    resource: str | None = None,
    parameters: dict[str, Any] | None = None,
    workspace_id: str | None = None,
) -> None:
    """Write one entry. `operation` is a name of reference/governance.md section 9; `parameters` must hold no secret."""
    AuditEntry.objects.create(
        **columns(who, operation, kind, resource=resource, parameters=parameters, workspace_id=workspace_id)
    )


def columns(
    who: Caller | Identity,
    operation: str,
    kind: ActionKind,
    *,
    resource: str | None = None,
    parameters: dict[str, Any] | None = None,
    workspace_id: str | None = None,
) -> dict[str, Any]:
    """The entry that `record` would write, by column: JSON values."""
    identity = who.identity if isinstance(who, Caller) else who
    return {
        "workspace_id": workspace_id or (who.workspace_id if isinstance(who, Caller) else INSTANCE),
        "username": who.username if isinstance(who, Caller) else identity.email,
        "email": identity.email,
        "operation": operation,
        "action_kind": kind,
        "resource": resource[:255] if resource else None,
        "parameters": parameters,
        "span": str(identity.job_id) if identity.job_id else None,
    }


# How clients read the kind of an entry, and how they ask for it.
_SHOWN_KIND = {"create": "Created", "update": "Updated", "delete": "Delete", "execute": "Execute"}


def list_entries(
    caller: Caller,
    *,
    before: datetime | None = None,
    after: datetime | None = None,
    username: str | None = None,
    operation: str | None = None,
    operations: list[str] | None = None,
    exclude_operations: list[str] | None = None,
    resource: str | None = None,
    action_kind: ActionKind | None = None,
    before_id: int | None = None,
    all_workspaces: bool = False,
) -> QuerySet[AuditEntry]:
    """Entries of the workspace, newest first; only one's own unless admin. `operation` matches as a prefix.

    `all_workspaces` is for superadmins. Raises PermissionDenied.
    """
    rows = AuditEntry.objects.order_by("-id")
    if all_workspaces:
        caller.identity.require_super_admin()
    else:
        rows = rows.filter(workspace_id=caller.workspace_id)
    if not caller.is_admin:
        rows = rows.filter(email=caller.email)
    conditions: dict[str, Any] = {
        "timestamp__lt": before,
        "timestamp__gt": after,
        "username": username,
        "operation__startswith": operation,
        "operation__in": operations,
        "resource": resource,
        "action_kind": action_kind,
        "id__lt": before_id,
    }
    rows = rows.filter(**{name: value for name, value in conditions.items() if value is not None})
    return rows.exclude(operation__in=exclude_operations) if exclude_operations else rows


def get_entry(caller: Caller, entry_id: int) -> AuditEntry:
    """One entry by id. Raises NotFound, also for those the caller may not see."""
    entry = list_entries(caller).filter(pk=entry_id).first()
    if entry is None:
        raise NotFound(
            f"audit entry {entry_id} does not exist in workspace {caller.workspace_id}, or is not yours"
        )
    return entry


def entry_shape(entry: AuditEntry) -> dict[str, Any]:
    """AuditLog of the API."""
    return {
        "workspace_id": entry.workspace_id,
        "id": entry.pk,
        "timestamp": entry.timestamp,
        "username": entry.username,
        "email": entry.email,
        "operation": entry.operation,
        "action_kind": _SHOWN_KIND[entry.action_kind],
        "resource": entry.resource,
        "parameters": entry.parameters,
        "span": entry.span,
    }
