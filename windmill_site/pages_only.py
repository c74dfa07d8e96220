"""Django's session, CSRF and messages middleware, for pages and the admin only.

Each of them is synchronous: in the asynchronous chain it costs a request two changes of thread, and the API has no use
for them. Its sign-in, and its own defence against other sites, is in `workspaces.api.protocol`.
"""

from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware


def is_page(request: HttpRequest) -> bool:
    """Is this anything but the API?"""
    return not request.path_info.startswith("/api/")


class _PagesOnly:
    get_response: Callable[[HttpRequest], Any]

    def __call__(self, request: HttpRequest) -> Any:
        # In an asynchronous chain both branches answer an awaitable.
        return super().__call__(request) if is_page(request) else self.get_response(request)  # type: ignore[misc]


class PageSession(_PagesOnly, SessionMiddleware):
    """`request.session`: flash state in a signed cookie."""


class PageMessages(_PagesOnly, MessageMiddleware):
    """Messages that outlive a redirect."""


class PageCsrf(_PagesOnly, CsrfViewMiddleware):
    """Form tokens. A view under /api that is not exempt (none is) is still checked, and so refused."""

    async def process_view(  # type: ignore[override]
        self, request: HttpRequest, callback: Any, args: Any, kwargs: Any
    ) -> HttpResponse | None:
        if getattr(callback, "csrf_exempt", False) and not is_page(request):
            return None
        # Reads the form, so it stays on a thread: a long body must not hold up the event loop.
        answer: HttpResponse | None = await sync_to_async(super().process_view)(
            request, callback, args, kwargs
        )
        return answer
