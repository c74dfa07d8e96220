"""The audit log: who did what. One function writes it, in the transaction of the deed itself."""

from typing import Any

from workspaces.access import Caller, Identity
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
    identity = who.identity if isinstance(who, Caller) else who
    AuditEntry.objects.create(
        workspace_id=workspace_id or (who.workspace_id if isinstance(who, Caller) else INSTANCE),
        username=who.username if isinstance(who, Caller) else identity.email,
        email=identity.email,
        operation=operation,
        action_kind=kind,
        resource=resource[:255] if resource else None,
        parameters=parameters,
        span=str(identity.job_id) if identity.job_id else None,
    )
