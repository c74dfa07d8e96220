"""REST routes that start jobs: /api/w/<workspace>/jobs/run..., run_wait_result..., run_and_stream...

What to run comes from the address or the body, how from the query, the arguments from the body
(reference/triggers-and-webhooks.md section 1).
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from jobs import canceling, reruns, runs, scripts
from jobs.api.events import job_events
from jobs.api.replies import read_reply
from jobs.api.waiting import WaitingView, event_stream, on_request_thread
from jobs.errors import JobNotFound, WaitTimedOut
from jobs.following import in_database, wait_for
from jobs.listener import get_listener
from jobs.models import new_job_id
from jobs.payloads import Call, Payload, read_call
from jobs.runs import Preview, RunOptions
from workspaces.api.base import WorkspaceView, describe_problems, read_body
from workspaces.api.fields import TEXT_CREATED, Json, Text
from workspaces.api.protocol import text
from workspaces.errors import BadRequest, PermissionDenied
from workspaces.jsontext import parse_json
from workspaces.middleware import is_by_cookie, is_cross_site

logger = logging.getLogger(__name__)
DISCONNECTED = "http connection broke"


class RunQuery(serializers.Serializer):
    """How to run."""

    scheduled_for = serializers.DateTimeField(required=False)
    scheduled_in_secs = serializers.FloatField(required=False)
    parent_job = serializers.UUIDField(required=False)
    root_job = serializers.UUIDField(required=False)
    job_id = serializers.UUIDField(required=False)
    tag = serializers.CharField(required=False, max_length=255)
    timeout = serializers.IntegerField(required=False)
    priority = serializers.IntegerField(required=False)
    invisible_to_owner = serializers.BooleanField(required=False)
    skip_preprocessor = serializers.BooleanField(required=False)
    include_header = serializers.CharField(required=False)
    include_query = serializers.CharField(required=False)
    raw = serializers.BooleanField(required=False)
    wrap_body = serializers.BooleanField(required=False)
    payload = serializers.CharField(required=False)
    queue_limit = serializers.IntegerField(required=False, min_value=0, max_value=2**31 - 1)
    retry = serializers.CharField(required=False)


class PreviewBody(serializers.Serializer):
    """Code to run without deploying it."""

    content = Text(required=False, allow_null=True)
    lock = Text(required=False, allow_null=True)
    language = Text(required=False, allow_null=True)
    path = Text(required=False, allow_null=True)
    script_hash = Text(required=False, allow_null=True)
    args = Json(required=False)
    tag = Text(required=False, allow_null=True)


def run_query(request: Request) -> dict[str, Any]:
    """The query, checked; empty parameters count as absent. Raises BadRequest."""
    given = {name: value for name, value in request.query_params.items() if value != ""}
    if not given:
        return {}
    serializer = RunQuery(data=given)
    if not serializer.is_valid():
        raise BadRequest("query: " + describe_problems(serializer.errors))
    return dict(serializer.validated_data)


def run_options(request: Request, wanted: dict[str, Any], *, waits: bool = False) -> RunOptions:
    """The options that a query asks for."""
    by_job = getattr(request.auth, "job_id", None) is not None
    return RunOptions(
        job_id=wanted.get("job_id"),
        parent_job=wanted.get("parent_job"),
        root_job=wanted.get("root_job"),
        scheduled_for=wanted.get("scheduled_for"),
        scheduled_in_s=wanted.get("scheduled_in_secs"),
        tag=wanted.get("tag"),
        timeout_s=wanted.get("timeout"),
        priority=wanted.get("priority"),
        visible_to_owner=not wanted.get("invisible_to_owner", False),
        skip_preprocessor=wanted.get("skip_preprocessor", False),
        trigger_kind=None if by_job else "ui" if is_by_cookie(request._request) else "webhook",
        queue_limit=wanted.get("queue_limit", settings.QUEUE_LIMIT_WAIT_RESULT if waits else None),
        retry=_retry(wanted.get("retry")),
    )


def _retry(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        retry = parse_json(text)
    except BadRequest as exc:
        raise BadRequest(f"query: retry is not valid JSON ({exc.message})") from exc
    if not isinstance(retry, dict):
        raise BadRequest(
            'query: retry must be an object such as {"constant": {"attempts": 3, "seconds": 10}}'
        )
    return retry


def payload_of(request: Request, wanted: dict[str, Any]) -> Payload:
    """The arguments of a run. Raises BadRequest, UnsupportedMedia."""
    plain = request._request
    content_type = plain.headers.get("Content-Type", "")
    is_form = content_type.lower().startswith("multipart/form-data")
    return read_call(
        Call(
            content_type=content_type,
            body=b"" if is_form or request.method == "GET" else plain.body,
            form=plain.POST.dict() if is_form else None,
            has_files=is_form and bool(plain.FILES),
            headers=plain.headers,
            query=request.query_params.dict(),
            include_headers=[*settings.INCLUDE_HEADERS, *_names(wanted.get("include_header"))],
            include_query=_names(wanted.get("include_query")),
            raw=wanted.get("raw", False),
            wrap_body=wanted.get("wrap_body", False),
            payload=wanted.get("payload"),
        )
    )


def _names(text: str | None) -> list[str]:
    return text.split(",") if text else []


class RunView(WorkspaceView):
    """A route that starts one job: `start` reads what and how, and queues it."""

    domain = "jobs"
    verb = "run"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        # Starting a job by GET works for programs, not for links on other people's pages.
        if is_by_cookie(request._request) and is_cross_site(request._request):
            raise PermissionDenied(
                "this request came from another site; send the token in an Authorization header instead"
            )
        super().initial(request, *args, **kwargs)

    def start(self, request: Request, options: RunOptions, wanted: dict[str, Any], **address: Any) -> UUID:
        raise NotImplementedError


class RunPath(RunView):
    def start(self, request: Request, options: RunOptions, wanted: dict[str, Any], **address: Any) -> UUID:
        script = scripts.get_to_run(self.caller, path=address["path"])
        return runs.run_script(self.caller, script, payload_of(request, wanted), options)


class RunHash(RunView):
    def start(self, request: Request, options: RunOptions, wanted: dict[str, Any], **address: Any) -> UUID:
        script = scripts.get_to_run(self.caller, hash=scripts.parse_hash(address["hash"]))
        return runs.run_script(self.caller, script, payload_of(request, wanted), options)


class RunPreview(RunView):
    def start(self, request: Request, options: RunOptions, wanted: dict[str, Any], **address: Any) -> UUID:
        body = read_body(PreviewBody, request)
        args = body.get("args")
        if args is not None and not isinstance(args, dict):
            raise BadRequest("args must be a JSON object, keyed by parameter name")
        version = body.get("script_hash")
        preview = Preview(
            content=body.get("content"),
            lock=body.get("lock"),
            language=body.get("language"),
            path=body.get("path"),
            script_hash=scripts.parse_hash(version) if version else None,
            args=args or {},
            tag=body.get("tag"),
        )
        return runs.run_preview(self.caller, preview, options)


# --- asynchronous: answer the id ---


class QueueView(RunView):
    """Queue, then answer the id."""

    def queue(self, request: Request, **address: Any) -> Any:
        wanted = run_query(request)
        return text(str(self.start(request, run_options(request, wanted), wanted, **address)), 201)


class QueuePath(QueueView, RunPath):
    """Run the live version at a path. Answers the job's id."""

    @extend_schema(
        operation_id="runScriptByPath", request=dict, parameters=[RunQuery], responses=TEXT_CREATED
    )
    def post(self, request: Request, workspace: str, path: str) -> Any:
        return self.queue(request, path=path)


class QueueHash(QueueView, RunHash):
    """Run one version. Answers the job's id."""

    @extend_schema(
        operation_id="runScriptByHash", request=dict, parameters=[RunQuery], responses=TEXT_CREATED
    )
    def post(self, request: Request, workspace: str, hash: str) -> Any:
        return self.queue(request, hash=hash)


class QueuePreview(QueueView, RunPreview):
    """Run code as it is written. Answers the job's id."""

    @extend_schema(
        operation_id="runScriptPreview", request=PreviewBody, parameters=[RunQuery], responses=TEXT_CREATED
    )
    def post(self, request: Request, workspace: str) -> Any:
        return self.queue(request)


class RerunJobs(RunView):
    """Run jobs again with their arguments: a line with the new id, or `Error: ...`, for each."""

    class Body(serializers.Serializer):
        job_ids = serializers.ListField(child=serializers.UUIDField(), max_length=runs.MAX_BATCH)
        script_options_by_path = serializers.DictField(child=serializers.DictField(), required=False)
        flow_options_by_path = serializers.DictField(child=serializers.DictField(), required=False)

    @extend_schema(operation_id="batchReRunJobs", request=Body, responses=TEXT_CREATED)
    def post(self, request: Request, workspace: str) -> Any:
        body = read_body(self.Body, request)
        lines = reruns.rerun_jobs(
            self.caller,
            body["job_ids"],
            script_options=body.get("script_options_by_path") or {},
            flow_options=body.get("flow_options_by_path") or {},
            options=run_options(request, {}),
        )
        return text("".join(f"{line}\n" for line in lines), 201)


# --- synchronous: answer the result ---


class WaitView(WaitingView, RunView):
    """Queue, then wait for the result. A client that goes away cancels the job."""

    queries_at_once = True

    def _start(self, request: Request, address: dict[str, Any]) -> tuple[UUID, "asyncio.Future[UUID]"]:
        wanted = run_query(request)
        options = run_options(request, wanted, waits=True)
        # The id is chosen before the job exists, so that nothing is missed between queueing and watching it.
        job_id = options.job_id or new_job_id()
        options = replace(options, job_id=job_id)
        return job_id, asyncio.ensure_future(
            on_request_thread(self.start, request, options, wanted, **address)
        )

    async def wait(self, request: Request, **address: Any) -> HttpResponseBase:
        listener = await get_listener()
        job_id, starting = self._start(request, address)
        with listener.watch_job(job_id) as watch:
            try:
                await asyncio.shield(starting)
                limit = settings.TIMEOUT_WAIT_RESULT
                answer = await wait_for(watch, partial(self.look, job_id), timeout_s=limit)
                if answer is None:
                    raise WaitTimedOut(
                        f"job {job_id} has no result after {limit} s (TIMEOUT_WAIT_RESULT); it goes on, ask for "
                        f"its result at jobs_u/completed/get_result_maybe/{job_id}"
                    )
                return answer
            except asyncio.CancelledError:
                await asyncio.wait([starting])
                if starting.exception() is None:
                    await in_database(self._abandon, job_id)
                raise

    def look(self, job_id: UUID) -> HttpResponse | None:
        """The answer, once there is one. Queries."""
        return read_reply(job_id)

    def _abandon(self, job_id: UUID) -> None:
        try:
            canceling.cancel_job(
                job_id=job_id,
                workspace_id=self.caller.workspace_id,
                username=self.caller.username,
                reason=DISCONNECTED,
            )
        except JobNotFound:
            logger.info("job=%s ended while its client left", job_id)


class WaitPath(WaitView, RunPath):
    """Run the live version at a path and answer its result."""

    @extend_schema(
        operation_id="runWaitResultScriptByPath", request=dict, parameters=[RunQuery], responses={200: dict}
    )
    async def post(self, request: Request, workspace: str, path: str) -> HttpResponseBase:
        return await self.wait(request, path=path)

    @extend_schema(operation_id="runWaitResultScriptByPathGet", parameters=[RunQuery], responses={200: dict})
    async def get(self, request: Request, workspace: str, path: str) -> HttpResponseBase:
        return await self.wait(request, path=path)


class WaitHash(WaitView, RunHash):
    """Run one version and answer its result."""

    @extend_schema(
        operation_id="runWaitResultScriptByHash", request=dict, parameters=[RunQuery], responses={200: dict}
    )
    async def post(self, request: Request, workspace: str, hash: str) -> HttpResponseBase:
        return await self.wait(request, hash=hash)

    @extend_schema(operation_id="runWaitResultScriptByHashGet", parameters=[RunQuery], responses={200: dict})
    async def get(self, request: Request, workspace: str, hash: str) -> HttpResponseBase:
        return await self.wait(request, hash=hash)


class WaitPreview(WaitView, RunPreview):
    """Run code as it is written and answer its result."""

    @extend_schema(
        operation_id="runScriptPreviewAndWaitResult",
        request=PreviewBody,
        parameters=[RunQuery],
        responses={200: dict},
    )
    async def post(self, request: Request, workspace: str) -> HttpResponseBase:
        return await self.wait(request)


# --- streaming: answer as it goes ---


class StreamView(WaitView):
    """Queue, then send what happens as server-sent events. The job goes on when the client leaves."""

    async def stream(self, request: Request, **address: Any) -> HttpResponseBase:
        job_id, starting = self._start(request, address)
        await asyncio.shield(starting)
        events: AsyncIterator[bytes] = job_events(job_id, with_result=True)
        return event_stream(events)


class StreamPath(StreamView, RunPath):
    """Run the live version at a path and follow it."""

    @extend_schema(
        operation_id="runAndStreamScriptByPath", request=dict, parameters=[RunQuery], responses={200: str}
    )
    async def post(self, request: Request, workspace: str, path: str) -> HttpResponseBase:
        return await self.stream(request, path=path)

    @extend_schema(operation_id="runAndStreamScriptByPathGet", parameters=[RunQuery], responses={200: str})
    async def get(self, request: Request, workspace: str, path: str) -> HttpResponseBase:
        return await self.stream(request, path=path)


class StreamHash(StreamView, RunHash):
    """Run one version and follow it."""

    @extend_schema(
        operation_id="runAndStreamScriptByHash", request=dict, parameters=[RunQuery], responses={200: str}
    )
    async def post(self, request: Request, workspace: str, hash: str) -> HttpResponseBase:
        return await self.stream(request, hash=hash)

    @extend_schema(operation_id="runAndStreamScriptByHashGet", parameters=[RunQuery], responses={200: str})
    async def get(self, request: Request, workspace: str, hash: str) -> HttpResponseBase:
        return await self.stream(request, hash=hash)
