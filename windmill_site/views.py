"""Answers that belong to no app: unknown addresses and errors, as text under /api and as pages elsewhere."""

import logging
import sys
import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import Resolver404
from django.views.decorators.csrf import csrf_exempt

from workspaces.api.protocol import database_away, text
from workspaces.outages import is_away

logger = logging.getLogger(__name__)


def _is_api(request: HttpRequest) -> bool:
    return request.path == "/api" or request.path.startswith("/api/")


@csrf_exempt
def api_not_found(request: HttpRequest, *args: Any) -> HttpResponse:
    """Nothing at this address under /api. Text, never HTML: the CLI takes HTML for a gateway's login page."""
    return text(f"Not found: there is no route {request.method} {request.path[:200]}", 404)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404."""
    if _is_api(request):
        return api_not_found(request)
    # What the resolver raises lists every address of the site: nothing for readers.
    message = "" if exception is None or isinstance(exception, Resolver404) else str(exception)
    return render(request, "errors/404.html", {"message": message}, status=404)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403."""
    if _is_api(request):
        return text("Permission denied", 403)
    return render(request, "errors/403.html", {"message": str(exception or "")}, status=403)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400."""
    if _is_api(request):
        return text("Bad request", 400)
    return render(request, "errors/400.html", {"message": "The request could not be read."}, status=400)


def server_error(request: HttpRequest) -> HttpResponse:
    """500, with a number to quote; 503 while the database is away."""
    error = sys.exc_info()[1]
    if isinstance(error, Exception) and is_away(error):
        logger.warning("database away path=%s: %s", request.path, error)
        return database_away() if _is_api(request) else render(request, "errors/503.html", status=503)
    incident = uuid.uuid4().hex[:8]
    logger.error("server error incident=%s path=%s", incident, request.path)
    if _is_api(request):
        return text(
            f"Internal error: something went wrong on our side; quote incident {incident} to the operator",
            500,
        )
    return render(request, "errors/500.html", {"error_id": incident}, status=500)
