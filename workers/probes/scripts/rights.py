"""Tries to gain rights: capabilities, namespaces, mounts, another user, another root, devices, keys."""

import ctypes
import os
import platform

NEWNS, NEWUSER, NEWNET = 0x20000, 0x10000000, 0x40000000
KEYCTL = {"x86_64": 250, "aarch64": 219}
DESCRIBE, SESSION, USER = 6, -3, -4


def main() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    found = []

    def attempt(what: str, call: object) -> None:
        try:
            if call():  # type: ignore[operator]
                found.append(what)
        except (OSError, ValueError):
            pass

    with open("/proc/self/status", encoding="utf-8") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    found += [f"{key} {status[key]}" for key in ("CapEff", "CapPrm", "CapAmb") if int(status[key], 16)]
    if status.get("NoNewPrivs") != "1":
        found.append("set-user-id programs count")
    attempt("runs as root", lambda: os.getuid() == 0)
    attempt("became root", lambda: os.setuid(0) is None)
    attempt("changed its groups", lambda: os.setgroups([0]) is None)
    attempt("changed its root", lambda: os.chroot("/tmp") is None)
    attempt(
        "made a device", lambda: os.mknod(f"/tmp/device-{os.getpid()}", 0o60600, os.makedev(8, 0)) is None
    )
    attempt("mounted", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0)
    attempt("unmounted", lambda: libc.umount2(b"/proc", 2) == 0)
    attempt("made the system writable", lambda: libc.mount(b"none", b"/usr", None, 0x1000 | 0x20, None) == 0)
    attempt("renamed the machine", lambda: libc.sethostname(b"probe", 5) == 0)
    attempt("set its priority", lambda: os.nice(-5) is not None)
    for what, flag in (("mount", NEWNS), ("network", NEWNET), ("user", NEWUSER)):
        attempt(f"made a {what} namespace", lambda flag=flag: libc.unshare(flag) == 0)
    for ring in (SESSION, USER):
        described = ctypes.create_string_buffer(256)
        size = libc.syscall(
            KEYCTL[platform.machine()], 11, ring, described, 256
        )  # KEYCTL_READ: ids of its keys
        if size > 0:
            found.append(f"{size // 4} keys in the keyring {ring}")
    return f"exposed: {found[:6]}" if found else "contained"
