"""The guard: process 1 of a sandbox, which outlives the job and reports its end when no process of it is left."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import stat
import time
from typing import Any, NoReturn

from . import linux, packets, processes

_SAMPLE_S = 0.25  # how often a running job's memory is looked at
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
_TELLING_KB = 512  # by which it changed before the worker is told about it, if it wants to know


def watch(worker: socket.socket, pid: int, began: float, *, events_fd: int, has_namespace: bool) -> NoReturn:
    """Follow the job, process `pid`, to its end, under the limits that `worker` sends; then end this process.

    `began`: when preparing this sandbox did, on the monotonic clock.
    """
    _rehearse()
    prepare_s = time.monotonic() - began
    received = packets.receive(worker)
    if received is None:  # nobody will ever send a job
        processes.kill_others(own_namespace=has_namespace)
        os._exit(0)
    limits: dict[str, Any] = json.loads(received[1])
    tell = worker if limits["tells_memory"] else None
    memory = _Memory(int(limits["memory_bytes"]), events_fd, has_namespace)
    status = _wait_for(pid, memory, tell)
    job_ended_at = time.monotonic()
    processes.kill_others(own_namespace=has_namespace)
    peak_kb = max(memory.peak_kb, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    for kind, path in limits["result_files"].items():
        content = _read_result(path, int(limits["result_bytes"]))
        if content is not None:
            packets.send(worker, kind, content)
    ended = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "peak_kb": peak_kb,
        "over_memory": memory.is_over,
        "prepare_s": prepare_s,
        "job_ended_at": job_ended_at,  # this clock is the same for all processes of a machine
    }
    packets.send(worker, "X", json.dumps(ended).encode())
    os._exit(0)


def _rehearse() -> None:
    """Touch what reporting a job's end touches, before somebody waits for it (see job._rehearse)."""
    rehearsed = {"memory_bytes": 1, "result_files": {}}
    json.loads(json.dumps({**rehearsed, "exit_code": os.waitstatus_to_exitcode(256), "over_memory": False}))
    with contextlib.suppress(ChildProcessError):
        os.waitpid(os.getpid(), os.WNOHANG)  # not -1: the job may have ended by now, and that must be seen
    signal.sigtimedwait([signal.SIGUSR2], 0)
    resource.getrusage(resource.RUSAGE_CHILDREN)
    list(packets.packets("X", b"{}"))
    time.monotonic()


def end_with_the_server() -> None:
    """Take everything down when the fork server dies; a pid namespace would do it for us."""

    def end(number: int, frame: object) -> None:
        processes.kill_others(own_namespace=False)
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGTERM)


class _Memory:
    """What the job's processes take together, as far as it was looked at."""

    def __init__(self, limit_bytes: int, events_fd: int, has_namespace: bool) -> None:
        self._limit_kb = limit_bytes // 1024
        self._events_fd = events_fd  # of its control group: the kernel holds it to the limit then
        self._has_namespace = has_namespace
        self._kills_before = self._kills()
        self.peak_kb = 0
        self.is_over = False

    def sample(self) -> int:
        """Look; returns what they take now (KiB)."""
        used_kb = _memory_kb(self._has_namespace)
        self.peak_kb = max(self.peak_kb, used_kb)
        if self._events_fd == -1:
            self.is_over = self.is_over or used_kb > self._limit_kb
        else:
            self.see_kills()
        return used_kb

    def see_kills(self) -> None:
        """The kernel may have killed a process of the job, not always its first one."""
        if self._kills() > self._kills_before:
            self.is_over = True
            self.peak_kb = max(
                self.peak_kb, self._limit_kb
            )  # it kills when there is no more than that to be had

    def _kills(self) -> int:
        if self._events_fd == -1:
            return 0
        for line in os.pread(self._events_fd, 4096, 0).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
        return 0


def _wait_for(pid: int, memory: _Memory, tell: socket.socket | None) -> int:
    """Reap until `pid` has ended, which is killed when the job is over its memory; returns its wait status.

    What is sampled meanwhile is told to `tell`, when it changed.
    """
    told_kb = 0
    next_sample = time.monotonic() + _SAMPLE_S
    while True:
        while True:
            reaped, status = os.waitpid(-1, os.WNOHANG)
            if reaped == pid:
                memory.see_kills()
                return status
            if reaped == 0:
                break
        pause = next_sample - time.monotonic()
        if pause > 0:
            signal.sigtimedwait([signal.SIGCHLD], pause)
            continue
        next_sample = time.monotonic() + _SAMPLE_S
        used_kb = memory.sample()
        if tell is not None and abs(used_kb - told_kb) > _TELLING_KB:
            told_kb = used_kb
            packets.send(tell, "K", str(used_kb).encode())
        if memory.is_over:
            os.kill(pid, signal.SIGKILL)


def _memory_kb(has_namespace: bool) -> int:
    """Memory of the job's processes, shared pages counted once, and of its files when they live in memory."""
    total = 0
    if has_namespace:
        disk = os.statvfs("/tmp")
        total = (disk.f_blocks - disk.f_bfree) * disk.f_frsize // 1024
        total += disk.f_files - disk.f_ffree  # a kilobyte of the kernel's memory each, also for empty files
        pids = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]
    else:
        pids = [str(pid) for pid in processes.descendants(os.getpid())]
    for pid in pids:
        try:
            total += _process_kb(pid)
        except OSError:
            continue  # it ended meanwhile
    return total


def _process_kb(pid: str) -> int:
    """Memory of one process. Raises OSError."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1])
    except (
        PermissionError
    ):  # it made itself unreadable (prctl): what it shares with others counts for each, then
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_KB
    return 0


def _read_result(path: str, limit: int) -> bytes | None:
    """The file's content, one byte more than `limit` at most; None when there is no such regular file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    with open(fd, "rb") as file:
        return file.read(limit + 1)
