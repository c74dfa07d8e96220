"""Running real jobs in real sandboxes from tests, and asking what is left of them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from workers import preparing
from workers.cache import state_folder
from workers.runtimes import (
    Available,
    Execution,
    ExecutionFailed,
    Executor,
    Outcome,
    Resolver,
    Site,
    look_around,
)
from workers.sandbox import HostPool, Isolation, IsolationRefused, JobHost

# Namespaces without a user namespace are for root only.
ISOLATED: list[Isolation] = ["namespaces", "user-namespaces"] if os.geteuid() == 0 else ["user-namespaces"]


class Log:
    """Keeps what a job prints; `event` is set at each piece."""

    def __init__(self) -> None:
        self.text = ""
        self.streamed: list[str] = []
        self.event = asyncio.Event()

    def write(self, text: str) -> None:
        self.text += text
        self.event.set()

    def stream(self, text: str) -> None:
        self.streamed.append(text)
        self.event.set()

    async def wait_for(self, text: str) -> None:
        """Return once `text` was printed."""
        async with asyncio.timeout(20):
            while text not in self.text:
                self.event.clear()
                await self.event.wait()


@dataclass(frozen=True)
class Ran:
    """How a run ended: an outcome or an error, and its log."""

    log: Log
    outcome: Outcome | None = None
    error: dict[str, Any] = field(default_factory=dict)

    @property
    def result(self) -> Any:
        assert self.outcome is not None, self.error
        return json.loads(self.outcome.result_json)


class Jobs:
    """A started job host whose event loop only runs inside these calls."""

    def __init__(self, runner: asyncio.Runner, host: JobHost, available: Available, cache_dir: Path) -> None:
        self.runner = runner
        self.host = host
        self.executors: dict[str, Executor] = {}
        self.hosts = HostPool(host)
        self.site = Site(host=host, hosts=self.hosts, tools=available.tools, cache_dir=cache_dir)
        for runtime in available.runtimes:
            self.executors |= dict.fromkeys(runtime.languages, runtime.make(self.site))

    def __call__(self, language: str, code: str, /, **given: Any) -> Ran:
        """Run `code`; further keywords are those of Execution."""
        return self.runner.run(self.run(language, code, **given))

    def python(self, code: str, /, **given: Any) -> Ran:
        return self("python3", code, **given)

    def bash(self, code: str, /, **given: Any) -> Ran:
        return self("bash", code, **given)

    async def run(self, language: str, code: str, *, log: Log | None = None, **given: Any) -> Ran:
        log = log or Log()
        defaults: dict[str, Any] = {"job_id": "j", "workspace_id": "w", "args": {}, "env": {}}
        execution = Execution(language=language, code=code, **{**defaults, **given})
        try:
            return Ran(log, outcome=await self.executors[language].run(execution, log))
        except ExecutionFailed as failed:
            return Ran(log, error=failed.error)

    def lock(self, language: str, code: str, /, *, log: Log | None = None, **given: Any) -> str:
        """The lock of `code`. Raises ExecutionFailed."""
        defaults: dict[str, Any] = {"job_id": "j", "workspace_id": "w", "args": {}, "env": {}}
        executor = self.executors[language]
        assert isinstance(executor, Resolver)
        execution = Execution(language=language, code=code, **{**defaults, **given})
        return self.runner.run(executor.resolve(execution, log or Log()))


@contextmanager
def started(**options: Any) -> Iterator[Jobs]:
    """A started JobHost; `options` are its own. The cache of dependencies is beside its folder."""
    available = look_around()
    cache_dir = Path(options["base_dir"]).resolve().parent / f"cache-{Path(options['base_dir']).name}"
    cache_dir.mkdir(mode=0o711, exist_ok=True)
    state_folder(cache_dir).mkdir(mode=0o700, exist_ok=True)
    options["hidden_paths"] = [*options.get("hidden_paths", ()), state_folder(cache_dir)]
    options.setdefault("writable_root", cache_dir)
    read_only = [cache_dir, *preparing.readable_paths(available), *options.pop("read_only", ())]
    with asyncio.Runner() as runner:
        host = JobHost(read_only=read_only, **options)
        runner.run(host.start())
        jobs = Jobs(runner, host, available, cache_dir)
        try:
            yield jobs
        finally:
            runner.run(jobs.hosts.close())
            runner.run(host.close())


@contextmanager
def started_with(isolation: Isolation, base_dir: Path, **options: Any) -> Iterator[Jobs]:
    """A started JobHost with exactly this isolation. Skips the test where the kernel does not offer it."""
    if isolation == "user-namespaces" and os.geteuid() == 0:
        # The fork server becomes an ordinary user then, who needs a Python that he can read.
        options.setdefault("python", _python_for_everybody())
    if isolation == "none":
        options.setdefault("python", _python_for_everybody())
    try:
        with started(
            base_dir=base_dir, allowed=[isolation, "none"], policy=_policy(isolation), **options
        ) as jobs:
            yield jobs
    except IsolationRefused as refused:
        pytest.skip(str(refused))


def _policy(isolation: Isolation) -> str:
    return "warn" if isolation == "none" else "refuse"


def _python_for_everybody() -> str:
    own = getattr(sys, "_base_executable", sys.executable)
    if os.geteuid() != 0:
        return str(own)
    for python in (own, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = "import sys, os, json; json.decoder; assert sys.version_info >= (3, 11)"
        try:
            subprocess.run(
                [python, "-I", "-S", "-c", check],
                user=65534,
                group=65534,
                extra_groups=[],
                capture_output=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return str(python)
    pytest.skip("no Python that other users can read: start the tests as an ordinary user to test this")


def processes_with(marker: str) -> list[int]:
    """Pids of the processes that have `marker` in their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in command and b"pytest" not in command:
                found.append(int(folder.name))
    return found
