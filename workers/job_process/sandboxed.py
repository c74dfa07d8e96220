"""The two processes of a sandbox: the guard (process 1 of its pid namespace) and the job itself.

Both are forked before there is a job, so that a job only costs what it does itself. The guard waits for the job
process to end, then kills whatever it left behind, reads the result files and reports; user code never runs in it.
The job process gives up all rights before it reads, from its own socket, what it is to run.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import shutil
import signal
import socket
import stat
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from . import linux, packets, processes, python_main, root_view, serving

_SAMPLE_S = 0.25  # how often a running job's memory is looked at
_TELLING_KB = 512  # by which it changed before the worker is told about it, if it wants to know


@dataclass(frozen=True)
class Channels:
    """A sandbox's own ends."""

    log: int  # pipe for standard output and standard error
    job: socket.socket  # in: the job; out: its result
    guard: socket.socket  # in: the limits; out: result files and how it ended


@dataclass(frozen=True)
class Own:
    """What one sandbox has that others need not have."""

    # A folder that it shares with others, by number (with a view; without, its folder has a link), and folders that
    # it may change (with a view; without, their owner does it).
    share: str | None = None
    writable: Sequence[str] = ()
    network: bool = True
    tmp_bytes: int | None = None  # size of /tmp, with a view; None: the usual one
    # Of its control group: what the job writes to in order to join, and where it is told whether the kernel killed one
    # of its processes for memory (-1: it has no group).
    join_fds: Sequence[int] = ()
    events_fd: int = -1


def run(
    channels: Channels,
    *,
    view: root_view.RootView | None,
    folder: str | None,
    uid: int,
    gid: int,
    own: Own,
) -> NoReturn:
    """Be the guard of a new sandbox. Called right after fork, as process 1 when there is a `view`. Never returns."""
    began = time.monotonic()
    try:
        _forget_the_server(channels, own)
        if view is not None:
            linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWIPC | (0 if own.network else linux.CLONE_NEWNET))
            if not own.network:
                linux.raise_loopback()
            view.add_private_parts(uid, gid, own.share, own.writable, own.tmp_bytes)
            home, working = root_view.HOME_FOLDER, root_view.JOB_FOLDER
        else:
            linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
            home, working = f"{folder}/home", f"{folder}/job"
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # when memory runs out it is a job that dies, not the worker
        if uid != -1:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        linux.drop_all_capabilities()
        linux.keep_to_own_sockets(and_signals=view is None)
        if view is not None and not os.access(os.__file__, os.R_OK):
            raise OSError(f"jobs could not read Python's own files in {os.path.dirname(os.__file__)}")
        os.umask(0o022)
        os.chdir(working)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
    except OSError as error:
        with contextlib.suppress(OSError):
            packets.send(channels.guard, "F", str(error).encode())
        os._exit(1)
    if pid == 0:
        try:
            channels.guard.close()
            _join(own)
            linux.prctl(linux.PR_SET_DUMPABLE, 1)  # it may inspect itself, and its guard may count its memory
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            scratch = f"{folder}/tmp" if view is None else None
            _be_the_job(channels.job, home, scratch, shares_uid=view is None and uid == -1)
        except BaseException as error:
            python_main.report(channels.job, error)
        finally:
            os._exit(125)
    try:
        linux.prctl(
            linux.PR_SET_DUMPABLE, 0
        )  # so the job can neither trace this process nor see its descriptors
        channels.job.close()
        for fd in own.join_fds:
            os.close(fd)
        if view is None:
            _end_with_the_server()
        _guard(channels.guard, pid, began, events_fd=own.events_fd, has_namespace=view is not None)
    except BaseException as error:
        with contextlib.suppress(OSError):
            packets.send(channels.guard, "F", f"the guard failed: {error!r}".encode())
    finally:
        os._exit(1)


def _forget_the_server(channels: Channels, own: Own) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(channels.log, 1)
    os.dup2(channels.log, 2)
    low = 3
    group = {*own.join_fds, own.events_fd} - {-1}
    for fd in sorted({channels.job.fileno(), channels.guard.fileno(), *group}):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 1 << 20)
    os.setsid()


def _join(own: Own) -> None:
    """Move this process into its control group, in which all that it starts will be, too."""
    for fd in own.join_fds:
        os.write(fd, b"0")
        os.close(fd)
    if own.events_fd != -1:
        os.close(own.events_fd)


# --- the guard ---


def _guard(worker: socket.socket, pid: int, began: float, *, events_fd: int, has_namespace: bool) -> NoReturn:
    _rehearse_guard()
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


def _rehearse_guard() -> None:
    """Touch what reporting a job's end touches, before somebody waits for it (see python_main.rehearse)."""
    rehearsed = {"memory_bytes": 1, "result_files": {}}
    json.loads(json.dumps({**rehearsed, "exit_code": os.waitstatus_to_exitcode(256), "over_memory": False}))
    with contextlib.suppress(ChildProcessError):
        os.waitpid(os.getpid(), os.WNOHANG)  # not -1: the job may have ended by now, and that must be seen
    signal.sigtimedwait([signal.SIGUSR2], 0)
    resource.getrusage(resource.RUSAGE_CHILDREN)
    list(packets.packets("X", b"{}"))
    time.monotonic()


def _end_with_the_server() -> None:
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
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                for line in file:
                    if line.startswith(b"Pss:"):
                        total += int(line.split()[1])
                        break
        except OSError:
            continue  # it ended meanwhile
    return total


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


# --- the job ---


def _be_the_job(worker: socket.socket, home: str, scratch: str | None, *, shares_uid: bool) -> NoReturn:
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()  # it was preloaded: all jobs would draw the same numbers; `random` sees to it by itself
    python_main.rehearse()
    _write("rehearsal/main.py", "")
    shutil.rmtree("rehearsal")
    channel: list[int] = []  # of a session: where calls come from, where answers go
    received = packets.receive(worker, channel)
    if received is None:
        os._exit(0)
    job: dict[str, Any] = json.loads(received[1])
    env = {"HOME": home, "LANG": "C.UTF-8", "PATH": _PATH, "TZ": "UTC", **job["env"]}
    if scratch is not None:
        env.setdefault("TMPDIR", scratch)
    for path, content in job["files"].items():
        _write(path, content)
    _limit(job["limits"], shares_uid=shares_uid)
    gc.enable()
    if job["kind"] == "python":
        if channel:
            serving.serve(job["python"], env, worker, calls=channel[0], answers=channel[1])
        python_main.run(job["python"], env, worker)
    worker.close()
    if channel:
        serving.put_in_place(*channel)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them; the program must not
    argv: list[str] = [part.encode("utf-8", "surrogatepass").replace(b"\0", b"") for part in job["argv"]]
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        sys.stderr.write(f"cannot run {job['argv'][0]}: {error.strerror}\n")
        os._exit(127)


def _write(path: str, content: str) -> None:
    if "/" in path:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content.encode("utf-8", "surrogatepass"))


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _limit(limits: dict[str, Any], *, shares_uid: bool) -> None:
    for kind, value in (
        # Private writable memory; RLIMIT_AS would also count address space that Go, Java and V8 only reserve.
        (resource.RLIMIT_DATA, limits["data_bytes"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_CORE, 0),
    ):
        if value is None:
            continue
        if kind == resource.RLIMIT_NPROC and shares_uid:
            continue  # the kernel counts processes by user: the worker's own would be counted in
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))
