"""The flow editor: build a flow, test it, keep it as a draft, compare, deploy. The page, and what its script calls."""

import json
import secrets
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from jobs import dedicated, drafts, flow_runs, languages, listings, runs, scripts, tags
from jobs.flows import deployed, peeking, trying
from jobs.flows.text import BadText, flow_from_text, to_yaml
from jobs.flows.value import BadFlow, ScriptRef, SubFlow, parse_flow_value
from jobs.listings import JobFilters
from jobs.models import Draft, Flow, FlowVersion, JobKind, Script
from jobs.payloads import Payload
from jobs.shapes import JobRow
from jobs.signatures import infer_schema
from jobs.views.editor import iso, owners_for, user_part
from jobs.views.endpoints import Answer, endpoint, number_of, object_of, text_of, texts_of
from workspaces import pages
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, NotFound
from workspaces.models import Group

LAST_TESTS = 10
MOST_FOUND = 50  # scripts or flows that a search offers
MOST_WORDS = 8  # of a search
MOST_GROUPS = 500

EMPTY: dict[str, Any] = {
    "summary": "",
    "description": "",
    "value": {"modules": []},
    "schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {},
        "required": [],
        "order": [],
    },
}


# --- the page ---------------------------------------------------------------------------------------------------------


def near_flows(caller: Caller, path: str = "", **parts: Any) -> list[pages.Near]:
    """Flows whose path resembles one that does not exist."""
    return pages.nearest(
        path, deployed.list_paths(caller), lambda p: pages.path_url("flow", caller.workspace_id, p)
    )


@require_safe
@pages.workspace_page
def new_flow(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/W/flows/new/?from=: the editor with an empty flow, or with a copy of another one."""
    caller.identity.require_scope(deployed.SCOPE, "write")
    source = request.GET.get("from")
    if source:
        flow = deployed.get_flow(caller, source)
        value = flow_value(flow, deployed.live_version(flow))
        name = f"{flow.path.rsplit('/', 1)[-1]}_copy"
    else:
        value = EMPTY
        name = f"flow_{secrets.token_hex(3)}"
    return _editor(request, caller, path=f"u/{user_part(caller)}/{name}", value=value, live=None, draft=None)


@require_safe
@pages.workspace_page(near=near_flows)
def edit_flow(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/W/flows/<path>/edit/: the draft when there is one, else the live version."""
    draft = drafts.get_draft(caller, path, kind=deployed.DRAFT)
    live: tuple[Flow, FlowVersion] | None = None
    try:
        flow = deployed.get_flow(caller, path, right=Right.WRITE)
        live = flow, deployed.live_version(flow)
    except NotFound:
        if draft is None:
            raise
    value = draft.value if draft is not None else flow_value(*live) if live is not None else EMPTY
    return _editor(request, caller, path=path, value=value, live=live, draft=draft)


def _editor(
    request: HttpRequest,
    caller: Caller,
    *,
    path: str,
    value: dict[str, Any],
    live: tuple[Flow, FlowVersion] | None,
    draft: Draft | None,
) -> HttpResponse:
    version = live[1] if live is not None else None
    base = draft.base_hash if draft is not None else version.pk if version is not None else None
    at = {"workspace": caller.workspace_id}
    names = (
        "check",
        "draft",
        "discard",
        "test",
        "step",
        "tests",
        "deploy",
        "yaml",
        "find",
        "callee",
        "peek",
        "inputs",
    )
    state = {
        "path": path,
        "isNew": live is None,
        "value": value,
        "base": base,
        "head": head_of(version) if version is not None else None,
        "deployed": flow_value(*live) if live is not None else None,
        "draftSavedAt": iso(draft.edited_at) if draft is not None else None,
        "lastTest": _last_test(caller, path),
        "groups": list(
            Group.objects.filter(workspace=caller.workspace)
            .order_by("name")
            .values_list("name", flat=True)[:MOST_GROUPS]
        ),
        "tags": list(tags.custom_tags_for(caller.workspace_id)),
        "languages": languages.for_page(),
        "resourcesUrl": f"/api/w/{caller.workspace_id}/resources/list?resource_type=",
        "urls": {
            **{name: reverse(f"flow-editor-{name}", kwargs=at) for name in names},
            "signature": reverse("editor-signature", kwargs=at),
            "picks": reverse("editor-picks", kwargs=at),
            "paths": reverse("editor-paths", kwargs=at),
            "flows": f"/w/{caller.workspace_id}/flows/",
            "scripts": f"/w/{caller.workspace_id}/scripts/",
            "runs": reverse("runs", kwargs=at),
            "socket": f"/ws/w/{caller.workspace_id}/jobs/",
        },
    }
    context = {
        "state": state,
        "path": path,
        "flow": live[0] if live is not None else None,
        "version": version,
        "value": value,
        "schema": value.get("schema") or EMPTY["schema"],
        "owners": owners_for(caller, path),
        "owner": "/".join(path.split("/")[:2]),
        "name": path.split("/", 2)[-1],
        "draft": draft,
        "is_stale": version is not None and base is not None and base != version.pk,
        "tests": last_tests(caller, path),
    }
    return render(request, "flows/edit.html", context)


def flow_value(flow: Flow, version: FlowVersion) -> dict[str, Any]:
    """A version as the editor holds it."""
    return {
        "summary": flow.summary,
        "description": flow.description,
        "value": version.value,
        "schema": version.schema or EMPTY["schema"],
        "tag": flow.tag,
        "timeout": flow.timeout,
        "priority": flow.priority,
        "labels": flow.labels,
        "dedicated_worker": dedicated.is_dedicated(flow.extra) or None,
    }


def head_of(version: FlowVersion) -> dict[str, Any]:
    """What the editor says of the live version: number, author, time."""
    return {"version": version.pk, "by": version.created_by, "at": iso(version.created_at)}


def last_tests(caller: Caller, path: str) -> list[JobRow]:
    """The newest tests that this person ran at `path`."""
    mine = JobFilters(
        path_exact=path,
        kinds=[JobKind.FLOW_PREVIEW],
        created_by=listings.patterns(caller.username),
        has_null_parent=True,
    )
    return listings.list_jobs(caller, mine, limit=LAST_TESTS)


def _last_test(caller: Caller, path: str) -> dict[str, Any] | None:
    """The test whose values the picker shows at first: the newest one."""
    newest = next(iter(last_tests(caller, path)), None)
    return {"id": str(newest.id), "status": newest.status} if newest is not None else None


# --- checking, drafts, deploying --------------------------------------------------------------------------------------


@endpoint
def check(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """What keeps a flow from running: [{place, message}], places as in errors of the API. Empty when it is sound."""
    value = object_of(body, "value")
    try:
        parse_flow_value(value)
    except BadFlow as exc:
        return {"problems": [{"place": place, "message": message} for place, message in exc.problems]}
    return {"problems": _missing_callees(caller, value)}


def _missing_callees(caller: Caller, value: dict[str, Any]) -> list[dict[str, str]]:
    """Steps that run a script or flow which does not exist, or which the caller may not read."""
    wanted: dict[str, list[tuple[str, str]]] = {"script": [], "flow": []}
    for place, module in parse_flow_value(value).every_module():
        if isinstance(module.value, ScriptRef | SubFlow):
            wanted[module.value.type].append((place, module.value.path))
    problems = []
    for kind, uses in wanted.items():
        paths = {path for _, path in uses if not path.startswith("hub/")}
        known = (
            set(_callable(caller, kind).filter(path__in=paths).values_list("path", flat=True))
            if paths
            else set()
        )
        problems += [
            {"place": f"{place}.value.path", "message": f"there is no {kind} {path} that you may read"}
            for place, path in uses
            if path in paths and path not in known
        ]
    return problems


def _callable(caller: Caller, kind: str) -> QuerySet[Any]:
    if kind == "script":
        return caller.readable(Script.objects.filter(archived=False, deleted=False), scope="scripts")
    return caller.readable(Flow.objects.filter(archived=False), scope=deployed.SCOPE)


@endpoint
def save_draft(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """Keep what is in the editor."""
    saved_at = drafts.save_draft(
        caller,
        text_of(body, "path"),
        object_of(body, "value"),
        base_hash=_version_of(body),
        was=text_of(body, "was") or None,
        kind=deployed.DRAFT,
    )
    return {"savedAt": iso(saved_at)}


@endpoint
def discard_draft(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """Forget what was kept."""
    drafts.discard_draft(caller, text_of(body, "path"), kind=deployed.DRAFT)
    return {}


@endpoint
def deploy(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """Make the editor's flow the live version. 409 with the other version when somebody was faster.

    `path` is where it shall be, `was` where it is deployed now ("" for a new flow): different ones move it.
    """
    path, was, base = text_of(body, "path"), text_of(body, "was"), _version_of(body)
    at = was or path
    live = Flow.objects.filter(workspace=caller.workspace, path=at, archived=False).first()
    if live is not None and live.version_id != base:
        flow = deployed.get_flow(caller, at)  # only who may read it is shown it
        version = deployed.live_version(flow)
        other = {
            "head": head_of(version),
            "text": to_yaml(flow_value(flow, version)),
            "message": version.deployment_message,
        }
        return JsonResponse(other, status=409)
    draft = draft_from(path, object_of(body, "value"), live)
    message = text_of(body, "message")
    if live is None:
        made = deployed.create_flow(caller, draft, deployment_message=message)
    else:
        made = deployed.update_flow(caller, at, draft, base_version=base, deployment_message=message)
    for kept in {path, at}:
        drafts.discard_draft(caller, kept, kind=deployed.DRAFT)
    pages.say(request, f"Deployed {path}, version {made.pk}")
    return {"version": made.pk, "url": pages.path_url("flow", caller.workspace_id, path)}


def draft_from(path: str, value: dict[str, Any], live: Flow | None) -> deployed.FlowDraft:
    """The version that the editor's state means; settings that the editor does not show stay as `live` has them.

    Raises BadRequest: a setting of the wrong kind.
    """
    return deployed.FlowDraft(
        path=path,
        value=object_of(value, "value"),
        summary=text_of(value, "summary"),
        description=text_of(value, "description"),
        schema=object_of(value, "schema") or None,
        tag=text_of(value, "tag") or None,
        timeout_s=number_of(value, "timeout"),
        priority=number_of(value, "priority"),
        labels=texts_of(value, "labels"),
        visible_to_runner_only=live.visible_to_runner_only if live else None,
        on_behalf_of_email=live.on_behalf_of_email if live else None,
        extra=dedicated.wished(live.extra if live else {}, value.get("dedicated_worker")),
    )


def _version_of(body: dict[str, Any]) -> int | None:
    base = body.get("base")
    if base is None:
        return None
    if isinstance(base, bool) or not isinstance(base, int):
        raise BadRequest("base should be the number of a version")
    return base


# --- YAML -------------------------------------------------------------------------------------------------------------


@endpoint
def convert(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """A flow as YAML ({value} -> {text}), or YAML as a flow ({text} -> {value} or {problem: {line, column, message}})."""
    if "text" not in body:
        return {"text": to_yaml(object_of(body, "value"))}
    try:
        return {"value": flow_from_text(text_of(body, "text"))}
    except BadText as exc:
        sentence = pages.sentence(exc.message.removeprefix(f"line {exc.line}, column {exc.column}: "))
        return {"problem": {"line": exc.line, "column": exc.column, "message": sentence}}


# --- testing ----------------------------------------------------------------------------------------------------------


@endpoint
def test(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """Run the flow as it stands in the editor (the script of the page leaves out what comes after `up to here`)."""
    job_id = flow_runs.run_flow_preview(
        caller,
        flow_runs.FlowPreview(
            value=object_of(body, "value"),
            path=text_of(body, "path") or None,
            args=object_of(body, "args"),
            tag=text_of(body, "tag") or None,
        ),
        runs.RunOptions(trigger_kind="ui", skip_preprocessor=True),
    )
    return {"id": str(job_id)}


@endpoint
def test_step(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """Run one step alone, with arguments: its inline code, the script or the flow that it calls."""
    value = object_of(object_of(body, "module"), "value")
    args, path = object_of(body, "args"), text_of(body, "path")
    options = runs.RunOptions(trigger_kind="ui")
    kind = value.get("type")
    if kind == "rawscript":
        preview = runs.Preview(
            content=text_of(value, "content"),
            language=text_of(value, "language"),
            path=f"{path}/{text_of(object_of(body, 'module'), 'id')}" if path else None,
            args=args,
            tag=text_of(value, "tag") or None,
        )
        return {"id": str(runs.run_preview(caller, preview, options))}
    if kind == "script":
        pinned = _hash_of(value)
        preview = runs.Preview(path=text_of(value, "path"), script_hash=pinned, args=args)
        return {"id": str(runs.run_preview(caller, preview, options))}
    if kind == "flow":
        flow, version = deployed.get_to_run(caller, path=text_of(value, "path"))
        return {"id": str(flow_runs.run_flow(caller, flow, version, Payload(args=args), options))}
    raise BadRequest(f"a step of type {str(kind)[:40]} cannot run alone; test the flow up to here instead")


def _hash_of(value: dict[str, Any]) -> int | None:
    given = value.get("hash")
    if given is None or given == "":
        return None
    return scripts.parse_hash(str(given))


@endpoint
def inputs(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """{job, step, value}: the arguments that a step of the flow would get after that test."""
    try:
        job_id = UUID(text_of(body, "job"))
    except ValueError as exc:
        raise BadRequest("job should be the id of a test") from exc
    return {"args": trying.inputs_of(caller, job_id, object_of(body, "value"), text_of(body, "step"))}


@endpoint(method="GET")
def tests(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """The list of the last tests, as the page draws it."""
    return render(request, "flows/_tests.html", {"tests": last_tests(caller, request.GET.get("path", ""))})


@endpoint(method="GET")
def peek(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """?job=&root=args|step:<id>&at=[keys]&offset=: one level of a value of a test, or {problem} when there is none."""
    try:
        job_id = UUID(request.GET.get("job", ""))
        way = json.loads(request.GET.get("at") or "[]")
        offset = int(request.GET.get("offset") or 0)
    except (ValueError, RecursionError) as exc:
        raise BadRequest("job should be the id of a run, at a JSON list, offset a number") from exc
    if not isinstance(way, list):
        raise BadRequest("at should be a JSON list of keys and indices")
    try:
        return peeking.peek(caller, job_id, request.GET.get("root", ""), way, offset=offset)
    except NotFound as exc:  # an ordinary answer: the test did not get there
        return {"type": "missing", "items": [], "more": False, "problem": pages.sentence(exc.message)}


# --- scripts and flows that steps call --------------------------------------------------------------------------------


@endpoint(method="GET")
def find(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """?kind=script|flow&q=words: what a step could run, each word somewhere in path or summary."""
    kind = _kind(request)
    rows = _callable(caller, kind)
    for word in request.GET.get("q", "").split()[:MOST_WORDS]:
        rows = rows.filter(Q(path__icontains=word) | Q(summary__icontains=word))
    columns = ("path", "summary", "language") if kind == "script" else ("path", "summary")
    found = list(rows.order_by("path").values(*columns)[: MOST_FOUND + 1])
    return {"items": found[:MOST_FOUND], "more": len(found) > MOST_FOUND}


@endpoint(method="GET")
def callee(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """?kind=script|flow&path=&hash=: what a step runs, its inputs, and for scripts their code."""
    path = request.GET.get("path", "")
    if _kind(request) == "flow":
        flow = deployed.get_flow(caller, path)
        version = deployed.live_version(flow)
        return {
            "path": path,
            "summary": flow.summary,
            "schema": version.schema or {},
            "version": version.pk,
            "url": pages.path_url("flow", caller.workspace_id, path),
        }
    head = scripts.get_script(caller, path)
    pinned = request.GET.get("hash")
    script = scripts.get_by_hash(caller, scripts.parse_hash(pinned)) if pinned else head
    if script.path != path:
        raise NotFound(f"version {pinned} is not one of script {path}")
    return {
        "path": path,
        "summary": script.summary,
        "schema": script.schema or infer_schema(script.language, script.content).schema,
        "language": script.language,
        "content": script.content,
        "hash": script.hash_hex,
        "headHash": head.hash_hex,
        "url": pages.path_url("script", caller.workspace_id, path),
    }


def _kind(request: HttpRequest) -> str:
    kind = request.GET.get("kind", "")
    if kind not in ("script", "flow"):
        raise BadRequest("kind should be script or flow")
    return kind
