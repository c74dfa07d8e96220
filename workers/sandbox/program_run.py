"""One program in one sandbox: what is sent to it and what comes back, until nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import struct
import termios
from collections.abc import Callable, Sequence
from typing import Any

from workers.job_process import packets
from workers.sandbox.cgroups import Group
from workers.sandbox.programs import Limits, Program

_READ_BYTES = 65_536
_FROM_JOB = "REA"  # what a job process says: its result, its error, what the preprocessor returned


class Sandbox:
    """One prepared sandbox. `gone` is done when the fork server has buried it."""

    def __init__(
        self,
        number: int,
        gone: asyncio.Future[None],
        *,
        disk_bytes: int,
        wanted_by: asyncio.Future[Sandbox] | None = None,
        group: Group | None = None,
    ) -> None:
        self.number = number
        self.gone = gone
        self.disk_bytes = disk_bytes
        self.wanted_by = wanted_by  # made for one program, which waits for it; None: for whichever comes
        self.group = group  # its control group, which its job's processes are in
        self.log = -1
        self.uid = -1  # of its job
        self.job: socket.socket | None = None
        self.guard: socket.socket | None = None
        self.is_used = False

    def attach(self, uid: int, fds: Sequence[int]) -> None:
        self.uid = uid
        self.log, job, guard = fds
        os.set_blocking(self.log, False)
        self.job, self.guard = socket.socket(fileno=job), socket.socket(fileno=guard)
        self.job.setblocking(False)
        self.guard.setblocking(False)

    def close(self) -> None:
        if self.job is None or self.guard is None:
            return
        self.job.close()
        self.guard.close()
        os.close(self.log)
        self.job = self.guard = None


class Run:
    """The worker's ends of a program."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sandbox: Sandbox,
        result_bytes: int,
        on_output: Callable[[bytes], None],
    ) -> None:
        assert sandbox.job is not None and sandbox.guard is not None
        self._loop = loop
        self._sandbox = sandbox
        self._job, self._guard = sandbox.job, sandbox.guard
        self._is_held = sandbox.group is not None
        self._on_output = on_output
        self.ended: asyncio.Future[None] = loop.create_future()
        self.memory_kb = 0  # of a session: what its processes took when the guard looked last
        self.peak_kb = 0  # of a session, so far
        self.report: dict[str, Any] | None = None
        self.setup_error: str | None = None
        self.values: dict[str, bytes] = {}
        self._from_job = packets.Assembler(self._on_job_value, result_bytes, once=_FROM_JOB)
        self._from_guard = packets.Assembler(self._on_guard_value, result_bytes)
        sandbox.gone.add_done_callback(self._on_gone)

    @property
    def overflowed(self) -> set[str]:
        return self._from_job.overflowed | self._from_guard.overflowed

    async def begin(self, program: Program, limits: Limits, channel: Sequence[int] = ()) -> None:
        """Give the job process its program and the guard its limits; follow them from then on. Raises OSError.

        `channel`: of a session, the descriptors from which it reads calls and to which it writes answers.
        """
        await self._send(program, limits, channel)
        # Not before: it takes a tenth of a millisecond.
        self._loop.add_reader(self._sandbox.log, self._read_log)
        self._loop.add_reader(self._job, self._read_packets, self._job, self._from_job)
        self._loop.add_reader(self._guard, self._read_packets, self._guard, self._from_guard)

    async def _send(self, program: Program, limits: Limits, channel: Sequence[int]) -> None:
        job = {
            "kind": "python" if program.python is not None else "exec",
            "python": program.python,
            "argv": list(program.argv),
            "env": dict(program.env),
            "files": dict(program.files),
            "limits": {
                # Python says where it was when it could get no more. Others are better off without: some reserve
                # much more than they use.
                "data_bytes": None if self._is_held and program.python is None else limits.memory_bytes,
                "processes": limits.processes,
                "open_files": limits.open_files,
                "file_bytes": limits.file_bytes,
            },
        }
        guard = {
            "memory_bytes": limits.memory_bytes,
            "result_bytes": limits.result_bytes,
            "result_files": dict(program.result_files),
            "tells_memory": bool(channel),
        }
        for sock, kind, value in ((self._job, "J", job), (self._guard, "G", guard)):
            # One of them may have died already. How is about to be known: from the guard, which waits for its limits.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                fds = list(channel) if kind == "J" else []  # they go with the first packet
                for packet in packets.packets(kind, json.dumps(value).encode()):
                    try:
                        if fds:
                            socket.send_fds(sock, [packet], fds)
                            fds = []
                        else:
                            sock.send(packet)
                    except BlockingIOError:
                        await self._loop.sock_sendall(sock, packet)

    def finish(self) -> None:
        """Read what is left and let go of the sandbox. All its processes have ended."""
        self._loop.remove_reader(self._sandbox.log)
        self._loop.remove_reader(self._job)
        self._loop.remove_reader(self._guard)
        self._sandbox.gone.remove_done_callback(self._on_gone)
        self.read_output()
        while self._read_packets(self._job, self._from_job):
            pass
        self._sandbox.close()

    def read_output(self) -> None:
        """Pass on what was printed until now; not what is printed meanwhile, which may have no end."""
        if self._sandbox.job is None:
            return
        waiting = struct.unpack("i", fcntl.ioctl(self._sandbox.log, termios.FIONREAD, bytes(4)))[0]
        for _ in range(0, waiting, _READ_BYTES):
            if not self._read_log():
                break

    def _read_log(self) -> bool:
        try:
            data = os.read(self._sandbox.log, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._sandbox.log)
            return False
        self._on_output(data)
        return True

    def _read_packets(self, sock: socket.socket, assembler: packets.Assembler) -> bool:
        try:
            packet = sock.recv(packets.PACKET_BYTES)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            packet = b""
        if not packet:
            self._loop.remove_reader(sock)
            return False
        assembler.feed(packet)
        return True

    def _on_job_value(self, kind: str, value: bytes) -> None:
        self.values.setdefault(kind, value)

    def _on_guard_value(self, kind: str, value: bytes) -> None:
        if kind == "X":
            try:
                self.report = _report(value)
            except (ValueError, LookupError, TypeError) as error:
                self.setup_error = f"the guard of the job said what makes no sense: {error!r}"
            self._end()
        elif kind == "K":
            self._on_memory(value)
        elif kind == "F":
            self.setup_error = f"the sandbox failed: {value.decode(errors='replace')}"
        else:
            self.values[kind] = value

    def _on_memory(self, value: bytes) -> None:
        if value.isdigit():
            self.memory_kb = int(value)
            self.peak_kb = max(self.peak_kb, self.memory_kb)

    def _on_gone(self, gone: asyncio.Future[None]) -> None:
        while self.report is None and self._read_packets(self._guard, self._from_guard):
            pass
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def _report(value: bytes) -> dict[str, Any]:
    """What a guard says about a job's end. Raises ValueError, LookupError, TypeError when it is not that."""
    said = json.loads(value)
    return {
        "exit_code": int(said["exit_code"]),
        "peak_kb": int(said["peak_kb"]),
        "over_memory": bool(said["over_memory"]),
        "prepare_s": float(said["prepare_s"]),
        "job_ended_at": float(said["job_ended_at"]),
    }
