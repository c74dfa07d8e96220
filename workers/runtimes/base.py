"""What an executor is: the way jobs of one language are run. It knows neither the queue nor the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from workers.sandbox import Limits, SandboxUnavailable

__all__ = ["Execution", "ExecutionFailed", "Executor", "Limits", "LogSink", "Outcome", "SandboxUnavailable"]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One run of one script."""

    job_id: str
    workspace_id: str
    language: str
    code: str
    args: dict[str, Any]  # JSON object by parameter name; may hold _ENTRYPOINT_OVERRIDE
    env: Mapping[str, str]  # all the job sees besides PATH, HOME, TZ and LANG, which it may override
    script_path: str | None = None  # "f/ops/report"; None for code without a path, which runs as tmp/main
    timeout_s: float | None = None
    entrypoint: str = "main"
    preprocess: bool = (
        False  # call preprocessor(...) first; what it returns are the arguments of the entrypoint
    )
    # Shell languages: (name, default) by position, as jobs.signatures reads them. None: read from plain
    # assignments (name="$1") in the code.
    arg_order: Sequence[tuple[str, str | None]] | None = None
    python_paths: Sequence[
        str
    ] = ()  # folders with the job's own dependencies; below a read_only path of the host
    share: str | None = None  # jobs with the same name here have ./shared in common, see sandbox.Program
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a run that did not fail."""

    result_json: str  # JSON text: keys in their order, no NaN, no NUL characters, no lone surrogates
    mem_peak_kb: int
    exit_code: int = 0
    preprocessed_args_json: str | None = None  # what the preprocessor returned; None when there was none
    timings: Mapping[str, float] = field(default_factory=dict)  # seconds, see sandbox.Ended


class ExecutionFailed(Exception):
    """The script failed, for a reason its author should read. `error` has name and message, maybe stack, extra,
    step_id; all JSON values."""

    def __init__(
        self, error: dict[str, Any], *, mem_peak_kb: int = 0, preprocessed_args_json: str | None = None
    ):
        super().__init__(error.get("message"))
        self.error = error
        self.mem_peak_kb = mem_peak_kb
        self.preprocessed_args_json = preprocessed_args_json


class LogSink(Protocol):
    """Takes what a job prints, while it runs. Both methods must return at once (append to a buffer)."""

    def write(self, text: str) -> None:
        """More log: any piece of text, not always whole lines, without NUL characters."""

    def stream(self, text: str) -> None:
        """More of the job's result stream: what followed WM_STREAM: on a line of its own, or a generator yielded."""


class Executor(Protocol):
    """Runs jobs of one language."""

    language: str
    default_tag: str

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """Run to the end; no process of the job is left afterwards, also when cancelled.

        Raises ExecutionFailed when the script fails (a timeout included), SandboxUnavailable when the worker
        could not run it, which says nothing about the script, and SharedFolderLost.
        """
        ...
