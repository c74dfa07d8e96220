"""A job's output on its way to the log: decoded, limited, with result streams taken out and the end remembered."""

from __future__ import annotations

import codecs
from collections import deque

from workers.runtimes.base import Limits, LogSink

STREAM_PREFIX = "WM_STREAM: "
_ERROR_LINES = 10


class OutputPump:
    """Feed it bytes as they come; call `close` at the end.

    Never holds more than one line of `limits.line_bytes` characters, whatever a job prints.
    """

    def __init__(self, log: LogSink, limits: Limits) -> None:
        self._log = log
        self._limits = limits
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._room = limits.output_bytes
        self._at_line_start = True
        self._held = ""  # start of a line that may yet turn out to be a stream line
        self._tail: deque[str] = deque()
        self._tail_length = 0

    def feed(self, data: bytes) -> None:
        """Pass on more output."""
        self._take(self._decoder.decode(data))

    def close(self) -> None:
        """Pass on what was held back."""
        self._take(self._decoder.decode(b"", final=True))
        if self._held:
            held, self._held = self._held, ""
            self._line_is_log_or_stream(held)

    @property
    def last_line(self) -> str | None:
        """The last line that was printed, without its end (cut from the left at line_bytes); None without output."""
        text = "".join(self._tail)
        return text.removesuffix("\n").rpartition("\n")[2] if text else None

    @property
    def end(self) -> str:
        """The end of what was printed: line_bytes characters at least, if there were that many."""
        return "".join(self._tail)

    @property
    def last_lines(self) -> str:
        """The last few lines, for an error message."""
        return "\n".join("".join(self._tail)[-4000:].splitlines()[-_ERROR_LINES:])

    def _take(self, text: str) -> None:
        # In time in proportion to its length, whatever it is: a job may print without end, and others wait meanwhile.
        text = self._held + text.replace("\0", "")
        self._held = ""
        at = 0
        while at < len(text):
            if self._at_line_start:
                beginning = text[at : at + len(STREAM_PREFIX)]
                if beginning == STREAM_PREFIX:
                    end = text.find("\n", at)
                    if end < 0 and len(text) - at < self._limits.line_bytes:
                        self._held = text[at:]
                        return
                    end = len(text) if end < 0 else end
                    self._stream(text[at:end])
                    at = end + 1
                    continue
                if STREAM_PREFIX.startswith(beginning):
                    self._held = beginning
                    return
            cut = _next_stream(text, at)
            self._write(text[at:cut])
            self._at_line_start = text[cut - 1] == "\n"
            at = cut

    def _line_is_log_or_stream(self, line: str) -> None:
        if line.startswith(STREAM_PREFIX):
            self._stream(line)
        else:
            self._write(line)

    def _stream(self, line: str) -> None:
        if self._spend(len(line)) == len(line):
            self._log.stream(line[len(STREAM_PREFIX) :].replace("\\n", "\n"))

    def _write(self, text: str) -> None:
        self._remember(text)
        room = self._spend(len(text))
        if room:
            self._log.write(text[:room])
        if room < len(text) and self._room == 0:
            self._room = -1
            self._log.write(
                f"\n[the log reached its limit of {_megabytes(self._limits.output_bytes)}: the job goes on, "
                "the rest of its output is not kept]\n"
            )

    def _spend(self, length: int) -> int:
        """Take room for `length` characters; returns how many there was room for."""
        if self._room < 0:
            return 0
        spent = min(length, self._room)
        self._room -= spent
        return spent

    def _remember(self, text: str) -> None:
        self._tail.append(text)
        self._tail_length += len(text)
        while self._tail_length - len(self._tail[0]) >= self._limits.line_bytes:
            self._tail_length -= len(self._tail.popleft())


def _next_stream(text: str, at: int) -> int:
    """Where behind `at` a line begins that is a stream line, or may turn out to be one; the end when there is none."""
    found = text.find("\n" + STREAM_PREFIX, at)
    if found >= 0:
        return found + 1
    last = text.rfind("\n", max(at, len(text) - len(STREAM_PREFIX))) + 1
    return last if 0 < last < len(text) and STREAM_PREFIX.startswith(text[last:]) else len(text)


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):g} MiB" if size >= 1 << 20 else f"{size:,} bytes"
