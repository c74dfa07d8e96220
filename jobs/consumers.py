"""Websockets: a job's log and state as they come, and ticks for lists of runs.

Messages of `/ws/w/<workspace>/jobs/<id>?log_offset=N`, all JSON:
    {"type": "log", "offset": N, "text": "...", "next": M}   characters N to M of the log; resume with log_offset=M
    {"type": "status", "job": {...}}                          whenever something about the job changed, and at first
    {"type": "flow", "whole": bool, "states": {...}}          flows: the steps whose state changed (null: has none any
                                                              more), `whole`: all of them, at first and after a "watch"
    {"type": "done"}                                          it is over and its log complete; closed with 1000
The client of a flow may say {"watch": {"<loop id>": n}}: show these iterations; {"watch": null}: nobody looks, rest.
The same in the address: &watch={"c":9}.
Of `/ws/w/<workspace>/runs`: {"type": "tick"} at first and whenever runs were queued, started or ended, at most once a
second.

Refusals close with 4401 (signed out), 4403 (no right), 4404 (unknown). Rights are asked again every half minute.
"""

import asyncio
import contextlib
import json
import logging
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import parse_cookie

from jobs import listings
from jobs.following import FlowFollower, FlowNews, follow_job, in_database, state_json
from jobs.models import FLOW_KINDS
from jobs.shapes import JobRow
from workspaces.access import Caller, enter_workspace
from workspaces.errors import DomainError, NotFound, NotSignedIn, PermissionDenied
from workspaces.middleware import TOKEN_COOKIE
from workspaces.tokens import authenticate

logger = logging.getLogger(__name__)

RECHECK_S = 30.0  # how long a revoked right may go on being used
TICK_S = 1.0
_LONGEST_WISH = 100_000  # characters that a client may say at once
_COUNTED = 1000  # beyond this many queued jobs a change may go unseen, so ticks come unasked

SIGNED_OUT, NO_RIGHT, UNKNOWN, TRY_AGAIN, FAILED = 4401, 4403, 4404, 1013, 1011


class _Consumer(AsyncWebsocketConsumer):
    """Signs in, runs `serve` until the socket closes, and turns errors into close codes."""

    _task: "asyncio.Task[None] | None" = None

    async def connect(self) -> None:
        if self._is_hijack():
            await self.close()  # before accepting: the handshake itself is refused
            return
        await self.accept()
        self._task = asyncio.create_task(self._run(), name="websocket")

    async def disconnect(self, code: int) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Clients have nothing to say."""

    async def serve(self) -> None:
        """Send until the end; the socket is closed afterwards."""
        raise NotImplementedError

    def authorize(self) -> Any:
        """Whatever `serve` needs, or a DomainError. Queries; also used to look whether the rights still hold."""
        raise NotImplementedError

    async def say(self, message: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(message, ensure_ascii=False))

    async def _run(self) -> None:
        try:
            if "\x00" in self.workspace_id:  # no database takes it for a text
                raise NotFound("no such workspace")
            await self.serve()
            await self.close(1000)
        except NotSignedIn:
            await self.close(SIGNED_OUT)
        except NotFound:
            await self.close(UNKNOWN)
        except (PermissionDenied, DomainError):
            await self.close(NO_RIGHT)
        except DatabaseError as exc:
            logger.warning("closed a websocket, the database is away: %s", exc)
            await self.close(TRY_AGAIN)
        except Exception:
            # Nobody awaits this task: without an end of our own the reader would wait at a silent socket.
            logger.exception("a websocket failed path=%s", self.scope["path"])
            await self.close(FAILED)

    @property
    def workspace_id(self) -> str:
        return str(self.scope["url_route"]["kwargs"]["workspace"])

    def query(self, name: str) -> str | None:
        values = parse_qs(self.scope["query_string"].decode("latin-1")).get(name)
        return values[0] if values else None

    def _header(self, name: bytes) -> str:
        return next((value.decode("latin-1") for key, value in self.scope["headers"] if key == name), "")

    def _token(self) -> tuple[str, bool]:
        """(the token, whether the cookie alone brought it)."""
        header = self._header(b"authorization")
        if header[:7].lower() == "bearer ":
            return header[7:].strip(), False
        if token := self.query("token"):
            return token, False
        return parse_cookie(self._header(b"cookie")).get(TOKEN_COOKIE, ""), True

    def _is_hijack(self) -> bool:
        """A page of another site, opening this socket with the reader's cookie? Programs send no Origin."""
        origin = self._header(b"origin")
        if not origin or not self._token()[1]:
            return False
        try:
            return urlsplit(origin).netloc != self._header(b"host") and origin != settings.BASE_URL
        except ValueError:  # http://[ is an address nowhere
            return True

    def caller(self) -> Caller:
        """Who is at the other end, in the workspace of the address. Raises NotSignedIn, NotFound, PermissionDenied."""
        token, _ = self._token()
        if not token:
            raise NotSignedIn("sign in first")
        return enter_workspace(authenticate(token), self.workspace_id)


class JobConsumer(_Consumer):
    """One job: its log from an offset on and its state, until it is over; of a flow the states of its steps too."""

    _flow: FlowFollower | None = None
    # What the client asked to watch last; it may ask before we know who it is.
    _wish: tuple[dict[str, int] | None] | None = None
    _picture: "asyncio.Task[None] | None" = None

    def authorize(self) -> JobRow:
        try:
            job_id = UUID(self.scope["url_route"]["kwargs"]["id"])
        except ValueError:
            raise NotFound("no such job") from None
        try:
            caller = self.caller()
        except NotSignedIn:
            caller = None
        return listings.get_job(caller, workspace_id=self.workspace_id, job_id=job_id)

    async def serve(self) -> None:
        job = await in_database(self.authorize)
        if job.kind not in FLOW_KINDS:
            await self._serve_job(job.id)
            return
        self._flow = FlowFollower(job.id)
        self._flow.choose(_iterations(self.query("watch")) if self._wish is None else self._wish[0])
        self._picture = asyncio.create_task(self._serve_flow(self._flow), name="websocket flow")
        try:
            await self._serve_job(job.id)
        finally:
            await self._end_picture()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if not text_data or len(text_data) > _LONGEST_WISH:
            return
        with contextlib.suppress(ValueError, RecursionError):
            wish = json.loads(text_data)
            if isinstance(wish, dict) and "watch" in wish:
                chosen = None if wish["watch"] is None else _iterations(json.dumps(wish["watch"]))
                self._wish = (chosen,)
                if self._flow is not None:
                    self._flow.choose(chosen)

    async def _serve_flow(self, flow: FlowFollower) -> None:
        try:
            async for news in flow.news():
                await self._say_flow(news)
        except DatabaseError as exc:  # the job's own messages end the socket
            logger.warning("no picture of a flow, the database is away: %s", exc)
        except NotFound:
            pass  # its definition was deleted: there is nothing to draw
        except Exception:
            logger.exception("the picture of a flow failed path=%s", self.scope["path"])

    async def _say_flow(self, news: FlowNews) -> None:
        await self.say({"type": "flow", "whole": news.is_whole, "states": news.states})

    async def _serve_job(self, job_id: UUID) -> None:
        checked_at = time.monotonic()
        raw = self.query("log_offset") or "0"
        offset = int(raw) if raw.isascii() and raw.isdigit() and len(raw) < 16 else 0
        shown: dict[str, Any] | None = None
        async for snapshot in follow_job(job_id, offset=offset):
            if time.monotonic() - checked_at > RECHECK_S:
                await in_database(self.authorize)
                checked_at = time.monotonic()
            if snapshot is None:
                continue
            if snapshot.logs:
                await self.say(
                    {
                        "type": "log",
                        "offset": snapshot.offset,
                        "text": snapshot.logs,
                        "next": snapshot.next_offset,
                    }
                )
            state = state_json(snapshot.state)
            if state != shown and (snapshot.is_final or not snapshot.state.is_completed):
                await self.say({"type": "status", "job": state})
                shown = state
            if snapshot.is_final:
                await self._say_last_picture()
                await self.say({"type": "done"})
                return
        raise NotFound("the job was deleted")

    async def _end_picture(self) -> None:
        if self._picture is not None:
            self._picture.cancel()
            await asyncio.gather(self._picture, return_exceptions=True)

    async def _say_last_picture(self) -> None:
        """What the last steps came to: the picture may lag behind the end of the flow."""
        if self._flow is not None:
            await self._end_picture()
            with contextlib.suppress(NotFound):
                if (news := await self._flow.look()) is not None:
                    await self._say_flow(news)


def _iterations(text: str | None) -> dict[str, int]:
    """{"c": 9} as the client says it; whatever is wrong with it is left out."""
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(given, dict):
        return {}
    return {str(id): n for id, n in given.items() if isinstance(n, int) and not isinstance(n, bool)}


class RunsConsumer(_Consumer):
    """Ticks: something about the runs of the workspace changed."""

    def authorize(self) -> None:
        self.caller().identity.require_scope("jobs", "read")

    async def serve(self) -> None:
        await in_database(self.authorize)
        checked_at = time.monotonic()
        seen: object = None
        while True:
            if time.monotonic() - checked_at > RECHECK_S:
                await in_database(self.authorize)
                checked_at = time.monotonic()
            now = await in_database(_fingerprint, self.workspace_id)
            if now != seen:
                await self.say({"type": "tick"})
                seen = now
            await asyncio.sleep(TICK_S)


def _fingerprint(workspace_id: str) -> object:
    """A value that differs when a job was queued, started or ended since."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT id FROM job WHERE workspace_id = %(workspace_id)s ORDER BY created_at DESC, id DESC LIMIT 1),"
            " count(*), count(*) FILTER (WHERE running), sum(attempt)"
            "  FROM (SELECT running, attempt FROM queue WHERE workspace_id = %(workspace_id)s LIMIT %(most)s) AS queued",
            {"workspace_id": workspace_id, "most": _COUNTED},
        )
        newest, queued, *rest = cursor.fetchone()
    return object() if queued == _COUNTED else (newest, queued, *rest)
