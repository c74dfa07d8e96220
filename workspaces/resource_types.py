"""Resource types: what fields a kind of resource has. Those of workspace `admins` are shared with every workspace."""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from workspaces import audit
from workspaces.access import Caller
from workspaces.errors import BadRequest, Conflict, NotFound, PermissionDenied
from workspaces.models import ActionKind, ResourceType, Workspace
from workspaces.names import check_resource_type_name
from workspaces.well_known_types import WELL_KNOWN_TYPES

SHARED = "admins"  # the workspace whose types everybody sees
UNSET: Any = object()  # tells "not given" from null


def create_resource_type(
    caller: Caller,
    *,
    name: str,
    schema: dict[str, Any] | None = None,
    description: str = "",
    format_extension: str | None = None,
    is_fileset: bool = False,
    display_name: str | None = None,
) -> ResourceType:
    """Define a type in the caller's workspace; one of the same name in `admins` is hidden there. BadRequest, Conflict."""
    caller.require_not_operator()
    check_resource_type_name(name)
    _check_limits(format_extension, display_name)
    try:
        with transaction.atomic():
            resource_type = ResourceType.objects.create(
                workspace=caller.workspace,
                name=name,
                schema=schema,
                description=description,
                format_extension=format_extension,
                is_fileset=is_fileset,
                display_name=display_name,
                created_by=caller.username,
            )
            audit.record(caller, "resource_types.create", ActionKind.CREATE, resource=name)
    except IntegrityError as exc:
        raise Conflict(f"resource type {name} exists already in workspace {caller.workspace_id}") from exc
    return resource_type


def list_resource_types(caller: Caller) -> list[ResourceType]:
    """The types of this workspace and the shared ones that it does not define itself, by name."""
    rows = ResourceType.objects.filter(Q(workspace_id=caller.workspace_id) | Q(workspace_id=SHARED))
    by_name: dict[str, ResourceType] = {}
    for row in rows:
        if row.name not in by_name or row.workspace_id == caller.workspace_id:
            by_name[row.name] = row
    return [by_name[name] for name in sorted(by_name)]


def get_resource_type(caller: Caller, name: str) -> ResourceType:
    """The workspace's own type of that name, else the shared one. Raises NotFound."""
    rows = {
        row.workspace_id: row
        for row in ResourceType.objects.filter(name=name, workspace_id__in=[caller.workspace_id, SHARED])
    }
    found = rows.get(caller.workspace_id) or rows.get(SHARED)
    if found is None:
        raise NotFound(f"resource type {name[:60]} does not exist in workspace {caller.workspace_id}")
    return found


def update_resource_type(
    caller: Caller,
    name: str,
    *,
    schema: Any = UNSET,
    description: str | None = None,
    format_extension: Any = UNSET,
    is_fileset: bool | None = None,
    display_name: Any = UNSET,
) -> None:
    """Change what is given, as its maker or an admin. BadRequest, NotFound, PermissionDenied."""
    given = {
        "schema": schema,
        "description": UNSET if description is None else description,
        "format_extension": format_extension,
        "is_fileset": UNSET if is_fileset is None else is_fileset,
        "display_name": display_name,
    }
    changes = {field: value for field, value in given.items() if value is not UNSET}
    _check_limits(changes.get("format_extension"), changes.get("display_name"))
    with transaction.atomic():
        resource_type = _own(caller, name)
        for field, value in changes.items():
            setattr(resource_type, field, value)
        resource_type.edited_at = Now()
        resource_type.save(update_fields=[*changes, "edited_at"])
        audit.record(
            caller,
            "resource_types.update",
            ActionKind.UPDATE,
            resource=name,
            parameters={"changed": sorted(changes)},
        )


def delete_resource_type(caller: Caller, name: str) -> None:
    """Delete a type, as its maker or an admin; resources of that type stay. NotFound, PermissionDenied."""
    with transaction.atomic():
        _own(caller, name).delete()
        audit.record(caller, "resource_types.delete", ActionKind.DELETE, resource=name)


def file_extensions(caller: Caller) -> dict[str, dict[str, Any]]:
    """The types whose value is a file: {"caddyfile": {"format_extension": "caddyfile", "is_fileset": false}}."""
    return {
        row.name: {"format_extension": row.format_extension, "is_fileset": row.is_fileset}
        for row in list_resource_types(caller)
        if row.format_extension is not None or row.is_fileset
    }


def add_well_known_types(workspace: Workspace) -> None:
    """Put the well-known types into `admins`; those that exist stay as they are. One statement."""
    ResourceType.objects.bulk_create(
        [
            ResourceType(workspace=workspace, name=name, schema=schema, description=description)
            for name, description, schema in WELL_KNOWN_TYPES
        ],
        ignore_conflicts=True,
    )


def resource_type_shape(resource_type: ResourceType) -> dict[str, Any]:
    """ResourceType of the API."""
    return {
        "workspace_id": resource_type.workspace_id,
        "name": resource_type.name,
        "schema": resource_type.schema,
        "description": resource_type.description,
        "created_by": resource_type.created_by,
        "edited_at": resource_type.edited_at,
        "is_fileset": resource_type.is_fileset,
        # Absent when unset, as in an export: a push compares key by key.
        **({"format_extension": resource_type.format_extension} if resource_type.format_extension else {}),
        **({"display_name": resource_type.display_name} if resource_type.display_name else {}),
    }


def _own(caller: Caller, name: str) -> ResourceType:
    caller.require_not_operator()
    found = get_resource_type(caller, name)
    if found.workspace_id != caller.workspace_id:
        raise PermissionDenied(
            f"resource type {name} is shared by workspace {SHARED} and can only be changed there"
        )
    if not caller.is_admin and found.created_by != caller.username:
        raise PermissionDenied(
            f"resource type {name} belongs to {found.created_by}; only they or an admin can change it"
        )
    return found


def _check_limits(format_extension: str | None, display_name: str | None) -> None:
    if format_extension is not None and len(format_extension) > 20:
        raise BadRequest("format_extension is longer than 20 characters")
    if display_name is not None and len(display_name) > 100:
        raise BadRequest("display_name is longer than 100 characters")
