"""One module per language. To add a language: a module with its executor, an entry here, a test file."""

from __future__ import annotations

from collections.abc import Callable

from workers.runtimes.base import (
    Execution,
    ExecutionFailed,
    Executor,
    Limits,
    LogSink,
    Outcome,
    SandboxUnavailable,
)
from workers.runtimes.bash import Bash
from workers.runtimes.python3 import Python3
from workers.sandbox import JobHost

EXECUTORS: dict[str, Callable[[JobHost], Executor]] = {"python3": Python3, "bash": Bash}

__all__ = [
    "EXECUTORS",
    "Execution",
    "ExecutionFailed",
    "Executor",
    "Limits",
    "LogSink",
    "Outcome",
    "SandboxUnavailable",
    "executors",
]


def executors(host: JobHost) -> dict[str, Executor]:
    """An executor for every language, all running their jobs on `host`."""
    return {language: make(host) for language, make in EXECUTORS.items()}
