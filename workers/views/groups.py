"""Pages of worker groups: what a group is configured to, changing it in two steps, its history."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.models import Language
from workers.fleet import live_workers, restarts, worker_list
from workers.groups import changes, configs, schema
from workers.groups.changes import ShownChange
from workers.views.group_form import GroupForm
from workspaces import pages
from workspaces.access import Caller
from workspaces.errors import Conflict, DomainError
from workspaces.forms import PageForm
from workspaces.pages import workspace_page
from workspaces.views.drawers import show_form


class NewGroupForm(PageForm):
    """The name of a group that nobody has configured yet."""

    name = forms.CharField(
        max_length=configs.MAX_NAME,
        help_text="Workers belong to the group that WORKER_GROUP names when they start.",
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false", "autocomplete": "off"}),
    )


def group_url(caller: Caller, name: str, *, page: str = "worker-group") -> str:
    """The address of a group's page."""
    return reverse(page, kwargs={"workspace": caller.workspace_id, "name": name})


def _list_url(caller: Caller) -> str:
    return reverse("workers", kwargs={"workspace": caller.workspace_id})


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def new_group(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/workers/new-group/: asks for a name, and goes on to that group's page. Writes nothing."""
    caller.identity.require_devops()
    form = NewGroupForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        name = form.cleaned_data["name"]
        try:
            configs.check_name(name)
            if configs.get(name) is not None:
                raise Conflict(f"worker group {name} is configured already; open it to change it")
            return pages.go(request, group_url(caller, name))
        except DomainError as exc:
            pages.add_error(form, exc, {"worker group": "name"})
    context = {"form": form, "action": request.path, "save": "Go on"}
    return show_form(
        request,
        "workspaces/_simple_form.html",
        context,
        title="New worker group",
        list_url=_list_url(caller),
        status=422 if form.errors else 200,
    )


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def group(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """/w/<workspace>/workers/groups/<name>/: the form; posted, what would change; posted with step=save, saved."""
    configs.check_name(name)
    config = configs.get(name)
    if request.method == "POST":
        caller.identity.require_devops()
    if not caller.identity.operates:
        return _read_only(request, caller, name, config)
    seen = request.POST.get("seen", configs.fingerprint(config))
    form = GroupForm(request.POST or None, current=config)
    step = request.POST.get("step", "")
    change: configs.Change | None = None
    if step in ("review", "save") and form.is_valid():
        try:
            change = configs.preview(name=name, config=form.config(), actor=caller.identity)
            if seen != configs.fingerprint(config):
                raise configs.changed_meanwhile(name)
            if step == "save":
                change = configs.update(name=name, config=form.config(), actor=caller.identity, seen=seen)
                pages.say(request, _done(change))
                return pages.go(request, f"{_list_url(caller)}{pages.clean_query({'group': name})}")
        except DomainError as exc:
            change = None
            pages.add_error(form, exc, GroupForm.HINTS)
    context = _common(caller, name, config) | {
        "form": form,
        "seen": seen,
        "review": None if change is None else _shown(change),
        "change": change,
        "history": [_entry(row) for row in configs.history(name)],
        "tag_suggestions": worker_list.known_tags(),
        "usual_tags": "\n".join([*Language.values, "dependency", "flow", "other"]),
        "kept": form.kept,
    }
    if change is not None:
        context["cautions"] = [*_cautions(change, context["live_count"]), *change.warnings]
    status = 422 if form.is_bound and form.errors else 200
    response = render(request, "workers/group.html", context, status=status)
    response.headers["Cache-Control"] = "no-store"  # what was typed may hold secrets
    return response


def _read_only(
    request: HttpRequest, caller: Caller, name: str, config: dict[str, Any] | None
) -> HttpResponse:
    shown = schema.without_secrets(config or {})
    fields = [
        (changes.TITLES[field], changes.shown(field, None, value, schema.Effect.NONE))
        for field, value in shown.items()
    ]
    return render(request, "workers/group_facts.html", _common(caller, name, config) | {"fields": fields})


def _common(caller: Caller, name: str, config: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "caller": caller,
        "name": name,
        "is_configured": config is not None,
        "list_url": _list_url(caller),
        "live_count": live_workers.count_by_group().get(name, 0),
    }


def _shown(change: configs.Change) -> list[ShownChange]:
    return [changes.shown(*found) for found in change.differences]


def _cautions(change: configs.Change, live_count: int) -> list[str]:
    """What live workers would stop or begin to do although no field says so."""
    by_field = {found.field: found for found in change.differences}
    found = by_field.get("worker_tags")
    if not live_count:
        return []
    if found is None:
        begins = by_field.get("dedicated_workers")
        if begins is None or begins.before or change.config.get("worker_tags"):
            return []
        return [
            "The group names no tags: from now on its workers take the jobs of what they are dedicated to, and no "
            "others."
        ]
    if not found.before:
        tags = ", ".join(found.after)
        return [
            "So far the group named no tags: its workers take their own WORKER_TAGS, or everything that they can run. "
            f"From now on it is {tags}; jobs with other tags wait, unless other workers take them."
        ]
    if not found.after:
        return ["Without tags, its workers take their own WORKER_TAGS, or everything that they can run."]
    return []


def _entry(row: Any) -> dict[str, Any]:
    """An entry of the audit log, for the history."""
    parameters = row.parameters if isinstance(row.parameters, dict) else {}
    return {
        "row": row,
        "verb": {"create": "configured it", "delete": "deleted the configuration"}.get(
            row.action_kind, "changed it"
        ),
        "changes": [
            changes.shown(found["field"], found["before"], found["after"], found["effect"])
            for found in parameters.get("changes", ())
        ],
    }


def _done(change: configs.Change) -> str:
    if not change.differences:
        return f"Group {change.name} is configured like this already"
    how = "its workers start again when they are done" if change.restarts_workers else "its workers follow"
    return f"Group {change.name} saved: {how}"


@require_POST
@workspace_page
def delete_group(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """/w/<workspace>/workers/groups/<name>/delete/."""
    configs.delete(name=name, actor=caller.identity)
    pages.say(request, f"The configuration of group {name} is deleted")
    return pages.go(request, _list_url(caller))


@require_POST
@workspace_page
def clear_caches(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """/w/<workspace>/workers/groups/<name>/clear-caches/."""
    configs.clear_caches(name=name, actor=caller.identity)
    pages.say(request, f"The workers of group {name} clear their caches: they start again when they are done")
    return pages.go(request, group_url(caller, name))


@require_POST
@workspace_page
def restart_workers(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """/w/<workspace>/workers/groups/<name>/restart/."""
    pages.say(request, restarts.told(name, restarts.restart(name=name, actor=caller.identity)))
    return pages.go(request, group_url(caller, name))


@require_POST
@workspace_page
def reveal_variables(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """/w/<workspace>/workers/groups/<name>/variables/: {name: value}, as JSON; the reading is audited."""
    response = JsonResponse(configs.reveal_variables(name=name, actor=caller.identity))
    response.headers["Cache-Control"] = "no-store"
    return response


@require_safe
@workspace_page
def dedicated_entries(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/workers/dedicated/?q=: scripts and flows that a group may be dedicated to, as a JSON list."""
    caller.identity.require_devops()
    return JsonResponse(worker_list.dedicated_entries(request.GET.get("q", "").strip()), safe=False)
