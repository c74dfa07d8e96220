"""One run: /w/W/runs/<id>/ with its result, log, inputs, code and details; cancel it, run it again."""

import base64
import binascii
import json
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from jobs import listings, queue, reruns, run_list, runs, waiting
from jobs.errors import JobNotFound
from jobs.markup import frame_response, part_of, result_document
from jobs.models import FLOW_KINDS, CompletedJob, JobKind, Script
from jobs.run_list import Run
from jobs.shapes import JobRow
from jobs.views import flow_run
from jobs.views.code import code_of
from jobs.views.editor import draft_exists
from jobs.views.endpoints import Answer, endpoint
from workspaces import pages
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, NotFound

INLINE = (
    64 * 1024
)  # characters of arguments or of an error that the page itself carries; larger ones are loaded


@require_safe
@pages.workspace_page(operators=True)
def run(request: HttpRequest, caller: Caller, job_id: UUID) -> HttpResponse:
    """The page. Asked for by htmx: its head, and what has become known since (the result)."""
    job = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id, with_args=True)
    context = _context(caller, job)
    if job.kind in FLOW_KINDS:
        return flow_run.page(request, caller, job, context | _inputs(job))
    if pages.is_fragment(request):
        part = "runs/_why.html" if request.GET.get("part") == "why" else "runs/_update.html"
        return render(request, part, context)
    return render(request, "runs/run.html", context | code_of(caller, job) | _inputs(job))


def _context(caller: Caller, job: JobRow) -> dict[str, Any]:
    shown = run_list.with_summaries(caller, [job])[0]
    base = f"/w/{caller.workspace_id}/runs/{job.id}/"
    size = _result_size(job) if job.is_completed else 0
    return {
        "run": shown,
        "job": job,
        "base": base,
        "socket": f"/ws/w/{caller.workspace_id}/jobs/{job.id}",
        "error": _error(caller, job, size),
        "result_size": size,
        "why": _why(caller, job),
        "may_cancel": runs.may_change(caller, job) and not job.is_completed,
        "may_force": bool(job.canceled_by) and job.status == "running",
        "may_rerun": job.kind in reruns.KINDS
        and not (caller.is_operator and (shown.is_preview or job.kind == JobKind.FLOW_SCRIPT)),
        "has_code": job.kind in (JobKind.SCRIPT, JobKind.PREVIEW, JobKind.FLOW_SCRIPT),
        "edit_url": _edit_url(caller, job),
        "form_url": _form_url(caller, job),
        "progress": runs.get_progress(job.id) if job.status == "running" else None,
        "waited_ms": _waited_ms(job),
        "memory_peak": (job.mem_peak or 0) * 1024,  # bytes
        "without_isolation": _without_isolation(job),
        **flow_run.place_context(caller, job),
    }


def _without_isolation(job: JobRow) -> str:
    """What is said instead of an isolation where there is none to name."""
    if job.kind in FLOW_KINDS:
        return "each step has its own"
    return (
        "not known yet"
        if not job.is_completed
        else "none told: it had no process of its own, or its worker died"
    )


def _waited_ms(job: JobRow) -> float | None:
    """How long it lay in the queue."""
    return (
        None if job.started_at is None else max(0.0, (job.started_at - job.created_at).total_seconds() * 1000)
    )


def _why(caller: Caller, job: JobRow) -> waiting.Waiting | None:
    if job.status != "queued":
        return None
    try:
        return waiting.why_waiting(job.id, workspace_id=caller.workspace_id)
    except JobNotFound:  # it began, or ended, just now
        return None


def _result_size(job: JobRow) -> int:
    row = (
        CompletedJob.objects.filter(pk=job.id)
        .extra(select={"size": "octet_length(result::text)"})
        .values_list("size")
    )
    found = row.first()
    return int(found[0] or 0) if found else 0


def _error(caller: Caller, job: JobRow, size: int) -> dict[str, Any] | None:
    """The error of a failed run, when it has the usual shape and is not huge."""
    if job.status not in ("failure", "canceled") or size > INLINE:
        return None
    whole = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job.id, with_result=True)
    result = _decoded(whole.result)
    error = result.get("error") if isinstance(result, dict) else None
    if not isinstance(error, dict):
        return None
    stack = error.get("stack")
    return {
        "name": str(error.get("name") or "Error"),
        "message": str(error.get("message") or ""),
        "stack": "\n".join(map(str, stack)) if isinstance(stack, list) else str(stack or ""),
        "step_id": str(error.get("step_id") or ""),
    }


def _decoded(text: str | None) -> Any:
    """A result or arguments as Python values; None when they are nested too deeply to be read."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def _edit_url(caller: Caller, job: JobRow) -> str:
    """The editor of what ran, for those who may write it and when there is something to open."""
    path = job.runnable_path
    if caller.is_operator or not path:
        return ""
    live = Script.objects.filter(workspace=caller.workspace, path=path, archived=False, deleted=False)
    head = live.only("path", "extra_perms").first()
    if head is not None:
        return (
            pages.path_url("script-edit", caller.workspace_id, path)
            if caller.right_on(path, head.extra_perms) >= Right.WRITE
            else ""
        )
    return pages.path_url("script-edit", caller.workspace_id, path) if draft_exists(caller, path) else ""


def _form_url(caller: Caller, job: JobRow) -> str:
    if job.kind != JobKind.SCRIPT or job.runnable_id is None or not job.runnable_path:
        return ""
    return f"{pages.path_url('script-run', caller.workspace_id, job.runnable_path)}?fill={job.id}"


def _inputs(job: JobRow) -> dict[str, Any]:
    size = len(job.args or "")
    return {
        "args": _decoded(job.args) if size <= INLINE else None,
        "args_size": size,
        "are_args_big": size > INLINE,
    }


# --- what the page loads ----------------------------------------------------------------------------------------------


@endpoint(method="GET", operators=True)
def result_json(request: HttpRequest, caller: Caller, body: dict[str, Any], job_id: UUID) -> Answer:
    """The result as it was recorded; ?download=1 as a file."""
    job = _done(caller, job_id)
    return _attachment(
        (job.result or "null").encode(errors="replace"),
        "application/json; charset=utf-8",
        f"{_file_stem(job)}.json" if request.GET.get("download") else None,
    )


@endpoint(method="GET", operators=True)
def args_json(request: HttpRequest, caller: Caller, body: dict[str, Any], job_id: UUID) -> Answer:
    """The arguments; ?download=1 as a file."""
    job = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id, with_args=True)
    name = f"{_file_stem(job)}-inputs.json" if request.GET.get("download") else None
    return _attachment((job.args or "null").encode(errors="replace"), "application/json; charset=utf-8", name)


@endpoint(method="GET", operators=True)
def result_html(request: HttpRequest, caller: Caller, body: dict[str, Any], job_id: UUID) -> Answer:
    """The frame of an html or markdown result, under its own policy (jobs.markup)."""
    job = _done(caller, job_id)
    document = result_document(
        _decoded(job.result), at=request.GET.get("at", ""), theme=request.GET.get("theme", "auto")
    )
    if document is None:
        raise NotFound(f"the result of run {job_id} has no html or markdown at this place")
    return frame_response(document)


@endpoint(method="GET", operators=True)
def result_file(request: HttpRequest, caller: Caller, body: dict[str, Any], job_id: UUID) -> Answer:
    """The file of a {file: {content, filename}} result, as a download; ?at= names the place inside render_all."""
    job = _done(caller, job_id)
    value = part_of(_decoded(job.result), request.GET.get("at", ""))
    file = value.get("file") if isinstance(value, dict) else None
    content = file.get("content") if isinstance(file, dict) else None
    if not isinstance(file, dict) or not isinstance(content, str):
        raise NotFound(f"the result of run {job_id} has no file at this place")
    try:
        data = base64.b64decode(content, validate=False)
    except (binascii.Error, ValueError) as exc:
        raise BadRequest(f"the file of run {job_id} is not base64") from exc
    name = file.get("filename")
    return _attachment(data, "application/octet-stream", name if isinstance(name, str) and name else "file")


@endpoint(method="GET", operators=True)
def logs(request: HttpRequest, caller: Caller, body: dict[str, Any], job_id: UUID) -> Answer:
    """The whole log as a text file."""
    job = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
    text, _ = queue.read_logs(job.id)
    return _attachment(text.encode(errors="replace"), "text/plain; charset=utf-8", f"{_file_stem(job)}.log")


@endpoint(method="GET", operators=True)
def state(request: HttpRequest, caller: Caller, body: dict[str, Any], job_id: UUID) -> Answer:
    """How a test ended, for the editor."""
    job = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id, with_args=True)
    return {
        "id": str(job.id),
        "status": Run(job).status,
        "durationMs": job.duration_ms,
        "resultSize": _result_size(job) if job.is_completed else 0,
        "args": _decoded(job.args) if len(job.args or "") <= INLINE else None,
        "argsSize": len(job.args or ""),
        "code": job.raw_code,
    }


def _done(caller: Caller, job_id: UUID) -> JobRow:
    job = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id, with_result=True)
    if not job.is_completed:
        raise NotFound(f"run {job_id} has no result yet; it is {job.status}")
    return job


def _file_stem(job: JobRow) -> str:
    return f"{(job.runnable_path or 'run').rsplit('/', 1)[-1]}-{str(job.id)[:8]}"


def _attachment(data: bytes, content_type: str, name: str | None) -> HttpResponse:
    response = HttpResponse(data, content_type=content_type)
    response["X-Content-Type-Options"] = "nosniff"
    if name is not None:
        # RFC 5987 for names beyond ASCII; the plain form holds nothing that could end the header's quotes.
        plain = (
            "".join(c if c.isascii() and (c.isalnum() or c in "._- ") else "_" for c in name)[:100] or "file"
        )
        response["Content-Disposition"] = (
            f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name[:200], safe='')}"
        )
    return response


# --- what its buttons do ----------------------------------------------------------------------------------------------


@require_POST
@pages.workspace_page(operators=True)
def cancel(request: HttpRequest, caller: Caller, job_id: UUID) -> HttpResponse:
    """Ask the worker to stop it; with force, end it without the worker's consent."""
    force = request.POST.get("force") == "1"
    reason = request.POST.get("reason", "").strip() or None
    over = runs.cancel(caller, workspace_id=caller.workspace_id, job_id=job_id, reason=reason, force=force)
    if not pages.is_fragment(request):
        return HttpResponseRedirect(f"/w/{caller.workspace_id}/runs/{job_id}/")
    job = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
    response = render(request, "runs/_update.html", _context(caller, job))
    return pages.toast(response, "The run is canceled" if over else "Its worker was asked to stop it")


@require_POST
@pages.workspace_page(operators=True)
def run_again(request: HttpRequest, caller: Caller, job_id: UUID) -> HttpResponse:
    """Queue the same run with the same inputs; `latest=1` with the live version of its script."""
    job = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
    wishes = {job.runnable_path or "": {"use_latest_version": request.POST.get("latest") == "1"}}
    answer = reruns.rerun_jobs(
        caller,
        [job_id],
        script_options=wishes,
        flow_options=wishes,
        options=runs.RunOptions(trigger_kind="ui"),
    )[0]
    if answer.startswith("Error: "):
        raise BadRequest(answer.removeprefix("Error: "))
    return pages.go(request, f"/w/{caller.workspace_id}/runs/{answer}/")


@require_POST
@pages.workspace_page(operators=True)
def run_now(request: HttpRequest, caller: Caller, job_id: UUID) -> HttpResponse:
    """Do not wait for the time that it is scheduled for."""
    runs.run_now(caller, job_id)
    return pages.go(request, f"/w/{caller.workspace_id}/runs/{job_id}/")
