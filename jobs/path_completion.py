"""Paths of the workspace for completion in code: of scripts, flows, variables and resources, by how they begin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from jobs import scripts
from jobs.flows import deployed
from workspaces.access import Caller
from workspaces.errors import BadRequest
from workspaces.jsontext import check_storable
from workspaces.models import Resource, Variable

KINDS = ("script", "flow", "variable", "resource")
MOST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A path, and what is there; never a value."""

    kind: str  # of KINDS
    path: str
    type: str  # language of a script, type of a resource, "secret"; "" for none
    note: str  # summary or description


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The first paths by name; `is_whole`: there are no further ones."""

    items: Sequence[Item]
    is_whole: bool


def complete(
    caller: Caller,
    prefix: str,
    *,
    kinds: Sequence[str],
    languages: Sequence[str] = (),
    resource_type: str = "",
) -> Found:
    """Up to MOST paths that begin with `prefix` and that the caller may read. One query a kind.

    `languages` narrows scripts, `resource_type` resources. Raises BadRequest for an unknown kind.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise BadRequest(f"kind {unknown[0][:40]!r} is unknown; expected one of {', '.join(KINDS)}")
    check_storable(prefix)
    found: list[Item] = []
    for kind in dict.fromkeys(kinds):
        rows = _rows(caller, kind, languages, resource_type).filter(path__startswith=prefix)
        found += [_item(kind, row) for row in rows.order_by("path")[: MOST + 1]]
    found.sort(key=lambda item: (item.path, item.kind))
    return Found(items=found[:MOST], is_whole=len(found) <= MOST)


def _rows(caller: Caller, kind: str, languages: Sequence[str], resource_type: str) -> QuerySet[Any]:
    match kind:
        case "script":
            return scripts.list_scripts(caller, languages=list(languages) or None)
        case "flow":
            return deployed.list_flows(caller)
        case "variable":
            return caller.readable(
                Variable.objects.only("path", "description", "is_secret"), scope="variables"
            )
        case _:
            rows = Resource.objects.only("path", "description", "resource_type")
            if resource_type:
                rows = rows.filter(resource_type=resource_type)
            return caller.readable(rows, scope="resources")


def _item(kind: str, row: Any) -> Item:
    match kind:
        case "script":
            return Item(kind=kind, path=row.path, type=row.language, note=row.summary)
        case "flow":
            return Item(kind=kind, path=row.path, type="flow", note=row.summary)
        case "variable":
            return Item(
                kind=kind, path=row.path, type="secret" if row.is_secret else "", note=row.description
            )
        case _:
            return Item(kind=kind, path=row.path, type=row.resource_type, note=row.description)
