"""A flow's own pages: what it is, its form, its versions; move, archive, restore, export, import."""

import secrets
from functools import partial
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs import dedicated, drafts, flow_runs, listings, run_list
from jobs.flows import deployed
from jobs.flows.importing import flow_from_text
from jobs.flows.text import MAX_CHARS, to_yaml
from jobs.flows.value import BadFlow, ScriptRef, SubFlow, parse_flow_value
from jobs.listings import JobFilters
from jobs.markup import render_markdown
from jobs.models import CompletedJob, Flow, FlowVersion, JobKind, QueuedJob
from jobs.views import calling
from jobs.views.endpoints import Answer, endpoint
from jobs.views.flow_editor import near_flows
from jobs.views.moving import move_page
from jobs.views.run_form import Target, run_form
from jobs.views.scripts import LAST_RUNS, archived
from jobs.views.versions import MOST_VERSIONS, History, Version, versions_page
from workspaces import pages
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, DomainError, NotFound
from workspaces.views.paths import PATH_HINTS, PathForm


@require_safe
@pages.workspace_page(operators=True, near=near_flows)
def flow(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/W/flows/<path>/: the overview, also of an archived flow. The old address of a moved flow leads on."""
    try:
        found = deployed.get_newest(caller, path)
    except NotFound:
        if (elsewhere := deployed.moved_to(caller, path)) is not None:
            return HttpResponseRedirect(pages.path_url("flow", caller.workspace_id, elsewhere))
        raise
    version = deployed.live_version(found)
    recent = listings.list_jobs(caller, JobFilters(path_exact=path, kinds=[JobKind.FLOW]), limit=LAST_RUNS)
    may_write = _may_write(caller, found)
    context = {
        "flow": found,
        "version": version,
        "value": version.value,
        "description": render_markdown(found.description, below=1) if found.description else "",
        "arguments": calling.arguments(version.schema),
        "runs": [run_list.Run(job) for job in recent],
        "may_write": may_write,
        "draft": drafts.get_draft(caller, path, kind=deployed.DRAFT) if may_write else None,
        "calls": calling.calls(caller, "flow", path, version.schema),
        "versions": deployed.history(caller, path).count(),
        "dependencies": _dependencies(version),
        "dedicated_tag": dedicated.shown_tag(found.extra, found.workspace_id, found.path, is_flow=True),
    } | _about(version.value)
    return render(request, "flows/overview.html", context)


def _may_write(caller: Caller, found: Flow) -> bool:
    return not caller.is_operator and caller.right_on(found.path, found.extra_perms) >= Right.WRITE


def _about(value: Any) -> dict[str, Any]:
    """How many steps a flow has, and which scripts and flows they call: [(kind, path)]."""
    try:
        modules = [module for _, module in parse_flow_value(value).every_module()]
    except BadFlow:  # deployed before today's checks: shown as it is
        return {"step_count": None, "callees": []}
    called = [module.value for module in modules if isinstance(module.value, ScriptRef | SubFlow)]
    used = {(value.type, value.path) for value in called if not value.path.startswith("hub/")}
    return {"step_count": len(modules), "callees": sorted(used, key=lambda use: use[1])}


def _dependencies(version: FlowVersion) -> str:
    """Where the job that locks the dependencies of inline scripts stands: "" when it is done, waiting, or failed."""
    if version.lock_error_logs:
        return "failed"
    if version.dependency_job is None:
        return ""
    status = CompletedJob.objects.filter(pk=version.dependency_job).values_list("status", flat=True).first()
    if status is None:
        # Its record may be gone by retention; then the locks have long been there.
        return "waiting" if QueuedJob.objects.filter(pk=version.dependency_job).exists() else ""
    return "" if status == "success" else "failed"


@require_http_methods(["GET", "HEAD", "POST"])
@pages.workspace_page(operators=True, near=near_flows)
def run_flow(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/W/flows/<path>/run/."""
    found, version = deployed.get_to_run(caller, path=path)

    target = Target(
        kind="flow",
        path=found.path,
        summary=found.summary,
        description=found.description,
        schema=version.schema,
        version=f"v{version.pk}",
        tag=found.tag or "flow",
        may_write=_may_write(caller, found),
        start=partial(flow_runs.run_flow, caller, found, version),
    )
    return run_form(request, caller, target)


# --- versions ---------------------------------------------------------------------------------------------------------


@require_safe
@pages.workspace_page(operators=True, near=near_flows)
def versions(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/W/flows/<path>/versions/?from=&to=: the history, and the difference between any two versions."""
    found = deployed.get_newest(caller, path)
    rows = list(deployed.history(caller, path)[:MOST_VERSIONS])
    after = _chosen(caller, path, request.GET.get("to")) or deployed.live_version(found)
    before = _chosen(caller, path, request.GET.get("from"))
    if before is None:
        before = FlowVersion.objects.filter(
            workspace=caller.workspace, path=path, pk__lt=after.pk
        ).order_by("-pk").first()  # fmt: skip
    history = History(
        kind="flow",
        path=path,
        is_archived=found.archived,
        may_write=_may_write(caller, found),
        versions=[_version(found, row) for row in rows],
        before=_version(found, before, whole=True) if before is not None else None,
        after=_version(found, after, whole=True),
    )
    return versions_page(request, history)


def _version(found: Flow, version: FlowVersion, *, whole: bool = False) -> Version:
    """A version for the page; `whole`: with what it does."""
    return Version(
        key=str(version.pk),
        name=f"v{version.pk}",
        by=version.created_by,
        at=version.created_at,
        message=version.deployment_message,
        is_live=version.pk == found.version_id and not found.archived,
        text=to_yaml({"value": version.value, "schema": version.schema}) if whole else "",
        language="yaml",
    )


def _chosen(caller: Caller, path: str, text: str | None) -> FlowVersion | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadRequest(f"flow version {text[:40]!r} is not valid; expected a number")
    _, version = deployed.get_version(caller, int(text))
    if version.path != path:
        raise NotFound(f"version {version.pk} is not one of {path}")
    return version


@require_POST
@pages.workspace_page
def restore(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """Deploy an old version again, as a new one; without `version`, bring an archived flow back as it was."""
    old = _chosen(caller, path, request.POST.get("version"))
    if old is None:
        deployed.archive_flow(caller, path, archived=False)
        pages.say(request, f"{path} is back")
    else:
        found = deployed.get_newest(caller, path)
        made = deployed.update_flow(
            caller, path, _draft(found, old), deployment_message=f"Restored v{old.pk}"
        )
        pages.say(request, f"{path} does again what v{old.pk} did, as version v{made.pk}")
    return HttpResponseRedirect(pages.path_url("flow", caller.workspace_id, path))


def _draft(found: Flow, version: FlowVersion, *, path: str | None = None) -> deployed.FlowDraft:
    """What a version does, with the flow's settings of today."""
    return deployed.FlowDraft(
        path=path or found.path,
        value=version.value,
        schema=version.schema,
        summary=found.summary,
        description=found.description,
        tag=found.tag,
        timeout_s=found.timeout,
        priority=found.priority,
        visible_to_runner_only=found.visible_to_runner_only,
        on_behalf_of_email=found.on_behalf_of_email,
        labels=found.labels,
        extra=found.extra,
    )


# --- archive, move ----------------------------------------------------------------------------------------------------


@require_POST
@pages.workspace_page
def archive(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """Take a flow out of use."""
    deployed.archive_flow(caller, path)
    return archived(request, pages.path_url("flow", caller.workspace_id, path), path)


@require_http_methods(["GET", "HEAD", "POST"])
@pages.workspace_page(near=near_flows)
def move(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """Another path for a flow, with its history."""
    found = deployed.get_flow(caller, path, right=Right.WRITE)
    version = deployed.live_version(found)

    def to(new_path: str) -> None:
        draft = _draft(found, version, path=new_path)
        deployed.update_flow(
            caller, path, draft, base_version=version.pk, deployment_message=f"Moved from {path}"
        )

    return move_page(request, caller, kind="flow", path=path, move=to)


# --- as text ----------------------------------------------------------------------------------------------------------


@endpoint(method="GET", operators=True)
def export(request: HttpRequest, caller: Caller, body: dict[str, Any], path: str) -> Answer:
    """/w/W/export/flows/<path>/: the flow as YAML, ready to be imported elsewhere; ?download=1 as a file."""
    found = deployed.get_newest(caller, path)
    version = deployed.live_version(found)
    shape: dict[str, Any] = {"summary": found.summary}
    for name in ("description", "tag", "timeout", "priority", "labels"):
        if getattr(found, name):
            shape[name] = getattr(found, name)
    text = to_yaml(shape | {"value": version.value, "schema": version.schema})
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    if request.GET.get("download"):
        name = path.rsplit("/", 1)[-1]  # letters, digits, _ - and . only
        response["Content-Disposition"] = f'attachment; filename="{name}.flow.yaml"'
    return response


class ImportForm(PathForm):
    """A path, and a flow as text."""

    text = forms.CharField(
        label="YAML or JSON",
        max_length=MAX_CHARS,
        strip=False,
        help_text="An export of a flow, or what the command line keeps in flow.yaml with its scripts inside.",
        widget=forms.Textarea(attrs={"rows": 18, "class": "mono", "spellcheck": "false"}),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@pages.workspace_page
def import_flow(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/W/flows/import/: a flow pasted as text becomes a draft in the editor; nothing is deployed yet."""
    caller.identity.require_scope(deployed.SCOPE, "write")
    path = f"u/{caller.username}/imported_{secrets.token_hex(3)}"
    form = ImportForm(request.POST if request.method == "POST" else None, caller=caller, path=path)
    if request.method == "POST" and form.is_valid():
        try:
            caller.require_new_path(form.path)
            if deployed.flow_exists(caller, form.path):
                raise BadRequest(f"path {form.path} has a flow already; choose another one")
            value = flow_from_text(form.cleaned_data["text"])
            drafts.save_draft(caller, form.path, value, base_hash=None, kind=deployed.DRAFT)
            return pages.go(request, pages.path_url("flow-edit", caller.workspace_id, form.path))
        except DomainError as exc:
            pages.add_error(form, exc, {**PATH_HINTS, "line ": "text", "modules": "text", "the text": "text"})
    return render(request, "flows/import.html", {"form": form}, status=422 if form.errors else 200)
