"""More job hosts beside the main one: for other interpreters, and warm ones for environments that are used again.

A Python job that imports pandas pays some 300 ms for it, each time. A fork server that has imported it already gives it
to every job for nothing. So when an environment is wanted a second time within a few minutes, a host for it is made in
the background; jobs run on the ordinary one until it is ready. What such a server may do:
job_process.environment_server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from workers.sandbox.host import JobHost
from workers.sandbox.programs import Environment, SandboxUnavailable, SharedFolderLost

K = TypeVar("K")
logger = logging.getLogger(__name__)

# Packages that survive a fork after their import: no threads, no connections, no locks held, and nothing drawn from
# chance that each job should draw for itself (numpy's generator is seeded again in each job). Not here, because they
# start threads or keep what a fork breaks: polars, pyarrow, torch, tensorflow, jax, grpc, duckdb, pymongo.
_PRELOADABLE = """
    attr attrs babel boto3 botocore bs4 cachetools certifi charset_normalizer dateutil docx et_xmlfile google.auth
    html5lib httpcore httpx idna jinja2 jmespath jsonschema jwt lxml markdown markupsafe networkx numpy openpyxl orjson
    packaging pandas PIL psycopg2 pydantic pydantic_core pygments pymysql pypdf pytz regex requests rich s3transfer scipy
    six soupsieve sqlalchemy stripe tabulate tenacity tqdm typing_extensions tzdata urllib3 wmill xlsxwriter
    xmltodict yaml
"""
PRELOADABLE = frozenset(_PRELOADABLE.split())

START_TIMEOUT_S = 20.0
GIVE_UP_S = 10 * 60.0  # an environment that could not be made warm is not tried again before
LOOK_EVERY_S = 30.0
_MOST_SEEN = 1000


def preloadable(modules: Sequence[str]) -> list[str]:
    """Those of `modules` ("pandas", "google.auth.transport") that may be imported before jobs are forked, sorted."""
    return sorted(
        {name for name in modules if any(f"{name}.".startswith(f"{known}.") for known in PRELOADABLE)}
    )


@dataclass(frozen=True, kw_only=True)
class _Key:
    workspace_id: str
    python: Path | None
    environment: Path
    modules: tuple[str, ...]


@dataclass
class _Kept:
    """A host besides the main one."""

    host: JobHost
    starting: asyncio.Task[None]
    users: int = 0
    used_at: float = field(default_factory=time.monotonic)
    is_ready: bool = False


class HostPool:
    """All hosts of a worker. Use it in one event loop; `main` is started and closed by whoever made it.

    At most `most` environments are kept warm, which take `memory_bytes` together at most (default: a quarter of the
    machine's, 1 GiB at most); those whose last job is longest ago go first, and after `idle_s` without one. An
    environment is made warm when it is wanted twice within `again_s`.
    """

    def __init__(
        self,
        main: JobHost,
        *,
        most: int = 4,
        memory_bytes: int | None = None,
        idle_s: float = 10 * 60.0,
        again_s: float = 5 * 60.0,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self._main = main
        self._most = most
        self._memory_bytes = memory_bytes if memory_bytes is not None else min(1 << 30, _machine_bytes() // 4)
        self._idle_s = idle_s
        self._again_s = again_s
        self._start_timeout_s = start_timeout_s
        self._plain: dict[Path, _Kept] = {}
        self._warm: dict[_Key, _Kept] = {}
        self._seen: dict[_Key, float] = {}
        self._given_up: dict[_Key, float] = {}  # until when
        self._tasks: set[asyncio.Task[None]] = set()  # what goes on in the background
        self._keeper: asyncio.Task[None] | None = None
        self._is_closed = False
        self._has_told = False

    @asynccontextmanager
    async def host_for(
        self,
        *,
        workspace_id: str,
        python: Path | None = None,
        environment: Path | None = None,
        modules: Sequence[str] = (),
        share: str | None = None,
        network: bool = True,
    ) -> AsyncIterator[JobHost]:
        """The best host for one program; run it there, inside the block, with `environment` among its python_paths.

        `python`: another interpreter than the worker's; its host is started when it is wanted first (some 100 ms).
        `environment`: the folder with the job's packages, below a path that jobs may read; what is in it must not
        change. `modules`: what the job imports from it, of which those that are `preloadable` are there already if
        the environment is warm. A program with `share` has to run where all others with the same one do: on the main
        host. One without `network` cannot run on a warm one, which has no right to make networks.

        Raises SandboxUnavailable when the other interpreter does not start, SharedFolderLost when a program wants one
        and a share, too.
        """
        if share is not None and python is not None:
            raise SharedFolderLost(
                f"This step runs on {python.name}, and shares a folder with other steps of its flow (same_worker). Only "
                "scripts for the Python of the worker itself can do both: take out what asks for another one, or the "
                "folder."
            )
        kept = None
        if share is None and network:
            kept = self._warm_for(workspace_id, python, environment, modules)
        if kept is None and python is not None:
            kept = await self._plain_for(python)
        if kept is None:
            yield self._main
            return
        kept.users += 1
        try:
            yield kept.host
        finally:
            kept.users -= 1
            kept.used_at = time.monotonic()

    async def close(self) -> None:
        """End all hosts but the main one, and what runs on them."""
        self._is_closed = True
        if self._keeper is not None:
            self._keeper.cancel()
        doomed = [*self._plain.values(), *self._warm.values()]
        self._plain.clear()
        self._warm.clear()
        for kept in doomed:
            self._end(kept)
        while self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def warm_environments(self) -> Sequence[Path]:
        """The environments that are warm now."""
        return [key.environment for key, kept in self._warm.items() if kept.is_ready]

    # --- other interpreters ---

    async def _plain_for(self, python: Path) -> _Kept:
        kept = self._plain.get(python)
        if kept is None:
            if self._is_closed:
                raise SandboxUnavailable("the job host is closed")
            host = self._main.sibling(python=str(python))
            kept = _Kept(host, asyncio.create_task(host.start()))
            self._plain[python] = kept
            self._keep_looking()
        kept.users += 1
        try:
            await asyncio.shield(kept.starting)
        except BaseException:
            if kept.starting.done() and self._plain.get(python) is kept:
                del self._plain[python]
            raise
        finally:
            kept.users -= 1
        kept.is_ready = True
        return kept

    # --- warm environments ---

    def _warm_for(
        self, workspace_id: str, python: Path | None, environment: Path | None, modules: Sequence[str]
    ) -> _Kept | None:
        wanted = tuple(preloadable(modules))
        if environment is None or not wanted or self._is_closed:
            return None
        if self._main.isolation == "none":
            self._tell_once("jobs are not isolated")
            return None
        key = _Key(workspace_id=workspace_id, python=python, environment=environment, modules=wanted)
        kept = self._warm.get(key)
        if kept is not None:
            return kept if kept.is_ready else None
        now = time.monotonic()
        before = self._seen.pop(key, None)
        self._seen[key] = now
        if len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        if before is not None and now - before < self._again_s and self._given_up.get(key, 0.0) < now:
            self._begin(key)
        return None

    def _begin(self, key: _Key) -> None:
        """Make `key` warm in the background, if there is room or some can be made."""
        while len(self._warm) >= self._most:
            if not self._end_the_idlest():
                return
        host = self._main.sibling(
            python=None if key.python is None else str(key.python),
            environment=Environment(
                paths=[str(key.environment)], modules=list(key.modules), memory_bytes=self._memory_bytes
            ),
            on_end=partial(self._on_end, key),
            start_timeout_s=self._start_timeout_s,
        )
        kept = _Kept(host, asyncio.create_task(host.start()))
        self._warm[key] = kept
        self._in_background(self._make_ready(key, kept))
        self._keep_looking()

    async def _make_ready(self, key: _Key, kept: _Kept) -> None:
        try:
            await asyncio.shield(kept.starting)
        except SandboxUnavailable as exc:
            self._given_up[key] = time.monotonic() + GIVE_UP_S
            if self._warm.get(key) is kept:
                del self._warm[key]
            logger.info("environment not kept warm workspace=%s reason=%s", key.workspace_id, exc)
            return
        kept.is_ready = True
        kept.used_at = time.monotonic()
        logger.info("environment kept warm workspace=%s modules=%s", key.workspace_id, ",".join(key.modules))
        await self._fit_memory()

    def _on_end(self, key: _Key) -> None:
        """A server ended by itself, or had to be killed: whoever needs it next imports by himself for a while."""
        kept = self._warm.pop(key, None)
        self._given_up[key] = time.monotonic() + GIVE_UP_S
        if kept is not None:
            self._end(kept)

    async def _fit_memory(self) -> None:
        ready = [kept for kept in self._warm.values() if kept.is_ready]
        sizes = await asyncio.to_thread(lambda: [kept.host.memory_bytes() for kept in ready])
        total = sum(sizes)
        for size, kept in sorted(zip(sizes, ready, strict=True), key=lambda pair: pair[1].used_at):
            if total <= self._memory_bytes:
                return
            for key in [key for key, one in self._warm.items() if one is kept and not kept.users]:
                del self._warm[key]
                self._end(kept)
                total -= size
                if size > self._memory_bytes:
                    self._given_up[key] = time.monotonic() + GIVE_UP_S
                    logger.info(
                        "environment not kept warm: it takes bytes=%s modules=%s", size, ",".join(key.modules)
                    )

    def _end_the_idlest(self) -> bool:
        idle = [(kept.used_at, key) for key, kept in self._warm.items() if kept.is_ready and not kept.users]
        if not idle:
            return False
        _, key = min(idle, key=lambda pair: pair[0])
        self._end(self._warm.pop(key))
        return True

    def _end(self, kept: _Kept) -> None:
        self._in_background(_ended(kept))

    # --- housekeeping ---

    def _keep_looking(self) -> None:
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._look_after_them())

    async def _look_after_them(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_EVERY_S, self._idle_s))
            now = time.monotonic()
            for kept in [
                *_unused_since(self._warm, now - self._idle_s),
                *_unused_since(self._plain, now - self._idle_s),
            ]:
                self._end(kept)
            self._given_up = {key: until for key, until in self._given_up.items() if until > now}
            await self._fit_memory()

    def _in_background(self, act: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tell_once(self, why: str) -> None:
        if not self._has_told:
            self._has_told = True
            logger.info("environments are not kept warm: %s", why)


def _unused_since(hosts: dict[K, _Kept], moment: float) -> list[_Kept]:
    """Take those out of `hosts` that nobody uses and nobody used since `moment`, on the monotonic clock."""
    unused = [
        key for key, kept in hosts.items() if kept.is_ready and not kept.users and kept.used_at <= moment
    ]
    return [hosts.pop(key) for key in unused]


async def _ended(kept: _Kept) -> None:
    kept.starting.cancel()
    with suppress(asyncio.CancelledError, SandboxUnavailable):
        await kept.starting
    await kept.host.close()


def _machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
