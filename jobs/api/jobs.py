"""REST routes of many jobs: lists, counts, and what is done to a selection; the clock that they go by."""

from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

from django.db import connection
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import listings, runs
from jobs.api.job import CancelBody, json_bytes, parse_job_id
from jobs.listings import JobFilters, patterns
from jobs.models import JobStatus
from jobs.scripts import parse_hash
from jobs.shapes import iso, job_json, job_shape
from workspaces.api.base import (
    InstanceView,
    WorkspaceView,
    describe_problems,
    flag,
    page_bounds,
    read_body,
)
from workspaces.api.fields import TEXT_OK
from workspaces.api.parameters import PAGES, query, switch
from workspaces.api.protocol import text
from workspaces.errors import BadRequest
from workspaces.jsontext import parse_json


class JobQuery(serializers.Serializer):
    """What to list; all optional. Texts with commas mean any of them; with allow_wildcards `*` stands for anything."""

    script_path_exact = serializers.CharField(required=False)
    script_path_start = serializers.CharField(required=False)
    schedule_path = serializers.CharField(required=False)
    trigger_path = serializers.CharField(required=False)
    script_hash = serializers.CharField(required=False)
    job_kinds = serializers.CharField(required=False)
    created_by = serializers.CharField(required=False)
    worker = serializers.CharField(required=False)
    tag = serializers.CharField(required=False)
    label = serializers.CharField(required=False)  # type: ignore[assignment]
    trigger_kind = serializers.CharField(required=False)
    parent_job = serializers.UUIDField(required=False)
    has_null_parent = serializers.BooleanField(required=False)
    is_flow_step = serializers.BooleanField(required=False)
    is_not_schedule = serializers.BooleanField(required=False)
    running = serializers.BooleanField(required=False)
    success = serializers.BooleanField(required=False)
    is_skipped = serializers.BooleanField(required=False)
    suspended = serializers.BooleanField(required=False)
    status = serializers.CharField(required=False)
    scheduled_for_before_now = serializers.BooleanField(required=False)
    args = serializers.CharField(required=False)
    result = serializers.CharField(required=False)
    broad_filter = serializers.CharField(required=False)
    allow_wildcards = serializers.BooleanField(required=False)
    all_workspaces = serializers.BooleanField(required=False)
    created_before = serializers.DateTimeField(required=False)
    created_after = serializers.DateTimeField(required=False)
    created_before_queue = serializers.DateTimeField(required=False)
    created_after_queue = serializers.DateTimeField(required=False)
    started_before = serializers.DateTimeField(required=False)
    started_after = serializers.DateTimeField(required=False)
    completed_before = serializers.DateTimeField(required=False)
    completed_after = serializers.DateTimeField(required=False)
    order_desc = serializers.BooleanField(required=False)


_STATUSES = ("queued", "running", *JobStatus.values)
_QUEUED_WORDS = {"waiting": "queued"}


def job_filters(request: Request, **fixed: Any) -> tuple[JobFilters, bool]:
    """(the filters that a query asks for, oldest first?). Raises BadRequest."""
    given = {name: value for name, value in request.query_params.items() if value != ""}
    serializer = JobQuery(data=given)
    if not serializer.is_valid():
        raise BadRequest("query: " + describe_problems(serializer.errors))
    wanted = dict(serializer.validated_data)
    wild = wanted.get("allow_wildcards", False)
    statuses = _comma_list(wanted.get("status"))
    if statuses is not None:
        statuses = [_QUEUED_WORDS.get(status, status) for status in statuses]
        if unknown := set(statuses) - set(_STATUSES):
            raise BadRequest(
                f"query: status holds {sorted(unknown)[0][:40]!r}; expected some of {', '.join(_STATUSES)}"
            )
    schedule = wanted.get("schedule_path")
    path_start = wanted.get("script_path_start")
    filters = JobFilters(
        path_exact=wanted.get("script_path_exact"),
        path_start=None if wild else path_start,
        path_like=patterns(f"{path_start}*", allow_wildcards=True) if wild and path_start else None,
        script_hash=parse_hash(wanted["script_hash"]) if "script_hash" in wanted else None,
        kinds=_comma_list(wanted.get("job_kinds")),
        statuses=statuses,
        created_by=patterns(wanted.get("created_by"), allow_wildcards=wild),
        worker=patterns(wanted.get("worker"), allow_wildcards=wild),
        tag=patterns(wanted.get("tag"), allow_wildcards=wild),
        label=patterns(wanted.get("label"), allow_wildcards=wild),
        trigger_kinds=["schedule"] if schedule else _comma_list(wanted.get("trigger_kind")),
        trigger=schedule or wanted.get("trigger_path"),
        not_scheduled=wanted.get("is_not_schedule", False),
        due_only=wanted.get("scheduled_for_before_now", False),
        args=_json_subset(wanted, "args"),
        result=_json_subset(wanted, "result"),
        search=wanted.get("broad_filter"),
        all_workspaces=wanted.get("all_workspaces", False),
        created_before=wanted.get("created_before") or wanted.get("created_before_queue"),
        created_after=wanted.get("created_after") or wanted.get("created_after_queue"),
        **dict[str, Any]({name: wanted.get(name) for name in _SAME_NAMES}),
        **fixed,
    )
    return filters, not wanted.get("order_desc", True)


_SAME_NAMES = [
    "parent_job",
    "has_null_parent",
    "is_flow_step",
    "running",
    "success",
    "is_skipped",
    "suspended",
    "started_before",
    "started_after",
    "completed_before",
    "completed_after",
]


def _json_subset(wanted: dict[str, Any], name: str) -> Any:
    if name not in wanted:
        return None
    try:
        return parse_json(wanted[name])
    except BadRequest as exc:
        raise BadRequest(f"query: {name} is not valid JSON") from exc


def _comma_list(value: str | None) -> list[str] | None:
    return [part.strip() for part in value.split(",") if part.strip()] if value else None


class ListView(WorkspaceView):
    """A list of jobs. Needs the scope jobs:read: a token that may only run does not see what others run."""

    domain = "jobs"
    fixed: ClassVar[dict[str, Any]] = {}

    def _page(self, request: Request) -> Response:
        filters, oldest_first = job_filters(request, **self.fixed)
        rows = page_bounds(request)
        page = listings.list_jobs(
            self.caller, filters, limit=rows.stop - rows.start, offset=rows.start, oldest_first=oldest_first
        )
        return Response([job_shape(job) for job in page])


class ListJobs(ListView):
    """Waiting, running and completed jobs, newest first."""

    @extend_schema(operation_id="listJobs", parameters=[*PAGES, JobQuery], responses={200: list[dict]})
    def get(self, request: Request, workspace: str) -> Response:
        return self._page(request)


class ListQueue(ListView):
    """Waiting and running jobs."""

    fixed: ClassVar[dict[str, Any]] = {"only_queued": True}

    @extend_schema(operation_id="listQueue", parameters=[*PAGES, JobQuery], responses={200: list[dict]})
    def get(self, request: Request, workspace: str) -> Response:
        return self._page(request)


class ListCompleted(ListView):
    """Completed jobs."""

    fixed: ClassVar[dict[str, Any]] = {"only_done": True}

    @extend_schema(
        operation_id="listCompletedJobs", parameters=[*PAGES, JobQuery], responses={200: list[dict]}
    )
    def get(self, request: Request, workspace: str) -> Response:
        return self._page(request)


class FilteredIds(ListView):
    """The ids of the queued jobs that a list would show, for canceling them all."""

    fixed: ClassVar[dict[str, Any]] = {"only_queued": True}

    @extend_schema(operation_id="listFilteredQueueUuids", parameters=[JobQuery], responses={200: list[str]})
    def get(self, request: Request, workspace: str) -> Response:
        filters, _ = job_filters(request, **self.fixed)
        return Response([str(id) for id in listings.list_job_ids(self.caller, filters)])


class FilteredJobIds(FilteredIds):
    """The ids of the jobs that a list would show, for running them all again."""

    fixed: ClassVar[dict[str, Any]] = {}

    @extend_schema(operation_id="listFilteredJobsUuids", parameters=[JobQuery], responses={200: list[str]})
    def get(self, request: Request, workspace: str) -> Response:
        return super().get(request, workspace)


class CountQueue(WorkspaceView):
    """How many jobs wait and how many are suspended."""

    domain = "jobs"

    @extend_schema(operation_id="getQueueCount", parameters=[switch("all_workspaces")], responses={200: dict})
    def get(self, request: Request, workspace: str) -> Response:
        return Response(
            listings.count_queue(self.caller, all_workspaces=flag(request, "all_workspaces", default=False))
        )


class CountCompleted(WorkspaceView):
    """How many jobs completed and are still kept, counting to 100,000."""

    domain = "jobs"

    @extend_schema(operation_id="getCompletedCount", responses={200: dict})
    def get(self, request: Request, workspace: str) -> Response:
        count = listings.count_jobs(self.caller, JobFilters(only_done=True))
        return Response({"database_length": count})


class CountCompletedJobs(WorkspaceView):
    """How many jobs completed within some seconds, by success and tags."""

    domain = "jobs"

    @extend_schema(
        operation_id="countCompletedJobs",
        parameters=[
            query("completed_after_s_ago", kind=int),
            switch("success"),
            query("tags", "Comma list"),
            switch("all_workspaces"),
        ],
        responses={200: int},
    )
    def get(self, request: Request, workspace: str) -> Response:
        ago = _seconds(request, "completed_after_s_ago")
        filters = JobFilters(
            only_done=True,
            success=flag(request, "success"),
            tag=patterns(request.query_params.get("tags")),
            completed_after=None if ago is None else datetime.fromtimestamp(_now() - ago, UTC),
            all_workspaces=flag(request, "all_workspaces", default=False),
        )
        return Response(listings.count_jobs(self.caller, filters))


class QueuePosition(WorkspaceView):
    """How many due jobs come before one scheduled for this time (milliseconds since 1970)."""

    domain = "jobs"
    verb = "run"  # part of following one's run

    @extend_schema(operation_id="getQueuePosition", responses={200: dict})
    def get(self, request: Request, workspace: str, scheduled_for: str) -> Response:
        if not (scheduled_for.isascii() and scheduled_for.isdigit() and len(scheduled_for) <= 14):
            raise BadRequest("scheduled_for must be milliseconds since 1970")
        moment = datetime.fromtimestamp(int(scheduled_for) / 1000, UTC)
        return Response({"position": listings.queue_position(moment)})


class CancelSelection(WorkspaceView):
    """Cancel jobs by id; answers those that were canceled."""

    domain = "jobs"
    operators_may_write = True

    @extend_schema(
        operation_id="cancelSelection",
        request=list[str],
        parameters=[switch("force_cancel")],
        responses={200: list[str]},
    )
    def post(self, request: Request, workspace: str) -> Response:
        force = flag(request, "force_cancel", default=False)
        canceled = runs.cancel_selection(self.caller, _ids(request), force=force)
        return Response([str(id) for id in canceled])


class CancelPersistent(WorkspaceView):
    """Cancel every waiting or running job of the script or flow at a path."""

    domain = "jobs"
    operators_may_write = True

    @extend_schema(operation_id="cancelPersistentQueuedJobs", request=CancelBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, path: str) -> Any:
        reason = read_body(CancelBody, request).get("reason")
        canceled = runs.cancel_at_path(self.caller, path, reason=reason)
        return text(f"canceled {len(canceled)} jobs of {path}")


class StartedAt(WorkspaceView):
    """When these jobs began, in their order; null for those that have not begun or that the caller may not see."""

    domain = "jobs"
    verb = "read"

    @extend_schema(operation_id="getStartedAtByIds", request=list[str], responses={200: list[str]})
    def post(self, request: Request, workspace: str) -> Response:
        ids = _ids(request)
        began = listings.started_at(self.caller, ids)
        return Response([iso(began.get(id)) for id in ids])


class RunNow(WorkspaceView):
    """Make a job that is scheduled for later due at once."""

    domain = "jobs"
    operators_may_write = True

    @extend_schema(operation_id="runQueuedJobNow", request=None, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, id: str) -> Any:
        runs.run_now(self.caller, parse_job_id(id))
        return text(id)


class DeleteCompleted(WorkspaceView):
    """Empty a completed job: arguments, result and log are gone."""

    domain = "jobs"
    operators_may_write = True

    @extend_schema(operation_id="deleteCompletedJob", request=None, responses={200: dict})
    def post(self, request: Request, workspace: str, id: str) -> HttpResponse:
        job_id = parse_job_id(id)
        runs.forget_job(self.caller, job_id)
        job = listings.get_job(
            self.caller, workspace_id=workspace, job_id=job_id, with_args=True, with_result=True
        )
        return json_bytes(job_json(job))


class DeleteJobs(WorkspaceView):
    """Delete jobs without a trace. Admins only."""

    domain = "jobs"
    admins_only = True

    @extend_schema(operation_id="deleteJobs", request=list[str], responses=TEXT_OK)
    def post(self, request: Request, workspace: str) -> Any:
        return text(f"deleted {runs.delete_jobs(self.caller, _ids(request))} jobs")


def _ids(request: Request) -> list[UUID]:
    if not isinstance(request.data, list) or not all(isinstance(id, str) for id in request.data):
        raise BadRequest("expected a JSON list of job ids")
    return [parse_job_id(id) for id in request.data]


def _seconds(request: Request, name: str) -> int | None:
    raw = request.query_params.get(name)
    if not raw:
        return None
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 9):
        raise BadRequest(f"query: {name} is {raw[:40]!r}; expected a number of seconds")
    return int(raw)


def _now() -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM statement_timestamp())::float8")
        return float(cursor.fetchone()[0])


# --- the instance ---


class DbClock(InstanceView):
    """The database's clock, in milliseconds since 1970: what all times of jobs are measured by."""

    domain = "jobs"

    @extend_schema(operation_id="getDbClock", responses={200: int})
    def get(self, request: Request) -> Response:
        return Response(round(_now() * 1000))


class CountByTag(InstanceView):
    """How many jobs completed lately, by tag: [{tag, count}]. For superadmins and devops."""

    domain = "jobs"

    @extend_schema(
        operation_id="countJobsByTag",
        parameters=[query("horizon_secs", kind=int), query("workspace_id")],
        responses={200: list[dict]},
    )
    def get(self, request: Request) -> Response:
        self.identity.require_devops()
        return Response(
            listings.count_completed_by_tag(
                horizon_s=_seconds(request, "horizon_secs") or 3600,
                workspace_id=request.query_params.get("workspace_id") or None,
            )
        )
