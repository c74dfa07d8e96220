"""The warm processes of one worker, by script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workers.dedicated.calls import WarmKey
from workers.dedicated.process import WarmProcess
from workers.runtimes.base import Execution, Executor, LogSink, Outcome


class DedicatedPool:
    """Starts processes when they are wanted, and ends those that nobody uses or that are of no use any more."""

    def __init__(
        self, executors: Mapping[str, Executor], *, most_each: int = 1, idle_s: float = 600.0
    ) -> None:
        """`executors` by language. At most `most_each` processes for one key; one without a call for `idle_s` ends."""
        raise NotImplementedError

    def can(self, language: str) -> bool:
        """Whether scripts in `language` can have warm processes here."""
        raise NotImplementedError

    async def run(self, key: WarmKey, execution: Execution, log: LogSink) -> Outcome:
        """Run one job in a warm process. Raises as Executor.run does. Cancelled: its process is killed first."""
        raise NotImplementedError

    async def process(self, key: WarmKey, execution: Execution, log: LogSink) -> WarmProcess:
        """The open process of `key` with the fewest calls; a new one when all have some and there may be more.

        Raises as WarmProcess.start does. `execution` and `log` are used when one has to be started.
        """
        raise NotImplementedError

    def processes(self, key: WarmKey) -> Sequence[WarmProcess]:
        """The open ones that there are."""
        raise NotImplementedError

    async def close(self) -> None:
        """End all of them."""
        raise NotImplementedError
