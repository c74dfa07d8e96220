# limits: output=1MB
"""Prints one line of 100 MB."""

import sys


def main() -> str:
    for _ in range(100):
        sys.stdout.write("x" * (1 << 20))
    return "contained"  # the rest of it is not kept; the job goes on
