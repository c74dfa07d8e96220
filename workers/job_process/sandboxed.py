"""The two processes of a sandbox: the guard (process 1 of its pid namespace) and the job itself.

Both are forked before there is a job, so that a job only costs what it does itself. The guard waits for the job
process to end, then kills whatever it left behind, reads the result files and reports; user code never runs in it.
The job process gives up all rights before it reads, from its own socket, what it is to run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from . import guard, job, linux, packets, python_main, root_view


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
        _let_it_die_first()
        if view is not None:
            linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWIPC | (0 if own.network else linux.CLONE_NEWNET))
            if not own.network:
                linux.raise_loopback()
            view.add_private_parts(uid, gid, own.share, own.writable, own.tmp_bytes)
            home, working = root_view.HOME_FOLDER, root_view.JOB_FOLDER
        else:
            linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
            home, working = f"{folder}/home", f"{folder}/job"
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
            job.be_the_job(channels.job, home, scratch, shares_uid=view is None and uid == -1)
        except BaseException as error:
            python_main.report(channels.job, error)
        finally:
            os._exit(125)
    try:
        # So the job can neither trace this process nor see its descriptors, nor end it: the first process of a namespace
        # hears only the signals that it has something to do for, and of this one Python has.
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        channels.job.close()
        for fd in own.join_fds:
            os.close(fd)
        if view is None:
            guard.end_with_the_server()
        guard.watch(channels.guard, pid, began, events_fd=own.events_fd, has_namespace=view is not None)
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


def _let_it_die_first() -> None:
    """When memory runs out it is a job that dies, not the worker. For good: a job's /proc is read-only."""
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # or the file would be root's
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    linux.prctl(linux.PR_SET_DUMPABLE, 0)


def _join(own: Own) -> None:
    """Move this process into its control group, in which all that it starts will be, too."""
    for fd in own.join_fds:
        os.write(fd, b"0")
        os.close(fd)
    if own.events_fd != -1:
        os.close(own.events_fd)
