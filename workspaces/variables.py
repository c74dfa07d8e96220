"""Variables: named values, plain or secret, at paths of a workspace. The only module that reads secrets.

A secret is encrypted at rest, is never part of a list, and each time its value is read an audit entry says by whom.
"""

from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from workspaces import audit, secrets
from workspaces.access import Caller, Right
from workspaces.acls import check_extra_perms
from workspaces.errors import BadRequest, Conflict, PermissionDenied
from workspaces.labels import check_labels
from workspaces.models import ActionKind, AuditEntry, Variable

SCOPE = "variables"
DECRYPT_SECRET = "variables.decrypt_secret"  # in the audit log; jobs/sql/append_logs.sql looks for it
MAX_VALUE = 5_000_000  # characters; larger things belong in object storage


def create_variable(
    caller: Caller,
    *,
    path: str,
    value: str,
    is_secret: bool,
    description: str = "",
    labels: list[str] | None = None,
    account: int | None = None,
    is_oauth: bool = False,
    expires_at: datetime | None = None,
    extra_perms: dict[str, bool] | None = None,
    already_encrypted: bool = False,
) -> Variable:
    """Make a variable. `already_encrypted`: `value` is ciphertext of this workspace, as an export holds it.

    Raises BadRequest (path, value), Conflict (path taken), PermissionDenied.
    """
    caller.require_new_path(path, scope=SCOPE)
    variable = Variable(
        workspace=caller.workspace,
        path=path,
        value=_stored(caller, value, is_secret=is_secret, already_encrypted=already_encrypted),
        is_secret=is_secret,
        description=description,
        labels=check_labels(labels or []),
        account=account,
        is_oauth=is_oauth,
        expires_at=expires_at,
        extra_perms=check_extra_perms(extra_perms or {}),
        edited_by=caller.username,
    )
    try:
        with transaction.atomic():
            variable.save(force_insert=True)
            audit.record(
                caller,
                "variables.create",
                ActionKind.CREATE,
                resource=path,
                parameters={"is_secret": is_secret},
            )
    except IntegrityError as exc:
        raise _taken(caller, path) from exc
    return variable


def get_variable(caller: Caller, path: str) -> Variable:
    """The row at `path`; its `value` is ciphertext when secret. Raises NotFound, PermissionDenied (scope)."""
    return caller.get(Variable.objects.all(), path, scope=SCOPE)


def read_value(caller: Caller, variable: Variable) -> str:
    """The plain value. Reading a secret is recorded; operators may not, except through a job. PermissionDenied."""
    if not variable.is_secret:
        return variable.value
    if caller.is_operator and not caller.identity.is_job:
        raise PermissionDenied(
            f"{variable.path} is a secret; operators of workspace {caller.workspace_id} "
            "cannot read secrets outside of a job"
        )
    plain = secrets.decrypt(caller.workspace_id, variable.value)
    audit.record(caller, DECRYPT_SECRET, ActionKind.EXECUTE, resource=variable.path)
    return plain


def secrets_read_by(job_id: UUID) -> tuple[int, set[str]]:
    """How often a job has read secrets so far, and what they are (as long as they stay as they were)."""
    reads = AuditEntry.objects.filter(span=str(job_id), operation=DECRYPT_SECRET)
    found = list(reads.values_list("workspace_id", "resource").annotate(Count("pk")).order_by())
    plain = set()
    for workspace_id, path, _ in found:
        for value in Variable.objects.filter(
            workspace_id=workspace_id, path=path, is_secret=True
        ).values_list("value", flat=True):
            with suppress(secrets.CannotDecrypt):  # it was given another key or value since
                plain.add(secrets.decrypt(workspace_id, value))
    return sum(count for _, _, count in found), plain


def get_value(caller: Caller, path: str) -> str:
    """The plain value at `path`. Raises NotFound, PermissionDenied."""
    return read_value(caller, get_variable(caller, path))


def variable_exists(caller: Caller, path: str) -> bool:
    """Is there anything at `path`, readable or not? Says whether the path can be used; tells nothing else."""
    return Variable.objects.filter(workspace_id=caller.workspace_id, path=path).exists()


def update_variable(
    caller: Caller,
    path: str,
    *,
    new_path: str | None = None,
    value: str | None = None,
    is_secret: bool | None = None,
    description: str | None = None,
    labels: list[str] | None = None,
    account: int | None = None,
    is_oauth: bool | None = None,
    expires_at: datetime | None = None,
    already_encrypted: bool = False,
) -> str:
    """Change what is given (None: leave as it is), answer the path. BadRequest, NotFound, Conflict, PermissionDenied."""
    changes: dict[str, Any] = {
        name: given
        for name, given in {
            "description": description,
            "labels": None if labels is None else check_labels(labels),
            "account": account,
            "is_oauth": is_oauth,
            "expires_at": expires_at,
        }.items()
        if given is not None
    }
    try:
        with transaction.atomic():
            variable = caller.get(Variable.objects.select_for_update(), path, right=Right.WRITE, scope=SCOPE)
            if new_path is not None and new_path != path:
                caller.require_new_path(new_path, scope=SCOPE)
                changes["path"] = new_path
            secret_now = variable.is_secret if is_secret is None else is_secret
            if value is not None:
                changes["value"] = _stored(
                    caller, value, is_secret=secret_now, already_encrypted=already_encrypted
                )
            elif secret_now != variable.is_secret:
                plain = read_value(caller, variable)
                changes["value"] = _stored(caller, plain, is_secret=secret_now, already_encrypted=False)
            changes["is_secret"] = secret_now
            Variable.objects.filter(pk=variable.pk).update(
                **changes, edited_at=Now(), edited_by=caller.username[:255]
            )
            changed = sorted(set(changes) - {"value"}) + (["value"] if value is not None else [])
            audit.record(
                caller, "variables.update", ActionKind.UPDATE, resource=path, parameters={"changed": changed}
            )
    except IntegrityError as exc:
        raise _taken(caller, str(new_path)) from exc
    return str(changes.get("path", path))


def delete_variable(caller: Caller, path: str) -> None:
    """Raises NotFound, PermissionDenied."""
    with transaction.atomic():
        variable = caller.get(Variable.objects.select_for_update(), path, right=Right.WRITE, scope=SCOPE)
        variable.delete()
        audit.record(caller, "variables.delete", ActionKind.DELETE, resource=path)


def list_variables(
    caller: Caller,
    *,
    path_start: str | None = None,
    path: str | None = None,
    value: str | None = None,
    description: str | None = None,
    broad: str | None = None,
    label: str | None = None,
) -> QuerySet[Variable]:
    """The variables the caller may read, by path. `value` looks into plain values only; `broad` into all texts."""
    rows = caller.readable(Variable.objects.all(), scope=SCOPE)
    if path_start:
        rows = rows.filter(path__startswith=path_start)
    if path:
        rows = rows.filter(path__icontains=path)
    if value:
        rows = rows.filter(is_secret=False, value__icontains=value)
    if description:
        rows = rows.filter(description__icontains=description)
    if broad:
        in_plain_value = Q(is_secret=False, value__icontains=broad)
        rows = rows.filter(Q(path__icontains=broad) | Q(description__icontains=broad) | in_plain_value)
    if label:
        rows = rows.filter(labels__contains=[label])
    return rows.order_by("path")


def encrypt_text(caller: Caller, value: str) -> str:
    """Ciphertext of a text under the workspace's key, for `already_encrypted` values. Not for operators."""
    caller.require_not_operator()
    return secrets.encrypt(caller.workspace_id, _checked(value))


def variable_shape(variable: Variable, *, value: str | None) -> dict[str, Any]:
    """Variable of the API. The caller decides what `value` shows: plain, ciphertext or nothing."""
    return {
        "workspace_id": variable.workspace_id,
        "path": variable.path,
        "value": value,
        "is_secret": variable.is_secret,
        "description": variable.description,
        "extra_perms": variable.extra_perms,
        "account": variable.account,
        "is_oauth": variable.is_oauth,
        "is_expired": variable.expires_at is not None and variable.expires_at <= timezone.now(),
        "is_linked": variable.account is not None,
        "is_refreshed": False,
        "refresh_error": None,
        "edited_at": variable.edited_at,
        # Absent when empty, as in an export: a push compares key by key.
        **({"expires_at": variable.expires_at} if variable.expires_at else {}),
        **({"labels": variable.labels} if variable.labels else {}),
    }


def _stored(caller: Caller, value: str, *, is_secret: bool, already_encrypted: bool) -> str:
    _checked(value)
    if not is_secret:
        return value
    if not already_encrypted:
        return secrets.encrypt(caller.workspace_id, value)
    try:
        secrets.decrypt(caller.workspace_id, value)
    except secrets.CannotDecrypt as exc:
        raise BadRequest(
            f"value is not ciphertext of workspace {caller.workspace_id}; send the plain value without already_encrypted"
        ) from exc
    return value


def _checked(value: str) -> str:
    if len(value) > MAX_VALUE:
        raise BadRequest(f"value has {len(value)} characters; a variable holds at most {MAX_VALUE}")
    return value


def _taken(caller: Caller, path: str) -> Conflict:
    return Conflict(f"variable {path} exists already in workspace {caller.workspace_id}; choose another path")
