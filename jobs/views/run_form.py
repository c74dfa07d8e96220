"""The form that runs a script or a flow: /w/W/scripts/<path>/run/, /w/W/flows/<path>/run/."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods

from jobs import listings, runs, scripts, tags
from jobs.listings import JobFilters
from jobs.markup import render_markdown
from jobs.models import Job
from jobs.payloads import Payload
from jobs.signatures import validate_args
from jobs.views.calling import RunnableKind
from jobs.views.editor import near_scripts
from workspaces import pages
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, DomainError
from workspaces.jsontext import parse_json

RECENT = 10
MOST_SHOWN = 40  # characters of a value in the list of recent inputs
MOST_FILLED = 64 * 1024  # characters of arguments that the page carries for one recent run
_RESERVED = {"fill"}  # names of query parameters that are no arguments


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the form runs. `start` queues a run and answers its id; it raises DomainErrors."""

    kind: RunnableKind
    path: str
    summary: str
    description: str
    schema: dict[str, Any] | None
    version: str  # as people read it
    language: str = ""
    tag: str  # where it runs unless the form says otherwise
    may_write: bool
    start: Callable[[Payload, runs.RunOptions], UUID]


@require_http_methods(["GET", "HEAD", "POST"])
@pages.workspace_page(operators=True, near=near_scripts)
def run_script(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/W/scripts/<path>/run/."""
    script = scripts.get_to_run(caller, path=path)
    target = Target(
        kind="script",
        path=script.path,
        summary=script.summary,
        description=script.description,
        schema=script.schema,
        version=script.hash_hex[:8],
        language=script.language,
        tag=script.tag or script.language,
        may_write=not caller.is_operator and caller.right_on(script.path, script.extra_perms) >= Right.WRITE,
        start=partial(runs.run_script, caller, script),
    )
    return run_form(request, caller, target)


def run_form(request: HttpRequest, caller: Caller, target: Target) -> HttpResponse:
    """GET: the form, filled from `?name=value` or from a run (`?fill=<id>`). POST: check the inputs, then run."""
    if request.method == "POST":
        return _start(request, caller, target)
    return _show(request, caller, target, args=_prefilled(request, caller, target))


def _show(
    request: HttpRequest,
    caller: Caller,
    target: Target,
    *,
    args: dict[str, Any],
    errors: dict[str, str] | None = None,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    context = {
        "target": target,
        "description": render_markdown(target.description, below=1) if target.description else "",
        "schema": target.schema or {"type": "object", "properties": {}},
        "args": args,
        "errors": errors or {},
        "problem": problem,
        "recent": (recent := _recent(caller, target)),
        "recent_args": [item["args"] for item in recent],
        "custom_tags": tags.custom_tags_for(caller.workspace_id),
        "tag": request.POST.get("tag", ""),
        "later": request.POST.get("later", ""),
        "name": target.path.rsplit("/", 1)[-1],
    }
    return render(request, "runnables/run.html", context, status=status)


def _start(request: HttpRequest, caller: Caller, target: Target) -> HttpResponse:
    args: dict[str, Any] = {}
    try:
        given = parse_json(request.POST.get("args") or "{}")
        if not isinstance(given, dict):
            raise BadRequest('the arguments should be an object, for example {"name": "value"}')
        args = given
        later = _moment(request.POST.get("later", ""))
    except BadRequest as exc:
        return _show(request, caller, target, args=args, problem=pages.sentence(exc.message), status=422)
    problems = validate_args(target.schema, args)
    if problems:
        errors = {".".join(map(str, problem.path)) or problem.field: problem.message for problem in problems}
        whole = " ".join(problem.message for problem in problems if not problem.field)
        return _show(request, caller, target, args=args, errors=errors, problem=whole, status=422)
    options = runs.RunOptions(tag=request.POST.get("tag") or None, scheduled_for=later, trigger_kind="ui")
    try:
        job_id = target.start(Payload(args=args), options)
    except DomainError as exc:
        return _show(request, caller, target, args=args, problem=pages.sentence(exc.message), status=422)
    return pages.go(request, f"/w/{caller.workspace_id}/runs/{job_id}/")


def _moment(text: str) -> datetime | None:
    """When to run, as the browser's script sends it (ISO 8601 with zone); None for now. Raises BadRequest."""
    if not text:
        return None
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise BadRequest(f"the time to run at is {text[:40]!r}; expected a time such as 2026-01-31T08:30")
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    if moment < timezone.now():
        raise BadRequest("the time to run at is in the past; leave it empty to run now")
    return moment


def _prefilled(request: HttpRequest, caller: Caller, target: Target) -> dict[str, Any]:
    """Arguments named by the address. Values that are JSON count as such unless the parameter is text."""
    args: dict[str, Any] = {}
    source = request.GET.get("fill")
    if source:
        args = _args_of(caller, source)
    properties = (target.schema or {}).get("properties") or {}
    for name, value in request.GET.dict().items():
        if name in _RESERVED:
            continue
        field = properties.get(name)
        args[name] = value if isinstance(field, dict) and field.get("type") == "string" else _value(value)
    return args


def _args_of(caller: Caller, id_text: str) -> dict[str, Any]:
    try:
        job_id = UUID(id_text)
    except ValueError as exc:
        raise BadRequest(f"fill is {id_text[:40]!r}; expected the id of a run") from exc
    job = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id, with_args=True)
    found = json.loads(job.args) if job.args else {}
    return found if isinstance(found, dict) else {}


def _value(text: str) -> Any:
    try:
        return parse_json(text)
    except BadRequest:
        return text


def _recent(caller: Caller, target: Target) -> list[dict[str, Any]]:
    """The last runs with their inputs: one click fills the form with them."""
    jobs = listings.list_jobs(caller, JobFilters(path_exact=target.path, kinds=[target.kind]), limit=RECENT)
    args_by_id = dict(Job.objects.filter(pk__in=[job.id for job in jobs]).values_list("pk", "args"))
    found = []
    for job in jobs:
        args = args_by_id.get(job.id)
        if not isinstance(args, dict):
            continue
        is_small = len(json.dumps(args)) <= MOST_FILLED
        found.append({"job": job, "words": _in_words(args), "args": args if is_small else None})
    return found


def _in_words(args: dict[str, Any]) -> str:
    parts = []
    for name, value in list(args.items())[:4]:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        parts.append(f"{name}: {text[:MOST_SHOWN]}{'…' if len(text) > MOST_SHOWN else ''}")
    more = len(args) - 4
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "") or "No inputs"
