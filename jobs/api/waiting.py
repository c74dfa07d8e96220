"""Views that wait: the request is read and checked on a thread, then waits on the event loop, holding nothing.

A Django REST view whose handlers are coroutines. Thousands may wait at once: no thread, no database connection each.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, ClassVar, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connection
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from workspaces.api.base import InstanceView
from workspaces.api.request_thread import release_thread

P = ParamSpec("P")
T = TypeVar("T")


class WaitingView(InstanceView):
    """Mix in before a view class; define `async def get` / `post`. `initial` has run when they are called."""

    # The handler begins with `on_request_thread`: thread and connection stay with the request until then.
    queries_at_once: ClassVar[bool] = False

    async def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        self.args, self.kwargs = args, kwargs
        drf_request = self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            method = (request.method or "").lower()
            handler = getattr(
                self, method if method in self.http_method_names else "", self.http_method_not_allowed
            )
            if self.queries_at_once:
                await sync_to_async(self.initial)(drf_request, *args, **kwargs)
            else:
                await on_request_thread(self.initial, drf_request, *args, **kwargs)
            answer = handler(drf_request, *args, **kwargs)
            response = await answer if asyncio.iscoroutine(answer) else answer
        except Exception as exc:
            response = self.handle_exception(exc)
        return self.finalize_response(drf_request, response, *args, **kwargs)


async def on_request_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a synchronous part of the request on the request's own thread, and give thread and connection back after it.

    Otherwise the request would keep it until the answer is sent; a later need borrows another one.
    """
    try:
        return await sync_to_async(_and_return_connection)(partial(function, *args, **kwargs))
    finally:
        release_thread()


def _and_return_connection(call: Callable[[], T]) -> T:
    try:
        return call()
    finally:
        if not connection.in_atomic_block:
            connection.close()


def event_stream(chunks: AsyncIterator[bytes]) -> StreamingHttpResponse:
    """Server-sent events from an asynchronous iterator of byte strings."""
    return StreamingHttpResponse(
        chunks,
        content_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )
