"""What makes a fork server safe for packages of strangers: it imports them once, then every job has them at no cost.

Such code must not run with the rights of an ordinary fork server, which may see the host and be root. So
    watcher    the process that the worker started; ends the others when the worker is gone, whatever they do
    founder    process 1 of a pid namespace; builds the root view, as for ordinary jobs, then gives up its user and
               enters a user namespace, together with new mount, pid, IPC and UTS namespaces
    server     process 1 of that pid namespace: imports, then serves
The kernel locks mounts that a mount namespace inherits from one of more rights: with all the rights that its user
namespace gives, the server can neither take a cover off a hidden path nor make the system writable. It keeps the right
to make namespaces and mounts, for its jobs, and cannot make further user namespaces.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import resource
import secrets
import select
import signal
import socket
import sys
from typing import Any

from . import linux

_MOST_PROCESSES = 4096  # of an environment: its server, and all jobs that it has at a time
# Read when the libraries are loaded. Threads do not survive a fork, and the kernel refuses a pid namespace to a process
# that has more than one.
_ONE_THREAD = ("OPENBLAS", "OMP", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "BLIS")


class Refused(Exception):
    """What was asked for is not to be had here; the message says why."""


def free_uid() -> int:
    """A user id that no job has: beside those that ForkServer gives to jobs. Another such server may have it, too."""
    with open("/proc/self/uid_map", encoding="ascii") as table:
        mapped = sum(int(line.split()[2]) for line in table)
    if mapped > 2_000_000_000:
        return 1_879_100_000 + 500 * secrets.randbelow(500_000) + 470 + secrets.randbelow(30)
    return random.choice(range(60_706 + 470, 61_184))


def watch(pid: int, control: socket.socket) -> None:
    """Return when `pid` has ended or, after killing it, when the worker has closed `control`. Raises OSError."""
    poll = select.poll()
    poll.register(control, select.POLLRDHUP)
    poll.register(os.pidfd_open(pid), select.POLLIN)
    poll.poll()
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descend(uid: int, control: socket.socket) -> None:
    """Go on in a new process, of user `uid`, in a user namespace; the calling one waits for it and ends.

    Raises OSError when the kernel refuses.
    """
    if uid != os.geteuid():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # or the kernel gives our own /proc/self/uid_map to root
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # it ends with the change of user
    gid = os.getegid()
    linux.unshare(
        linux.CLONE_NEWUSER | linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    )
    linux.map_to_itself(uid, gid)
    pid = os.fork()
    if pid:
        control.close()
        linux.drop_all_capabilities()
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        os.waitpid(pid, 0)
        os._exit(0)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()


def import_packages(environment: dict[str, Any]) -> None:
    """Import `modules` of `environment` from its `paths`; what cannot be imported is left to the jobs.

    Raises Refused when one of them starts threads, or processes that stay.
    """
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # when memory runs out it is this that dies, not the worker
    os.environ.update({"HOME": "/tmp", "LANG": "C.UTF-8", "TZ": "UTC", "PATH": os.defpath})
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in _ONE_THREAD})
    memory = int(environment["memory_bytes"])
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if before[1] == resource.RLIM_INFINITY or memory < before[1]:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, before[1]))
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if most == resource.RLIM_INFINITY or most > _MOST_PROCESSES:
        resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))
    paths = list(sys.path)
    sys.path[:0] = environment["paths"]
    for name in environment["modules"]:
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)
    sys.path[:] = paths
    if len(os.listdir("/proc/self/task")) > 1:
        raise Refused("one of its packages starts threads when it is imported")
    if _has_company():
        raise Refused("one of its packages starts processes when it is imported, and leaves them behind")


def _has_company() -> bool:
    """Whether other processes live in our pid namespace. Asks the kernel: a package may have changed what /proc shows."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    try:
        os.kill(-1, 0)
    except ProcessLookupError:
        return False
    return True
