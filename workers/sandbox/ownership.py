"""Folders that change hands between the worker and a job: whose they are, who may read them, and how they go.

What a job left in a folder is not to be trusted: no symbolic link is followed, every entry is opened and looked at
before it is touched, and of files with several names those that the job does not own are left alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence

MOST_LEVELS = 200  # of folders in each other: each takes an open file while a tree is walked


@contextlib.contextmanager
def opened_below(root: str, name: str) -> Iterator[int]:
    """The folder `name` ("a/b") below `root`, as a descriptor (O_PATH). Raises OSError, also for a link on the way."""
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in name.split("/"):
            below = _entry(fd, part, os.O_DIRECTORY)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def name_below(roots: Sequence[str], path: str) -> str:
    """The name of folder `path` below one of `roots`, which are names of the same folder. Raises ValueError."""
    for root in roots:
        name = path.removeprefix(root.rstrip("/") + "/")
        if name == path:
            continue
        if not all(part not in ("", ".", "..") for part in name.split("/")):
            break
        try:
            with opened_below(root, name):
                return name
        except OSError as error:
            raise ValueError(f"{path} is not a folder without links on its way: {error.strerror}") from error
    raise ValueError(f"{path} cannot be writable: only folders below {roots[-1]} can")


def hand_over(root: str, name: str, uid: int) -> None:
    """Make the folder `name` below `root`, with all that is in it, that of user `uid`. Raises OSError."""
    with opened_below(root, name) as folder:
        _give(folder, uid, uid, opens=False)


def take_back(root: str, name: str) -> None:
    """Make the folder `name` below `root`, with all that is in it, ours: readable for everybody, only we may change it.

    Times of change stay. Sockets, pipes and devices are removed. Raises OSError, also for folders nested more than
    MOST_LEVELS deep. No process of a job may be left that writes there.
    """
    with opened_below(root, name) as folder:
        _give(folder, os.geteuid(), os.getegid(), opens=True)


def remove(folder: str) -> None:
    """Delete `folder` with all that is in it, however deep, whatever its permissions. Raises OSError."""
    parent, name = os.path.split(folder)
    with opened_below(parent, name) as entry:
        _set_mode(entry, 0o700)
        top = _readable(entry)
    try:
        pending = _emptied(top, into=None)
        while pending:
            inner = pending.pop()
            with opened_below(f"/proc/self/fd/{top}", inner) as entry:
                _set_mode(entry, 0o700)
                fd = _readable(entry)
            try:
                pending += _emptied(fd, into=top)
            finally:
                os.close(fd)
            os.rmdir(inner, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(folder)


def _emptied(folder: int, *, into: int | None) -> list[str]:
    """Delete the files of `folder` and move its folders `into` another one, which keeps any depth in one loop.

    Returns the names of the folders there. None: they stay where they are.
    """
    folders = []
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            if into is not None:
                entry = _entry(folder, name, os.O_DIRECTORY)
                _set_mode(entry, 0o700)  # to be moved it must be writable
                os.close(entry)
                fresh = secrets.token_hex(8)
                os.rename(name, fresh, src_dir_fd=folder, dst_dir_fd=into)
                name = fresh
            folders.append(name)
    return folders


def _give(entry: int, uid: int, gid: int, *, opens: bool, level: int = 0) -> None:
    """Give `entry` (O_PATH) and what is in it to `uid`; with `opens` everybody may read it then, and nobody write."""
    if level > MOST_LEVELS:
        raise OSError(errno.ELOOP, f"folders are nested more than {MOST_LEVELS} deep")
    found = os.fstat(entry)
    if stat.S_ISREG(found.st_mode):
        if found.st_nlink > 1 and found.st_uid == os.geteuid():
            return  # it may be a name that a job gave to a file of ours somewhere else
        _set_owner(entry, found, uid, gid)
        if opens:
            _set_mode(entry, 0o755 if found.st_mode & 0o111 else 0o644, found)
        return
    _set_owner(entry, found, uid, gid)
    if opens:
        _set_mode(entry, 0o755, found)
    folder = _readable(entry)
    try:
        for name in os.listdir(folder):
            below = _entry(folder, name)
            try:
                mode = os.fstat(below).st_mode
                if stat.S_ISLNK(mode):
                    os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)
                elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                    _give(below, uid, gid, opens=opens, level=level + 1)
                else:
                    os.unlink(name, dir_fd=folder)
            finally:
                os.close(below)
    finally:
        os.close(folder)


def _entry(folder: int, name: str, flags: int = 0) -> int:
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)


def _readable(entry: int) -> int:
    return os.open(f"/proc/self/fd/{entry}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _set_owner(entry: int, found: os.stat_result, uid: int, gid: int) -> None:
    if (found.st_uid, found.st_gid) != (uid, gid):
        os.chown(f"/proc/self/fd/{entry}", uid, gid)


def _set_mode(entry: int, mode: int, found: os.stat_result | None = None) -> None:
    if found is None or stat.S_IMODE(found.st_mode) != mode:
        os.chmod(f"/proc/self/fd/{entry}", mode)
