"""Middleware: limits on hostile requests, and the one sign-in mechanism (token by header, query or cookie).

Both run in sync and in async chains: the waiting routes are async and must see the client's disconnect.
"""

import ipaddress
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from workspaces.access import Identity
from workspaces.errors import DomainError, NotSignedIn
from workspaces.tokens import authenticate

TOKEN_COOKIE = "token"


class _BothWays:
    """A middleware of which only the way in matters: `before(request)` may answer, else the request goes on."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        answer = self.before(request)
        if answer is None:
            return self.get_response(request)
        return self._later(answer) if iscoroutinefunction(self) else answer

    @staticmethod
    async def _later(answer: HttpResponse) -> HttpResponse:
        return answer

    def before(self, request: HttpRequest) -> HttpResponse | None:
        raise NotImplementedError


class RequestLimits(_BothWays):
    """Refuse what no route could take: bodies over the limit, NUL characters in the address."""

    def before(self, request: HttpRequest) -> HttpResponse | None:
        limit = settings.MAX_REQUEST_SIZE_MB * 1024 * 1024
        length = request.META.get("CONTENT_LENGTH") or "0"
        if not (length.isascii() and length.isdigit()):
            return _plain("Bad request: Content-Length must be a number", 400)
        if int(length) > limit:
            return _plain(
                f"Too large: the body has {length} bytes; this instance takes at most {limit} (MAX_REQUEST_SIZE_MB)",
                413,
            )
        if "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            return _plain("Bad request: the address contains a NUL character", 400)
        return None


class TokenMiddleware(_BothWays):
    """Give every request `request.user` (for Django's admin and templates), looked up only when somebody asks."""

    def before(self, request: HttpRequest) -> HttpResponse | None:
        request.user = SimpleLazyObject(lambda: _user(request))  # type: ignore[assignment]
        return None


def _user(request: HttpRequest) -> Any:
    identity = identify(request)
    return identity.account if identity is not None and identity.account is not None else AnonymousUser()


def identify(request: HttpRequest) -> Identity | None:
    """Who sent this request, looked up once; None when nobody is signed in or the credentials are not valid."""
    try:
        return identify_or_raise(request)
    except DomainError:
        return None


def identify_or_raise(request: HttpRequest) -> Identity:
    """Who sent this request. Raises NotSignedIn with the reason."""
    known = getattr(request, "_identity", None)
    if known is None:
        known = authenticate(credentials(request))
        request._identity = known  # type: ignore[attr-defined]
    return known


def credentials(request: HttpRequest) -> str:
    """The token as sent: `Authorization: Bearer`, `?token=`, or the cookie. Raises NotSignedIn when there is none."""
    header = request.headers.get("Authorization", "")
    if header[:7].lower() == "bearer ":
        return header[7:].strip()
    token = request.GET.get("token") or request.COOKIES.get(TOKEN_COOKIE)
    if not token:
        raise NotSignedIn("sign in first, or send a token: Authorization: Bearer <token>")
    return token


def is_by_cookie(request: HttpRequest) -> bool:
    """Was the cookie the only credential? Such requests could have been sent by another site's page."""
    return (
        not request.headers.get("Authorization")
        and not request.GET.get("token")
        and TOKEN_COOKIE in request.COOKIES
    )


def is_cross_site(request: HttpRequest) -> bool:
    """Did a browser send this from a page of another site? Programs send neither header."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and origin not in (
        f"{request.scheme}://{request.get_host()}",
        settings.BASE_URL,
    )


def is_from_loopback(request: HttpRequest) -> bool:
    """Does the request come from this machine, with no proxy in between that says otherwise?"""
    addresses = [request.META.get("REMOTE_ADDR") or ""]
    addresses += [
        part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",") if part.strip()
    ]
    try:
        return all(ipaddress.ip_address(address).is_loopback for address in addresses)
    except ValueError:
        return False


def set_session_cookie(response: HttpResponse, token: str) -> None:
    """Sign the browser in."""
    response.set_cookie(
        TOKEN_COOKIE,
        token,
        max_age=settings.SESSION_DAYS * 86_400,
        path="/",
        domain=settings.COOKIE_DOMAIN,
        secure=settings.COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def clear_session_cookie(response: HttpResponse) -> None:
    """Sign the browser out."""
    response.delete_cookie(TOKEN_COOKIE, path="/", domain=settings.COOKIE_DOMAIN, samesite="Lax")


def _plain(text: str, status: int) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
