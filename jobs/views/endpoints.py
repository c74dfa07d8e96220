"""What the pages' scripts call: JSON in, JSON out, errors as a sentence in plain text (static/js/dom.js shows it)."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_http_methods

from workspaces import access, pages
from workspaces.errors import BadRequest, DomainError
from workspaces.jsontext import parse_json

Answer = dict[str, Any] | HttpResponse


def endpoint(
    view: Callable[..., Answer] | None = None, *, operators: bool = False, method: str = "POST"
) -> Any:
    """A call under /w/<workspace>/: `view(request, caller, body, **parts)`, the body a JSON object ({} for GET)."""

    def decorate(view: Callable[..., Answer]) -> Callable[..., HttpResponse]:
        @require_http_methods([method])
        @wraps(view)
        def wrapped(request: HttpRequest, *, workspace: str, **parts: Any) -> HttpResponse:
            try:
                caller = access.enter_workspace(pages.signed_in(request), workspace)
                if not operators:
                    caller.require_not_operator()
                answer = view(request, caller, _body(request), **parts)
            except DomainError as exc:
                return HttpResponse(
                    pages.sentence(exc.message),
                    status=exc.http_status,
                    content_type="text/plain; charset=utf-8",
                )
            response = JsonResponse(answer) if isinstance(answer, dict) else answer
            response.headers.setdefault("Cache-Control", "private, no-store")
            return response

        return wrapped

    return decorate if view is None else decorate(view)


def _body(request: HttpRequest) -> dict[str, Any]:
    if request.method == "GET":
        return {}
    body = parse_json(request.body)
    if not isinstance(body, dict):
        raise BadRequest("the body should be a JSON object")
    return body


def text_of(body: dict[str, Any], name: str, default: str = "") -> str:
    """A text field of the body. Raises BadRequest for any other kind of value."""
    value = body.get(name, default)
    if value is None:
        return default
    if not isinstance(value, str):
        raise BadRequest(f"{name} should be text")
    return value


def number_of(body: dict[str, Any], name: str) -> int | None:
    """A whole number of the body; None when it is missing or empty. Raises BadRequest for any other kind of value."""
    value = body.get(name)
    if value in (None, ""):
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(f"{name} should be a whole number")
    return value


def texts_of(body: dict[str, Any], name: str) -> list[str] | None:
    """A list of texts of the body; None when it is missing. Raises BadRequest for any other kind of value."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRequest(f"{name} should be a list of texts")
    return value


def object_of(body: dict[str, Any], name: str) -> dict[str, Any]:
    """An object field of the body; {} when it is missing. Raises BadRequest for any other kind of value."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"{name} should be an object")
    return value
