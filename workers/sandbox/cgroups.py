"""Control groups: the kernel itself holds all processes of a job, together, to their memory, number and processor time.

Below the worker's own group is one folder for each job that runs or may come. A job's first process joins while its
sandbox is prepared (moving a process can take some milliseconds), its limits are written when they differ from the last
job's, and the folder serves the next job. Jobs neither see nor can change any of it.

    version 2   needs the worker's own group to be delegated: systemd's Delegate=yes, a folder that is ours, or the root
                of a container's groups that is mounted writable. A group with groups below it that have limits may hold
                no processes itself, so what is in it moves into `windmill-processes` below it, and back when the last
                worker ends.
    version 1   needs the folders of the controllers memory, pids and cpu to be writable; those that are not are not used.

What a worker made is locked (flock) as long as its process lives: the next one removes whatever is not.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
import secrets
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

logger = logging.getLogger(__name__)

CONTROLLERS = ("memory", "pids", "cpu")
_JOBS = "windmill-jobs-"  # + a random name: of one worker
_PROCESSES = "windmill-processes"  # version 2: what was in the group itself
_PERIOD_US = 100_000  # over which processor time is counted
_LEAST_QUOTA_US = 1_000
_NO_LIMIT = {"memory": 1 << 62, "pids": 1 << 22}
# A group that still accounts for more than this (files that its jobs read, mostly) is not used again.
_CLEAN_BYTES = 16 << 20
_REMOVE_TIMEOUT_S = 2.0
_ESCAPED = re.compile(r"\\([0-7]{3})")


class NoGroups(Exception):
    """There are no control groups to use here; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """The group that this process is in. `folders`: by controller; of version 2 there is one, for all."""

    version: Literal[1, 2]
    folders: Mapping[str, Path]
    is_root: bool = False  # version 2: as far as this process sees, there is none above


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """What the processes of one group may use together. None: no limit."""

    memory_bytes: int | None = None
    processes: int | None = None
    cpus: float | None = None


class Group:
    """One job's group."""

    def __init__(self, version: int, folders: Mapping[str, Path], limits: GroupLimits) -> None:
        self._version = version
        self._folders = folders
        self._to_give = [folder / "cgroup.procs" for folder in dict.fromkeys(folders.values())]
        self._to_give.append(folders["memory"] / ("memory.events" if version == 2 else "memory.oom_control"))
        self._limits = GroupLimits()
        if version == 2:
            _write(folders["memory"] / "memory.swap.max", "0", is_optional=True)
            _write(folders["memory"] / "memory.oom.group", "1", is_optional=True)
        self.hold_to(limits)

    @contextlib.contextmanager
    def opened(self) -> Iterator[list[int]]:
        """Descriptors to give away, open inside the block: a process that writes 0 to all but the last is in the group;
        the last is to be read: "oom_kill N" says how often the kernel killed one of its processes. Raises OSError."""
        with contextlib.ExitStack() as kept:
            fds = []
            for path in self._to_give:
                flags = os.O_RDONLY if path is self._to_give[-1] else os.O_WRONLY
                fds.append(os.open(path, flags | os.O_CLOEXEC))
                kept.callback(os.close, fds[-1])
            yield fds

    def hold_to(self, limits: GroupLimits) -> None:
        """Let these limits hold from now on. Costs nothing when they do already. Raises OSError."""
        if limits == self._limits:
            return
        if limits.memory_bytes != self._limits.memory_bytes:
            self._limit_memory(limits.memory_bytes)
        if "pids" in self._folders and limits.processes != self._limits.processes:
            _write(self._folders["pids"] / "pids.max", _or_max(limits.processes))
        if "cpu" in self._folders and limits.cpus != self._limits.cpus:
            self._limit_cpus(limits.cpus)
        self._limits = limits

    def is_empty(self) -> bool:
        """Whether no process is in it."""
        return not any(self._members())

    def is_joined(self) -> bool:
        """Whether processes are in it, for all controllers."""
        return all(self._members())

    def _members(self) -> list[str]:
        return [(folder / "cgroup.procs").read_text() for folder in set(self._folders.values())]

    def is_clean(self) -> bool:
        """Whether it can serve another job: nothing much of the last one is counted any more."""
        name = "memory.current" if self._version == 2 else "memory.usage_in_bytes"
        return int((self._folders["memory"] / name).read_text()) <= _CLEAN_BYTES

    def remove(self) -> None:
        """Raises OSError, as long as a process is in it for instance."""
        for folder in dict.fromkeys(self._folders.values()):
            with contextlib.suppress(FileNotFoundError):
                folder.rmdir()

    def _limit_memory(self, size: int | None) -> None:
        folder = self._folders["memory"]
        if self._version == 2:
            _write(folder / "memory.max", _or_max(size))
            return
        text = "-1" if size is None else str(size)
        # Memory and memory with swap, which may never be the smaller one, also not in between.
        names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        if (size or _NO_LIMIT["memory"]) > (self._limits.memory_bytes or _NO_LIMIT["memory"]):
            names.reverse()
        for name in names:
            _write(folder / name, text, is_optional=name.startswith("memory.memsw"))

    def _limit_cpus(self, cpus: float | None) -> None:
        quota = None if cpus is None else max(_LEAST_QUOTA_US, round(cpus * _PERIOD_US))
        if self._version == 2:
            _write(self._folders["cpu"] / "cpu.max", f"{_or_max(quota)} {_PERIOD_US}")
        else:
            _write(self._folders["cpu"] / "cpu.cfs_period_us", str(_PERIOD_US))
            _write(self._folders["cpu"] / "cpu.cfs_quota_us", str(-1 if quota is None else quota))


class Groups:
    """The groups of one worker's jobs. `limits` hold in each until it is told other ones.

    Making it takes away what workers that died have left. Raises NoGroups.
    """

    def __init__(self, place: Place, limits: GroupLimits) -> None:
        self._place = place
        self._limits = limits
        self._free: list[Group] = []
        self._doomed: list[Group] = []  # could not be removed yet
        self._count = 0
        self._leaf_lock = -1  # version 2: says that what was in the own group has to stay out of it
        self._locks: list[int] = []
        self._top: dict[str, Path] = {}  # by controller: what holds the groups of all jobs
        try:
            if place.version == 2:
                self._make_room()
            for folder in set(self._place.folders.values()):
                _remove_left_behind(folder)
            name = _JOBS + secrets.token_hex(6)
            self._top = {controller: folder / name for controller, folder in self._place.folders.items()}
            for folder in dict.fromkeys(self._top.values()):
                self._locks.append(_made_and_locked(folder))
            if place.version == 2:
                _enable(self._top["memory"], self.controllers)
            self._free.append(self._made())
        except OSError as error:
            self.close()
            raise NoGroups(f"{error.filename or 'a control group'}: {error.strerror}") from error
        except NoGroups:
            self.close()
            raise

    @property
    def version(self) -> int:
        """1 or 2."""
        return self._place.version

    @property
    def controllers(self) -> Sequence[str]:
        """Those of CONTROLLERS that are in force; memory always is."""
        return list(self._place.folders)

    def take(self) -> Group:
        """A group without processes, with any limits. Raises OSError."""
        return self._free.pop() if self._free else self._made()

    def give_back(self, group: Group) -> None:
        """No process of a job is in `group` any more, or will not be soon."""
        self._remove_doomed()
        try:
            if group.is_empty() and group.is_clean():
                self._free.append(group)
                return
        except (OSError, ValueError) as error:
            logger.warning("control group lost reason=%s", error)
        self._doomed.append(group)
        self._remove_doomed()

    def close(self) -> None:
        """Remove all of it; waits a moment for processes that are about to end."""
        self._doomed += self._free
        self._free = []
        until = time.monotonic() + _REMOVE_TIMEOUT_S
        while self._doomed and time.monotonic() < until:
            self._remove_doomed()
            if self._doomed:
                time.sleep(0.01)
        for folder in dict.fromkeys(self._top.values()):
            _remove_tree(folder)
        for lock in self._locks:
            os.close(lock)
        self._locks = []
        self._top = {}
        if self._leaf_lock != -1:
            self._move_back()

    def _made(self) -> Group:
        self._count += 1
        folders = {controller: folder / f"job-{self._count}" for controller, folder in self._top.items()}
        for folder in dict.fromkeys(folders.values()):
            folder.mkdir()
        return Group(self._place.version, folders, self._limits)

    def _remove_doomed(self) -> None:
        remaining = []
        for group in self._doomed:
            try:
                group.remove()
            except OSError:
                remaining.append(group)
        self._doomed = remaining

    # --- version 2: only groups without processes may hand limits down ---

    def _make_room(self) -> None:
        """Have groups below our own get the controllers, without its processes in the way. Raises OSError, NoGroups."""
        (own,) = set(self._place.folders.values())
        wanted = [one for one in CONTROLLERS if one in _controllers(own)]
        self._place = Place(2, dict.fromkeys(wanted, own), self._place.is_root)
        leaf = own / _PROCESSES
        if not leaf.exists() and set(wanted) <= set((own / "cgroup.subtree_control").read_text().split()):
            return
        if not (self._place.is_root or _is_delegated(own)):
            raise NoGroups(f"{own} is not delegated to this worker (systemd: Delegate=yes)")
        if not leaf.exists() and _enable(own, wanted):
            return  # the machine's root may do both
        self._leaf_lock = _shared_leaf(leaf)
        for _ in range(20):  # processes may be started meanwhile
            _move_all(own, leaf)
            if _enable(own, wanted):
                return
        raise NoGroups(f"the processes in {own} cannot be moved out of it")

    def _move_back(self) -> None:
        """Undo `_make_room`, if no other worker relies on it."""
        lock, self._leaf_lock = self._leaf_lock, -1
        own = self._place.folders["memory"]
        with contextlib.suppress(OSError):  # another worker is there, or it stays as it is
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            enabled = (own / "cgroup.subtree_control").read_text().split()
            _write(own / "cgroup.subtree_control", " ".join(f"-{one}" for one in enabled))
            _move_all(own / _PROCESSES, own)
            (own / _PROCESSES).rmdir()
        os.close(lock)


def own_place(proc: Path = Path("/proc/self")) -> Place:
    """Where this process is. Raises NoGroups."""
    try:
        return find_place((proc / "mountinfo").read_text(), (proc / "cgroup").read_text())
    except OSError as error:
        raise NoGroups(f"{error.filename}: {error.strerror}") from error


def find_place(mountinfo: str, own: str) -> Place:
    """Where a process is, by the texts of its /proc/<pid>/mountinfo and /proc/<pid>/cgroup. Raises NoGroups.

    Version 2 if its memory controller is there, else version 1.
    """
    paths = {name: path for line in own.splitlines() for _, name, path in [line.split(":", 2)]}
    unified: Place | None = None
    folders: dict[str, Path] = {}
    problems: list[str] = []
    for root, mounted_at, kind, options in _cgroup_mounts(mountinfo):
        names = [""] if kind == "cgroup2" else [one for one in CONTROLLERS if one in options]
        for name in names:
            path = next((path for key, path in paths.items() if name in key.split(",")), None)
            folder = None if path is None else _below(mounted_at, root, path)
            if folder is None:
                continue
            if folder.name == _PROCESSES:
                folder = folder.parent
            is_root = folder == Path(mounted_at)
            if not os.access(folder, os.W_OK | os.X_OK):
                problems.append(f"{folder} is read-only to this worker")
            elif kind == "cgroup2":
                unified = Place(2, {"memory": folder}, is_root)
            else:
                folders.setdefault(name, folder)
    if unified is not None and "memory" in _controllers(unified.folders["memory"]):
        return unified
    if "memory" in folders:
        return Place(1, {one: folders[one] for one in CONTROLLERS if one in folders})
    raise NoGroups("; ".join(dict.fromkeys(problems)) or "no memory controller is mounted")


def _cgroup_mounts(mountinfo: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """(root, where it is mounted, cgroup or cgroup2, options) of each mounted hierarchy."""
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if separator and len(fields) > 4 and len(rest) > 2 and rest[0] in ("cgroup", "cgroup2"):
            yield _unescaped(fields[3]), _unescaped(fields[4]), rest[0], rest[2].split(",")


def _below(mounted_at: str, root: str, path: str) -> Path | None:
    """The folder of group `path` in a hierarchy of which `root` is mounted; None when it is not in there."""
    if root != "/" and path != root and not path.startswith(root + "/"):
        return None
    if ".." in path.split("/"):
        return None  # outside of what our namespace shows
    relative = path if root == "/" else path[len(root) :]
    return Path(mounted_at) / relative.lstrip("/")


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


def _controllers(folder: Path) -> list[str]:
    try:
        return (folder / "cgroup.controllers").read_text().split()
    except OSError:
        return []


def _or_max(value: int | None) -> str:
    return "max" if value is None else str(value)


def _write(path: Path, text: str, *, is_optional: bool = False) -> None:
    """Raises OSError with the path in it. `is_optional`: kernels may be without this file."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
        finally:
            os.close(fd)
    except OSError:
        if not (is_optional and not path.exists()):
            raise


def _is_delegated(folder: Path) -> bool:
    """Whether somebody gave us this group to divide it further."""
    if os.geteuid() != 0:
        return folder.stat().st_uid == os.geteuid()
    for name in ("trusted.delegate", "user.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"1":  # systemd's mark
                return True
    return False


def _enable(folder: Path, controllers: Sequence[str]) -> bool:
    """Let groups below `folder` have these. False: there are processes in it."""
    try:
        _write(folder / "cgroup.subtree_control", " ".join(f"+{one}" for one in controllers))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise
    return True


def _move_all(source: Path, target: Path) -> None:
    for pid in (source / "cgroup.procs").read_text().split():
        try:
            _write(target / "cgroup.procs", pid)
        except OSError as error:
            if error.errno not in (errno.ESRCH, errno.EINVAL):  # it ended, or is the kernel's own
                raise


def _shared_leaf(leaf: Path) -> int:
    """The group for what was in the group above, made if need be, locked with others. Returns the lock."""
    while True:
        with contextlib.suppress(FileExistsError):
            leaf.mkdir()
        try:
            lock = os.open(leaf, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_SH)
        if _is_still(leaf, lock):
            return lock
        os.close(lock)  # whoever ended just now removed it


def _made_and_locked(folder: Path) -> int:
    """Make `folder`; returns a descriptor that holds its lock. Raises OSError."""
    for _ in range(100):
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # a worker that starts just now took it for left behind
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_still(folder, lock):
            return lock
        os.close(lock)
    raise OSError(errno.EBUSY, "it is removed again and again", str(folder))


def _is_still(folder: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(folder), os.fstat(fd))
    except FileNotFoundError:
        return False


def _remove_left_behind(folder: Path) -> None:
    """Remove the groups of workers that do not live any more, with what is still in them."""
    for old in folder.glob(f"{_JOBS}*"):
        with contextlib.suppress(OSError):
            lock = os.open(old, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_tree(old)
                logger.info("removed control groups of a worker that is gone folder=%s", old.name)
            finally:
                os.close(lock)


def _remove_tree(top: Path) -> None:
    """Kill what is in the groups below `top` and remove them; what does not end in time stays."""
    until = time.monotonic() + _REMOVE_TIMEOUT_S
    while True:
        try:
            for folder in [*top.glob("job-*"), top]:
                _write(folder / "cgroup.kill", "1", is_optional=True)
                for pid in (folder / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        if int(pid):  # 0: of another pid namespace
                            os.kill(int(pid), signal.SIGKILL)
                folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > until:
                logger.warning("control group not removed folder=%s reason=%s", top, error.strerror)
                return
            time.sleep(0.01)
