"""The scripts and flows on the home page: filtered, newest use first, page by page, with the last runs of each."""

import base64
import binascii
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Case, Exists, F, Model, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Greatest

from jobs import scripts
from jobs.flows import deployed
from jobs.listings import RunDot, last_runs
from jobs.models import CompletedJob, Flow, Job, JobKind, Script, ScriptKind
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest

PAGE = 50  # rows
LAST_RUNS = 5
FLOW = "flow"  # the kind of a row that is no script
_MOST_WORDS = 8  # of a search

M = TypeVar("M", bound=Model)

# As jobs.locks.state_of tells it, for many rows at once.
_LOCK_STATE = Case(
    When(lock__isnull=False, then=Value("")),
    When(lock_error_logs__isnull=False, then=Value("failed")),
    When(lock_job__isnull=True, then=Value("")),
    When(Exists(CompletedJob.objects.filter(pk=OuterRef("lock_job"))), then=Value("failed")),
    default=Value("locking"),
)

# Where a row stands. Of the same moment: by kind, then by id, so that a cursor between any two rows is unambiguous.
_Place = tuple[datetime, str, int]


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What to list. Empty means no limit."""

    search: str = ""  # words, each somewhere in path or summary
    kind: str = ""  # "flow", or a ScriptKind
    language: str = ""  # scripts only
    owner: str = ""  # path prefix: u/ada, f/billing, g/team
    label: str = ""
    archived: bool = False

    @property
    def are_set(self) -> bool:
        return self != Filters()


@dataclass(kw_only=True)
class Listed:
    """A row of the list: a script or a flow."""

    kind: str  # "script" or "flow"
    id: int  # script hash, or flow id
    path: str
    summary: str
    labels: list[str]
    language: str  # "" for flows
    purpose: str  # what a script that is no ordinary one is for, in words
    used_at: datetime  # last run or deployment, whichever is later
    may_write: bool
    lock_state: str = (
        ""  # "locking" while its dependencies are being resolved, "failed" when they could not be
    )
    runs: list[RunDot] = field(default_factory=list)  # oldest first

    @property
    def key(self) -> str:
        """Names the row in the page."""
        return f"{self.kind}-{self.id & 0xFFFFFFFFFFFFFFFF:x}"


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
    """What the caller may read and `filters` let through. At most three queries. BadRequest for a foreign cursor."""
    after = _read_cursor(cursor) if cursor else None
    found: list[Listed] = []
    if filters.kind != FLOW:
        scripts_found = _newest_first(_scripts(caller, filters), "script", after, limit + 1)
        found += [_listed_script(caller, script) for script in scripts_found]
    if filters.kind in ("", FLOW) and not filters.language:
        flows_found = _newest_first(_flows(caller, filters), FLOW, after, limit + 1)
        found += [_listed_flow(caller, flow) for flow in flows_found]
    found.sort(key=_order, reverse=True)
    page = found[:limit]
    if page:
        runs = last_runs(caller, [(row.kind, row.path) for row in page], limit=LAST_RUNS)
        for row in page:
            row.runs = runs.get((row.kind, row.path), [])[::-1]
    return Page(rows=page, cursor=_cursor(page[-1]) if len(found) > limit else None)


def _listed_script(caller: Caller, script: Any) -> Listed:
    return Listed(
        kind="script",
        id=script.hash,
        path=script.path,
        summary=script.summary,
        labels=script.labels or [],
        language=script.language,
        purpose="" if script.kind == ScriptKind.SCRIPT else script.get_kind_display(),
        used_at=script.used_at,
        may_write=_may_write(caller, script),
        lock_state=script.lock_state,
    )


def _listed_flow(caller: Caller, flow: Any) -> Listed:
    return Listed(
        kind=FLOW,
        id=flow.pk,
        path=flow.path,
        summary=flow.summary,
        labels=flow.labels or [],
        language="",
        purpose="",
        used_at=flow.used_at,
        may_write=_may_write(caller, flow),
    )


def _may_write(caller: Caller, item: Any) -> bool:
    return not caller.is_operator and caller.right_on(item.path, item.extra_perms) >= Right.WRITE


def _scripts(caller: Caller, filters: Filters) -> QuerySet[Script]:
    rows = scripts.list_scripts(
        caller,
        show_archived=filters.archived,
        kinds=[filters.kind] if filters.kind else None,
        languages=[filters.language] if filters.language else None,
        path_start=_below(filters.owner),
        label=filters.label or None,
    )
    return _with_use(_searched(rows, filters), JobKind.SCRIPT, deployed_at="created_at").annotate(
        lock_state=_LOCK_STATE
    )


def _flows(caller: Caller, filters: Filters) -> QuerySet[Flow]:
    rows = deployed.list_flows(
        caller,
        show_archived=filters.archived,
        path_start=_below(filters.owner),
        label=filters.label or None,
    )
    return _with_use(_searched(rows, filters), JobKind.FLOW, deployed_at="edited_at")


def _below(owner: str) -> str | None:
    return f"{owner.rstrip('/')}/" if owner else None


def _searched(rows: QuerySet[M], filters: Filters) -> QuerySet[M]:
    for word in filters.search.split()[:_MOST_WORDS]:
        rows = rows.filter(Q(path__icontains=word) | Q(summary__icontains=word))
    return rows


def _with_use(rows: QuerySet[M], kind: JobKind, *, deployed_at: str) -> QuerySet[M]:
    newest_run = Job.objects.filter(
        workspace_id=OuterRef("workspace_id"), runnable_path=OuterRef("path"), kind=kind
    ).order_by("-created_at")
    # GREATEST passes over NULL, so what never ran counts from its deployment.
    annotated: Any = rows.annotate(
        used_at=Greatest(deployed_at, Subquery(newest_run.values("created_at")[:1])), key=F("pk")
    )
    found: QuerySet[M] = annotated
    return found


def _order(row: Listed) -> _Place:
    return (row.used_at, row.kind, row.id)


def _newest_first(rows: QuerySet[M], kind: str, after: _Place | None, limit: int) -> list[M]:
    if after is not None:
        used_at, after_kind, id = after
        older = Q(used_at__lt=used_at)
        if kind < after_kind:
            older |= Q(used_at=used_at)
        elif kind == after_kind:
            older |= Q(used_at=used_at, key__lt=id)
        rows = rows.filter(older)
    return list(rows.order_by("-used_at", "-key")[:limit])


def choices(caller: Caller, *, archived: bool = False) -> Choices:
    """What to offer as filters. Two queries."""
    kinds, languages, paths = set(), set(), set()
    found = scripts.list_scripts(caller, show_archived=archived).order_by()
    for kind, language, path in found.values_list("kind", "language", "path").iterator(chunk_size=5000):
        kinds.add(kind)
        languages.add(language)
        paths.add(path)
    flows = deployed.list_flows(caller, show_archived=archived).order_by()
    flow_paths = list(flows.values_list("path", flat=True))
    if flow_paths:
        kinds.add(FLOW)
        paths.update(flow_paths)
    return Choices(
        kinds=[kind for kind in (ScriptKind.SCRIPT.value, FLOW, *ScriptKind.values[1:]) if kind in kinds],
        languages=sorted(languages),
        owners=sorted({"/".join(path.split("/", 2)[:2]) for path in paths}),
    )


def _cursor(row: Listed) -> str:
    return base64.urlsafe_b64encode(f"{row.used_at.isoformat()} {row.kind} {row.id}".encode()).decode()


def _read_cursor(text: str) -> _Place:
    try:
        moment, kind, id = base64.urlsafe_b64decode(text.encode()).decode().split(" ")
        used_at = datetime.fromisoformat(moment)
        if used_at.tzinfo is None or kind not in ("script", FLOW) or not -(2**63) <= int(id) < 2**63:
            raise ValueError(text)
        return used_at, kind, int(id)
    except (ValueError, binascii.Error) as exc:
        raise BadRequest("cursor is not one that this list gave out") from exc
