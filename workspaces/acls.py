"""Access rules of single items: the `extra_perms` maps {"u/alice": true (write) | false (read)}.

The kinds of items that carry such a map register here by the name the API calls them, each app its own in `ready`:
this app may not import those above it.
"""

from collections.abc import Callable
from typing import Any, Protocol

from django.db import transaction
from django.db.models import QuerySet

from workspaces import audit
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest
from workspaces.models import ActionKind, Folder, Group
from workspaces.names import check_owner


class Fetch(Protocol):
    """How the items of a kind are found, by the rules of that kind."""

    def __call__(self, caller: Caller, path: str, *, right: Right, for_update: bool) -> Any:
        """The row at `path` (with `extra_perms`); NotFound or PermissionDenied without `right`."""


_kinds: dict[str, Fetch] = {}
_paths: dict[str, Callable[[], QuerySet[Any]]] = {}
_versions: dict[str, Callable[[Any], QuerySet[Any]]] = {}


def register_kind(kind: str, fetch: Fetch) -> None:
    """Make a kind of items known. Called once, when Django has loaded the app that owns the kind."""
    _kinds[kind] = fetch


def register_paths(
    kind: str,
    queryset: Callable[[], QuerySet[Any]],
    *,
    versions: Callable[[Any], QuerySet[Any]] | None = None,
) -> None:
    """`register_kind` for rows of a workspace with `path` and `extra_perms`.

    `versions` finds all rows that an item's rules hold for, where older versions of it can still be asked for.
    """

    def fetch(caller: Caller, path: str, *, right: Right, for_update: bool) -> Any:
        rows = queryset().select_for_update() if for_update else queryset()
        return caller.get(rows, path, right=right)

    register_kind(kind, fetch)
    _paths[kind] = queryset
    if versions is not None:
        _versions[kind] = versions


def count_below(workspace_id: str, prefix: str) -> dict[str, int]:
    """How many items of each kind have a path that starts with `prefix` (f/billing/)."""
    return {
        kind: queryset().filter(workspace_id=workspace_id, path__startswith=prefix).count()
        for kind, queryset in sorted(_paths.items())
    }


def forget_owner(workspace_id: str, owner: str) -> None:
    """Take every mention of `owner` (g/team) out of the access rules of a workspace."""
    mentioned = {"workspace_id": workspace_id, "extra_perms__has_key": owner}
    # All rows of each table: what is archived or was replaced keeps its rules too.
    tables = (queryset().model._default_manager.all() for queryset in _paths.values())
    for rows in (*tables, Folder.objects.all(), Group.objects.all()):
        for item in rows.filter(**mentioned).select_for_update():
            rules = {key: rule for key, rule in item.extra_perms.items() if key != owner}
            type(item)._default_manager.filter(pk=item.pk).update(extra_perms=rules)
    for folder in Folder.objects.filter(
        workspace_id=workspace_id, owners__contains=[owner]
    ).select_for_update():
        Folder.objects.filter(pk=folder.pk).update(owners=[item for item in folder.owners if item != owner])


def kinds() -> list[str]:
    """Names of the kinds that have access rules."""
    return sorted(_kinds)


def check_extra_perms(value: Any) -> dict[str, bool]:
    """A map of owners to booleans as given, or BadRequest naming the entry that is wrong."""
    if not isinstance(value, dict):
        raise BadRequest('extra_perms must be an object such as {"u/alice": true, "g/team": false}')
    for owner, may_write in value.items():
        check_owner(owner)
        if not isinstance(may_write, bool):
            raise BadRequest(f"extra_perms: {owner} must be true (write) or false (read)")
    return dict(value)


def get_rules(caller: Caller, kind: str, path: str) -> dict[str, bool]:
    """The item's own rules. Raises BadRequest (kind), NotFound."""
    return dict(_item(caller, kind, path, Right.READ).extra_perms)


def set_rule(caller: Caller, kind: str, path: str, *, owner: str, may_write: bool) -> None:
    """Give `owner` read or write rights on the item. Needs the right to manage it. BadRequest, NotFound, Denied."""
    check_owner(owner)
    _change(caller, kind, path, lambda rules: {**rules, owner: may_write}, owner=owner, may_write=may_write)


def remove_rule(caller: Caller, kind: str, path: str, *, owner: str) -> None:
    """Take the rule about `owner` away; fine when there is none. Raises as `set_rule`."""
    check_owner(owner)
    _change(caller, kind, path, lambda rules: {k: v for k, v in rules.items() if k != owner}, owner=owner)


def _change(
    caller: Caller, kind: str, path: str, change: Callable[[dict[str, bool]], dict[str, bool]], **told: Any
) -> None:
    with transaction.atomic():
        item = _item(caller, kind, path, Right.OWN, for_update=True)
        same = _versions[kind](item) if kind in _versions else type(item)._default_manager.filter(pk=item.pk)
        same.update(extra_perms=change(item.extra_perms))
        audit.record(
            caller, f"acls.{'add' if 'may_write' in told else 'remove'}", ActionKind.UPDATE,
            resource=f"{kind}/{path}", parameters=told,
        )  # fmt: skip


def _item(caller: Caller, kind: str, path: str, right: Right, *, for_update: bool = False) -> Any:
    if kind not in _kinds:
        raise BadRequest(f"{kind[:40]!r} has no access rules; expected one of {', '.join(kinds())}")
    caller.identity.require_scope("acls", "read" if right is Right.READ else "write")
    return _kinds[kind](caller, path, right=right, for_update=for_update)
