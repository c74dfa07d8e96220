# limits: processes=64
"""Starts processes without end."""

import os
import signal

MOST = 200  # more than it may


def main() -> str:
    for count in range(1, MOST):
        try:
            if os.fork() == 0:
                signal.pause()
        except OSError:
            return f"contained: refused after {count} processes"
    return f"exposed: {MOST} processes"
