"""Views that wait: the request is read and checked on a thread, then waits on the event loop, holding nothing.

A Django REST view whose handlers are coroutines. Thousands may wait at once: no thread, no database connection each.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import SyncToAsync
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from jobs.following import in_database
from workspaces.api.base import InstanceView

P = ParamSpec("P")
T = TypeVar("T")


class WaitingView(InstanceView):
    """Mix in before a view class; define `async def get` / `post`. `initial` has run when they are called."""

    async def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        self.args, self.kwargs = args, kwargs
        drf_request = self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            handler = self.http_method_not_allowed
            if request.method in ("GET", "HEAD", "POST", "OPTIONS"):
                handler = getattr(self, request.method.lower(), handler)
            await in_database(self.initial, drf_request, *args, **kwargs)
            release_request_thread()
            answer = handler(drf_request, *args, **kwargs)
            response = await answer if asyncio.iscoroutine(answer) else answer
        except Exception as exc:
            response = self.handle_exception(exc)
        return self.finalize_response(drf_request, response, *args, **kwargs)


def release_request_thread() -> None:
    """Give back the thread that synchronous middleware made for this request; a later need makes a new one.

    Each request served by ASGI has a thread of its own for thread-sensitive work, kept until the answer is sent.
    """
    context = SyncToAsync.thread_sensitive_context.get(None)
    if context is not None:
        executor = SyncToAsync.context_to_thread_executor.pop(context, None)
        if executor is not None:
            executor.shutdown(wait=False)


async def finish(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`in_database`, but run to its end even when the client goes away meanwhile."""
    running = asyncio.ensure_future(in_database(partial(function, *args, **kwargs)))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def event_stream(chunks: Any) -> HttpResponse:
    """Server-sent events from an asynchronous iterator of byte strings."""
    from django.http import StreamingHttpResponse

    return StreamingHttpResponse(  # type: ignore[return-value]
        chunks,
        content_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )
