"""Variables and secrets: list, create, edit, reveal, delete. A secret's value is in no HTML; only `reveal` answers it."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from workspaces import pages, variables
from workspaces.access import Caller, Right
from workspaces.errors import DomainError
from workspaces.forms import LabelsField, SwitchField
from workspaces.models import Variable
from workspaces.pages import Near, workspace_page
from workspaces.views.drawers import saved, show_form
from workspaces.views.paths import PATH_HINTS, PathForm

PAGE = 100  # variables
REVEAL_S = 30  # how long a revealed secret stays on the screen


class VariableForm(PathForm):
    """A variable. Without a value, an existing one keeps its own."""

    value = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(
            attrs={"rows": 4, "class": "mono", "spellcheck": "false", "autocomplete": "off"}
        ),
    )
    is_secret = SwitchField(
        label="Secret",
        help_text="Encrypted at rest, hidden here, and each reading is written to the audit log.",
    )
    description = forms.CharField(required=False, max_length=10_000, widget=forms.Textarea(attrs={"rows": 2}))
    labels = LabelsField()

    def forget_secret(self) -> None:
        """Before the form is shown again: what was typed as a secret must not come back in HTML."""
        if self.data.get("is_secret"):
            self.data = {name: value for name, value in self.data.items() if name != "value"}


def _list_url(caller: Caller) -> str:
    return reverse("variables", kwargs={"workspace": caller.workspace_id})


def near_variables(caller: Caller, path: str = "", **parts: Any) -> list[Near]:
    """Variables whose path resembles one that does not exist."""
    known = variables.list_variables(caller).values_list("path", flat=True)[:5000]
    return pages.nearest(
        path, known, lambda found: pages.path_url("edit-variable", caller.workspace_id, found)
    )


@require_safe
@workspace_page
def variable_list(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/variables/?q=&label=&after=: the list, a page by path at a time."""
    search, label, after = (request.GET.get(name, "").strip() for name in ("q", "label", "after"))
    rows = variables.list_variables(caller, broad=search or None, label=label or None)
    if after:
        rows = rows.filter(path__gt=after)
    found = list(rows[: PAGE + 1])
    shown = [
        {"variable": row, "may_write": caller.right_on(row.path, row.extra_perms) >= Right.WRITE}
        for row in found[:PAGE]
    ]
    context = {
        "rows": shown,
        "more_after": found[PAGE - 1].path if len(found) > PAGE else None,
        "search": search,
        "label": label,
        "list_url": _list_url(caller),
        "drawer": _opened(request, caller),
        "reveal_s": REVEAL_S,
        "caller": caller,
    }
    if after and pages.is_fragment(request):
        return pages.respond(request, "assets/_variable_rows.html", context)
    response = pages.respond(request, "assets/variables.html", context, fragment="assets/_variables.html")
    if pages.is_fragment(request):
        response.headers["HX-Replace-Url"] = request.path + pages.clean_query({"q": search, "label": label})
    return response


def _opened(request: HttpRequest, caller: Caller) -> str | None:
    """Address of the form that the drawer opens with (?new=1, ?edit=<path>)."""
    if request.GET.get("edit"):
        return pages.path_url("edit-variable", caller.workspace_id, request.GET["edit"])
    return (
        reverse("new-variable", kwargs={"workspace": caller.workspace_id}) if request.GET.get("new") else None
    )


@sensitive_post_parameters("value")
@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def new_variable(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/variables/new/."""
    form = VariableForm(request.POST or None, caller=caller)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            variables.create_variable(
                caller,
                path=form.path,
                value=data["value"],
                is_secret=data["is_secret"],
                description=data["description"],
                labels=data["labels"],
            )
            return saved(request, f"Variable {form.path} created", list_url=_list_url(caller))
        except DomainError as exc:
            pages.add_error(form, exc, PATH_HINTS)
    return _form(request, caller, form, None)


@sensitive_post_parameters("value")
@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(near=near_variables)
def edit_variable(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/<workspace>/variables/<path>/edit/."""
    variable = variables.get_variable(caller, path)
    caller.require_write(path, variable.extra_perms)
    initial = {
        "value": "" if variable.is_secret else variable.value,
        "is_secret": variable.is_secret,
        "description": variable.description,
        "labels": variable.labels,
    }
    form = VariableForm(request.POST or None, caller=caller, path=path, initial=initial)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        keeps_value = variable.is_secret and not data["value"]
        try:
            variables.update_variable(
                caller,
                path,
                new_path=form.path,
                value=None if keeps_value else data["value"],
                is_secret=data["is_secret"],
                description=data["description"],
                labels=data["labels"],
            )
            return saved(request, f"Variable {form.path} saved", list_url=_list_url(caller))
        except DomainError as exc:
            pages.add_error(form, exc, PATH_HINTS)
    return _form(request, caller, form, variable)


def _form(
    request: HttpRequest, caller: Caller, form: VariableForm, variable: Variable | None
) -> HttpResponse:
    if form.is_bound:
        form.forget_secret()
    if variable is not None and variable.is_secret:
        form.fields["value"].widget.attrs["placeholder"] = "Unchanged. Type to replace it."
    context = {"form": form, "variable": variable, "action": request.path}
    title = f"Edit {variable.path}" if variable else "New variable"
    status = 422 if form.errors else 200
    return show_form(
        request, "assets/_variable_form.html", context, title=title, list_url=_list_url(caller), status=status
    )


@require_POST
@workspace_page
def reveal_variable(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/<workspace>/variables/<path>/reveal/: {value}, as JSON; the reading of a secret is audited."""
    response = JsonResponse({"value": variables.get_value(caller, path)})
    response.headers["Cache-Control"] = "no-store"
    return response


@require_POST
@workspace_page
def delete_variable(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/<workspace>/variables/<path>/delete/."""
    variables.delete_variable(caller, path)
    return saved(request, f"Variable {path} deleted", list_url=_list_url(caller))
