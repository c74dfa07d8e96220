"""The few Linux system calls that the standard library does not offer, called through ctypes."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import socket
import struct
from collections.abc import Iterable

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

CAP_CHOWN = 0
CAP_NET_ADMIN = 12
CAP_SYS_PTRACE = 19
CAP_SYS_ADMIN = 21

_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1

_LAST_CAPABILITY = 63  # prctl refuses numbers the kernel does not know; that ends the loop earlier
_CAPABILITY_VERSION_3 = 0x20080522

_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x1
_MOUNT_ATTR_NOSUID = 0x2
_MOUNT_ATTR_NODEV = 0x4
_SYS_MOUNT_SETATTR = 442  # the same number on every architecture: it was added after they were unified
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}

# The same numbers on every architecture.
_SYS_PIDFD_GETFD = 438
_SYS_LANDLOCK_CREATE_RULESET = 444
_SYS_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_CREATE_RULESET_VERSION = 1
_LANDLOCK_HAS_SCOPES = 6  # its version in Linux 6.12
_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET = 1
_LANDLOCK_SCOPE_SIGNAL = 2

_SYS_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
_KEYCTL_JOIN_SESSION_KEYRING = 1

_MADV_COLLAPSE = 25
_HUGE_PAGE_BYTES = 2 << 20

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)
_libc.prctl.argtypes = (ctypes.c_int,) + (ctypes.c_ulong,) * 4


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process (its later children, for a pid namespace) into new namespaces. Raises OSError."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int) -> None:
    """Join the namespace behind `fd`, which must be of `kind` (a CLONE_NEW* flag). Raises OSError."""
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def raise_loopback() -> None:
    """Let this process reach itself (127.0.0.1, ::1) in the network namespace that it just made. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP))


def map_to_itself(uid: int, gid: int) -> None:
    """Let `uid` and `gid` be known under their own numbers in the user namespace just entered. Raises OSError."""
    for name, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: str = "") -> None:
    """mount(2). `kind` is None for binds and remounts. Raises OSError that names the target."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() if kind else None, flags, options.encode() or None
    )
    _check(result, f"mount {source} on {target}")


def unmount(target: str) -> None:
    """Detach the mount at `target` and everything below it. Raises OSError."""
    _check(_libc.umount2(target.encode(), ctypes.c_int(MNT_DETACH)), f"unmount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    """Make the mount at `new_root` this namespace's root and hang the old one at `put_old`. Raises OSError."""
    number = _SYS_PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(f"pivot_root is not known for {platform.machine()} processors")
    _check(_libc.syscall(ctypes.c_long(number), new_root.encode(), put_old.encode()), "pivot_root")


def restrict_tree(path: str, *, read_only: bool) -> None:
    """Make the mount at `path` and all below it one without set-uid and device files. Raises OSError."""
    attributes = _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV | (_MOUNT_ATTR_RDONLY if read_only else 0)
    request = ctypes.create_string_buffer(struct.pack("QQQQ", attributes, 0, 0, 0), 32)
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(-100),  # AT_FDCWD
        path.encode(),
        ctypes.c_uint(_AT_RECURSIVE),
        request,
        ctypes.c_size_t(32),
    )
    if result == 0:
        return
    # Linux before 5.12: one remount per mount point; the flags of the one above are not inherited.
    for target in [path, *_mount_points_below(path)]:
        flags = MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV | (MS_RDONLY if read_only else 0)
        mount("none", target, None, flags)


def _mount_points_below(path: str) -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        points = [line.split()[4].encode().decode("unicode_escape") for line in table]
    return [point for point in points if point.startswith(path.rstrip("/") + "/")]


def gather_memory() -> None:
    """Have the kernel put this process's private memory into huge pages, as far as it can (Linux 6.1 and later)."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as table:
        lines = [line.split(None, 5) for line in table]
    for fields in lines:
        if fields[1] == "rw-p" and fields[4] == "0":
            start, end = (int(address, 16) for address in fields[0].split("-"))
            if end - start >= _HUGE_PAGE_BYTES:
                _libc.madvise(
                    ctypes.c_void_p(start), ctypes.c_size_t(end - start), ctypes.c_int(_MADV_COLLAPSE)
                )


def prctl(option: int, value: int = 0) -> None:
    """prctl(2) with one argument. Raises OSError."""
    _check(_libc.prctl(option, value, 0, 0, 0), f"prctl {option}")


def read_memory(pid: int, place: int, size: int) -> bytes:
    """What thread `pid` has at `place` in its memory; less than `size` bytes, or none, when that cannot be read."""
    buffer = ctypes.create_string_buffer(size)
    local = struct.pack("QQ", ctypes.addressof(buffer), size)
    remote = struct.pack("QQ", place, size)
    count = _libc.process_vm_readv(
        ctypes.c_int(pid), local, ctypes.c_ulong(1), remote, ctypes.c_ulong(1), ctypes.c_ulong(0)
    )
    return buffer.raw[: max(0, count)]


def descriptor_of(pid: int, number: int) -> int:
    """Our own copy of descriptor `number` of process `pid`. Raises OSError."""
    process = os.pidfd_open(pid)
    try:
        fd: int = _libc.syscall(
            ctypes.c_long(_SYS_PIDFD_GETFD), ctypes.c_int(process), ctypes.c_int(number), ctypes.c_uint(0)
        )
    finally:
        os.close(process)
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
    return fd


def drop_capability_bounds() -> None:
    """No program executed from here on can gain a capability; those this process holds stay usable."""
    for capability in range(_LAST_CAPABILITY + 1):
        if _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # past the last one, or not ours to drop: no_new_privs keeps it out of reach either way


def keep_only_system_administration() -> None:
    """Give up every capability but the one to make namespaces and mounts. Raises OSError."""
    _set_capabilities(1 << CAP_SYS_ADMIN)


def keep_only(capabilities: Iterable[int]) -> None:
    """Give up every other capability; those among them that this process does not have it does not get."""
    with open("/proc/self/status", encoding="ascii") as status:
        permitted = next(int(line.split()[1], 16) for line in status if line.startswith("CapPrm:"))
    _set_capabilities(permitted & sum(1 << one for one in capabilities))


def drop_all_capabilities() -> None:
    """Give up every capability of this process for good, also for programs it executes. Raises OSError."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _set_capabilities(0)


def can_keep_to_own_sockets() -> bool:
    """Whether keep_to_own_sockets does what it says on this kernel."""
    version = _libc.syscall(
        ctypes.c_long(_SYS_LANDLOCK_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        _LANDLOCK_CREATE_RULESET_VERSION,
    )
    return bool(version >= _LANDLOCK_HAS_SCOPES)


def keep_to_own_sockets(*, and_signals: bool) -> None:
    """From here on this process and its children reach no abstract Unix socket of others (Landlock, Linux 6.12).

    Such sockets have no file that could be hidden; they belong to the network, which jobs share with the machine.
    `and_signals`: nor signal processes of others. Needs no_new_privs. Where the kernel cannot do it, nothing changes.
    """
    if not can_keep_to_own_sockets():
        return
    scopes = _LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | (_LANDLOCK_SCOPE_SIGNAL if and_signals else 0)
    rules = ctypes.create_string_buffer(struct.pack("QQQ", 0, 0, scopes), 24)
    fd = _libc.syscall(ctypes.c_long(_SYS_LANDLOCK_CREATE_RULESET), rules, ctypes.c_size_t(24), 0)
    _check(min(fd, 0), "landlock_create_ruleset")
    try:
        _check(_libc.syscall(ctypes.c_long(_SYS_LANDLOCK_RESTRICT_SELF), fd, 0), "landlock_restrict_self")
    finally:
        os.close(fd)


def leave_session_keyring() -> None:
    """Have an empty keyring from here on, not the one of whoever started us, which may hold keys of that session."""
    number = _SYS_KEYCTL.get(platform.machine())
    if number is not None:  # refused in many containers, where no job can reach a keyring either
        _libc.syscall(ctypes.c_long(number), ctypes.c_long(_KEYCTL_JOIN_SESSION_KEYRING), None)


def _set_capabilities(kept: int) -> None:
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), 8)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    wanted = ctypes.create_string_buffer(struct.pack("6I", low, low, 0, high, high, 0), 24)
    _check(_libc.capset(header, wanted), "capset")
