"""Bun processes that are started before there is a job: each waits in a sandbox of its own, runs one job, and ends.

Starting Bun is most of what a small TypeScript job takes. While jobs keep coming, the next one's Bun is started as soon
as one has ended. It is started just as that one was, but for the code and the variables that belong to a job (WM_...): a
job that needs it otherwise does not take it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from workers.sandbox import (
    Ended,
    JobHost,
    Limits,
    Program,
    ProgramTimedOut,
    SandboxUnavailable,
    Session,
    SharedFolderLost,
)

IDLE_S = 120.0
MOST = 2
_PAUSE_S = 0.01  # after a job: when the next one waits already it comes first
_LEAST_FREE_KB = 1 << 20  # of the machine's memory; one process takes some 35 MB


class Spares:
    """The waiting processes of one host. Use it in one event loop."""

    def __init__(self, host: JobHost, *, most: int = MOST, idle_s: float = IDLE_S) -> None:
        """At most `most` wait, and only for `idle_s` after the last job."""
        self._host = host
        self._most = most
        self._idle_s = idle_s
        self._waiting: list[Spare] = []
        self._at_once = 0  # jobs that run now
        self._most_at_once = 0  # since the last pause
        self._soon: asyncio.TimerHandle | None = None  # to have what the next job wants
        self._pause: asyncio.TimerHandle | None = None  # to end those that nobody wanted
        self._is_closed = False

    @property
    def waiting_count(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def take(self, program: Program, limits: Limits) -> Spare | None:
        """A process that runs `program` under `limits` and waits for its job; None when there is none."""
        found = next((one for one in self._waiting if one.program == program and one.limits == limits), None)
        if found is not None:
            self._waiting.remove(found)
        if self._soon is not None:
            # Jobs come one right after another: the next one's process starts beside this one. Otherwise it would only
            # take the processor from it.
            self._top_up(program, limits)
        return found

    def begun(self) -> None:
        """A job runs that could take one, or could have."""
        self._at_once += 1
        self._most_at_once = max(self._most_at_once, self._at_once)

    def ended(self, program: Program, limits: Limits) -> None:
        """It has ended; its like will come, perhaps."""
        self._at_once -= 1
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        self._stop_timers()
        self._soon = loop.call_later(_PAUSE_S, self._top_up, program, limits)
        self._pause = loop.call_later(self._idle_s, self.rest)

    async def close(self) -> None:
        """End those that wait; there will be no more."""
        self._is_closed = True
        self._stop_timers()
        waiting, self._waiting = self._waiting, []
        await asyncio.gather(*(spare.close() for spare in waiting))

    def _top_up(self, program: Program, limits: Limits) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._is_closed or _free_kb() < _LEAST_FREE_KB:
            return
        alike = sum(one.program == program and one.limits == limits for one in self._waiting)
        for _ in range(alike, min(self._most, self._most_at_once)):
            if len(self._waiting) >= self._most:
                self._waiting.pop(0).dismiss()
            self._waiting.append(Spare(self._host, program, limits, self._forget))

    def rest(self) -> None:
        """End those that wait; the next job has one made again."""
        self._stop_timers()
        self._most_at_once = self._at_once
        waiting, self._waiting = self._waiting, []
        for spare in waiting:
            spare.dismiss()

    def _stop_timers(self) -> None:
        for timer in (self._soon, self._pause):
            if timer is not None:
                timer.cancel()
        self._soon = self._pause = None

    def _forget(self, spare: Spare) -> None:
        if spare in self._waiting:
            self._waiting.remove(spare)


class Spare:
    """One process, for one job: `give` it, then `run` it as a JobHost runs a program."""

    def __init__(
        self, host: JobHost, program: Program, limits: Limits, on_end: Callable[[Spare], None]
    ) -> None:
        self.program = program
        self.limits = limits
        self._on_end = on_end
        self._job = b""
        self._on_output: Callable[[bytes], None] = _drop
        self._ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._session: Session = host.open_session(
            program,
            limits=limits,
            on_output=lambda data: self._on_output(data),
            on_message=_drop,  # it says nothing: its result is in files
            on_closed=lambda: None,
            on_end=self._take_end,
        )

    def give(self, job: Mapping[str, Any]) -> Spare:
        """What it shall do, as prepared.mjs reads it."""
        self._job = json.dumps(job).encode("utf-8", "replace")
        return self

    async def run(
        self,
        program: Program,
        *,
        limits: Limits,
        on_output: Callable[[bytes], None],
        timeout_s: float | None = None,
    ) -> Ended:
        """See JobHost.run. `program` and `limits` are those that it was started with."""
        self._on_output = on_output
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                self._session.send(self._job)
                self._session.finish_sending()
                ended = await asyncio.shield(self._ended)
        except TimeoutError:
            await self._session.close()
            raise ProgramTimedOut from None
        except BaseException:
            await self._session.close()
            raise
        return replace(ended, timings={"job": time.monotonic() - began})

    def dismiss(self) -> None:
        """It is not wanted any more: it reads that there is no job, and ends."""
        self._session.finish_sending()

    async def close(self) -> None:
        """Kill it."""
        await self._session.close()

    def _take_end(self, how: Ended | SandboxUnavailable | SharedFolderLost) -> None:
        if isinstance(how, Ended):
            self._ended.set_result(how)
        else:
            self._ended.set_exception(how)
            self._ended.exception()  # nobody may wait for it
        self._on_end(self)


def _drop(data: bytes) -> None:
    """Output for which there is no job."""


def _free_kb() -> int:
    """Memory of the machine that could be had. Where it cannot be told: enough."""
    try:
        with open("/proc/meminfo", encoding="ascii") as table:
            for line in table:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return _LEAST_FREE_KB
