"""ASGI entry: HTTP through Django, websockets through Channels."""

import asyncio
import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "windmill_site.settings")

import django

django.setup(set_prefix=False)

from asgiref.sync import ThreadSensitiveContext  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.conf import settings  # noqa: E402
from django.core.handlers.asgi import ASGIHandler  # noqa: E402

from jobs.ws_urls import websocket_urlpatterns  # noqa: E402
from workers.housekeeping import keep_house  # noqa: E402
from workspaces.api.request_thread import RequestThread  # noqa: E402


class Handler(ASGIHandler):
    """Django's handler, with threads that outlive their request (`workspaces.api.request_thread`)."""

    _housekeeping: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._housekeeping is None and not settings.TESTING:
            # With the first request, which the supervisor sends at once: daphne tells nobody that it begins.
            self._housekeeping = asyncio.create_task(keep_house(), name="housekeeping")
        thread = RequestThread()
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle(scope, receive, send)
        finally:
            thread.release()


application = ProtocolTypeRouter({"http": Handler(), "websocket": URLRouter(websocket_urlpatterns)})
