"""What `./windmill up` prints: steps with their times, children's lines with their names, the banner."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Console:
    """Writes whole lines, so that the children's output and ours do not mix. Colour only on a terminal."""

    def __init__(self) -> None:
        self._has_colour = (
            sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        )

    def say(self, line: str = "") -> None:
        self._write(line)

    def warn(self, line: str) -> None:
        self._write(self._paint("33", line))

    def error(self, line: str) -> None:
        print(self._paint("31", line) if sys.stderr.isatty() else line, file=sys.stderr, flush=True)

    def child_line(self, name: str, line: str) -> None:
        self._write(f"{self._paint('36', f'{name:<6} |')} {line}")

    def strong(self, text: str) -> str:
        return self._paint("1", text)

    @contextmanager
    def step(self, what: str) -> Iterator[list[str]]:
        """Time a step and print one line at its end; the block may append details to the list it gets."""
        began = time.monotonic()
        details: list[str] = []
        yield details
        more = f"  {', '.join(details)}" if details else ""
        self._write(f"  {what:<12} {time.monotonic() - began:5.1f} s{more}")

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._has_colour else text

    def _write(self, line: str) -> None:
        try:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        except (BrokenPipeError, OSError):
            # Whoever read us is gone (`| head`, a closed terminal). That is no reason to stop serving.
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
