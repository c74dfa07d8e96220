"""Addresses of the websockets; anything else is closed as unknown."""

from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import path, re_path

from jobs.consumers import UNKNOWN, JobConsumer, RunsConsumer


class UnknownAddress(AsyncWebsocketConsumer):
    """Says so with a close code, where the router alone would raise."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(UNKNOWN)


websocket_urlpatterns: list[Any] = [
    path("ws/w/<str:workspace>/jobs/<str:id>", JobConsumer.as_asgi()),
    path("ws/w/<str:workspace>/runs", RunsConsumer.as_asgi()),
    re_path(r"", UnknownAddress.as_asgi()),
]
