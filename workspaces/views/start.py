"""The way in: the last workspace, the choice of one, and making a new one."""

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from workspaces import access, pages, workspaces
from workspaces.access import Identity
from workspaces.errors import DomainError
from workspaces.forms import PageForm
from workspaces.pages import page


@require_safe
@page
def start(request: HttpRequest, identity: Identity) -> HttpResponse:
    """/: the workspace visited last, or the only one; else the choice."""
    ids = list(access.workspaces_of(identity).values_list("pk", flat=True)[:2])
    remembered = request.COOKIES.get(pages.LAST_WORKSPACE_COOKIE)
    if remembered and access.workspaces_of(identity).filter(pk=remembered).exists():
        return HttpResponseRedirect(reverse("home", kwargs={"workspace": remembered}))
    if len(ids) == 1:
        return HttpResponseRedirect(reverse("home", kwargs={"workspace": ids[0]}))
    return _picker(request, identity)


@require_safe
@page
def choose_workspace(request: HttpRequest, identity: Identity) -> HttpResponse:
    """/workspaces/: all workspaces one may enter."""
    return _picker(request, identity)


def _picker(request: HttpRequest, identity: Identity) -> HttpResponse:
    rows = access.workspaces_of(identity).order_by("name")
    return render(request, "workspaces/choose.html", {"rows": rows, "email": identity.email})


class WorkspaceForm(PageForm):
    """A new workspace."""

    name = forms.CharField(
        max_length=100,
        help_text="What people read, for example Acme production.",
        widget=forms.TextInput(attrs={"autofocus": True}),
    )
    id = forms.CharField(
        label="Id",
        max_length=50,
        help_text="Part of every address, for example acme-production. It cannot be changed later.",
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false", "autocapitalize": "off"}),
    )
    username = forms.CharField(
        label="Your username there",
        max_length=50,
        help_text="Your own scripts live under u/<username>/.",
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false", "autocapitalize": "off"}),
    )
    color = forms.RegexField(
        regex=r"^#[0-9a-fA-F]{6}$",
        label="Colour",
        help_text="Tints the workspace's mark, to tell production from staging.",
        widget=forms.TextInput(attrs={"type": "color"}),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@page
def new_workspace(request: HttpRequest, identity: Identity) -> HttpResponse:
    """/workspaces/new/: make a workspace and go there."""
    if request.method == "POST":
        form = WorkspaceForm(request.POST)
        if form.is_valid():
            try:
                workspace = workspaces.create_workspace(identity, **form.cleaned_data)
                return HttpResponseRedirect(reverse("home", kwargs={"workspace": workspace.id}))
            except DomainError as exc:
                pages.add_error(form, exc, {"workspace ": "id"})
        return render(request, "workspaces/new.html", {"form": form}, status=422)
    form = WorkspaceForm(initial={"username": workspaces.username_for(identity.email), "color": "#2b5bd0"})
    return render(request, "workspaces/new.html", {"form": form})
