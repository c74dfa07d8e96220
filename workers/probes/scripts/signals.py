"""Sends signals to everything: its parent, the first process, its group, all processes."""

import os
import signal


def main() -> str:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
        for pid in (os.getppid(), 1, -1):
            try:
                os.kill(pid, number)
            except OSError:
                pass
    return "contained"  # whoever reads this was not killed
