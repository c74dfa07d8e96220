# limits: memory=96MB
"""Takes memory that belongs to no process: in files without a name, of which nothing is mapped."""

import os
import signal

PIECE = b"x" * (1 << 20)


def main() -> str:
    files = []
    for _ in range(4):
        files.append(os.memfd_create("hidden"))
        for _ in range(64):
            os.write(files[-1], PIECE)
    signal.sigtimedwait([signal.SIGUSR1], 1)  # for whoever looks only now and then
    return "exposed: 256 MB"
