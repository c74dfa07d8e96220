"""The output of a warm process, cut at its marks into the output of its calls."""

from __future__ import annotations

from collections.abc import Callable

from workers.dedicated.calls import Call, Listener
from workers.runtimes.base import Limits, LogSink
from workers.runtimes.output import OutputPump


class MarkedLog:
    """Feed it bytes as they come. What is printed between calls, when no job runs, is dropped."""

    def __init__(
        self,
        mark: bytes,
        limits: Limits,
        listener_of: Callable[[int], tuple[Call, Listener] | None],
        load_log: LogSink,
    ) -> None:
        """`mark` begins with a NUL; `load_log` gets what is printed before the first one."""
        self._mark = mark
        self._limits = limits
        self._listener_of = listener_of
        self._held = b""  # the start of what may become a mark
        self._number = 0  # of the call whose output comes now; 0: none
        self._is_loading = True
        self._load_pump = OutputPump(load_log, limits)
        self._pump: OutputPump | None = self._load_pump  # made when there is something to put in
        self._last_lines = ""
        self.begun = 0  # the last call that is known to have begun

    def feed(self, data: bytes) -> None:
        """More output, marks in it."""
        if self._held:
            data = self._held + data
            self._held = b""
        first, *marked = data.split(self._mark)
        if marked and b"\n" not in marked[-1]:
            self._held = self._mark + marked.pop()
        elif (at := self._start_of_mark(marked[-1] if marked else first)) is not None:
            if marked:
                self._held = marked[-1][at:]
                marked[-1] = marked[-1][:at]
            else:
                self._held = first[at:]
                first = first[:at]
        if first:
            self._print(first)
        for piece in marked:
            number, _, printed = piece.partition(b"\n")
            self._turn_to(int(number) if number.isdigit() else 0)
            if printed:
                self._print(printed)

    def load_over(self) -> None:
        """Whatever was printed until now belongs to loading; what comes later, before a mark, to no job."""
        if self._is_loading:
            self._turn_to(0)

    def close(self) -> None:
        """No more comes."""
        if self._held:
            held, self._held = self._held, b""
            self._print(held)
        if self._pump is not None:
            self._pump.close()

    @property
    def last_lines(self) -> str:
        """The last few lines of the call that runs, or of loading."""
        return self._pump.last_lines if self._pump is not None else ""

    def _turn_to(self, number: int) -> None:
        if self._pump is not None:
            self._pump.close()
            self._pump = None
        self._is_loading = False
        self._number = number
        if number:
            self.begun = number

    def _print(self, data: bytes) -> None:
        if self._pump is None:
            found = self._listener_of(self._number) if self._number else None
            if found is None:
                return
            self._pump = OutputPump(_CallLog(found[0].job_id, found[1]), self._limits)
        self._pump.feed(data)

    def _start_of_mark(self, data: bytes) -> int | None:
        """Where `data` ends with what may be the start of a mark; None: it does not."""
        at = data.find(b"\0", max(0, len(data) - len(self._mark) + 1))
        while at != -1:
            if self._mark.startswith(data[at:]):
                return at
            at = data.find(b"\0", at + 1)
        return None


class _CallLog:
    """A LogSink for one call."""

    def __init__(self, job_id: str, listener: Listener) -> None:
        self._job_id = job_id
        self._listener = listener

    def write(self, text: str) -> None:
        self._listener.on_log(self._job_id, text)

    def stream(self, text: str) -> None:
        self._listener.on_log(self._job_id, f"WM_STREAM: {text}\n")
