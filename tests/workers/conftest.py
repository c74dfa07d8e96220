"""A worker in this process, with a small runner whose behaviour the test writes down."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jobs.models import WorkerPing
from workers.environment import EnvironmentSource
from workers.pg_queue import PgJobQueue
from workers.runner import RunnerLost, RunOutcome, RunRequest
from workers.worker import Worker, WorkerOptions


class ScriptedRunner:
    """Runs "code" that names a step by step behaviour: one word a line, with an argument after a space.

    `print <text>`, `return <json>`, `fail <message>`, `wait` (until cancelled or `let_go`), `lose` (the machinery dies),
    `explode` (a bug of ours), `memory <kB>`.
    """

    languages = ("python3", "bash")
    isolation = ("none", "scripted")
    runtimes: Mapping[str, dict[str, str]] = {}

    def __init__(self) -> None:
        self.requests: list[RunRequest] = []
        self.cancelled: list[Any] = []
        self.gate = threading.Event()

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def drop_share(self, name: str, *, is_missed: bool = False) -> None: ...

    async def lock(self, request: RunRequest) -> str:
        return f"locked {request.claim.code}"

    def let_go(self) -> None:
        """End all `wait`s."""
        self.gate.set()

    async def run(self, request: RunRequest) -> RunOutcome:
        self.requests.append(request)
        result = "null"
        for line in (request.claim.code or "").splitlines():
            word, _, rest = line.partition(" ")
            if word == "print":
                request.log.write(rest + "\n")
            elif word == "return":
                result = rest
            elif word == "fail":
                return RunOutcome(False, json.dumps({"error": {"name": "Error", "message": rest}}))
            elif word == "memory":
                request.report_memory(int(rest))
            elif word == "lose":
                raise RunnerLost("the fork server died")
            elif word == "explode":
                raise ZeroDivisionError("a bug of ours")
            elif word == "wait":
                try:
                    while not self.gate.is_set():
                        await asyncio.sleep(0.005)
                except asyncio.CancelledError:
                    self.cancelled.append(request.claim.id)
                    raise
        return RunOutcome(True, result)


class RunningWorker:
    """A worker in a thread of its own."""

    def __init__(self, options: WorkerOptions, runner: Any, queue_class: Callable[..., PgJobQueue]) -> None:
        self.options = options
        self.runner = runner
        self.exit_code: int | None = None
        self.worker: Worker
        self.queue: PgJobQueue
        self._queue_class = queue_class
        self._loop: asyncio.AbstractEventLoop
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name=options.name)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.queue = self._queue_class(worker=self.options.name)
        self.worker = Worker(self.options, queue=self.queue, runner=self.runner)
        self._ready.set()
        self.exit_code = await self.worker.run()

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def call(self, function: Callable[[], Any]) -> None:
        """Run `function` in the worker's loop, as a signal handler would."""
        self._loop.call_soon_threadsafe(function)

    def drain(self) -> None:
        self.call(self.worker.drain)

    def stop(self) -> int | None:
        """End it at once, if it still runs; answers the exit code."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # ended meanwhile
                self.call(self.worker.stop)
        return self.join()

    def join(self) -> int | None:
        self._thread.join(timeout=60)
        assert not self._thread.is_alive(), "the worker did not end"
        return self.exit_code


@pytest.fixture
def run_worker(settings: Any) -> Iterator[Callable[..., RunningWorker]]:
    """Start a worker on the database at this address; keyword arguments are those of WorkerOptions.

    Stopped when the test ends.
    """
    started: list[RunningWorker] = []

    def start(
        url: str,
        name: str = "wk-test",
        *,
        runner: Any = None,
        queue_class: Callable[..., PgJobQueue] = PgJobQueue,
        environ: Mapping[str, str] | None = None,
        **given: Any,
    ) -> RunningWorker:
        settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = url
        source = EnvironmentSource(
            base_url="http://windmill.test",
            base_internal_url="http://internal.test",
            worker_group="default",
            worker_environment=environ or {"PATH": "/usr/bin:/bin"},
        )
        options = WorkerOptions(
            name=name,
            instance="host",
            group="default",
            tags=["python3", "bash"],
            slots=2,
            version="1",
            environment=source,
            poll_s=0.05,
            heartbeat_s=0.2,
            max_timeout_s=1000,
            default_timeout_s=None,
            token_expiry_s=1000,
            max_result_size_mb=1,
            max_log_size_mb=1,
            keep_logs=True,
            restart_limit=3,
        )
        worker = RunningWorker(replace(options, **given), runner or ScriptedRunner(), queue_class)
        worker.start()
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.stop()


@pytest.fixture
def start_process(
    database_url: str, tmp_path: Path, wait_until: Any
) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Start `runworker` and wait until it claims; keyword arguments are environment variables."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, ready: bool = True, **environ: str) -> "subprocess.Popen[bytes]":
        before = set(WorkerPing.objects.values_list("worker", flat=True))
        process = subprocess.Popen(
            [sys.executable, "manage.py", "runworker", *arguments],
            env={
                "PATH": os.environ["PATH"],
                "DATABASE_URL": database_url,
                "SECRET_KEY": "worker-process-test",
                "WORKER_DIR": str(tmp_path / "jobs"),
                "DATA_DIR": str(tmp_path / "data"),
                "HEARTBEAT_SECONDS": "1",
                "MONITOR_INTERVAL_SECONDS": "3600",
                **environ,
            },
            stderr=(tmp_path / f"worker-{len(started)}.log").open("wb"),
        )
        started.append(process)
        if ready:
            wait_until(
                lambda: WorkerPing.objects.filter(state="running").exclude(worker__in=before).exists(),
                timeout_s=40,
            )
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


@pytest.fixture
def start_worker(database_url: str, run_worker: Callable[..., RunningWorker]) -> Callable[..., RunningWorker]:
    """Start a worker on the test's database; keyword arguments as in run_worker."""
    return partial(run_worker, database_url)
