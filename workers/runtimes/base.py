"""What an executor is: the way jobs of one language are run. It knows neither the queue nor the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from jobs.dependencies import WantedFiles
from workers.networks import BlockedNetworks
from workers.runtimes.tools import Tool
from workers.sandbox import HostPool, JobHost, Limits, Program, SandboxUnavailable

__all__ = [
    "Closing",
    "Execution",
    "ExecutionFailed",
    "Executor",
    "Imported",
    "Installer",
    "Limits",
    "LogSink",
    "Outcome",
    "Registries",
    "Resolver",
    "SandboxUnavailable",
    "Site",
    "WarmProgram",
    "Warmable",
]


@dataclass(frozen=True, kw_only=True)
class Registries:
    """Where packages come from: settings of the instance over the worker's environment. None: the tool's default."""

    pip_index_url: str | None = None
    pip_extra_index_urls: Sequence[str] = ()
    uv_index_strategy: str | None = None  # as in UV_INDEX_STRATEGY
    npm_registry: str | None = None
    npmrc: str | None = None  # text of an .npmrc: registries by scope, with their tokens
    go_proxy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A script of the workspace that the code imports, directly or through others."""

    path: str  # "f/ops/lib"
    language: str
    content: str
    lock: str | None = None


@dataclass(frozen=True, kw_only=True)
class Site:
    """What an executor finds on its worker."""

    host: JobHost
    hosts: (
        HostPool  # `host` and others: for other interpreters, and for Python environments that are used often
    )
    tools: Mapping[
        str, Tool
    ]  # by ToolSpec.name; those of the runtime are there, or it would not have been made
    # For what runs in the worker itself: where it must not connect for a job.
    blocked: BlockedNetworks = field(default_factory=BlockedNetworks, kw_only=True)
    # What `cache_dir` may hold, of all kinds together; more than that is nothing that one tool may write there.
    cache_max_bytes: int = field(default=10_000 << 20, kw_only=True)
    # Survives jobs and restarts, shared by the workers of this machine. Each runtime has a folder of its own in it.
    # Jobs see all of it read-only, but cannot list its top: names in it must tell nothing and be hard to guess.
    cache_dir: Path


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
    # Names of Python packages that the host has: they are neither resolved nor installed.
    local_packages: frozenset[str] = frozenset()
    share: str | None = None  # jobs with the same name here have ./shared in common, see sandbox.Program
    limits: Limits = field(default_factory=Limits)
    tool_limits: Limits = field(default_factory=Limits)  # of what resolves, installs and compiles for it
    network: bool = True  # False: the job has none; the tools that prepare it do
    # The dependencies, pinned: text whose form is the executor's own. "": none. None: they could not be told, which
    # executors without a Resolver see always.
    lock: str | None = None
    imports: Mapping[str, Imported] = field(default_factory=dict)  # by path; all that is reachable
    registries: Registries = field(default_factory=Registries)
    wanted_files: WantedFiles = field(default_factory=WantedFiles)  # dependency files of the workspace


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


@runtime_checkable
class Resolver(Protocol):
    """An executor of a language whose scripts have dependencies."""

    async def resolve(self, execution: Execution, log: LogSink) -> str:
        """The lock of the execution's code together with what it imports: "" when nothing is to be installed.

        Raises ExecutionFailed: which requirement cannot be had, and why. Says in `log` what it does.
        """
        ...


@runtime_checkable
class Installer(Protocol):
    """A Resolver that can install a lock ahead of the first job that has it."""

    async def install(self, execution: Execution, log: LogSink) -> None:
        """Have what `execution.lock` says ready on this machine. Raises ExecutionFailed: which of it cannot be had."""
        ...


@dataclass(frozen=True, kw_only=True)
class WarmProgram:
    """A program that loads a script once and then answers calls; see workers.dedicated.process for what it speaks."""

    host: JobHost
    program: Program
    mark: bytes  # what marks in its log begin with: a NUL, and what cannot be guessed
    # How to call a function of the script by name, as the program wants to be told; None: it knows by itself.
    function: Callable[[str], Mapping[str, Any]] | None
    # An error as the program told it, in the words and places of the script's author.
    readable: Callable[[dict[str, Any]], dict[str, Any]] = dict
    hint: Callable[[Mapping[str, Any]], str] = lambda error: (
        ""
    )  # a line for the log, to an error as it is readable


@runtime_checkable
class Warmable(Protocol):
    """An executor whose scripts can stay loaded between jobs."""

    def warm(self, execution: Execution, log: LogSink) -> AbstractAsyncContextManager[WarmProgram]:
        """What to run, with its dependencies installed; they stay as long as the block lasts.

        Raises ExecutionFailed and SandboxUnavailable on entering. `execution.args` are not used.
        """
        ...


@runtime_checkable
class Closing(Protocol):
    """An executor that holds connections between jobs."""

    async def close(self) -> None:
        """Let go of them. No job runs any more."""
        ...
