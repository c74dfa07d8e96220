"""Template context of every page: the shell around it (navigation, workspaces, account, theme, notices).

Everything that costs a query is a function: templates call it when they use it, so fragments and error pages pay nothing.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypedDict

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from workspaces import access, middleware
from workspaces.access import Caller, Identity
from workspaces.errors import DomainError
from workspaces.models import Workspace
from workspaces.pages import LAST_WORKSPACE_COOKIE

THEMES = ("light", "dark", "auto")


class NavItem(TypedDict):
    """A link of the sidebar. `key`: pressed after `g`, goes there."""

    name: str
    url: str
    icon: str
    key: str
    current: bool


class NavGroup(TypedDict):
    """Links under one heading ("": none)."""

    label: str
    items: list[NavItem]


class WorkspaceLink(TypedDict):
    """A workspace as the switcher shows it."""

    id: str
    name: str
    color: str | None
    url: str
    current: bool


# (heading, (name, address below /w/<workspace>/, icon, key, also current below these), operators too?)
_OPERATORS_TOO = True
_ENTRIES: tuple[tuple[str, str, str, str, str, tuple[str, ...], bool], ...] = (
    ("", "Home", "", "house", "h", ("scripts/",), _OPERATORS_TOO),
    ("", "Runs", "runs/", "activity", "r", (), _OPERATORS_TOO),
    ("Assets", "Variables", "variables/", "key-round", "v", (), False),
    ("Assets", "Resources", "resources/", "boxes", "e", ("resource-types/",), False),
    ("Assets", "Dependencies", "dependencies/", "package", "d", (), False),
    ("Assets", "Folders", "folders/", "folder", "f", (), False),
    ("Operate", "Workers", "workers/", "cpu", "w", (), False),
    ("Operate", "People", "users/", "users", "p", ("groups/",), False),
)


def shell(request: HttpRequest) -> dict[str, Any]:
    """What templates/base.html needs. Also run for pages without the shell, which use none of it."""
    identity = cache(lambda: middleware.identify(request))
    caller = cache(lambda: _caller(request, identity))
    return {
        "theme": theme_of(request),
        "workspace": cache(lambda: _workspace(caller())),
        "workspaces": cache(lambda: _workspaces(identity(), caller())),
        "can_create_workspace": cache(lambda: may_create_workspace(identity())),
        "nav": cache(lambda: navigation(caller(), request.path)),
        "account": cache(lambda: _account(identity(), caller())),
        "notices": cache(lambda: _notices(request, identity())),
    }


def theme_of(request: HttpRequest) -> str:
    """light, dark or auto: the choice that the browser remembers."""
    chosen = request.COOKIES.get("theme", "auto")
    return chosen if chosen in THEMES else "auto"


def navigation(caller: Caller | None, path: str) -> list[NavGroup]:
    """The entries this caller has pages for; `path` marks the current one."""
    if caller is None:
        return []
    base = workspace_url(caller.workspace_id)
    groups: dict[str, NavGroup] = {}
    for heading, name, address, icon, key, also, operators in _ENTRIES:
        if caller.is_operator and not operators:
            continue
        url = base + address
        current = (
            path == url
            or (bool(address) and path.startswith(url))
            or any(path.startswith(base + other) for other in also)
        )
        group = groups.setdefault(heading, NavGroup(label=heading, items=[]))
        group["items"].append(NavItem(name=name, url=url, icon=icon, key=key, current=current))
    return list(groups.values())


def workspace_url(workspace_id: str) -> str:
    """The home page of a workspace."""
    return reverse("home", kwargs={"workspace": workspace_id})


def may_create_workspace(identity: Identity | None) -> bool:
    """Does `workspaces.create_workspace` let this identity in?"""
    if identity is None or identity.workspace_id is not None:
        return False
    return identity.super_admin or not settings.CREATE_WORKSPACE_REQUIRE_SUPERADMIN


def _caller(request: HttpRequest, identity: Callable[[], Identity | None]) -> Caller | None:
    """The caller in the page's workspace; on pages outside of any, in the one visited last."""
    caller: Caller | None = getattr(request, "caller", None)
    who = identity()
    if caller is not None or who is None:
        return caller
    remembered = request.COOKIES.get(LAST_WORKSPACE_COOKIE, "")
    try:
        return access.enter_workspace(who, remembered) if remembered else None
    except DomainError:  # archived, gone, or not a member any more
        return None


def _workspace(caller: Caller | None) -> WorkspaceLink | None:
    return _link(caller.workspace, current=True) if caller is not None else None


def _workspaces(identity: Identity | None, caller: Caller | None) -> list[WorkspaceLink]:
    if identity is None:
        return []
    current = caller.workspace_id if caller is not None else None
    return [_link(row, current=row.id == current) for row in access.workspaces_of(identity).order_by("name")]


def _link(workspace: Workspace, *, current: bool) -> WorkspaceLink:
    return WorkspaceLink(
        id=workspace.id,
        name=workspace.name,
        color=workspace.color,
        url=workspace_url(workspace.id),
        current=current,
    )


def _account(identity: Identity | None, caller: Caller | None) -> dict[str, Any]:
    if identity is None:
        return {"email": "", "name": "", "role": "", "is_super_admin": False}
    if identity.super_admin:
        role = "superadmin"
    elif caller is None:
        role = ""
    else:
        role = "admin" if caller.is_admin else "operator" if caller.is_operator else "developer"
    name = identity.account.name if identity.account is not None else None
    return {
        "email": identity.email,
        "name": name or identity.email,
        "role": role,
        "is_super_admin": identity.super_admin,
    }


def _notices(request: HttpRequest, identity: Identity | None) -> list[dict[str, str]]:
    account = identity.account if identity is not None else None
    if account is None or not account.must_change_password:
        return []
    return [
        {
            "level": "warn",
            "title": f"{account.email} still has the default password",
            "text": "Anybody who reads the manual knows it. Until it is changed, sign-in works from this machine only.",
            "url": reverse("change-password"),
            "link": "Change it",
        }
    ]
