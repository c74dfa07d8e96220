"""One fork server as its worker sees it: how it is started, what is asked of it and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from workers.job_process import packets, processes
from workers.sandbox.cgroups import Group
from workers.sandbox.programs import Isolation

logger = logging.getLogger(__name__)

_PACKAGE_FOLDER = Path(__file__).resolve().parent.parent  # holds job_process
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, {folder!r}); from job_process import fork_server; sys.path.pop(0); "
    "fork_server.main({fd})"
)
_END_TIMEOUT_S = 10
_AGAIN_S = 0.005  # after a request did not fit into the socket
_AT_ONCE = 16  # answers that are read before others have their turn


class NotStarted(Exception):
    """The fork server refused, or could not be started; the message says why."""


class Server:
    """A fork server that runs. Made by `start`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        control: socket.socket,
        hello: Mapping[str, Any],
        *,
        is_trusted: bool,
    ) -> None:
        self.hello = hello  # what it says of itself
        self._process = process
        self._control: socket.socket | None = control
        self._is_trusted = is_trusted
        self._loop = asyncio.get_running_loop()

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        return self._process.pid

    @property
    def memory_bytes(self) -> int:
        """What it takes itself, without its sandboxes. 0: that cannot be told."""
        return processes.last_resident_bytes(self._process.pid)

    def listen(
        self,
        *,
        on_answer: Callable[[dict[str, Any], Sequence[int]], None],
        on_failed: Callable[[int, str], None],
        on_nonsense: Callable[[str], None],
        on_end: Callable[[], None],
    ) -> None:
        """Take answers from now on, with the descriptors that come along.

        `on_failed`: a sandbox (its number) could not be asked for, and why. `on_nonsense`: one that runs code of packages
        said what cannot be. `on_end`: it ended.
        """
        assert self._control is not None
        self._on_answer, self._on_failed = on_answer, on_failed
        self._on_nonsense, self._on_end = on_nonsense, on_end
        self._loop.add_reader(self._control, self._read)

    def tell(self, message: dict[str, Any], group: Group | None = None) -> None:
        """Send a request; never blocks. The descriptors of `group` go along. One that has ended is told nothing."""
        if self._control is None:
            return
        packet = b"M" + json.dumps(message).encode()
        with contextlib.ExitStack() as kept:
            try:
                fds = [] if group is None else kept.enter_context(group.opened())
            except OSError as error:
                reason = f"its control group cannot be opened: {error}"
                self._loop.call_soon(self._on_failed, message["id"], reason)
                return
            try:
                socket.send_fds(self._control, [packet], fds)
            except BlockingIOError:
                # It reads requests as fast as it can; a full socket means hundreds of them wait.
                self._loop.call_later(_AGAIN_S, partial(self.tell, message, group))
            except OSError:
                pass  # end of file follows

    async def end(self) -> None:
        """Have it end, and with it every job; returns when they are gone."""
        if self._control is not None:
            self._control.shutdown(socket.SHUT_WR)
        try:
            await asyncio.to_thread(self._process.wait, _END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            await self.buried()

    def kill(self) -> None:
        """Kill it; `buried` waits for that."""
        self._process.kill()

    async def buried(self) -> None:
        """Kill it, if it lives, and wait for its end."""
        self._process.kill()
        await asyncio.to_thread(self._process.wait)

    def let_go(self) -> None:
        """Neither tell it anything nor listen any more."""
        if self._control is not None:
            self._loop.remove_reader(self._control)
            self._control.close()
            self._control = None

    def _read(self) -> None:
        for _ in range(_AT_ONCE):
            if self._control is None:
                return
            try:
                packet, fds, _, _ = socket.recv_fds(
                    self._control, packets.PACKET_BYTES, 3, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except OSError:
                packet, fds = b"", []
            if not packet:
                self._on_end()
                return
            try:
                self._on_answer(json.loads(packet[1:]), fds)
            except (ValueError, LookupError, TypeError, OSError) as error:
                if self._is_trusted:
                    raise
                self._on_nonsense(f"it said what makes no sense: {error!r}")
                return


async def start(
    *,
    python: str,
    configuration: Mapping[str, Any],
    isolation: Isolation,
    is_trusted: bool,
    timeout_s: float,
) -> Server:
    """Start a fork server (see job_process.fork_server). Raises NotStarted.

    `is_trusted`: it runs no code of packages, so what it says is believed, and what it prints is ours.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        code = _BOOTSTRAP.format(folder=str(_PACKAGE_FOLDER), fd=theirs.fileno())
        try:
            process = subprocess.Popen(
                [python, "-I", "-S", "-u", "-X", "utf8", "-c", code],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if is_trusted else subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise NotStarted(f"cannot start {python}: {error.strerror}") from error
    ours.setblocking(False)
    try:
        hello = await _greeted(ours, {**configuration, "isolation": isolation}, timeout_s)
    except BaseException:
        ours.close()
        process.kill()
        process.wait()  # at once, after such a signal
        raise
    if isinstance(hello, dict) and hello.get("op") == "hello":
        return Server(process, ours, hello, is_trusted=is_trusted)
    ours.close()
    process.kill()
    await asyncio.to_thread(process.wait)
    raise NotStarted(str(hello.get("message")) if isinstance(hello, dict) else "it answered nonsense")


async def _greeted(control: socket.socket, configuration: Mapping[str, Any], timeout_s: float) -> Any:
    """Give a new fork server its configuration; its answer."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(TimeoutError, OSError, ValueError):
        async with asyncio.timeout(timeout_s):
            for packet in packets.packets("C", json.dumps(configuration).encode()):
                await loop.sock_sendall(control, packet)
            answer = await loop.sock_recv(control, packets.PACKET_BYTES)
            if answer:
                return json.loads(answer[1:])
    return {"op": "refused", "message": "the fork server did not answer"}
