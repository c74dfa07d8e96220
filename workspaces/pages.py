"""The common ground of all HTML pages: who is asking, what their rights are, how errors look.

A page is a function under `page` (signed in, no workspace) or `workspace_page` (inside one). It raises DomainErrors like
the API does, and this module turns them into the right answer for the way it was asked:

- signed out: to /login/?next=<here> (fragments: the same, by HX-Redirect);
- NotFound: the 404 page, with paths that resemble the one asked for; PermissionDenied: the 403 page, with who can help;
- a fragment asked for by htmx: a notice in place of the content (GET), a toast that leaves the page alone (otherwise);
- a form: the view catches DomainError itself, puts it on the field (`add_error`) and answers 422 with the form.

The addresses of fragments are those of their pages; `is_fragment` tells them apart.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Protocol, TypedDict
from urllib.parse import quote, urlencode

from django.contrib import messages
from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme

from workspaces import access, middleware
from workspaces.access import Caller, Identity
from workspaces.errors import BadRequest, DomainError, NotFound, NotSignedIn, PermissionDenied
from workspaces.models import Member

LAST_WORKSPACE_COOKIE = "workspace"
_A_YEAR_S = 365 * 86_400
_MAX_NEAR = 5


class Near(TypedDict):
    """A page that a visitor of a missing address may have meant."""

    path: str
    url: str


class NearFinder(Protocol):
    """Candidates for "did you mean", given who asks and the parts of the address (a page's keyword arguments)."""

    def __call__(self, caller: Caller, **parts: Any) -> list[Near]: ...


# --- the two kinds of pages ---------------------------------------------------------------------------------------


def page(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """A page outside any workspace: `view(request, identity, **parts)` for somebody signed in."""

    @wraps(view)
    def wrapped(request: HttpRequest, **parts: Any) -> HttpResponse:
        try:
            identity = signed_in(request)
            _require_storable(request)
            return _private(view(request, identity, **parts))
        except DomainError as exc:
            return error_page(request, exc)

    return wrapped


def workspace_page(
    view: Callable[..., HttpResponse] | None = None,
    *,
    operators: bool = False,
    admins_only: bool = False,
    near: NearFinder | None = None,
) -> Any:
    """A page under /w/<workspace>/: `view(request, caller, **parts)`.

    Operators are let in only where `operators` says so, others than admins not where `admins_only` does. `near` names
    what to suggest when the item asked for does not exist. Usable as `@workspace_page` and `@workspace_page(...)`.
    """

    def decorate(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        @wraps(view)
        def wrapped(request: HttpRequest, *, workspace: str, **parts: Any) -> HttpResponse:
            caller: Caller | None = None
            try:
                identity = signed_in(request)
                _require_storable(request)
                caller = access.enter_workspace(identity, workspace)
                request.caller = caller  # type: ignore[attr-defined]  # the shell shows its workspace
                if admins_only:
                    caller.require_admin()
                if not operators:
                    caller.require_not_operator()
                response = view(request, caller, **parts)
            except NotFound as exc:
                found = near(caller, **parts) if near is not None and caller is not None else []
                return error_page(request, exc, caller=caller, near=found)
            except DomainError as exc:
                return error_page(request, exc, caller=caller)
            if not is_fragment(request) and request.COOKIES.get(LAST_WORKSPACE_COOKIE) != workspace:
                remember_workspace(response, workspace)
            return _private(response)

        return wrapped

    return decorate if view is None else decorate(view)


def signed_in(request: HttpRequest) -> Identity:
    """Who is asking. Raises NotSignedIn, ChangePasswordFirst (the well-known first password, from another machine),
    PermissionDenied for tokens that programs hold: pages show and do too many things to check scopes one by one.
    """
    identity = middleware.identify_or_raise(request)
    if (
        identity.is_job
        or identity.scopes is not None
        or (identity.read_only and request.method not in ("GET", "HEAD"))
    ):
        raise PermissionDenied("this token is limited to a part of the API; sign in to use the pages")
    account = identity.account
    if account is not None and account.must_change_password and not middleware.is_from_loopback(request):
        raise ChangePasswordFirst(f"{account.email} still has its default password; choose a new one first")
    return identity


def _require_storable(request: HttpRequest) -> None:
    """Forms are read in many ways; none of them may hand the database a text that it cannot store. BadRequest."""
    if request.method == "POST" and any(
        "\x00" in text for texts in request.POST.lists() for text in texts[1]
    ):
        raise BadRequest("the form contains a NUL character, which cannot be stored")


class ChangePasswordFirst(PermissionDenied):
    """The account still has the first, well-known password and the request is not from this machine."""

    code = "must_change_password"


def _private(response: HttpResponse) -> HttpResponse:
    """A page and its fragments share an address, and belong to one person: caches must know both."""
    patch_vary_headers(response, ["HX-Request", "Cookie"])
    response.headers.setdefault("Cache-Control", "private, no-cache")
    return response


def remember_workspace(response: HttpResponse, workspace_id: str) -> None:
    """Let `/` open this workspace next time."""
    from django.conf import settings

    response.set_cookie(
        LAST_WORKSPACE_COOKIE,
        workspace_id,
        max_age=_A_YEAR_S,
        samesite="Lax",
        httponly=True,
        secure=settings.COOKIE_SECURE,
    )


# --- fragments ----------------------------------------------------------------------------------------------------


def is_fragment(request: HttpRequest) -> bool:
    """Did htmx ask, for a part of the page? (Going back in history asks for the whole page.)"""
    headers = request.headers
    return (
        headers.get("HX-Request") == "true"
        and headers.get("HX-Request-Type", "partial") == "partial"
        and headers.get("HX-History-Restore-Request") != "true"
    )


def respond(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    fragment: str | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render `template`, or only `fragment` (a partial that the page includes) when htmx asked for a part."""
    name = fragment if fragment is not None and is_fragment(request) else template
    return render(request, name, dict(context), status=status)


def go(request: HttpRequest, url: str) -> HttpResponse:
    """Send the browser to another page, whoever asked: a redirect, or HX-Redirect for htmx."""
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(status=204, headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)


def toast(response: HttpResponse, text: str, *, level: str = "info", href: str | None = None) -> HttpResponse:
    """Have the page show a short message when this answer to htmx arrives. `level`: info or error."""
    detail = {"text": text, "level": level, **({"href": href} if href else {})}
    return trigger(response, "wm-toast", detail)


def trigger(response: HttpResponse, event: str, detail: Mapping[str, Any] | None = None) -> HttpResponse:
    """Have htmx raise an event in the page when this answer arrives; several may be added."""
    events = json.loads(response.headers.get("HX-Trigger", "{}"))
    events[event] = dict(detail or {})
    response.headers["HX-Trigger"] = json.dumps(events)  # ASCII: headers are latin-1
    return response


def clean_query(params: Mapping[str, Any]) -> str:
    """`?q=x&kind=script` of the parameters that are set; "" when none is. Keeps shared addresses short."""
    pairs = [
        (key, "1" if value is True else value)
        for key, value in params.items()
        if value not in (None, "", False, [])
    ]
    return "?" + urlencode(pairs, doseq=True) if pairs else ""


# --- errors -------------------------------------------------------------------------------------------------------


def error_page(
    request: HttpRequest, exc: DomainError, *, caller: Caller | None = None, near: Iterable[Near] = ()
) -> HttpResponse:
    """The answer to a DomainError that the view did not handle (see the module's text)."""
    if isinstance(exc, NotSignedIn):
        return _private(go(request, sign_in_url(request)))
    if isinstance(exc, ChangePasswordFirst):
        return _private(go(request, f"{reverse('change-password')}?{urlencode({'next': _here(request)})}"))
    if is_fragment(request):
        return _private(_error_fragment(request, exc))
    if exc.http_status == 404:
        return _private(
            render(
                request, "errors/404.html", {"message": sentence(exc.message), "near": list(near)}, status=404
            )
        )
    if exc.http_status == 403:
        context = {"message": sentence(exc.message), "who": who_can_help(caller)}
        return _private(render(request, "errors/403.html", context, status=403))
    return _private(
        render(request, "errors/400.html", {"message": sentence(exc.message)}, status=exc.http_status)
    )


def _error_fragment(request: HttpRequest, exc: DomainError) -> HttpResponse:
    if request.method in ("GET", "HEAD"):
        notice = {"level": "fail", "title": sentence(exc.message)}
        return render(request, "partials/notice.html", {"notice": notice}, status=exc.http_status)
    # The content stays as it is: it is still true, only the deed failed.
    response = HttpResponse(status=exc.http_status, headers={"HX-Reswap": "none"})
    return toast(response, sentence(exc.message), level="error")


def sign_in_url(request: HttpRequest) -> str:
    """/login/ with the way back to where the visitor was."""
    here = _here(request)
    return reverse("login") + ("" if here == "/" else "?" + urlencode({"next": here}))


def _here(request: HttpRequest) -> str:
    """The page that the visitor looks at: of a fragment's request, the one that asked for it."""
    if request.headers.get("HX-Request") == "true":
        current = request.headers.get("HX-Current-URL", "")
        return safe_next(request, current)
    return request.get_full_path() if request.method in ("GET", "HEAD") else "/"


def safe_next(request: HttpRequest, url: str | None, default: str = "/") -> str:
    """`url` when it leads to this site, else `default`: a link to /login/ must not send people elsewhere."""
    if url and url_has_allowed_host_and_scheme(
        url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    ):
        return url
    return default


def sentence(message: str) -> str:
    """A domain error's message as a sentence of its own: capital first, full stop."""
    text = message.strip()
    if not text:
        return ""
    # "path 'x' is wrong" -> "Path ..."; u/alice, f/billing and quoted values keep their spelling.
    first = text.split(maxsplit=1)[0]
    if first.isalpha():
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else text + "."


def who_can_help(caller: Caller | None) -> str:
    """Who can give a missing right, by name; "" when nobody can be named."""
    if caller is None:
        return ""
    admins = list(
        Member.objects.filter(workspace=caller.workspace, is_admin=True, disabled=False).values_list(
            "username", flat=True
        )[:4]
    )
    if not admins:
        return "A superadmin of the instance can give it to you."
    names = ", ".join(admins[:3]) + (" and others" if len(admins) > 3 else "")
    return f"Admins of {caller.workspace.name}, who can give it to you: {names}."


def nearest(wanted: str, paths: Iterable[str], url: Callable[[str], str]) -> list[Near]:
    """The paths that resemble the one asked for, best first: same name elsewhere, then similar spelling."""
    known = list(paths)
    name = wanted.rsplit("/", 1)[-1]
    same_name = [path for path in known if path.rsplit("/", 1)[-1] == name and path != wanted]
    similar = difflib.get_close_matches(wanted, known, n=_MAX_NEAR, cutoff=0.6)
    best = list(dict.fromkeys([*same_name, *similar]))[:_MAX_NEAR]
    return [Near(path=path, url=url(path)) for path in best]


# --- forms --------------------------------------------------------------------------------------------------------


def add_error(form: BaseForm, exc: DomainError, hints: Mapping[str, str] | None = None) -> None:
    """Put a domain error on the field it speaks of, or above the form.

    Domain messages begin with what is wrong ("path 'x' is not valid: ..."). A field is meant when the message begins
    with its name or with a key of `hints` (text the message begins with or holds -> field name).
    """
    text = sentence(exc.message)
    low = exc.message.lower()
    for beginning, field in (hints or {}).items():
        if beginning in low and field in form.fields:
            form.add_error(field, text)
            return
    for field in form.fields:
        if low.startswith(
            (f"{field} ", f"{field}:", f"{field.replace('_', ' ')} ", f"{field.replace('_', ' ')}:")
        ):
            form.add_error(field, text)
            return
    form.add_error(None, text)


def say(request: HttpRequest, text: str) -> None:
    """A message for the next page shown: for answers that redirect."""
    messages.info(request, text)


def path_url(name: str, workspace_id: str, path: str) -> str:
    """The address of a page whose last part is an item's path; slashes stay readable."""
    return reverse(name, kwargs={"workspace": workspace_id, "path": "\0"}).replace(
        quote("\0"), quote(path, safe="/")
    )
