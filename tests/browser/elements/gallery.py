"""A small web server for the elements alone: pages, static files and a scripted job websocket on one port.

Same origin and Content-Security-Policy as the product, so what the policy would block fails here too.
"""

import asyncio
import json
import logging
import mimetypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import django
from django.conf import settings
from django.template import Context, Engine
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from windmill_site.csp import POLICY, RESULT_FRAME_POLICY
from windmill_site.templatetags.ui import STATUSES

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
NAV = [
    {
        "label": "",
        "items": [
            {"icon": "house", "name": "Home", "url": "#home", "key": "h", "current": True},
            {
                "icon": "circle-check",
                "name": "Runs",
                "url": "#runs",
                "key": "r",
                "count": 3,
                "count_label": "failed",
            },
        ],
    },
    {"label": "Assets", "items": [{"icon": "key-round", "name": "Variables", "url": "#variables"}]},
    {"label": "Operate", "items": [{"icon": "cpu", "name": "Workers", "url": "#workers", "key": "w"}]},
]
SHELL = {
    "theme": "auto",
    "nav": NAV,
    "workspace": {"id": "acme", "name": "Acme production", "color": "#0b6f7c", "url": "#home"},
    "workspaces": [
        {"id": "acme", "name": "Acme production", "color": "#0b6f7c", "url": "#acme", "current": True},
        {"id": "lab", "name": "Lab", "url": "#lab"},
    ],
    "can_create_workspace": True,
    "account": {
        "email": "ines@acme.example",
        "name": "Inès Martin",
        "role": "admin",
        "is_super_admin": True,
    },
    "notices": [
        {
            "level": "warn",
            "title": "The default password is still in use",
            "url": "#account",
            "link": "Change it",
        }
    ],
}
PALETTE = [
    {
        "icon": "file-code",
        "title": "Charge saved card",
        "hint": "f/billing/charge_card",
        "url": "#1",
        "kind": "Script",
    },
    {"icon": "circle-check", "title": "Runs", "hint": "all runs", "url": "#runs", "kind": "Page"},
]


class Gallery:
    """Pages by path, and jobs whose websocket messages the test writes. Thread-safe for the test's thread."""

    def __init__(self) -> None:
        self.url = ""
        self.pages: dict[str, tuple[str, str]] = {}  # path -> (content type, body)
        self.logs: dict[str, str] = {}  # job -> its whole log
        self.finished: set[str] = set()
        self.refuse: dict[str, int] = {}  # job -> close code
        self.offsets: list[int] = []  # log_offset of every connection, in order
        self._open: set[ServerConnection] = set()
        self._changed = asyncio.Condition()
        self._loop = asyncio.new_event_loop()

    # --- called by tests ---

    def page(self, name: str, template: str, **context: Any) -> str:
        """Render a template of this folder or the product at /<name>; returns its address."""
        engine = Engine(
            dirs=[str(HERE), str(ROOT / "templates")],
            builtins=["windmill_site.templatetags.ui"],
            libraries={"static": "django.templatetags.static"},
        )
        values = {
            **SHELL,
            "statuses": list(STATUSES),
            "long_ago": datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
            **context,
        }
        self.pages[f"/{name}"] = ("text/html", engine.get_template(template).render(Context(values)))
        return f"{self.url}/{name}"

    def elements(self, name: str, elements: list[str], markup: str, **data: Any) -> str:
        """A page in the shell with the scripts of `elements` and `markup`; `data` by json_script."""
        from django.utils.safestring import mark_safe

        parts = [{"label": name, "html": mark_safe(markup)}]
        return self.page(name, "elements.html", elements=elements, parts=parts, data=data)

    def log(self, job: str, text: str, *, done: bool = False) -> None:
        """Add to a job's log, and finish the job when `done`."""

        async def write() -> None:
            async with self._changed:
                self.logs[job] = self.logs.get(job, "") + text
                if done:
                    self.finished.add(job)
                self._changed.notify_all()

        asyncio.run_coroutine_threadsafe(write(), self._loop).result(5)

    def cut(self) -> None:
        """Drop every open websocket without a goodbye, as a restarted server does."""

        async def drop() -> None:
            for connection in list(self._open):
                connection.transport.abort()

        asyncio.run_coroutine_threadsafe(drop(), self._loop).result(5)

    # --- the server ---

    def answer(self, _connection: ServerConnection, request: Request) -> Response | None:
        url = urlsplit(request.path)
        if url.path.startswith("/ws/"):
            return None
        if url.path == "/palette/":
            q = parse_qs(url.query).get("q", [""])[0].lower()
            hits = [hit for hit in PALETTE if q in hit["title"].lower()]
            self.page("palette/", "partials/palette_results.html", hits=hits, q=q)
        policy = RESULT_FRAME_POLICY if url.path.endswith("result.html") else POLICY
        if url.path.startswith("/static/"):
            file = ROOT / url.path.lstrip("/")
            kind = mimetypes.guess_type(file.name)[0] or "text/plain"
            body = file.read_bytes() if file.is_file() else b""
            status = HTTPStatus.OK if file.is_file() else HTTPStatus.NOT_FOUND
        elif url.path in self.pages:
            kind, text = self.pages[url.path]
            body, status = text.encode(), HTTPStatus.OK
        else:
            kind, body, status = "text/plain", b"not found", HTTPStatus.NOT_FOUND
        headers = Headers(
            {
                "Content-Type": kind if kind.startswith(("image/", "font/")) else f"{kind}; charset=utf-8",
                "Content-Length": str(len(body)),
                "Content-Security-Policy": policy,
                "Connection": "close",
            }
        )
        return Response(status, status.phrase, headers, body)

    async def follow(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        url = urlsplit(connection.request.path)
        job = url.path.rsplit("/", 1)[-1]
        if job in self.refuse:
            await connection.close(self.refuse[job])
            return
        sent = int(parse_qs(url.query)["log_offset"][0])
        self.offsets.append(sent)
        self._open.add(connection)
        try:
            while True:
                text, done = self.logs.get(job, ""), job in self.finished
                status = "success" if done else "running"
                if len(text) > sent:
                    message = {"type": "log", "offset": sent, "text": text[sent:], "next": len(text)}
                    await connection.send(json.dumps(message))
                    sent = len(text)
                await connection.send(json.dumps({"type": "status", "job": {"id": job, "status": status}}))
                if done:
                    await connection.send(json.dumps({"type": "done"}))
                    await connection.close(1000)
                    return
                async with self._changed:
                    if self.logs.get(job, "") == text and (job in self.finished) == done:
                        await self._changed.wait()
        except ConnectionClosed:
            return
        finally:
            self._open.discard(connection)


@contextmanager
def running_gallery() -> Iterator[Gallery]:
    """Serve a gallery on a free port of 127.0.0.1 until the block ends."""
    if not settings.configured:
        settings.configure(STATIC_URL="/static/", USE_TZ=True)
        django.setup()
    logging.getLogger("websockets").setLevel(logging.WARNING)
    gallery = Gallery()
    ready, stop = threading.Event(), asyncio.Event()

    async def main() -> None:
        async with serve(
            gallery.follow, "127.0.0.1", 0, process_request=gallery.answer, close_timeout=1
        ) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            gallery.url = f"http://127.0.0.1:{port}"
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: gallery._loop.run_until_complete(main()), daemon=True)
    thread.start()
    ready.wait(5)
    yield gallery
    gallery._loop.call_soon_threadsafe(stop.set)
    thread.join(5)
    gallery._loop.close()
