# limits: memory=96MB
"""Takes more memory than it may with many processes, none of which takes much."""

import os
import signal


def main() -> str:
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            kept = bytearray(b"x") * (40 << 20)
            while kept:
                signal.pause()
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return "exposed: 320 MB"
