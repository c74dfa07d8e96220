"""Turns against the process that watches over it, which runs as the same user: stops, starves, limits or outlives it."""

import ctypes
import os
import resource
import signal
from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
GUARD = 1


def signals() -> bool:
    for number in range(1, signal.NSIG):
        if number != signal.SIGCHLD:
            os.kill(GUARD, number)
    return False  # whoever reads the result was not ended


def limits() -> bool:
    resource.prlimit(GUARD, resource.RLIMIT_NOFILE, (0, 0))
    return True


def policy() -> bool:
    os.sched_setscheduler(GUARD, os.SCHED_IDLE, os.sched_param(0))
    return True


def processors() -> bool:
    os.sched_setaffinity(GUARD, os.sched_getaffinity(0))
    return True


def nice(which: int, who: int) -> Callable[[], bool]:
    def act() -> bool:
        os.setpriority(which, who, 19)
        return os.getpriority(os.PRIO_PROCESS, GUARD) == 19

    return act


def disk(which: int) -> Callable[[], bool]:
    # ioprio_set(which, who, the lowest class)
    number = {"x86_64": 251, "aarch64": 30}[os.uname().machine]
    return lambda: libc.syscall(number, which, GUARD, 3 << 13) == 0


def rank() -> bool:
    """What is killed first when the machine has no memory left."""
    with open("/proc/self/oom_score_adj") as file:
        if int(file.read()) < 1000:
            return True
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("0")
    return True


WAYS = {
    "ended it": signals,
    "limited its files": limits,
    "made it idle": policy,
    "moved it": processors,
    "made it nice": nice(os.PRIO_PROCESS, GUARD),
    "made its group nice": nice(os.PRIO_PGRP, 0),
    "made its user nice": nice(os.PRIO_USER, os.getuid()),
    "put it last for disks": disk(1),
    "put its group last for disks": disk(2),
    "is not the first to go when memory runs out": rank,
}


def main() -> str:
    done = []
    for name, act in WAYS.items():
        try:
            if act():
                done.append(name)
        except OSError:
            pass  # refused
    return "exposed: " + ", ".join(done) if done else "contained"
