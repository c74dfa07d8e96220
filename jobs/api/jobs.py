"""REST routes that look at jobs and steer them: /api/w/<workspace>/jobs/... and jobs_u/...

The `jobs_u` routes take a job's id and also work signed out, for jobs that `anonymous` started.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

from django.db import connection
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import listings, queue, runs, waiting
from jobs.api.events import job_events, update_json
from jobs.api.waiting import WaitingView, event_stream, on_request_thread
from jobs.errors import JobNotFound
from jobs.following import in_database, read_snapshot
from jobs.listener import get_listener
from jobs.listings import JobFilters, patterns
from jobs.models import JobStatus, WorkerPing
from jobs.scripts import parse_hash
from jobs.shapes import JobRow, job_json, job_shape
from workspaces.access import Caller, Identity, enter_workspace
from workspaces.api.base import InstanceView, WorkspaceView, describe_problems, flag, page_bounds, read_body
from workspaces.api.fields import BOOLEAN_OK, TEXT_OK, Text, Whole
from workspaces.api.parameters import PAGES, query, switch
from workspaces.api.protocol import text
from workspaces.errors import BadRequest, NotFound, NotSignedIn
from workspaces.jsontext import parse_json

LOGS_IN_JOB = 100_000  # characters of log that come with a job: its end; get_logs has the whole
UPDATE_WAIT_S = 1.0  # how long getupdate waits for news: clients ask again at once
MAX_UPDATE_CHARS = 1_000_000
_LOG_BLOCK_CHARS = 1_000_000


def parse_job_id(text: str) -> UUID:
    """Raises BadRequest."""
    try:
        if len(text) != 36:
            raise ValueError
        return UUID(text)
    except ValueError:
        raise BadRequest(f"job id {text[:60]!r} is not valid; expected a UUID") from None


def json_bytes(body: bytes | str, status: int = 200) -> HttpResponse:
    """An answer that is JSON already."""
    return HttpResponse(body, status=status, content_type="application/json")


# --- by id ---


class ByIdView(WorkspaceView):
    """A route for one job, found by its id. `caller` is None for somebody signed out or from outside the workspace."""

    public = True
    domain = "jobs"
    caller: Caller | None  # type: ignore[assignment]
    _refused: Exception | None = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        APIView.initial(self, request, *args, **kwargs)
        self.caller = None
        if isinstance(request.auth, Identity):
            try:
                self.caller = enter_workspace(request.auth, kwargs["workspace"])
            except NotFound as exc:
                self._refused = exc

    def job(self, job_id: str, **parts: bool) -> JobRow:
        """The job, when the caller may see it. Raises BadRequest, NotFound, NotSignedIn, PermissionDenied."""
        try:
            return listings.get_job(
                self.caller, workspace_id=self.kwargs["workspace"], job_id=parse_job_id(job_id), **parts
            )
        except NotSignedIn:
            raise self._refused or NotSignedIn(
                "sign in first, or send a token: Authorization: Bearer <token>"
            ) from None


class GetJob(ByIdView):
    """A job with its arguments, the end of its log and, once completed, its result."""

    @extend_schema(
        operation_id="getJob", parameters=[switch("no_logs"), switch("no_code")], responses={200: dict}
    )
    def get(self, request: Request, workspace: str, id: str) -> HttpResponse:
        job = self.job(id, with_args=True, with_result=True)
        logs = None if flag(request, "no_logs", default=False) else _last_logs(job.id)
        return json_bytes(job_json(job, logs=logs, with_code=not flag(request, "no_code", default=False)))


class GetCompleted(ByIdView):
    """A completed job; 404 until then."""

    @extend_schema(operation_id="getCompletedJob", responses={200: dict})
    def get(self, request: Request, workspace: str, id: str) -> HttpResponse:
        job = _completed(self.job(id, with_args=True, with_result=True))
        return json_bytes(job_json(job, logs=_last_logs(job.id)))


class GetResult(ByIdView):
    """The result of a completed job; 404 until then."""

    @extend_schema(operation_id="getCompletedJobResult", responses={200: dict})
    def get(self, request: Request, workspace: str, id: str) -> HttpResponse:
        return json_bytes(_completed(self.job(id, with_result=True)).result or "null")


class GetResultMaybe(ByIdView):
    """{started, completed, success, result}, whatever state the job is in."""

    @extend_schema(
        operation_id="getCompletedJobResultMaybe", parameters=[switch("get_started")], responses={200: dict}
    )
    def get(self, request: Request, workspace: str, id: str) -> HttpResponse:
        job = self.job(id, with_result=True)
        success = "null" if not job.is_completed else "true" if job.is_success else "false"
        result = (job.result or "null") if job.is_completed else "null"
        started = "true" if job.is_completed or job.is_running else "false"
        completed = "true" if job.is_completed else "false"
        return json_bytes(
            f'{{"started":{started},"completed":{completed},"success":{success},"result":{result}}}'
        )


class GetLogs(ByIdView):
    """The whole log."""

    @extend_schema(operation_id="getJobLogs", parameters=[switch("remove_ansi_warnings")], responses=TEXT_OK)
    def get(self, request: Request, workspace: str, id: str) -> HttpResponseBase:
        job = self.job(id)
        first, offset = queue.read_logs(job.id, max_chars=_LOG_BLOCK_CHARS)
        if len(first) < _LOG_BLOCK_CHARS:
            return text(first)
        return StreamingHttpResponse(
            _log_blocks(job.id, first, offset), content_type="text/plain; charset=utf-8"
        )


class GetUpdate(WaitingView, ByIdView):
    """What is new since `log_offset`; waits up to a second when nothing is."""

    @extend_schema(
        operation_id="getJobUpdates",
        parameters=[
            switch("running", "What the client believes"),
            query("log_offset", "Characters of log it has", int),
            switch("get_progress"),
            switch("no_logs"),
        ],
        responses={200: dict},
    )
    async def get(self, request: Request, workspace: str, id: str) -> Response:
        job = await on_request_thread(self.job, id)
        offset = _offset(request)
        believes_running = flag(request, "running")
        with_logs = not flag(request, "no_logs", default=False)
        listener = await get_listener()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + UPDATE_WAIT_S
        with listener.watch_job(job.id) as watch:
            while True:
                snapshot = await in_database(
                    read_snapshot, job.id, offset, with_logs=with_logs, max_chars=MAX_UPDATE_CHARS
                )
                if snapshot is None:
                    raise JobNotFound(f"job {job.id} was deleted")
                is_news = bool(snapshot.logs) or snapshot.is_final
                is_news |= believes_running is False and snapshot.state.status == "running"
                left = deadline - loop.time()
                if is_news or left <= 0:
                    return Response(update_json(snapshot))
                await watch.wait(left)


class GetUpdateSse(WaitingView, ByIdView):
    """The same as server-sent events, until the job is over."""

    @extend_schema(
        operation_id="getJobUpdatesSSE",
        parameters=[
            query("log_offset", "Characters of log it has", int),
            switch("no_logs"),
            switch("only_result"),
        ],
        responses={200: str},
    )
    async def get(self, request: Request, workspace: str, id: str) -> HttpResponseBase:
        job = await on_request_thread(self.job, id)
        only_result = flag(request, "only_result", default=False)
        with_logs = not only_result and not flag(request, "no_logs", default=False)
        return event_stream(
            job_events(job.id, offset=_offset(request), with_logs=with_logs, with_result=True)
        )


class GetRootJobId(ByIdView):
    """The job at the top of the tree that this one belongs to: itself when it has no parent."""

    @extend_schema(operation_id="getRootJobId", responses={200: str})
    def get(self, request: Request, workspace: str, id: str) -> Response:
        job = self.job(id)
        return Response(str(job.root_job or job.id))


class CancelBody(serializers.Serializer):
    reason = Text(required=False, allow_null=True)


class Cancel(ByIdView):
    """Cancel a job: at once when it waits, through its worker when it runs."""

    force: ClassVar[bool] = False

    @extend_schema(operation_id="cancelQueuedJob", request=CancelBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, id: str) -> Any:
        reason = read_body(CancelBody, request).get("reason")
        job = self.job(id)
        runs.cancel(self.caller, workspace_id=workspace, job_id=job.id, reason=reason, force=self.force)
        return text(str(job.id))


class ForceCancel(Cancel):
    """End a job at once, whatever its worker does."""

    force = True

    @extend_schema(operation_id="forceCancelQueuedJob", request=CancelBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, id: str) -> Any:
        return super().post(request, workspace, id)


class Explain(ByIdView):
    """Why a job waits: {reason, sentence, ahead}."""

    @extend_schema(operation_id="explainQueuedJob", responses={200: dict})
    def get(self, request: Request, workspace: str, id: str) -> Response:
        answer = waiting.why_waiting(self.job(id).id, workspace_id=workspace)
        return Response({"reason": answer.reason, "sentence": answer.sentence, "ahead": answer.ahead})


class WorkerIsDraining(ByIdView):
    """Is the worker that runs this job shutting down? A job may ask to end early then."""

    @extend_schema(operation_id="workerIsDraining", responses=BOOLEAN_OK)
    def get(self, request: Request, workspace: str, id: str) -> Response:
        worker = self.job(id).worker
        return Response(WorkerPing.objects.filter(worker=worker, state="draining").exists())


class ProgressBody(serializers.Serializer):
    percent = Whole()
    flow_job_id = Text(required=False, allow_null=True)


class SetProgress(ByIdView):
    """Say how far a job is."""

    @extend_schema(operation_id="setJobProgress", request=ProgressBody, responses={200: dict})
    def post(self, request: Request, workspace: str, id: str) -> Response:
        percent = read_body(ProgressBody, request)["percent"]
        job = self.job(id)
        if self.caller is None:
            raise NotSignedIn("sign in first, or send a token: Authorization: Bearer <token>")
        runs.set_progress(self.caller, job.id, percent)
        return Response(percent)


class GetProgress(ByIdView):
    """How far a job is, in percent; null when it never said."""

    @extend_schema(operation_id="getJobProgress", responses={200: int})
    def get(self, request: Request, workspace: str, id: str) -> Response:
        return Response(runs.get_progress(self.job(id).id))


def _completed(job: JobRow) -> JobRow:
    if not job.is_completed:
        raise JobNotFound(f"job {job.id} has not completed yet; it is {job.status}")
    return job


def _offset(request: Request) -> int:
    raw = request.query_params.get("log_offset") or "0"
    if not (raw.isascii() and raw.lstrip("-").isdigit() and len(raw) < 16):
        raise BadRequest(f"query: log_offset is {raw[:40]!r}; expected a whole number")
    return max(0, int(raw))


def _last_logs(job_id: UUID) -> str:
    """The end of the log."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT log_offset + length(logs) FROM job_logs WHERE job_id = %s ORDER BY log_offset DESC LIMIT 1",
            [job_id],
        )
        row = cursor.fetchone()
    return queue.read_logs(job_id, offset=max(0, row[0] - LOGS_IN_JOB))[0] if row else ""


def _log_blocks(job_id: UUID, block: str, offset: int) -> Any:
    while block:
        yield block.encode()
        block, offset = queue.read_logs(job_id, offset=offset, max_chars=_LOG_BLOCK_CHARS)


# --- lists ---


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
