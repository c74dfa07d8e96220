"""A program that stays: in a sandbox like any other, with two pipes more, over which it is told and tells things."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable, Coroutine, Sequence

from workers.sandbox.program_run import Run
from workers.sandbox.programs import Ended, SandboxUnavailable, SharedFolderLost

_READ_BYTES = 1 << 18
_AT_ONCE = 1 << 16  # bytes that are put together for one write

OnEnd = Callable[[Ended | SandboxUnavailable | SharedFolderLost], None]


class Session:
    """The worker's ends of a program under way. Made by JobHost.open_session."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_message: Callable[[bytes], None],
        on_closed: Callable[[], None],
        on_end: OnEnd,
    ) -> None:
        self._loop = loop
        self._on_message = on_message
        self._on_closed = on_closed
        self._on_end = on_end
        self._run: Run | None = None
        self._task: asyncio.Task[Ended]
        self._theirs: list[int] = []
        their_in, self._in = os.pipe2(os.O_CLOEXEC)
        self._theirs.append(their_in)
        self._out, their_out = os.pipe2(os.O_CLOEXEC)
        self._theirs.append(their_out)
        for fd in self._theirs:
            os.fchmod(fd, 0o666)  # some runtimes open them by name, which asks for rights on the pipe itself
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._unsent: deque[bytes] = deque()
        self._is_closed = False
        loop.add_reader(self._out, self._read)

    @property
    def memory_kb(self) -> int:
        """What its processes took together a moment ago."""
        return 0 if self._run is None else self._run.memory_kb

    @property
    def peak_kb(self) -> int:
        """The most that was seen of that."""
        return 0 if self._run is None else self._run.peak_kb

    def send(self, data: bytes) -> None:
        """Have the program read `data`; never blocks. What it does not read before it ends is lost."""
        if self._is_closed:
            return
        if self._unsent:
            self._unsent.append(data)
            return
        sent = self._write(data)
        if sent < len(data):
            self._unsent.append(data[sent:])
            self._loop.add_writer(self._in, self._write_on)

    def read_output(self) -> None:
        """Pass on what the program printed until now: before what it says next is believed to come later."""
        if self._run is not None:
            self._run.read_output()

    def finish_sending(self) -> None:
        """Let the program read the end of file, after what was sent."""
        if not self._unsent:
            self._close_in()
        else:
            self._unsent.append(b"")

    async def close(self) -> None:
        """Kill the program; nothing of it is left on return, and on_end has been called."""
        self._task.cancel()
        await asyncio.wait([self._task])

    # --- for JobHost ---

    @property
    def channel(self) -> Sequence[int]:
        """The program's ends: where it reads, where it writes."""
        return self._theirs

    def begun(self, run: Run) -> None:
        """The program has its ends now."""
        self._run = run
        self._let_go_of_theirs()

    def attend(self, running: Coroutine[None, None, Ended]) -> None:
        """Follow the program to its end."""
        self._task = self._loop.create_task(running)
        self._task.add_done_callback(self._ended)

    # --- inside ---

    def _ended(self, task: asyncio.Task[Ended]) -> None:
        self._let_go_of_theirs()
        self._close_in()
        while self._read():
            pass
        self._loop.remove_reader(self._out)
        os.close(self._out)
        if task.cancelled():
            self._on_end(SandboxUnavailable("the process was ended by its worker"))
            return
        error = task.exception()
        if error is None:
            self._on_end(task.result())
        elif isinstance(error, (SandboxUnavailable, SharedFolderLost)):
            self._on_end(error)
        else:
            self._on_end(SandboxUnavailable(f"the process could not be followed: {error!r}"))

    def _let_go_of_theirs(self) -> None:
        for fd in self._theirs:
            os.close(fd)
        self._theirs = []

    def _read(self) -> bool:
        try:
            data = os.read(self._out, _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._on_message(data)
            return True
        self._loop.remove_reader(self._out)
        if not self._is_closed:
            self._on_closed()
        return False

    def _write(self, data: bytes) -> int:
        try:
            return os.write(self._in, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # nobody reads any more: how it ended is about to be known

    def _write_on(self) -> None:
        while self._unsent:
            data = self._unsent.popleft()
            if not data:
                self._close_in()
                return
            while len(data) < _AT_ONCE and self._unsent and self._unsent[0]:
                data += self._unsent.popleft()
            sent = self._write(data)
            if sent < len(data):
                self._unsent.appendleft(data[sent:])
                return
        self._loop.remove_writer(self._in)

    def _close_in(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_writer(self._in)
            with contextlib.suppress(OSError):
                os.close(self._in)
