"""What the page of a flow's run loads beyond that of a script's: its picture, iterations, timeline; restarting it."""

import json
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from jobs import listings
from jobs.flows import approval_info, deployed, picture, restarting, timeline
from jobs.flows.restart_plan import Place
from jobs.models import FLOW_KINDS, Flow, JobKind
from jobs.runs import RunOptions
from jobs.shapes import JobRow
from jobs.views.code import code_of
from jobs.views.endpoints import Answer, endpoint
from workspaces import pages
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, NotFound

STATUSES = ("", "success", "failure", "running", "queued", "pending", "canceled", "skipped")


def page(request: HttpRequest, caller: Caller, job: JobRow, context: dict[str, Any]) -> HttpResponse:
    """The page of a flow job; for htmx its head, with what has become known since. `context`: as of any run."""
    context = context | _flow_context(caller, job)
    if pages.is_fragment(request):
        parts = {"why": "runs/_why.html", "waits": "runs/_flow_waits.html"}
        part = parts.get(request.GET.get("part", ""), "runs/_flow_update.html")
        return render(request, part, context)
    return render(request, "runs/flow.html", context)


def _flow_context(caller: Caller, job: JobRow) -> dict[str, Any]:
    waits = approval_info.waiting_info(caller, job) if not job.is_completed else []
    return {
        "waits": waits,
        **_addresses(caller, job),
        "is_body": job.kind == JobKind.FLOW_BODY,
        "sleeps_until": job.scheduled_for if not waits and _sleeps(job) else None,
    }


def _sleeps(job: JobRow) -> bool:
    """A flow between two steps, or before a retry."""
    return (
        job.started_at is not None
        and not job.is_completed
        and job.scheduled_for is not None
        and job.scheduled_for > timezone.now()
    )


def place_context(caller: Caller, job: JobRow) -> dict[str, str]:
    """{parent_url, parent_words} of a job that a flow, or another job, started; empty for others."""
    if job.parent_job is None:
        return {"parent_url": "", "parent_words": ""}
    place = picture.place_of(job.id) if job.flow_step_id is not None else None
    if place is None:
        return {
            "parent_url": f"/w/{caller.workspace_id}/runs/{job.parent_job}/",
            "parent_words": "its parent run",
        }
    query = {"step": place.step_id} | {f"n.{loop}": n + 1 for loop, n in place.chosen.items()}
    return {
        "parent_url": f"/w/{caller.workspace_id}/runs/{place.flow_id}/?{urlencode(query)}",
        "parent_words": f"step {place.step_id} of its flow",
    }


def _addresses(caller: Caller, job: JobRow) -> dict[str, str]:
    """The flow's own pages, as far as there are any for this caller."""
    none = {"flow_url": "", "edit_url": "", "form_url": ""}
    path = job.runnable_path
    if not path or job.kind not in (JobKind.FLOW, JobKind.FLOW_PREVIEW):
        return none
    found = Flow.objects.filter(workspace=caller.workspace, path=path, archived=False)
    live = found.only("path", "extra_perms").first()
    if live is None:
        return none
    right = caller.right_on(path, live.extra_perms)
    here = caller.workspace_id
    return {
        "flow_url": pages.path_url("flow", here, path) if right >= Right.READ else "",
        "edit_url": pages.path_url("flow-edit", here, path)
        if right >= Right.WRITE and not caller.is_operator
        else "",
        "form_url": f"{pages.path_url('flow-run', here, path)}?fill={job.id}"
        if right >= Right.READ and job.kind == JobKind.FLOW
        else "",
    }


# --- what the page loads ----------------------------------------------------------------------------------------------


@endpoint(method="GET", operators=True)
def flow_json(request: HttpRequest, caller: Caller, body: dict[str, Any], job_id: UUID) -> Answer:
    """{value (only with ?definition=1), states, matters: id of the step to look at, chosen}; see jobs.flows.picture.

    ?watch={"<loop id>": n} chooses iterations.
    """
    job = _flow_job(caller, job_id)
    run = picture.read_run(job.id)
    chosen = _chosen(request)
    states = picture.step_states(run, chosen)
    answer: dict[str, Any] = {
        "states": states,
        "matters": picture.what_matters(run, states, is_over=job.is_completed),
        "chosen": chosen,
        "status": job.status,
    }
    if request.GET.get("definition") == "1":
        answer["value"] = run.value
    return answer


def _chosen(request: HttpRequest) -> dict[str, int]:
    try:
        given = json.loads(request.GET.get("watch") or "{}")
    except (ValueError, RecursionError) as exc:
        raise BadRequest("watch should be a JSON object: {<id of a loop>: number of the iteration}") from exc
    if not isinstance(given, dict) or not all(type(n) is int for n in given.values()):
        raise BadRequest("watch should be a JSON object: {<id of a loop>: number of the iteration}")
    return given


@endpoint(method="GET", operators=True)
def iterations_json(request: HttpRequest, caller: Caller, body: dict[str, Any], job_id: UUID) -> Answer:
    """A page of the iterations of a loop whose module belongs to this flow job: ?step=c&status=failure&after=99."""
    job = _flow_job(caller, job_id)
    status = request.GET.get("status", "")
    if status not in STATUSES:
        raise BadRequest(f"status {status[:40]!r} is unknown; expected one of {', '.join(STATUSES[1:])}")
    after = request.GET.get("after", "-1")
    if not after.lstrip("-").isascii() or not after.lstrip("-").isdigit() or len(after) > 9:
        raise BadRequest("after should be the number of the last iteration of the page before")
    rows = picture.list_iterations(
        job.id, request.GET.get("step", "")[:255], status=status, after=int(after), limit=picture.PAGE + 1
    )
    return {"rows": rows[: picture.PAGE], "more": len(rows) > picture.PAGE}


@endpoint(method="GET", operators=True)
def timeline_json(request: HttpRequest, caller: Caller, body: dict[str, Any], job_id: UUID) -> Answer:
    """The bars of the timeline: {rows: [{id, bars: [{job, n, status, from, to}]}], start, end, left_out}."""
    job = _flow_job(caller, job_id)
    return timeline.read_timeline(picture.read_run(job.id))


@endpoint(method="GET", operators=True)
def code_json(request: HttpRequest, caller: Caller, body: dict[str, Any], job_id: UUID) -> Answer:
    """{code, language, path, version} of a step that ran a script; code null when it may not be read, or is gone."""
    job = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id, with_args=True)
    found = code_of(caller, job)
    version = found["version"]
    return {
        "code": found["code"],
        "language": found["language"],
        "path": job.runnable_path,
        "version": version.hash_hex if version is not None else None,
    }


@endpoint(operators=True)
def restart(request: HttpRequest, caller: Caller, body: dict[str, Any], job_id: UUID) -> Answer:
    """{url} of a new run that begins at `step_id` (of a loop or branchall at `branch_or_iteration_n`, inside of it at
    `nested_path`) of this one; `failed_only`: of a loop only what failed; `latest`: with the live version of the flow."""
    place, *nested = [_place(part) for part in [body, *_list_of(body, "nested_path")]]
    version = None
    if body.get("latest"):
        job = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
        version = deployed.live_version(deployed.get_flow(caller, job.runnable_path or "")).pk
    new_id = restarting.restart(
        caller,
        job_id,
        step_id=place.step_id,
        branch_or_iteration_n=place.n,
        nested_path=nested,
        flow_version=version,
        failed_only=bool(body.get("failed_only")),
        options=RunOptions(trigger_kind="ui"),
    )
    return {"url": f"/w/{caller.workspace_id}/runs/{new_id}/"}


def _list_of(body: dict[str, Any], name: str) -> list[Any]:
    value = body.get(name) or []
    if not isinstance(value, list):
        raise BadRequest(f"{name} should be a list of {{step_id, branch_or_iteration_n?}}")
    return value


def _place(given: Any) -> Place:
    step_id = given.get("step_id") if isinstance(given, dict) else None
    n = given.get("branch_or_iteration_n") if isinstance(given, dict) else None
    if not isinstance(step_id, str) or (n is not None and type(n) is not int):
        raise BadRequest("expected {step_id, branch_or_iteration_n?}: the id of a step, and a number from 0")
    return Place(step_id, n)


def _flow_job(caller: Caller, job_id: UUID) -> JobRow:
    job = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
    if job.kind not in FLOW_KINDS:
        raise NotFound(f"run {job_id} is not a flow")
    return job
