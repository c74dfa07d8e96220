"""REST routes of one job, found by its id: look at it, follow it, cancel it.

The `jobs_u` routes also work signed out, for jobs that `anonymous` started.
"""

import asyncio
import json
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

from jobs import canceling, listings, queue, runs, waiting
from jobs.api.events import job_events, update_json
from jobs.api.waiting import WaitingView, event_stream, on_request_thread
from jobs.errors import JobNotFound
from jobs.flows import public
from jobs.following import patiently, read_snapshot
from jobs.listener import get_listener
from jobs.models import FLOW_KINDS, WorkerPing
from jobs.shapes import JobRow, iso, job_json
from workspaces.access import Caller, Identity, enter_workspace
from workspaces.api.base import WorkspaceView, flag, read_body
from workspaces.api.fields import BOOLEAN_OK, TEXT_OK, Text, Whole
from workspaces.api.parameters import query, switch
from workspaces.api.protocol import text
from workspaces.errors import BadRequest, NotFound, NotSignedIn

LOGS_IN_JOB = 100_000  # characters of log that come with a job: its end; get_logs has the whole
UPDATE_WAIT_S = 1.0  # how long getupdate waits for news: clients ask again at once
MAX_UPDATE_CHARS = 1_000_000
MOST_IN_DEBUG_INFO = 1000  # jobs of a flow
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
        with_code = not flag(request, "no_code", default=False)
        return json_bytes(job_json(job, logs=logs, with_code=with_code, flow=_flow(job, with_code=with_code)))


class GetCompleted(ByIdView):
    """A completed job; 404 until then."""

    @extend_schema(operation_id="getCompletedJob", responses={200: dict})
    def get(self, request: Request, workspace: str, id: str) -> HttpResponse:
        job = _completed(self.job(id, with_args=True, with_result=True))
        return json_bytes(job_json(job, logs=_last_logs(job.id), flow=_flow(job)))


class GetResult(ByIdView):
    """The result of a completed job; 404 until then."""

    @extend_schema(operation_id="getCompletedJobResult", responses={200: dict})
    def get(self, request: Request, workspace: str, id: str) -> HttpResponse:
        return json_bytes(_completed(self.job(id, with_result=True)).result or "null")


class GetArgs(ByIdView):
    """The arguments of a job."""

    @extend_schema(operation_id="getJobArgs", responses={200: dict})
    def get(self, request: Request, workspace: str, id: str) -> HttpResponse:
        return json_bytes(self.job(id, with_args=True).args or "null")


class GetTiming(ByIdView):
    """When a completed job was asked for and began, and how long it took; 404 until then."""

    @extend_schema(operation_id="getCompletedJobTiming", responses={200: dict})
    def get(self, request: Request, workspace: str, id: str) -> Response:
        job = _completed(self.job(id))
        return Response(
            {
                "created_at": iso(job.created_at),
                "started_at": iso(job.started_at),
                "duration_ms": job.duration_ms,
            }
        )


class GetResultOfStep(ByIdView):
    """The result of a step of a flow, as `results.<id>` names it; 404 while there is none."""

    @extend_schema(operation_id="resultById", responses={200: dict})
    def get(self, request: Request, workspace: str, id: str, node_id: str) -> HttpResponse:
        job = self.job(id)
        result = public.result_by_id(job.id, node_id)
        if result is None:
            raise JobNotFound(f"flow {job.id} has no result of a step {node_id[:100]!r} (yet)")
        return json_bytes(result)


class GetFlowDebugInfo(ByIdView):
    """A flow and everything that runs or ran for it: {root_job: ..., <job id>: ...}."""

    @extend_schema(operation_id="getFlowDebugInfo", responses={200: dict})
    def get(self, request: Request, workspace: str, id: str) -> HttpResponse:
        job = self.job(id, with_args=True, with_result=True)
        shapes = {"root_job": json.loads(job_json(job, flow=_flow(job)))}
        for part in canceling.tree_of([job.id])[:MOST_IN_DEBUG_INFO]:
            if part != job.id:
                row = listings.read_job(workspace_id=workspace, job_id=part, with_args=True, with_result=True)
                if row is not None:
                    shapes[str(part)] = json.loads(job_json(row))
        return json_bytes(json.dumps(shapes))


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
                snapshot = await patiently(
                    read_snapshot, job.id, offset, with_logs=with_logs, max_chars=MAX_UPDATE_CHARS
                )
                if snapshot is None:
                    raise JobNotFound(f"job {job.id} was deleted")
                is_news = bool(snapshot.logs) or snapshot.is_final
                is_news |= believes_running is False and snapshot.state.status == "running"
                left = deadline - loop.time()
                if is_news or left <= 0:
                    update = update_json(snapshot)
                    if snapshot.flow_version is not None:
                        update["flow_status"] = await patiently(public.flow_status, job.id)
                    return Response(update)
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


def _flow(job: JobRow, *, with_code: bool = True) -> dict[str, Any]:
    """What flows have besides: what they do, and how far they are."""
    if job.kind not in FLOW_KINDS:
        return {}
    parts = {"flow_status": public.flow_status(job.id)}
    if with_code:
        parts["raw_flow"] = public.definition(job.id)
    return {name: part for name, part in parts.items() if part is not None}


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
