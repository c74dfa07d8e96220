"""Reads over jobs: one job, pages of jobs, counts. Pages and the REST API share them.

Who sees a job: its creator, whoever reads the path of its script or flow (unless the runner hid it from them), admins;
and a step, whoever sees its flow. A job
made by `anonymous` is also seen by whoever holds its id, signed in or not.
"""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection, transaction

from jobs import sql
from jobs.errors import JobNotFound
from jobs.models import Flow, Job, JobKind, JobStatus, Script
from jobs.shapes import JobRow
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, NotSignedIn, PermissionDenied
from workspaces.models import Workspace
from workspaces.scopes import allows

ANONYMOUS = "anonymous"  # creator of jobs that were started signed out
# Their path is that of a flow.
_RUNS_OF_FLOWS = frozenset(
    {JobKind.FLOW, JobKind.FLOW_PREVIEW, JobKind.FLOW_BODY, JobKind.FLOW_DEPENDENCIES, JobKind.FLOW_SCRIPT}
)
MAX_PAGE = 10_000  # rows
SEARCH_LIMIT_MS = 15_000  # a condition that no index serves gives up after this

_NEWEST_FIRST = " ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s"
_OLDEST_FIRST = " ORDER BY created_at, id LIMIT %(limit)s OFFSET %(offset)s"


# --- one job ---


def get_job(
    caller: Caller | None,
    *,
    workspace_id: str,
    job_id: UUID,
    with_args: bool = False,
    with_result: bool = False,
) -> JobRow:
    """One job that the caller may see; `caller` is None for somebody signed out or from outside the workspace.

    Raises JobNotFound (also when it is not theirs to see), NotSignedIn, PermissionDenied (the token's scopes).
    """
    job = read_job(workspace_id=workspace_id, job_id=job_id, with_args=with_args, with_result=with_result)
    if job is not None and job.created_by == ANONYMOUS and (caller is not None or _is_open(workspace_id)):
        return job
    if caller is None:
        raise NotSignedIn("sign in first, or send a token: Authorization: Bearer <token>")
    if job is None or not may_see(caller, job):
        raise JobNotFound(f"job {job_id} does not exist in workspace {workspace_id}, or you may not see it")
    require_job_scope(caller, job)
    return job


def read_job(
    *, workspace_id: str, job_id: UUID, with_args: bool = False, with_result: bool = False
) -> JobRow | None:
    """One job, for somebody whose right to see it has been settled otherwise (`get_job`, a signed link)."""
    rows = _rows(
        sql.load("get_job"),
        {"id": job_id, "workspace_id": workspace_id, "with_args": with_args, "with_result": with_result},
    )
    return rows[0] if rows else None


def may_see(caller: Caller, job: JobRow) -> bool:
    """Whether this job exists for the caller."""
    if caller.is_admin or job.created_by == caller.username:
        return True
    if not job.visible_to_owner:
        return False
    if _may_read_runnable(caller, job.kind, job.runnable_path):
        return True
    # Whoever sees a run of a flow sees its steps, wherever their scripts are.
    top = _top_of(job)
    return top is not None and _may_read_runnable(caller, *top)


def _may_read_runnable(caller: Caller, kind: str, path: str | None) -> bool:
    if not path:
        return False
    if caller.right_on(path) >= Right.READ:
        return True
    live: Any = (
        Flow.objects.filter(archived=False)
        if kind in _RUNS_OF_FLOWS
        else Script.objects.filter(archived=False, deleted=False)
    )
    items = live.filter(workspace_id=caller.workspace_id, path=path).only("path", "extra_perms")
    return any(caller.right_on(item.path, item.extra_perms) >= Right.READ for item in items)


def _top_of(job: JobRow) -> tuple[str, str | None] | None:
    """(kind, path) of the flow at the top of the tree that a step is in; None for jobs that are no steps."""
    if job.flow_step_id is None or job.root_job is None:
        return None
    return Job.objects.filter(pk=job.root_job).values_list("kind", "runnable_path").first()


def require_job_scope(caller: Caller, job: JobRow) -> None:
    """A token that may run a script or flow may follow its runs by id; other job routes need jobs:read.

    Raises PermissionDenied.
    """
    if not allows(caller.identity.scopes, "jobs", "read") and not token_may_run(caller, job):
        raise PermissionDenied("this token lacks the scope jobs:read")


def token_may_run(caller: Caller, job: JobRow) -> bool:
    """Whether the caller's token could have started this job, or the flow that it is a step of."""
    scopes = caller.identity.scopes
    if scopes is None:
        return True
    return any(
        allows(scopes, "jobs", "run", f"{'flows' if kind in _RUNS_OF_FLOWS else 'scripts'}/{path}")
        for kind, path in filter(None, [(job.kind, job.runnable_path), _top_of(job)])
    )


def _is_open(workspace_id: str) -> bool:
    return Workspace.objects.filter(pk=workspace_id, deleted=False).exists()


# --- pages of jobs ---


@dataclass(frozen=True, kw_only=True)
class JobFilters:
    """What a list of jobs is limited to; None means any. Lists mean "any of these".

    `created_by`, `worker`, `tag` and `label` hold LIKE patterns: see `patterns`.
    """

    path_exact: str | None = None
    path_start: str | None = None
    path_like: list[str] | None = None
    script_hash: int | None = None
    kinds: list[str] | None = None
    statuses: list[str] | None = None  # queued, running, success, failure, canceled, skipped
    success: bool | None = None  # skipped jobs count as successes
    is_skipped: bool | None = None
    running: bool | None = None
    only_queued: bool = False  # waiting or running
    only_done: bool = False
    due_only: bool = False  # scheduled for now or before
    suspended: bool | None = None
    created_by: list[str] | None = None
    worker: list[str] | None = None
    tag: list[str] | None = None
    label: list[str] | None = None
    trigger_kinds: list[str] | None = None
    trigger: str | None = None
    not_scheduled: bool = False
    parent_job: UUID | None = None
    has_null_parent: bool | None = None
    is_flow_step: bool | None = None
    without_steps: bool = False  # of flows; nor jobs that look for the dependencies of a deployment
    concurrency_key: str | None = None
    args: Any = None  # JSON that the arguments must contain
    result: Any = None  # JSON that the result must contain
    search: str | None = None  # in path, creator, tag, worker, id
    created_before: datetime | None = None
    created_after: datetime | None = None
    started_before: datetime | None = None
    started_after: datetime | None = None
    completed_before: datetime | None = None
    completed_after: datetime | None = None
    all_workspaces: bool = False  # superadmins in workspace `admins` only


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ended: the next one shows what is older. Its text form is for URLs."""

    created_at: datetime
    id: UUID

    def __str__(self) -> str:
        return f"{self.created_at.isoformat()}_{self.id}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Raises BadRequest."""
        try:
            at, _, id = text.partition("_")
            created_at = datetime.fromisoformat(at)
            if created_at.tzinfo is None:
                raise ValueError("no time zone")
            return cls(created_at, UUID(id))
        except ValueError as exc:
            raise BadRequest(f"cursor {text[:60]!r} is not valid; take it from the page before") from exc


def list_jobs(
    caller: Caller,
    filters: JobFilters,
    *,
    limit: int,
    offset: int = 0,
    cursor: Cursor | None = None,
    oldest_first: bool = False,
) -> list[JobRow]:
    """A page of the jobs that the caller may see, without arguments, results, code and logs.

    Page with `cursor` (stable while jobs arrive) or `offset`. Raises BadRequest when the conditions need too long.
    """
    parameters = _filter_parameters(caller, filters) | {
        "cursor_at": cursor and cursor.created_at,
        "cursor_id": cursor and cursor.id,
        "limit": min(limit, MAX_PAGE),
        "offset": offset,
    }
    order = _OLDEST_FIRST if oldest_first else _NEWEST_FIRST
    with _time_limit():
        return _rows(sql.load("list_jobs") + order, parameters)


def list_job_ids(caller: Caller, filters: JobFilters, *, limit: int = MAX_PAGE) -> list[UUID]:
    """The ids of the jobs that `list_jobs` would show, newest first."""
    return [job.id for job in list_jobs(caller, filters, limit=limit)]


def started_at(caller: Caller, job_ids: Sequence[UUID]) -> dict[UUID, datetime]:
    """When these jobs began: those that have, and that the caller may see."""
    if len(job_ids) > MAX_PAGE:
        raise BadRequest(f"{len(job_ids)} jobs at once; at most {MAX_PAGE}")
    parameters = _filter_parameters(caller, JobFilters()) | {"cursor_at": None, "cursor_id": None}
    statement = f"SELECT id, started_at FROM ({sql.load('list_jobs')} AND id = ANY(%(ids)s::uuid[])) AS job"
    with _time_limit(), connection.cursor() as cursor:
        cursor.execute(statement, parameters | {"ids": list(job_ids)})
        return {id: moment for id, moment in cursor.fetchall() if moment is not None}


def count_jobs(caller: Caller, filters: JobFilters, *, most: int = 100_000) -> int:
    """How many jobs match, counting no further than `most`."""
    parameters = _filter_parameters(caller, filters) | {"cursor_at": None, "cursor_id": None, "most": most}
    statement = f"SELECT count(*) FROM ({sql.load('list_jobs')} LIMIT %(most)s) AS matching"
    with _time_limit(), connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return int(cursor.fetchone()[0])


def count_each(caller: Caller, wanted: Sequence[JobFilters], *, most: int) -> list[int]:
    """`count_jobs` of several filters, in one statement: the tabs above a list."""
    parts: list[str] = []
    parameters: dict[str, Any] = {"most": most}
    for position, filters in enumerate(wanted):
        statement = sql.load("list_jobs").replace("%(", f"%(of{position}_")
        parts.append(f"(SELECT count(*) FROM ({statement} LIMIT %(most)s) AS matching)")
        given = _filter_parameters(caller, filters) | {"cursor_at": None, "cursor_id": None}
        parameters |= {f"of{position}_{name}": value for name, value in given.items()}
    with _time_limit(), connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(parts), parameters)
        return [int(count) for count in cursor.fetchone()]


def patterns(text: str | None, *, allow_wildcards: bool = False) -> list[str] | None:
    """`a,b` -> LIKE patterns for exactly a or b; with `allow_wildcards` a `*` stands for anything."""
    if not text:
        return None
    escaped = _like(text)
    if allow_wildcards:
        escaped = escaped.replace("*", "%")
    return [part.strip() for part in escaped.split(",") if part.strip()]


def _like(text: str) -> str:
    """A LIKE pattern for exactly this text."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _filter_parameters(caller: Caller, filters: JobFilters) -> dict[str, Any]:
    if filters.all_workspaces and not (caller.is_super_admin and caller.workspace_id == "admins"):
        raise PermissionDenied("all_workspaces needs a superadmin in workspace admins")
    done_statuses: set[str] | None = None
    if filters.success is not None:
        done_statuses = {"success", "skipped"} if filters.success else {"failure", "canceled"}
    if filters.is_skipped is not None:
        skipped = {"skipped"} if filters.is_skipped else {"success", "failure", "canceled"}
        done_statuses = skipped if done_statuses is None else done_statuses & skipped
    statuses = set(filters.statuses) if filters.statuses is not None else None
    if statuses is not None and statuses <= set(JobStatus.values):
        # Said about the outcome alone, an index on it serves; said twice, the planner expects far too few rows.
        done_statuses = statuses if done_statuses is None else done_statuses & statuses
        filters = dataclasses.replace(filters, statuses=None)
    parameters = {name: getattr(filters, name) for name in _PASSED_ON}
    return parameters | {
        "workspace_id": caller.workspace_id,
        "sees_all": caller.is_admin,
        "username": caller.username,
        "owners": [] if caller.is_admin else caller.readable_owners,
        "principals": [] if caller.is_admin else list(caller.principals),
        "done_statuses": None if done_statuses is None else sorted(done_statuses),
        "args": None if filters.args is None else json.dumps(filters.args),
        "result": None if filters.result is None else json.dumps(filters.result),
        "search": f"%{_like(filters.search.strip())}%" if filters.search and filters.search.strip() else None,
    }


_PASSED_ON = frozenset(field.name for field in dataclasses.fields(JobFilters)) - {
    "success",
    "is_skipped",
    "args",
    "result",
    "search",
}
_ROW_FIELDS = frozenset(field.name for field in dataclasses.fields(JobRow))


def _rows(statement: str, parameters: dict[str, Any]) -> list[JobRow]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        names = [column.name for column in cursor.description]
        return [JobRow(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raises BadRequest instead of letting a search without an index occupy the database."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(SEARCH_LIMIT_MS)])
            yield
    except OperationalError as exc:
        if "statement timeout" not in str(exc):
            raise
        raise BadRequest(
            f"this search took more than {SEARCH_LIMIT_MS // 1000} s; narrow it, for example by created_after or "
            "script_path_exact"
        ) from exc


# --- counts ---


def count_queue(caller: Caller, *, all_workspaces: bool = False) -> dict[str, int]:
    """How many jobs of the workspace wait or run, and how many are suspended: {database_length, suspended}."""
    if all_workspaces and not (caller.is_super_admin and caller.workspace_id == "admins"):
        raise PermissionDenied("all_workspaces needs a superadmin in workspace admins")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FILTER (WHERE NOT running AND suspend <= 0), count(*) FILTER (WHERE suspend > 0)"
            "  FROM queue WHERE %s OR workspace_id = %s",
            [all_workspaces, caller.workspace_id],
        )
        waiting, suspended = cursor.fetchone()
    return {"database_length": waiting, "suspended": suspended}


@dataclass(frozen=True, slots=True)
class RunDot:
    """One run in the small history beside a script or flow."""

    id: UUID
    status: str
    created_at: datetime
    duration_ms: int | None


def last_runs(
    caller: Caller, runnables: Sequence[tuple[str, str]], *, limit: int = 10
) -> dict[tuple[str, str], list[RunDot]]:
    """The last few runs of each (kind, path), newest first, in one query; kind is script or flow.

    The caller must read the paths.
    """
    runs: dict[tuple[str, str], list[RunDot]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(
            sql.load("last_runs"),
            {
                "kinds": [kind for kind, _ in runnables],
                "paths": [path for _, path in runnables],
                "workspace_id": caller.workspace_id,
                "limit": limit,
                "sees_all": caller.is_admin,
                "username": caller.username,
            },
        )
        for kind, path, id, status, created_at, duration_ms in cursor.fetchall():
            runs[kind, path].append(RunDot(id, status, created_at, duration_ms))
    return dict(runs)


def count_completed_by_tag(*, horizon_s: int, workspace_id: str | None) -> list[dict[str, Any]]:
    """Jobs that ended within the horizon, by tag: [{tag, count}], most first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT job.tag, count(*) FROM completed_job AS done JOIN job ON job.id = done.id"
            " WHERE done.completed_at > statement_timestamp() - make_interval(secs => %(horizon)s)"
            "   AND (%(workspace_id)s::text IS NULL OR done.workspace_id = %(workspace_id)s::text)"
            " GROUP BY job.tag ORDER BY 2 DESC, 1",
            {"horizon": horizon_s, "workspace_id": workspace_id},
        )
        return [{"tag": tag, "count": count} for tag, count in cursor.fetchall()]


def queue_counts(*, running: bool) -> dict[str, int]:
    """Jobs of the whole instance by tag: those that run, or those that wait and are due."""
    condition = (
        "running" if running else "NOT running AND suspend <= 0 AND scheduled_for <= statement_timestamp()"
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT tag, count(*) FROM queue WHERE {condition} GROUP BY tag ORDER BY tag")
        return dict(cursor.fetchall())


def queue_position(scheduled_for: datetime) -> int:
    """How many due jobs of the instance are ahead of one scheduled for this moment."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM queue WHERE NOT running AND suspend <= 0 AND scheduled_for < %s",
            [scheduled_for],
        )
        return int(cursor.fetchone()[0])
