"""One warm process: started in a sandbox like any job, fed calls over a pipe, read until it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workers.dedicated.calls import Call, Listener
from workers.runtimes.base import Execution, LogSink, Warmable


class WarmProcess:
    """One script, loaded once. Calls run one after another, in the order in which they were sent."""

    @classmethod
    async def start(
        cls,
        executor: Warmable,
        execution: Execution,
        log: LogSink,
        *,
        on_end: Callable[[WarmProcess], None] = lambda process: None,
    ) -> WarmProcess:
        """Load the script; `log` gets what it prints meanwhile, and what installing its packages says.

        `execution.args` are not used; `execution.env` holds what is the same for all calls (and, for code at the top
        level of the script, the variables of the job that it is started for); `timeout_s` is for loading. `on_end` is
        called when the process has ended, whatever the reason, after the listeners have been told.

        Raises ExecutionFailed when it does not load (in the words of the script's own lines), SandboxUnavailable.
        """
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """Whether calls may be sent: it runs, and has not grown too large for more of them."""
        raise NotImplementedError

    @property
    def running(self) -> str | None:
        """The job whose call runs now."""
        raise NotImplementedError

    @property
    def load(self) -> int:
        """Calls that are not answered yet."""
        raise NotImplementedError

    @property
    def peak_kb(self) -> int:
        """The most memory that its processes took together so far."""
        raise NotImplementedError

    def send(self, calls: Sequence[Call], listener: Listener) -> None:
        """Have `calls` run after those that were sent before. Never blocks. One write, however many there are.

        A call that is sent to a process that is not open any more is told to the listener's on_end as not begun.
        """
        raise NotImplementedError

    async def kill(self, job_id: str) -> None:
        """Kill the process if it has the call of this job; returns when nothing of it is left and listeners know."""
        raise NotImplementedError

    async def close(self) -> None:
        """Kill the process; unanswered calls end as SandboxUnavailable."""
        raise NotImplementedError
