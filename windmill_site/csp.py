"""The one place where the Content-Security-Policy of the site is written.

No 'unsafe-inline', no 'unsafe-eval', no nonce: every script and style is a file, and scripts set styles
through the CSSOM (`element.style`), never as attributes.
"""

from collections.abc import Awaitable, Callable
from typing import cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

# The one exception: the frame that shows what a job returned (html, markdown).
from jobs.markup import RESULT_FRAME_POLICY as RESULT_FRAME_POLICY

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "frame-src 'self' blob:",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
_Handler = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]


class ContentSecurityPolicy:
    """Add the security headers to every response that has not set its own, in sync and async chains."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: _Handler) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._answer_later(request)
        return secured(cast(HttpResponseBase, self.get_response(request)))

    async def _answer_later(self, request: HttpRequest) -> HttpResponseBase:
        return secured(await cast("Awaitable[HttpResponseBase]", self.get_response(request)))


def secured(response: HttpResponseBase) -> HttpResponseBase:
    """Set the headers that `response` lacks and return it. A view with another policy sets its own."""
    headers = response.headers
    headers.setdefault("Content-Security-Policy", POLICY)
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("Referrer-Policy", "same-origin")
    headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    if "frame-ancestors 'self'" in headers["Content-Security-Policy"]:
        headers.setdefault("X-Frame-Options", "SAMEORIGIN")
    else:
        headers.setdefault("X-Frame-Options", "DENY")
    return response
