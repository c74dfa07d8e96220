"""What the peers' programs share: the no-op that tells when it started, and the two ways in which it is queued.

Runs in a peer's own environment: the standard library only.
"""

import json
import os
import sys
import time
from collections.abc import Callable

PATH = os.environ["PEER_STARTS"]
_file = os.open(PATH, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def tell_start() -> None:
    """The body of the job: one short line, written at once."""
    os.write(_file, f"{time.time()!r}\n".encode())


def main(*, setup: Callable[[], None], push: Callable[[], None], fill: Callable[[int], None]) -> None:
    """`setup`, `fill COUNT`, or `one_by_one COUNT PAUSE_S`, which prints the waits from push to start in ms, as JSON."""
    what, *arguments = sys.argv[1:]
    if what == "setup":
        setup()
    elif what == "fill":
        fill(int(arguments[0]))
    else:
        waits = [_wait_of(push, float(arguments[1])) for _ in range(int(arguments[0]))]
        print(json.dumps(waits))


def _wait_of(push: Callable[[], None], pause_s: float) -> float:
    before = os.path.getsize(PATH)
    begin = time.time()
    push()
    deadline = time.monotonic() + 30
    while os.path.getsize(PATH) == before:
        if time.monotonic() > deadline:
            sys.exit("a job was not started within 30 s")
        time.sleep(0.0005)
    with open(PATH) as starts:
        started = float(starts.read().split()[-1])
    time.sleep(pause_s)
    return (started - begin) * 1000
