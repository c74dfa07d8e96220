"""What goes into a warm process and what comes out of it, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from workers.runtimes.base import ExecutionFailed
from workers.sandbox import SandboxUnavailable


class WarmKey(NamedTuple):
    """Which process may run a job: the same key means the same code, with the same dependencies."""

    workspace_id: str
    path: str  # of the script, or of the flow
    version: str  # the script's hash or the flow's version: a redeploy makes another process
    step_id: str = ""  # of a flow's step; "": a script


@dataclass(frozen=True, slots=True)
class Call:
    """One job for a process that has its script loaded."""

    job_id: str
    args_json: str  # JSON text of an object by parameter name
    env: Mapping[str, str] = field(default_factory=dict)  # variables that differ between jobs of one script
    timeout_s: float | None = None  # from the moment at which it begins to run
    preprocess: bool = False  # call preprocessor(...) first; what it returns are the arguments
    entrypoint: str = "main"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one call."""

    job_id: str
    is_success: bool
    result_json: str  # JSON text; of a failure the error object, as ExecutionFailed.error
    preprocessed_args_json: str | None = None
    peak_kb: int = 0  # of the process's memory, until then


class Listener(Protocol):
    """Whoever sent calls. All of it is called in the event loop and must return at once."""

    def on_log(self, job_id: str, text: str) -> None:
        """What the call printed, while it runs; all of it before its answer."""

    def on_answers(self, answers: Sequence[Answer]) -> None:
        """Answers of calls of this listener, in the order in which they were sent."""

    def on_end(
        self,
        reason: ExecutionFailed | SandboxUnavailable,
        begun: Call | None,
        not_begun: Sequence[Call],
    ) -> None:
        """The process ended with calls of this listener unanswered.

        `begun` had begun to run: it failed for `reason` (SandboxUnavailable: the worker's fault, it may be run again).
        `not_begun` have not: another process can run them.
        """
