# limits: memory=96MB
"""Takes memory with processes that nobody may look at."""

import ctypes
import os
import signal

PR_SET_DUMPABLE = 4


def main() -> str:
    libc = ctypes.CDLL(None)
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
            kept = bytearray(b"x") * (40 << 20)
            while kept:
                signal.pause()
        children.append(child)
    signal.sigtimedwait([signal.SIGUSR1], 2)  # for whoever looks only now and then
    return "exposed: 320 MB"
