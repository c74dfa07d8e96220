"""Folders, groups and people: who may do what in the workspace."""

from typing import Any

from django import forms
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from workspaces import access_lists, folders, groups, pages, workspaces
from workspaces.access import Caller
from workspaces.access_lists import LEVELS
from workspaces.errors import BadRequest, DomainError
from workspaces.forms import PageForm
from workspaces.pages import Near, workspace_page
from workspaces.views.drawers import saved, show_form

_MONO = {"class": "mono", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}
ROLES = {"developer": "Developer", "operator": "Operator: runs and views", "admin": "Admin"}


def _url(caller: Caller, page_name: str, **parts: str) -> str:
    return reverse(page_name, kwargs={"workspace": caller.workspace_id, **parts})


# --- folders ------------------------------------------------------------------------------------------------------


class FolderForm(PageForm):
    """A new folder."""

    name = forms.CharField(
        max_length=50,
        help_text="Letters, digits and _. Its items are at f/<name>/.",
        widget=forms.TextInput(attrs=_MONO),
    )
    summary = forms.CharField(required=False, max_length=1000, widget=forms.Textarea(attrs={"rows": 2}))


class HolderForm(PageForm):
    """A right on a folder for somebody."""

    principal = forms.ChoiceField(label="Who")
    level = forms.ChoiceField(label="Right", choices=list(LEVELS.items()), initial="write")

    def __init__(self, *args: Any, caller: Caller, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["principal"].choices = access_lists.principals(caller)  # type: ignore[attr-defined]


def near_folders(caller: Caller, name: str = "", **parts: Any) -> list[Near]:
    """Folders whose name resembles one that does not exist."""
    return pages.nearest(name, caller.folders_read, lambda found: _url(caller, "folder", name=found))


@require_safe
@workspace_page
def folder_list(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/folders/?q=."""
    search = request.GET.get("q", "").strip()
    context = {
        "rows": access_lists.shown_folders(caller, search),
        "search": search,
        "list_url": _url(caller, "folders"),
        "caller": caller,
        "drawer": _url(caller, "new-folder") if request.GET.get("new") else None,
    }
    response = pages.respond(request, "workspaces/folders.html", context, fragment="workspaces/_folders.html")
    if pages.is_fragment(request):
        response.headers["HX-Replace-Url"] = request.path + pages.clean_query({"q": search})
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def new_folder(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/folders/new/."""
    form = FolderForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            folder = folders.create_folder(
                caller, name=form.cleaned_data["name"], summary=form.cleaned_data["summary"] or None
            )
            return pages.go(request, _url(caller, "folder", name=folder.name))
        except DomainError as exc:
            pages.add_error(form, exc, {"folder ": "name", "items of a deleted": "name"})
    context = {"form": form, "action": request.path, "save": "Create folder"}
    status = 422 if form.errors else 200
    return show_form(
        request,
        "workspaces/_simple_form.html",
        context,
        title="New folder",
        list_url=_url(caller, "folders"),
        status=status,
    )


@require_safe
@workspace_page(near=near_folders)
def folder(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """/w/<workspace>/folders/<name>/: what lies in it, and who may do what with it."""
    return _folder(request, caller, name, HolderForm(caller=caller))


def _folder(
    request: HttpRequest, caller: Caller, name: str, form: HolderForm, *, status: int = 200
) -> HttpResponse:
    usage = {kind: count for kind, count in folders.folder_usage(caller, name).items() if count}
    context = {
        "shown": access_lists.shown_folder(caller, folders.get_folder(caller, name)),
        "usage": usage,
        "form": form,
        "levels": LEVELS,
        "caller": caller,
    }
    return pages.respond(
        request, "workspaces/folder.html", context, fragment="workspaces/_folder.html", status=status
    )


@require_POST
@workspace_page
def set_holder(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """Give somebody a right on the folder, or change it."""
    form = HolderForm(request.POST, caller=caller)
    if form.is_valid():
        try:
            give_right(caller, name, **form.cleaned_data)
            return _folder(request, caller, name, HolderForm(caller=caller))
        except DomainError as exc:
            pages.add_error(form, exc)
    return _folder(request, caller, name, form, status=422)


def give_right(caller: Caller, name: str, *, principal: str, level: str) -> None:
    """Set the right of `principal` on a folder to a level. BadRequest, NotFound, PermissionDenied."""
    with transaction.atomic():
        if level == "owner":
            folders.add_owner(caller, name, owner=principal)
        elif level in LEVELS:
            folders.remove_owner(caller, name, owner=principal, may_write=level == "write")
        else:
            raise BadRequest(f"level is {level[:20]!r}; expected {', '.join(LEVELS)}")
        _require_owner_left(caller, name)


@require_POST
@workspace_page
def remove_holder(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """Take somebody's right on the folder away."""
    principal = request.POST.get("principal", "")
    with transaction.atomic():
        folders.remove_owner(caller, name, owner=principal)
        _require_owner_left(caller, name)
    return pages.toast(
        _folder(request, caller, name, HolderForm(caller=caller)),
        f"{principal} has no right on f/{name} any more",
    )


def _require_owner_left(caller: Caller, name: str) -> None:
    if not folders.get_folder(caller, name).owners:
        raise BadRequest(f"folder {name} must keep an owner; make somebody else owner first")


@require_POST
@workspace_page
def delete_folder(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """Delete a folder's rules."""
    folders.delete_folder(caller, name)
    pages.say(request, f"Folder {name} deleted")
    return pages.go(request, _url(caller, "folders"))


# --- groups -------------------------------------------------------------------------------------------------------


class GroupForm(PageForm):
    """A new group."""

    name = forms.CharField(
        max_length=50, help_text="Access rules mention it as g/<name>.", widget=forms.TextInput(attrs=_MONO)
    )
    summary = forms.CharField(required=False, max_length=1000, widget=forms.Textarea(attrs={"rows": 2}))


@require_safe
@workspace_page
def group_list(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/groups/."""
    return _groups(request, caller)


def _groups(request: HttpRequest, caller: Caller) -> HttpResponse:
    context = {
        "rows": access_lists.shown_groups(caller),
        "people": [person.member.username for person in access_lists.people(caller)],
        "caller": caller,
        "drawer": None,
    }
    return pages.respond(request, "workspaces/groups.html", context, fragment="workspaces/_groups.html")


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def new_group(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/groups/new/."""
    form = GroupForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            groups.create_group(caller, **form.cleaned_data)
            return saved(
                request, f"Group {form.cleaned_data['name']} created", list_url=_url(caller, "groups")
            )
        except DomainError as exc:
            pages.add_error(form, exc, {"group ": "name", "items of a deleted": "name"})
    context = {"form": form, "action": request.path, "save": "Create group"}
    status = 422 if form.errors else 200
    return show_form(
        request,
        "workspaces/_simple_form.html",
        context,
        title="New group",
        list_url=_url(caller, "groups"),
        status=status,
    )


@require_POST
@workspace_page
def change_group_members(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """Put somebody in (`add`) or take them out (`remove`)."""
    if username := request.POST.get("add"):
        groups.add_to_group(caller, name, username=username)
    elif username := request.POST.get("remove"):
        groups.remove_from_group(caller, name, username=username)
    return _groups(request, caller)


@require_POST
@workspace_page
def delete_group(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """Delete a group and every rule about it."""
    groups.delete_group(caller, name)
    return saved(request, f"Group {name} deleted", list_url=_url(caller, "groups"))


# --- people -------------------------------------------------------------------------------------------------------


class MemberForm(PageForm):
    """An account to add to the workspace."""

    email = forms.CharField(
        label="E-mail",
        max_length=255,
        help_text="Of an account on this instance; a superadmin creates accounts.",
        widget=forms.EmailInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    username = forms.CharField(
        required=False,
        max_length=50,
        help_text="Empty: made from the address.",
        widget=forms.TextInput(attrs=_MONO),
    )
    role = forms.ChoiceField(choices=list(ROLES.items()))


@require_safe
@workspace_page
def user_list(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/users/."""
    return _users(request, caller)


def _users(request: HttpRequest, caller: Caller) -> HttpResponse:
    context = {"rows": access_lists.people(caller), "roles": ROLES, "caller": caller, "drawer": None}
    return pages.respond(request, "workspaces/users.html", context, fragment="workspaces/_users.html")


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(admins_only=True)
def new_user(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/users/new/: add an account to the workspace."""
    form = MemberForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            workspaces.add_member(
                caller,
                email=data["email"],
                username=data["username"] or None,
                is_admin=data["role"] == "admin",
                operator=data["role"] == "operator",
            )
            return saved(request, f"{data['email']} is a member now", list_url=_url(caller, "users"))
        except DomainError as exc:
            pages.add_error(form, exc, {"no account has": "email", "is a member": "email"})
    context = {"form": form, "action": request.path, "save": "Add member"}
    status = 422 if form.errors else 200
    return show_form(
        request,
        "workspaces/_simple_form.html",
        context,
        title="Add a member",
        list_url=_url(caller, "users"),
        status=status,
    )


@require_POST
@workspace_page(admins_only=True)
def change_user(request: HttpRequest, caller: Caller, username: str) -> HttpResponse:
    """Set a member's `role`, or switch the membership off and on (`disabled`: 1 or 0)."""
    role, disabled = request.POST.get("role"), request.POST.get("disabled")
    if role is not None:
        if role not in ROLES:
            raise BadRequest(f"role is {role[:20]!r}; expected {', '.join(ROLES)}")
        workspaces.update_member(caller, username, is_admin=role == "admin", operator=role == "operator")
    if disabled is not None:
        workspaces.update_member(caller, username, disabled=disabled == "1")
    return pages.toast(_users(request, caller), f"{username} changed")


@require_POST
@workspace_page(admins_only=True)
def remove_user(request: HttpRequest, caller: Caller, username: str) -> HttpResponse:
    """Take a member out of the workspace."""
    workspaces.remove_member(caller, username)
    return pages.toast(_users(request, caller), f"{username} is no member any more")
