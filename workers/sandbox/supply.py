"""The sandboxes of a fork server: a few are prepared ahead, others are made for one program; who waits for which."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from workers.sandbox import cgroups
from workers.sandbox.cgroups import GroupLimits, Groups, NoGroups
from workers.sandbox.program_run import Sandbox
from workers.sandbox.programs import Limits, SandboxUnavailable, SharedFolderLost
from workers.sandbox.server import Server

logger = logging.getLogger(__name__)

_TOP_UP_DELAY_S = 0.01  # short jobs are over, and recorded, by then
_RETRY_S = 0.5  # after a sandbox could not be made, or died while nobody used it
_JOIN_TIMEOUT_S = 5.0  # after which the first sandbox will not be in its control group any more


class Supply:
    """See the module. `warm` sandboxes are kept ready, for programs with limits like `usual`.

    `groups` are control groups made before. Where the server runs code of packages (not `is_trusted`) none is prepared as
    long as nobody waits. `on_unconfirmed`: a sandbox is not gone `kill_timeout_s` after it was to be killed.
    """

    def __init__(
        self,
        *,
        warm: int,
        usual: Limits,
        groups: Groups | None,
        is_trusted: bool,
        kill_timeout_s: float | None,
        on_unconfirmed: Callable[[str], None],
    ) -> None:
        self.usual = usual
        self.groups = groups
        self._warm = warm
        self._made_with_bytes = usual.disk_bytes  # of /tmp, where nothing else is asked for
        self._is_trusted = is_trusted
        self._kill_timeout_s = kill_timeout_s
        self._on_unconfirmed = on_unconfirmed
        self._loop: asyncio.AbstractEventLoop
        self._server: Server | None = None
        self._is_up = asyncio.Event()
        self._is_closed = False
        self._sandboxes: dict[int, Sandbox] = {}
        self._ready: deque[Sandbox] = deque()
        self._coming = 0  # asked for, not ready yet
        self._waiting: deque[asyncio.Future[Sandbox]] = deque()
        self._next_number = 1
        self._shares: dict[
            str, Server | None
        ] = {}  # who holds a shared folder, by its name; None: it is lost

    # --- the server ---

    def use(self, server: Server) -> None:
        """Have `server` make them from now on; those of an earlier one are lost."""
        self._loop = asyncio.get_running_loop()
        self._server = server
        self._is_up.set()

    def server_ended(self, why: str) -> None:
        """All sandboxes are gone. Who waits for one of them learns it; who waits for any gets one of the next server."""
        self._server = None
        self._is_up.clear()
        self._coming = 0
        sandboxes, self._sandboxes = self._sandboxes, {}
        for sandbox in self._ready:
            sandbox.close()
        self._ready.clear()
        for sandbox in sandboxes.values():
            if not sandbox.gone.done():
                sandbox.gone.set_result(None)
            self._give_group_back(sandbox)
            if sandbox.wanted_by is not None and not sandbox.wanted_by.done():
                sandbox.wanted_by.set_exception(SandboxUnavailable(why))
        if self._is_closed:
            self.close(why)

    def close(self, why: str) -> None:
        """There will be no more: who waits learns it."""
        self._is_closed = True
        if self._server is None:
            self._is_up.set()  # whoever waits for it learns that it will not come
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_exception(SandboxUnavailable(why))
            self._waiting.clear()

    # --- taking one ---

    async def take(self) -> Sandbox:
        """A prepared one, as soon as there is one. Raises SandboxUnavailable."""
        if self._is_closed:
            raise SandboxUnavailable("the job host is closed")
        if self._ready:
            return _taken(self._ready.popleft())
        waiter: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self.top_up()
        try:
            return _taken(await waiter)
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._offer(waiter.result())
            raise

    async def take_own(
        self, *, share: str | None, writable: Sequence[str], network: bool, disk_bytes: int
    ) -> Sandbox:
        """One with folders or without network. Made when it is wanted: a prepared one cannot be changed any more.

        Raises SandboxUnavailable, SharedFolderLost.
        """
        while self._server is None or self._is_closed:
            if self._is_closed:
                raise SandboxUnavailable("the job host is closed")
            await self._is_up.wait()
        if share is not None and self._shares.setdefault(share, self._server) is not self._server:
            raise SharedFolderLost(
                "The folder ./shared of this flow is lost: the process of the worker that held it ended, or too many "
                "flows with such a folder are under way on this worker."
            )
        wanted_by: asyncio.Future[Sandbox] = self._loop.create_future()
        self._spawn(wanted_by, share=share, writable=writable, network=network, disk_bytes=disk_bytes)
        return _taken(await wanted_by)

    def expect(self, usual: Limits) -> None:
        """Prepare sandboxes for programs with limits like these from now on."""
        if usual == self.usual:
            return
        if usual.disk_bytes != self.usual.disk_bytes:
            for sandbox in self._ready:
                sandbox.close()  # it ends by itself
            self._ready.clear()
        self.usual = usual
        self.top_up()

    def top_up(self) -> None:
        """Ask for as many as are to be ready."""
        if self._server is None or self._is_closed:
            return
        wanted = self._warm + sum(not waiter.done() for waiter in self._waiting)
        while len(self._ready) + self._coming < wanted:
            self._spawn()
            self._coming += 1

    def top_up_soon(self) -> None:
        """The same, for a job has begun or ended. When the next one has its sandbox, or there may be none, preparing
        another would only take the processor from this one, or from recording it: then a little later."""
        if self._ready or not (self._is_trusted or self._waiting):
            self._loop.call_later(_TOP_UP_DELAY_S, self.top_up)
        else:
            self.top_up()

    def _spawn(
        self,
        wanted_by: asyncio.Future[Sandbox] | None = None,
        *,
        share: str | None = None,
        writable: Sequence[str] = (),
        network: bool = True,
        disk_bytes: int | None = None,
    ) -> None:
        assert self._server is not None
        number, self._next_number = self._next_number, self._next_number + 1
        disk_bytes = self.usual.disk_bytes if disk_bytes is None else disk_bytes
        sandbox = Sandbox(number, self._loop.create_future(), disk_bytes=disk_bytes, wanted_by=wanted_by)
        self._sandboxes[number] = sandbox
        if self.groups is not None:
            try:
                sandbox.group = self.groups.take()
            except OSError as error:
                self._loop.call_soon(self.failed, number, f"no control group: {error}")
                return
        request: dict[str, Any] = {"op": "spawn", "id": number}
        if not network:
            request["network"] = False
        if disk_bytes != self._made_with_bytes:
            request["tmp_bytes"] = disk_bytes
        if share is not None:
            request["share"] = share
        if writable:
            request["writable"] = list(writable)
        self._server.tell(request, sandbox.group)

    def _offer(self, sandbox: Sandbox) -> None:
        if sandbox.disk_bytes != self.usual.disk_bytes:
            sandbox.close()  # it was made before others became usual; it ends by itself
            self.top_up()
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(sandbox)
                return
        self._ready.append(sandbox)

    # --- what the server answers ---

    def answered(self, message: dict[str, Any], fds: Sequence[int]) -> None:
        """Take an answer. Raises ValueError, LookupError, TypeError, OSError when it is none."""
        number = int(message["id"])
        if message["op"] == "ready":
            self._on_ready(self._sandboxes[number], int(message["uid"]), fds)
        elif message["op"] == "gone":
            self._on_gone(number)
        else:
            self.failed(number, str(message["message"]))

    def _on_ready(self, sandbox: Sandbox, uid: int, fds: Sequence[int]) -> None:
        sandbox.attach(uid, fds)
        if sandbox.wanted_by is None:
            self._coming -= 1
            self._offer(sandbox)
        elif not sandbox.wanted_by.done():
            sandbox.wanted_by.set_result(sandbox)
        else:
            sandbox.close()  # nobody wants it any more; it ends by itself

    def _on_gone(self, number: int) -> None:
        sandbox = self._sandboxes.pop(number)
        if not sandbox.gone.done():
            sandbox.gone.set_result(None)
        self._give_group_back(sandbox)
        if sandbox in self._ready:
            # It died while nobody used it (the kernel short of memory takes jobs first): another one, not at once.
            self._ready.remove(sandbox)
            sandbox.close()
            self._loop.call_later(_RETRY_S, self.top_up)

    def failed(self, number: int, message: str) -> None:
        """A sandbox could not be made."""
        logger.error("sandbox not made reason=%s", message)
        sandbox = self._sandboxes.pop(number, None)
        if sandbox is None:
            return  # the server that could not make it has died meanwhile
        sandbox.gone.cancel()
        self._give_group_back(sandbox)
        if sandbox.wanted_by is not None:
            if not sandbox.wanted_by.done():
                sandbox.wanted_by.set_exception(SandboxUnavailable(f"no sandbox could be made: {message}"))
            return
        self._coming -= 1
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(SandboxUnavailable(f"no sandbox could be made: {message}"))
                break
        self._loop.call_later(_RETRY_S, self.top_up)

    # --- ends ---

    async def kill(self, sandbox: Sandbox) -> None:
        """Have all processes of `sandbox` killed and wait for it, also when cancelled meanwhile."""
        self._ask_to_kill(sandbox)
        await to_the_end(self._confirmed(sandbox))

    async def _confirmed(self, sandbox: Sandbox) -> None:
        await asyncio.wait([sandbox.gone], timeout=self._kill_timeout_s)
        if not sandbox.gone.done():
            self._on_unconfirmed("it did not end a job")

    async def settle(self) -> None:
        """Wait until the sandboxes of all jobs that ended are gone, on the kernel's side too."""
        ending = [one.gone for one in self._sandboxes.values() if one.is_used and one.job is None]
        if ending:
            await asyncio.wait(ending)

    def drop_share(self, name: str, *, is_missed: bool) -> None:
        """See JobHost.drop_share."""
        holder = self._shares.pop(name, None)
        if holder is not None and holder is self._server:
            holder.tell({"op": "drop", "share": name})
        if is_missed:
            self._shares[name] = None

    def _ask_to_kill(self, sandbox: Sandbox) -> None:
        if self._server is not None:
            self._server.tell({"op": "kill", "id": sandbox.number})

    # --- control groups ---

    async def find_groups(self) -> str:
        """Use control groups, if there are; returns why not."""
        try:
            limits = _group_limits(self.usual)
            self.groups = await asyncio.to_thread(lambda: Groups(cgroups.own_place(), limits))
        except NoGroups as error:
            return str(error)
        wanted_by: asyncio.Future[Sandbox] = self._loop.create_future()
        self._spawn(wanted_by)
        with contextlib.suppress(SandboxUnavailable):
            sandbox = await wanted_by
            until = time.monotonic() + _JOIN_TIMEOUT_S
            while sandbox.group is not None and sandbox.job is not None and time.monotonic() < until:
                if sandbox.group.is_joined():
                    self._offer(sandbox)
                    return ""
                if select.select([sandbox.job], [], [], 0)[0]:
                    break  # the job process says that it cannot, or has ended
                await asyncio.sleep(0.002)
            await self.kill(sandbox)
            sandbox.close()
        await self.remove_groups()
        return "the kernel does not let a job's processes into the ones that were made"

    async def remove_groups(self) -> None:
        """Remove the control groups."""
        groups, self.groups = self.groups, None
        if groups is not None:
            await asyncio.to_thread(groups.close)

    def hold(self, sandbox: Sandbox, limits: Limits) -> None:
        """Let `limits` hold for the processes of `sandbox`, if it has a control group. Raises SandboxUnavailable."""
        if sandbox.group is None:
            return
        try:
            sandbox.group.hold_to(_group_limits(limits))
        except OSError as error:
            self._ask_to_kill(sandbox)
            sandbox.close()
            raise SandboxUnavailable(f"the job cannot be held to its limits: {error}") from error

    def _give_group_back(self, sandbox: Sandbox) -> None:
        group, sandbox.group = sandbox.group, None
        if group is not None and self.groups is not None:
            self.groups.give_back(group)


async def to_the_end(awaitable: Awaitable[None]) -> None:
    """Wait for `awaitable` until it is done; whoever is cancelled meanwhile learns it afterwards."""
    future = asyncio.ensure_future(awaitable)
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    if not future.cancelled():
        future.result()


def _taken(sandbox: Sandbox) -> Sandbox:
    sandbox.is_used = True
    return sandbox


def _group_limits(limits: Limits) -> GroupLimits:
    return GroupLimits(memory_bytes=limits.memory_bytes, processes=limits.processes, cpus=limits.cpus)
