"""Ending all processes of a job where no pid namespace does it: by following parents in /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection


def kill_others(*, own_namespace: bool) -> None:
    """Kill and reap everything this process is an ancestor of. `own_namespace`: and nobody else is visible."""
    while True:
        if own_namespace:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            _kill(descendants(os.getpid()))
        try:
            while os.waitpid(-1, os.WNOHANG if not own_namespace else 0)[0]:
                pass
            time.sleep(
                0.0005
            )  # a killed process needs a moment to end; there is nothing to wait on for grandchildren
        except ChildProcessError:
            return


def kill_tree(pid: int) -> None:
    """Kill `pid` and all its descendants; those started meanwhile too, by stopping each one first."""
    seen: set[int] = set()
    while fresh := [one for one in [pid, *descendants(pid)] if one not in seen]:
        for one in fresh:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGSTOP)
        seen.update(fresh)
    _kill(seen)


def kill_strays(*, guards: Collection[int], uid: int | None) -> None:
    """Kill what a dead guard left behind: its orphans are our children now, or still run as its `uid`.

    Only for a process that is a child subreaper, and whose every other child is in `guards`.
    """
    for _ in range(10_000):
        table = _parents()
        strays = {pid for pid, parent in table.items() if parent == os.getpid() and pid not in guards}
        for stray in list(strays):
            strays |= _below(stray, table)
        if uid is not None:
            strays |= {pid for pid in table if _runs_as(pid, uid)}
        if not strays:
            return
        _kill(strays)
        for pid in strays:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _kill(pids: Collection[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _runs_as(pid: int, uid: int) -> bool:
    """Whether `pid` runs as `uid`; dead ones that their parent has not reaped yet do not run."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
        return state != b"Z" and os.stat(f"/proc/{pid}").st_uid == uid
    except OSError:
        return False


def _parents() -> dict[int, int]:
    table: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    table[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
    return table


def descendants(pid: int) -> set[int]:
    return _below(pid, _parents())


def last_resident_bytes(pid: int, generations: int = 2) -> int:
    """Memory of the largest process that is `generations` below `pid`; 0 when there is none."""
    table = _parents()
    level = {pid}
    for _ in range(generations):
        level = {child for child, parent in table.items() if parent in level}
    return max((_resident_bytes(one) for one in level), default=0)


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _below(pid: int, table: dict[int, int]) -> set[int]:
    found: set[int] = set()
    level = {pid}
    while level:
        level = {child for child, parent in table.items() if parent in level} - found
        found |= level
    return found
