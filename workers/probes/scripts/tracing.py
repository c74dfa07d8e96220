"""Traces another process, reads its memory and takes its descriptors."""

import ctypes
import os
import platform

SEIZE, DETACH = 0x4206, 17
CALLS = {  # ptrace, process_vm_readv, pidfd_getfd
    "x86_64": (101, 310, 438),
    "aarch64": (117, 270, 438),
}


def main(target: int = 1) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    found = []
    ptrace, readv, getfd = CALLS[platform.machine()]
    if libc.syscall(ptrace, SEIZE, target, None, None) == 0:
        libc.syscall(ptrace, DETACH, target, None, None)
        found.append("traced it")
    try:
        pidfd = os.pidfd_open(target)
    except OSError:
        pidfd = -1
    if pidfd >= 0 and libc.syscall(getfd, pidfd, 0, 0) >= 0:
        found.append("took a descriptor of it")
    try:
        with open(f"/proc/{target}/maps", encoding="ascii") as maps:
            start = int(next(line for line in maps if " rw-p " in line).partition("-")[0], 16)
        local = ctypes.create_string_buffer(8)
        ours = (ctypes.c_void_p * 2)(ctypes.addressof(local), 8)
        theirs = (ctypes.c_void_p * 2)(start, 8)
        if libc.syscall(readv, target, ours, 1, theirs, 1, 0) == 8:
            found.append("read its memory")
    except (OSError, StopIteration):
        pass
    for name in ("mem", "environ", "auxv"):
        try:
            with open(f"/proc/{target}/{name}", "rb"):
                found.append(f"opened /proc/{target}/{name}")
        except OSError:
            pass
    return f"exposed: {found}" if found else "contained"
