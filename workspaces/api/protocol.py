"""What every REST answer and request has in common: sign-in, strict JSON in, JSON or plain text out, errors as text.

Named in REST_FRAMEWORK settings, so it must not import DRF's views (they read those settings while being imported).
"""

import logging
import uuid
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import DataError
from django.http import Http404, HttpResponse
from django.http.multipartparser import MultiPartParserError
from rest_framework import exceptions, parsers, renderers
from rest_framework.authentication import BaseAuthentication
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from workspaces import middleware
from workspaces.access import Identity
from workspaces.errors import DomainError, NotSignedIn, PermissionDenied
from workspaces.jsontext import parse_json
from workspaces.outages import is_away
from workspaces.tokens import authenticate

if TYPE_CHECKING:
    from rest_framework.response import Response
    from rest_framework.views import APIView

logger = logging.getLogger(__name__)

_RETRY_AFTER_S = 5  # a restart of PostgreSQL takes less, a failover little more
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class TokenAuthentication(BaseAuthentication):
    """Bearer header, ?token= or cookie. A cookie alone is not believed when another site's page sent the request."""

    def authenticate(self, request: Request) -> tuple[Any, Identity] | None:
        django_request = request._request
        try:
            identity = middleware.identify_or_raise(django_request)
        except NotSignedIn:
            if getattr(request.parser_context.get("view"), "public", False):
                return None
            raise
        if (
            middleware.is_by_cookie(django_request)
            and request.method not in SAFE_METHODS
            and middleware.is_cross_site(django_request)
        ):
            raise PermissionDenied(
                "this request came from another site; send the token in an Authorization header instead"
            )
        return identity.account, identity

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class TokenInAddress(BaseAuthentication):
    """The token is a part of the address, `<token>`: for programs that can be told an address and nothing else.

    What the request says of itself from here on, such as the path in a log line, has the token replaced.
    """

    def authenticate(self, request: Request) -> tuple[Any, Identity]:
        token: str = request.parser_context["kwargs"]["token"]
        django_request = request._request
        for name in ("path", "path_info"):
            setattr(django_request, name, getattr(django_request, name).replace(token, "***"))
        identity = authenticate(token)
        return identity.account, identity

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class IsSignedIn(BasePermission):
    """Somebody is signed in, or the view says that it is public."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        if getattr(view, "public", False):
            return True
        if not isinstance(request.auth, Identity):
            raise NotSignedIn("sign in first, or send a token: Authorization: Bearer <token>")
        return True


class JSONParser(parsers.BaseParser):
    """JSON whatever the content type says: clients send octet-stream or nothing with JSON bodies."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        # A body sent in chunks announces no length, so the limit is met here.
        limit = settings.MAX_REQUEST_SIZE_MB * 1024 * 1024
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise RequestDataTooBig
        return parse_json(raw) if raw.strip() else {}


class JSONRenderer(renderers.JSONRenderer):
    """UTF-8 JSON, times with Z, and null where REST framework would send nothing."""

    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> Any:
        return b"null" if data is None else super().render(data, accepted_media_type, renderer_context)


class AlwaysOurRenderer(BaseContentNegotiation):
    """Answers do not depend on Accept: clients read the type we send."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[Any, str]:
        return renderers[0], renderers[0].media_type


def text(body: str, status: int = 200) -> HttpResponse:
    """A text/plain answer, without a newline at the end: clients use it as it is."""
    return HttpResponse(body, status=status, content_type="text/plain; charset=utf-8")


def error_response(exc: DomainError) -> HttpResponse:
    """The HTTP form of a DomainError."""
    response = text(exc.as_text(), exc.http_status)
    if exc.http_status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def database_away() -> HttpResponse:
    """503: what was asked for may work in a moment."""
    response = text(
        "Unavailable: the database is away, or too busy for this request; try again in a moment", 503
    )
    response.headers["Retry-After"] = str(_RETRY_AFTER_S)
    return response


def exception_handler(exc: Exception, context: dict[str, Any]) -> "HttpResponse | Response | None":
    """Every error of the API as plain text (reference/routes-cli.md section 0)."""
    if isinstance(exc, DomainError):
        if exc.http_status >= 500:
            # 504: the client's wait is over, not our patience; nobody needs to look into it.
            level = logging.INFO if exc.http_status == 504 else logging.ERROR
            logger.log(level, "api error path=%s: %s", context["request"].path, exc)
        return error_response(exc)
    if isinstance(exc, Http404):
        return text("Not found: there is nothing at this address", 404)
    if isinstance(exc, exceptions.MethodNotAllowed):
        response = text(f"Method not allowed: {context['request'].method} does not work here", 405)
        response.headers["Allow"] = ", ".join(context["view"].allowed_methods)
        return response
    if isinstance(exc, RequestDataTooBig):
        return text("Too large: the body exceeds MAX_REQUEST_SIZE_MB", 413)
    if isinstance(exc, exceptions.ParseError | SuspiciousOperation | MultiPartParserError):
        return text(f"Bad request: {exc}", 400)
    if isinstance(exc, exceptions.APIException):
        return text(f"{exc.__class__.__name__}: {exc.detail}", exc.status_code)
    if isinstance(exc, DataError):
        # A value passed our checks and the column refused it: the client's doing, but worth knowing.
        logger.warning("database refused a value path=%s: %s", context["request"].path, exc)
        return text("Bad request: a value is out of range or holds characters that cannot be stored", 400)
    if is_away(exc):
        logger.warning("database away path=%s: %s", context["request"].path, exc)
        return database_away()
    incident = uuid.uuid4().hex[:8]
    logger.exception("unexpected error incident=%s path=%s", incident, context["request"].path)
    return text(
        f"Internal error: something went wrong on our side; quote incident {incident} to the operator", 500
    )
