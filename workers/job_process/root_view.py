"""The file system that jobs see: an allow-list of the system, read-only, plus what each job gets for itself.

The fork server builds the view once, in its own mount namespace, and moves into it (`build`). A job's namespace is
a copy of it to which `add_private_parts` mounts a fresh /proc, and a /tmp in memory that disappears with the job.

Jobs that share a folder get it at /shared. It lives in memory too, below a place of the fork server (`add_share`) that is
covered in every job's namespace before the job begins: there is no name under which a job could reach the folder of
others, and nothing on disk that somebody would have to delete.

A folder on disk that one job may write is reached in the same way: the folder above all of them hangs, writable, below
that covered place, and the one job's folder is bound from there onto its path.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence

from . import linux

JOB_FOLDER = "/tmp/job"
HOME_FOLDER = "/tmp/home"
SHM_FOLDER = "/tmp/.shm"
SHARED_FOLDER = "/shared"

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/snap")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Services of the system that listen on a socket in what is shown: who is not read-only to them, as builders of packages.
_SERVICES = ("/nix/var/nix/daemon-socket",)
_MOST_TERMINALS = 64  # of one job
_PRIVATE = ("/tmp", "/dev", "/proc")  # mounted by us; what the host has below them is bound again on top
_OLD = "/.old"
_STASH = "/.stash"
_SHARES = "/.shares"
_WRITABLE = f"{_SHARES}/writable"
_NOTHING = "/.nothing"


class RootView:
    """The finished view. `late` are (stashed path, path below /tmp) pairs that every job binds for itself.

    `writable_at`: the paths under which jobs see the folder that holds what one of them may write.
    """

    def __init__(self, late: list[tuple[str, str]], tmp_bytes: int, writable_at: Sequence[str]) -> None:
        self.late = late
        self.tmp_bytes = tmp_bytes
        self.writable_at = writable_at
        # What a job has to make for `late`, found out now: os.makedirs would touch a quarter of a millisecond of pages.
        self._folders_for_late = _folders_above([path for _, path in late])
        self._late_files = []
        for stashed, path in late:
            if os.path.isdir(stashed):
                self._folders_for_late.append(path)
            else:
                self._late_files.append(path)

    def add_share(self, name: str, uid: int, gid: int) -> None:
        """Make a folder for jobs that run as `uid` (-1: as we do). Call in the fork server's mount namespace.

        Every job sees in its table of mounts that there is a `name`, so it must not tell anything.
        """
        folder = f"{_SHARES}/{name}"
        os.mkdir(folder, 0o700)
        owner = f"uid={uid},gid={gid}," if uid != -1 else ""
        options = f"{owner}mode=700,{_sized(self.tmp_bytes)}"
        try:
            linux.mount("tmpfs", folder, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
        except OSError:
            os.rmdir(folder)
            raise

    def remove_share(self, name: str) -> None:
        """Let go of a folder; its memory is free once the last job that has it has ended."""
        linux.unmount(f"{_SHARES}/{name}")
        os.rmdir(f"{_SHARES}/{name}")

    def add_private_parts(
        self, uid: int, gid: int, share: str | None, writable: Sequence[str], tmp_bytes: int | None
    ) -> None:
        """Mount /proc and /tmp of one job, whose processes run as `uid`, and the folder that it shares, if any.

        `writable` names folders, below the one for that, which it may change; `tmp_bytes` is the size of /tmp when
        it is not the usual one. Call in its own mount namespace. Raises OSError.
        """
        sources = [_open_below(_WRITABLE, name) for name in writable]
        if share is not None:
            linux.mount(f"{_SHARES}/{share}", SHARED_FOLDER, None, linux.MS_BIND)
        # Covered, not unmounted: that would wait for all processors to forget the mount, a millisecond and more.
        linux.mount(_NOTHING, _SHARES, None, linux.MS_BIND)
        self.add_proc_and_tmp(tmp_bytes, more_flags=linux.MS_RDONLY)
        # All of a machine share some 3000 terminals; a job could take them all.
        terminals = f"newinstance,ptmxmode=0666,mode=600,max={_MOST_TERMINALS}"
        linux.mount("devpts", "/dev/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, terminals)
        for name, source in zip(writable, sources, strict=True):
            for place in self.writable_at:
                target = _open_below(place, name)
                linux.mount(
                    f"/proc/self/fd/{source}", f"/proc/self/fd/{target}", None, linux.MS_BIND | linux.MS_REC
                )
                os.close(target)
            os.close(source)
        for folder in (JOB_FOLDER, HOME_FOLDER, SHM_FOLDER):
            os.mkdir(folder, 0o700)
            os.chown(folder, uid, gid)
        if share is not None:
            os.symlink(SHARED_FOLDER, f"{JOB_FOLDER}/shared")

    def add_proc_and_tmp(self, tmp_bytes: int | None = None, *, more_flags: int = 0) -> None:
        """Mount /proc of this process's pid namespace, with `more_flags`, and an empty /tmp, with what of the host is
        below it."""
        size = self.tmp_bytes if tmp_bytes is None else tmp_bytes
        flags = linux.MS_NOSUID | linux.MS_NODEV
        linux.mount("proc", "/proc", "proc", flags | linux.MS_NOEXEC | more_flags)
        linux.mount("tmpfs", "/tmp", "tmpfs", flags, f"mode=1777,{_sized(size)}")
        for path in self._folders_for_late:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o755)
        for path in self._late_files:
            with contextlib.suppress(FileExistsError):
                os.mknod(path, stat.S_IFREG | 0o644)
        for stashed, path in self.late:
            linux.mount(stashed, path, None, linux.MS_BIND | linux.MS_REC)


def build(
    *,
    read_only: Sequence[str],
    hidden: Sequence[str],
    writable_at: Sequence[str],
    tmp_bytes: int,
    extra_users: Sequence[tuple[int, int]],
) -> RootView:
    """Make the view the root of this process. Needs its own mount namespace with the right to mount in it.

    `read_only` are further paths jobs may read, at the same place; `hidden` paths become empty, also when a visible
    folder holds them. `writable_at`: the names of the folder that holds those which single jobs may write, all of them in
    `read_only` too. `extra_users` (uid, gid) get a line in /etc/passwd, so that programs that ask who they are
    get an answer. Raises OSError.
    """
    linux.mount("none", "/", None, linux.MS_PRIVATE | linux.MS_REC)
    linux.mount("tmpfs", "/tmp", "tmpfs", linux.MS_NOSUID, "mode=755,size=16m")
    os.mkdir("/tmp" + _OLD)
    linux.pivot_root("/tmp", "/tmp" + _OLD)
    os.chdir("/")

    for path in _SYSTEM:
        _show(path)
    late: list[tuple[str, str]] = []
    for number, path in enumerate(_without_nested(read_only)):
        if any(path == private or path.startswith(private + "/") for private in _PRIVATE):
            stashed = f"{_STASH}/{number}"
            _bind(_OLD + path, stashed)
            late.append((stashed, path))
        else:
            _show(path)
    _show_resolver()
    if extra_users:
        _add_users(extra_users)
    os.mkdir(_SHARES, 0o700)
    linux.mount("tmpfs", _SHARES, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=700,size=1m")
    if writable_at:
        os.mkdir(_WRITABLE, 0o700)
        linux.mount(_OLD + writable_at[0], _WRITABLE, None, linux.MS_BIND | linux.MS_REC)
        linux.restrict_tree(_WRITABLE, read_only=False)
    for path in (*hidden, *_SERVICES):
        _hide(path, [*late, *((_WRITABLE, at) for at in writable_at[:1])])

    for folder in ("/tmp", "/proc", "/dev", "/run", "/var", "/home", "/root", "/mnt", "/srv", "/media"):
        os.makedirs(folder, 0o755, exist_ok=True)
    os.mkdir(SHARED_FOLDER, 0o555)
    os.mkdir(_NOTHING, 0o000)
    os.symlink("/tmp", "/var/tmp")
    os.symlink("/run", "/var/run")
    # Mounted while the host's /proc is still visible below /.old: the kernel asks for that in a user namespace.
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    _make_devices()
    linux.unmount(_OLD)
    os.rmdir(_OLD)
    linux.mount("none", "/", None, linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | linux.MS_NOSUID)
    return RootView(late, tmp_bytes, writable_at)


def _sized(size: int) -> str:
    # Empty files take no space, but a kilobyte of the kernel's memory each.
    return f"size={size},nr_inodes={max(1024, size // 4096)}"


def _show(path: str) -> None:
    """Bring `path` of the host to the same place: a symbolic link as such, anything else as a read-only bind."""
    source = _OLD + path
    if os.path.islink(source):
        if not os.path.lexists(path):
            os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
            os.symlink(os.readlink(source), path)
    elif os.path.exists(source) and not _already_shown(source, path):
        _bind(source, path)


def _already_shown(source: str, path: str) -> bool:
    return os.path.exists(path) and os.path.samefile(source, path)


def _bind(source: str, target: str) -> None:
    _make_place(target, is_folder=os.path.isdir(source))
    linux.mount(source, target, None, linux.MS_BIND | linux.MS_REC)
    linux.restrict_tree(target, read_only=True)


def _make_place(path: str, *, is_folder: bool) -> None:
    if os.path.exists(path):
        return
    if is_folder:
        os.makedirs(path, 0o755, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _show_resolver() -> None:
    """/etc/resolv.conf is often a link into /run, which jobs do not see: show the file that it leads to."""
    link = "/etc/resolv.conf"
    for _ in range(8):
        if not os.path.islink(_OLD + link):
            break
        link = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(_OLD + link)))
    if not link.startswith("/etc/"):
        _show(link)


def _add_users(users: Sequence[tuple[int, int]]) -> None:
    with open(f"{_OLD}/etc/passwd", encoding="utf-8", errors="surrogateescape") as host:
        lines = host.read().rstrip("\n").split("\n")
    known = {line.split(":")[2] for line in lines if line.count(":") > 2}
    lines += [f"job:x:{uid}:{gid}:job:{HOME_FOLDER}:/bin/sh" for uid, gid in users if str(uid) not in known]
    with open("/.passwd", "w", encoding="utf-8", errors="surrogateescape") as copy:
        copy.write("\n".join(lines) + "\n")
    os.chmod("/.passwd", 0o644)
    _bind("/.passwd", "/etc/passwd")


def _open_below(root: str, name: str) -> int:
    """A descriptor of the folder `name` below `root`. Raises OSError, also when a symbolic link is on the way."""
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in name.split("/"):
        below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        os.close(fd)
        fd = below
    return fd


def _hide(path: str, late: Sequence[tuple[str, str]]) -> None:
    """Cover `path` with an empty, unreadable folder or file wherever it is visible."""
    places = [path]
    places += [stash + path[len(at) :] for stash, at in late if path == at or path.startswith(at + "/")]
    for place in places:
        if not os.path.lexists(place):
            continue
        real = os.path.realpath(place)
        if os.path.isdir(real):
            linux.mount(
                "tmpfs", real, "tmpfs", linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV, "mode=000,size=4k"
            )
        else:
            os.makedirs(_STASH, 0o700, exist_ok=True)
            cover = f"{_STASH}/nothing"
            if not os.path.exists(cover):
                os.close(os.open(cover, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o000))
            linux.mount(cover, real, None, linux.MS_BIND)


def _make_devices() -> None:
    for name in _DEVICES:
        source, target = f"{_OLD}/dev/{name}", f"/dev/{name}"
        if not os.path.exists(source):
            continue
        if os.geteuid() == 0 and _mknod(source, target):
            continue
        _make_place(target, is_folder=False)
        linux.mount(source, target, None, linux.MS_BIND)
    for name, leads_to in (
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ):
        os.symlink(leads_to, f"/dev/{name}")
    os.symlink(SHM_FOLDER, "/dev/shm")
    os.makedirs("/dev/pts", 0o755, exist_ok=True)
    os.symlink("pts/ptmx", "/dev/ptmx")


def _mknod(source: str, target: str) -> bool:
    # One node in our own tmpfs is cheaper than a bind mount, which every job's namespace would have to copy.
    try:
        os.mknod(target, 0o666 | stat.S_IFCHR, os.stat(source).st_rdev)
        os.chmod(target, 0o666)
        os.close(os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        if os.path.lexists(target) and not target.endswith("/tty"):
            os.unlink(target)
            return False
        return os.path.lexists(
            target
        )  # /dev/tty cannot be opened without a terminal, which is as it should be
    return True


def _folders_above(paths: Sequence[str]) -> list[str]:
    """The folders that lead to `paths`, each after the one above it; without / and those that are always there."""
    found: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")[1:-1]
        for count in range(2, len(parts) + 1):
            found["/" + "/".join(parts[:count])] = None
    return list(found)


def _without_nested(paths: Sequence[str]) -> list[str]:
    """Absolute paths in order, without those that another one already brings along."""
    kept: list[str] = []
    for path in sorted({os.path.abspath(path) for path in paths}):
        if not any(path.startswith(above.rstrip("/") + "/") for above in kept):
            kept.append(path)
    return kept
