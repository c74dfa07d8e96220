"""The page of custom tags: where each may be asked for, who uses it, which workers take it."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs import tags as job_tags
from workers.fleet import custom_tags
from workers.views.group_form import LinesField
from workspaces import pages
from workspaces.access import Caller
from workspaces.custom_tags import CustomTag, parse
from workspaces.errors import DomainError
from workspaces.forms import PageForm
from workspaces.models import Workspace
from workspaces.pages import workspace_page
from workspaces.views.drawers import saved, show_form

_RULES = {
    "everywhere": "In every workspace",
    "only": "Only in the workspaces below",
    "except": "In every workspace but those below",
}
_MOST_SUGGESTED = 500
_PAGE_SIZE = 50  # rows, before somebody asks for all
_LONGEST_SEARCH = 100  # characters


class TagForm(PageForm):
    """A tag and its restriction."""

    name = forms.CharField(
        label="Tag",
        max_length=50,
        help_text="Such as gpu. $workspace and $args[name] stand for what a run says, as in gpu-$workspace.",
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false", "autocomplete": "off"}),
    )
    rule = forms.ChoiceField(label="Jobs may ask for it", choices=list(_RULES.items()))
    workspaces = LinesField(noun="workspace", label="Workspaces", help_text="Their ids.")

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if data.get("rule") != "everywhere" and not data.get("workspaces"):
            self.add_error(
                "workspaces", ValidationError("Name at least one workspace, or choose every workspace.")
            )
        return data

    def tag(self) -> CustomTag:
        """The tag as the setting keeps it. Raises BadRequest."""
        data = self.cleaned_data
        is_restricted = data["rule"] != "everywhere"
        tag = CustomTag(
            name=data["name"],
            workspaces=tuple(data["workspaces"]) if is_restricted else (),
            is_excluding=data["rule"] == "except",
        )
        return parse(tag.text)


def _list_url(caller: Caller) -> str:
    return reverse("custom-tags", kwargs={"workspace": caller.workspace_id})


@require_safe
@workspace_page
def tag_list(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/workers/tags/?q=&all=: all tags for those who run the instance, the workspace's own for others."""
    tags = custom_tags.list_tags() if caller.identity.operates else []
    search = request.GET.get("q", "").strip()[:_LONGEST_SEARCH].lower()
    found = [row for row in tags if row.matches(search)]
    limit = len(found) if request.GET.get("all") else _PAGE_SIZE
    context = {
        "caller": caller,
        "operates": caller.identity.operates,
        "may_write": caller.is_super_admin,
        "has_tags": bool(tags),
        "is_large": len(tags) > _PAGE_SIZE,
        "tags": found[:limit],
        "more": max(0, len(found) - limit),
        "search": search,
        "usable": job_tags.custom_tags_for(caller.workspace_id),
        "list_url": _list_url(caller),
        "drawer": None,
    }
    return pages.respond(request, "workers/tags.html", context, fragment="workers/_tags.html")


@require_safe
@workspace_page
def tag_uses(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/workers/tags/uses/?tag=: the scripts and flows that ask for it, in all workspaces."""
    caller.identity.require_devops()
    name = request.GET.get("tag", "")
    return show_form(
        request,
        "workers/_tag_uses.html",
        {"uses": custom_tags.uses(name, limit=_MOST_SUGGESTED), "most": _MOST_SUGGESTED},
        title=f"Who asks for {name[:50]}",
        list_url=_list_url(caller),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def new_tag(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/workers/tags/new/."""
    caller.identity.require_super_admin()
    return _form(
        request,
        caller,
        TagForm(request.POST or None),
        title="New tag",
        save=lambda tag: custom_tags.add(tag, actor=caller.identity),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def edit_tag(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/workers/tags/edit/?tag=."""
    caller.identity.require_super_admin()
    name = request.GET.get("tag", "")
    held = custom_tags.get(name)
    rule = "everywhere" if not held.workspaces else "except" if held.is_excluding else "only"
    initial = {"name": held.name, "rule": rule, "workspaces": held.workspaces}
    return _form(
        request,
        caller,
        TagForm(request.POST or None, initial=initial),
        title=f"Edit tag {held.name}",
        save=lambda tag: custom_tags.replace(name, tag, actor=caller.identity),
    )


def _form(
    request: HttpRequest, caller: Caller, form: TagForm, *, title: str, save: Callable[[CustomTag], None]
) -> HttpResponse:
    if request.method == "POST" and form.is_valid():
        try:
            tag = form.tag()
            save(tag)
            unknown = custom_tags.unknown_workspaces(tag)
            note = f"; there is no workspace {', '.join(unknown)} yet" if unknown else ""
            return saved(request, f"Tag {tag.name} saved{note}", list_url=_list_url(caller))
        except DomainError as exc:
            pages.add_error(form, exc, {"custom tag": "name"})
    context = {
        "form": form,
        "action": request.get_full_path(),
        "workspace_ids": Workspace.objects.filter(deleted=False)
        .order_by("pk")
        .values_list("pk", flat=True)[:_MOST_SUGGESTED],
    }
    return show_form(
        request,
        "workers/_tag_form.html",
        context,
        title=title,
        list_url=_list_url(caller),
        status=422 if form.errors else 200,
    )


@require_POST
@workspace_page
def delete_tag(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/workers/tags/delete/: the tag named `tag`."""
    name = request.POST.get("tag", "")
    custom_tags.remove(name, actor=caller.identity)
    return saved(request, f"Tag {name} removed", list_url=_list_url(caller))
