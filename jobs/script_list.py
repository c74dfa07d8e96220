"""The list of scripts on the home page: filtered, newest use first, page by page, with the last runs of each."""

import base64
import binascii
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Greatest

from jobs import scripts
from jobs.listings import RunDot, last_runs
from jobs.models import Job, JobKind, Script
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest

PAGE = 50  # scripts
LAST_RUNS = 5
_MOST_WORDS = 8  # of a search


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What to list. Empty means no limit."""

    search: str = ""  # words, each somewhere in path or summary
    kind: str = ""
    language: str = ""
    owner: str = ""  # path prefix: u/ada, f/billing, g/team
    label: str = ""
    archived: bool = False

    @property
    def are_set(self) -> bool:
        return self != Filters()


@dataclass(kw_only=True)
class Listed:
    """A row of the list. `script` comes without its code."""

    script: Script
    used_at: datetime  # last run or deployment, whichever is later
    may_write: bool
    runs: list[RunDot] = field(default_factory=list)  # oldest first


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page of the list; `cursor` is where the next one starts, None at the end."""

    rows: list[Listed]
    cursor: str | None


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the filters can be set to, given what the caller may read."""

    kinds: list[str]
    languages: list[str]
    owners: list[str]


def list_page(caller: Caller, filters: Filters, *, cursor: str | None = None, limit: int = PAGE) -> Page:
    """The scripts that the caller may read and `filters` let through. Two queries. BadRequest for a foreign cursor."""
    newest_run = Job.objects.filter(
        workspace_id=OuterRef("workspace_id"), runnable_path=OuterRef("path"), kind=JobKind.SCRIPT
    ).order_by("-created_at")
    rows = _matching(caller, filters).annotate(
        # GREATEST passes over NULL, so a script that never ran counts from its deployment.
        used_at=Greatest("created_at", Subquery(newest_run.values("created_at")[:1]))
    )
    if cursor:
        used_at, hash = _read_cursor(cursor)
        rows = rows.filter(Q(used_at__lt=used_at) | Q(used_at=used_at, hash__lt=hash))
    found: list[Any] = list(rows.order_by("-used_at", "-hash")[: limit + 1])
    page = [
        Listed(
            script=script,
            used_at=script.used_at,
            may_write=not caller.is_operator
            and caller.right_on(script.path, script.extra_perms) >= Right.WRITE,
        )
        for script in found[:limit]
    ]
    runs = last_runs(caller, [row.script.path for row in page], limit=LAST_RUNS) if page else {}
    for row in page:
        row.runs = runs.get(row.script.path, [])[::-1]
    return Page(rows=page, cursor=_cursor(found[limit - 1]) if len(found) > limit else None)


def _matching(caller: Caller, filters: Filters) -> QuerySet[Script]:
    rows = scripts.list_scripts(
        caller,
        show_archived=filters.archived,
        kinds=[filters.kind] if filters.kind else None,
        languages=[filters.language] if filters.language else None,
        path_start=f"{filters.owner.rstrip('/')}/" if filters.owner else None,
        label=filters.label or None,
    )
    for word in filters.search.split()[:_MOST_WORDS]:
        rows = rows.filter(Q(path__icontains=word) | Q(summary__icontains=word))
    return rows


def choices(caller: Caller, *, archived: bool = False) -> Choices:
    """What to offer as filters. One query."""
    rows = (
        scripts.list_scripts(caller, show_archived=archived)
        .order_by()
        .values_list("kind", "language", "path")
    )
    kinds, languages, owners = set(), set(), set()
    for kind, language, path in rows.iterator(chunk_size=5000):
        kinds.add(kind)
        languages.add(language)
        owners.add("/".join(path.split("/", 2)[:2]))
    return Choices(kinds=sorted(kinds), languages=sorted(languages), owners=sorted(owners))


def _cursor(script: Any) -> str:
    return base64.urlsafe_b64encode(f"{script.used_at.isoformat()} {script.hash}".encode()).decode()


def _read_cursor(text: str) -> tuple[datetime, int]:
    try:
        moment, hash = base64.urlsafe_b64decode(text.encode()).decode().split(" ")
        used_at = datetime.fromisoformat(moment)
        if used_at.tzinfo is None or not -(2**63) <= int(hash) < 2**63:
            raise ValueError(text)
        return used_at, int(hash)
    except (ValueError, binascii.Error) as exc:
        raise BadRequest("cursor is not one that this list gave out") from exc
