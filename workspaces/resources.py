"""Resources: JSON values of a type (a connection, an account, the state of a script) at paths of a workspace."""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast, Now
from django.db.models.lookups import IContains
from django.utils import timezone

from workspaces import audit
from workspaces.access import Caller, Right
from workspaces.acls import check_extra_perms
from workspaces.errors import Conflict
from workspaces.labels import check_labels
from workspaces.models import ActionKind, Resource, Variable
from workspaces.names import check_resource_type_name

SCOPE = "resources"
UNSET: Any = object()  # tells "not given" from null, which is a value like any other


def create_resource(
    caller: Caller,
    *,
    path: str,
    value: Any,
    resource_type: str,
    description: str = "",
    labels: list[str] | None = None,
    extra_perms: dict[str, bool] | None = None,
    update_if_exists: bool = False,
) -> None:
    """Make a resource; with `update_if_exists` overwrite the one at `path`. BadRequest, Conflict, PermissionDenied.

    The type need not be defined: scripts keep values of types of their own making.
    """
    check_resource_type_name(resource_type)
    caller.require_new_path(path, scope=SCOPE)
    resource = Resource(
        workspace=caller.workspace,
        path=path,
        value=value,
        resource_type=resource_type,
        description=description,
        labels=check_labels(labels or []),
        extra_perms=check_extra_perms(extra_perms or {}),
        created_by=caller.username,
    )
    try:
        with transaction.atomic():
            resource.save(force_insert=True)
            audit.record(
                caller, "resources.create", ActionKind.CREATE, resource=path,
                parameters={"resource_type": resource_type},
            )  # fmt: skip
    except IntegrityError as exc:
        if not update_if_exists:
            raise _taken(caller, path) from exc
        update_resource(
            caller, path, value=value, resource_type=resource_type, description=description, labels=labels
        )


def get_resource(caller: Caller, path: str) -> Resource:
    """The resource at `path`, references in its value left as they are. Raises NotFound, PermissionDenied (scope)."""
    return caller.get(Resource.objects.all(), path, scope=SCOPE)


def resource_exists(caller: Caller, path: str) -> bool:
    """Is there anything at `path`, readable or not? Says whether the path can be used; tells nothing else."""
    return Resource.objects.filter(workspace_id=caller.workspace_id, path=path).exists()


def update_resource(
    caller: Caller,
    path: str,
    *,
    new_path: str | None = None,
    value: Any = UNSET,
    resource_type: str | None = None,
    description: str | None = None,
    labels: list[str] | None = None,
) -> str:
    """Change what is given, answer the path. BadRequest, NotFound, Conflict, PermissionDenied."""
    changes: dict[str, Any] = {}
    if value is not UNSET:
        changes["value"] = value
    if resource_type is not None:
        changes["resource_type"] = check_resource_type_name(resource_type)
    if description is not None:
        changes["description"] = description
    if labels is not None:
        changes["labels"] = check_labels(labels)
    try:
        with transaction.atomic():
            resource = caller.get(Resource.objects.select_for_update(), path, right=Right.WRITE, scope=SCOPE)
            if new_path is not None and new_path != path:
                caller.require_new_path(new_path, scope=SCOPE)
                changes["path"] = new_path
            for name, given in changes.items():
                setattr(resource, name, given)
            # Not .update(value=None): for a JSON column that would write SQL NULL or JSON null by context.
            resource.edited_at = Now()
            resource.save(update_fields=[*changes, "edited_at"])
            audit.record(
                caller,
                "resources.update",
                ActionKind.UPDATE,
                resource=path,
                parameters={"changed": sorted(changes)},
            )
    except IntegrityError as exc:
        raise _taken(caller, str(new_path)) from exc
    return str(changes.get("path", path))


def delete_resource(caller: Caller, path: str) -> None:
    """Raises NotFound, PermissionDenied."""
    with transaction.atomic():
        resource = caller.get(Resource.objects.select_for_update(), path, right=Right.WRITE, scope=SCOPE)
        resource.delete()
        audit.record(caller, "resources.delete", ActionKind.DELETE, resource=path)


def list_resources(
    caller: Caller,
    *,
    types: list[str] | None = None,
    exclude_types: list[str] | None = None,
    path_start: str | None = None,
    path: str | None = None,
    description: str | None = None,
    value: str | None = None,
    broad: str | None = None,
    label: str | None = None,
) -> QuerySet[Resource]:
    """The resources the caller may read, by path."""
    rows = caller.readable(Resource.objects.all(), scope=SCOPE)
    if types:
        rows = rows.filter(resource_type__in=types)
    if exclude_types:
        rows = rows.exclude(resource_type__in=exclude_types)
    if path_start:
        rows = rows.filter(path__startswith=path_start)
    if path:
        rows = rows.filter(path__icontains=path)
    if description:
        rows = rows.filter(description__icontains=description)
    if label:
        rows = rows.filter(labels__contains=[label])
    value_text = Cast("value", TextField())
    if value:
        rows = rows.filter(IContains(value_text, value))
    if broad:
        in_value = Q(IContains(value_text, broad))
        rows = rows.filter(Q(path__icontains=broad) | Q(description__icontains=broad) | in_value)
    return rows.order_by("path")


def linked_variables(caller: Caller, resources: list[Resource]) -> dict[str, Variable]:
    """The OAuth token that keeps a resource fresh is the variable at its path: {path: variable} where there is one."""
    rows = caller.readable(Variable.objects.all()).filter(path__in=[item.path for item in resources])
    return {variable.path: variable for variable in rows}


def resource_shape(resource: Resource) -> dict[str, Any]:
    """Resource of the API."""
    return {
        "workspace_id": resource.workspace_id,
        "path": resource.path,
        "value": resource.value,
        "description": resource.description,
        "resource_type": resource.resource_type,
        "extra_perms": resource.extra_perms,
        "is_oauth": False,
        "created_by": resource.created_by,
        "edited_at": resource.edited_at,
        **({"labels": resource.labels} if resource.labels else {}),
    }


def listed_shape(resource: Resource, linked: Variable | None) -> dict[str, Any]:
    """An entry of the list: Resource, and how its linked variable fares."""
    expired = linked is not None and linked.expires_at is not None and linked.expires_at <= timezone.now()
    return {
        **resource_shape(resource),
        "is_linked": linked is not None,
        "is_oauth": linked is not None and linked.is_oauth,
        "is_expired": expired,
        "is_refreshed": linked is not None and linked.account is not None,
        "account": linked.account if linked is not None else None,
        "refresh_error": None,
    }


def _taken(caller: Caller, path: str) -> Conflict:
    return Conflict(f"resource {path} exists already in workspace {caller.workspace_id}; choose another path")
