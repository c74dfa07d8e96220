"""Opens terminals without end: all of a machine share some thousand."""

import os

MOST = 1000


def main() -> str:
    opened: list[int] = []
    for _ in range(MOST):
        try:
            opened.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
        except OSError:
            return f"contained: refused after {len(opened)} terminals"
    return f"exposed: {MOST} terminals"
