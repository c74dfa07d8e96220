"""The program of a job, run to its end: what all runtimes do that run something in a sandbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from workers.runtimes import failures
from workers.runtimes.base import Execution, LogSink
from workers.runtimes.output import OutputPump
from workers.sandbox import Ended, Limits, Program, ProgramTimedOut


class ProgramHost(Protocol):
    """What runs a program: a JobHost, or one process of it that waits for this one."""

    async def run(
        self,
        program: Program,
        *,
        limits: Limits,
        on_output: Callable[[bytes], None],
        timeout_s: float | None = None,
    ) -> Ended:
        """See JobHost.run."""
        ...


async def run_program(
    host: ProgramHost, program: Program, execution: Execution, log: LogSink
) -> tuple[Ended, OutputPump]:
    """How it ended, and what is remembered of its output, all of which went to `log`.

    Raises ExecutionFailed when it ran longer than it may; SandboxUnavailable and SharedFolderLost as JobHost.run does.
    """
    pump = OutputPump(log, execution.limits)
    try:
        ended = await host.run(
            program, limits=execution.limits, on_output=pump.feed, timeout_s=execution.timeout_s
        )
    except ProgramTimedOut:
        raise failures.timed_out(execution.timeout_s) from None
    finally:
        pump.close()
    return ended, pump
