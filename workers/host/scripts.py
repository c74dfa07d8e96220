"""The scripts of a worker group that look after the host (reference/worker.md section 1): one before the first job, one
now and then.

They install what jobs need on the machine, so unlike jobs they run outside the sandbox, as the worker's own user; their
environment is clean all the same: no database address, no keys. Each run is a job of workspace `admins`, so that its
members can look at what it did; it takes no slot.
"""

import asyncio
import codecs
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from jobs.models import JobKind
from jobs.queue import Claim, JobRequest
from workers import results
from workers.held_job import HeldJob, Stop
from workers.job_queue import CancelRequest, JobQueue, QueueAway
from workers.logs import JobLog
from workers.worker_options import WorkerOptions

logger = logging.getLogger(__name__)

INIT_TAG = "init_script"
PERIODIC_TAG = "periodic_bash_script"
WORKSPACE = "admins"
EMAIL = "worker@windmill.dev"
_KEPT_CHARS = 100_000  # of its output, for the workers page
_READ_BYTES = 65_536


class HostScriptFailed(Exception):
    """The script ended with an error; `log` is the end of what it printed."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


class Record(Protocol):
    """Records the end of a job (workers.job_runs)."""

    async def __call__(self, held: HeldJob, outcome: results.Recorded | None) -> Claim | None:
        """None as outcome: there is none, it was stopped."""


class HostScripts:
    """Runs them for one worker, one at a time."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        queue: JobQueue,
        hold: Callable[[Claim], HeldJob],
        let_go: Callable[[HeldJob], None],
        record: Record,
        leaving: asyncio.Event,
        stopping: asyncio.Event,
    ) -> None:
        """`leaving`: nothing new is begun. `stopping`: what runs is killed, too."""
        self._options = options
        self._queue = queue
        self._hold = hold
        self._let_go = let_go
        self._record = record
        self._leaving = leaving
        self._stopping = stopping
        self._running: HeldJob | None = None
        self._is_stopped = False
        self._problem = ""  # of the last run

    @property
    def running_count(self) -> int:
        """How many run at present: they are held as jobs are, and take no slot."""
        return int(self._running is not None)

    def options_changed(self, options: WorkerOptions) -> None:
        """The next run is under these."""
        self._options = options

    async def prepare(self) -> str:
        """Run the init script. Answers "" when it is done, else the end of its output and what went wrong."""
        return await self._run_as_job(
            self._options.init_script,
            tag=INIT_TAG,
            path=f"init_script_{self._options.name}",
            what="init script",
        )

    async def keep_running(self, interval_s: float) -> None:
        """Run the periodic script at once and then every `interval_s`, until the worker leaves. Its failures are its own.

        One that takes longer begins again as soon as it has ended.
        """
        while not self._leaving.is_set():
            began = time.monotonic()
            await self._run_as_job(
                self._options.periodic_script,
                tag=PERIODIC_TAG,
                path=f"periodic_script_{self._options.name}_{int(time.time())}",
                what="periodic script",
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, began + interval_s - time.monotonic())):
                    await self._leaving.wait()

    def stop(self) -> None:
        """End what runs, or is about to; it does not go back into the queue, where nobody would take it."""
        self._is_stopped = True
        self._stop_running()

    def _stop_running(self) -> None:
        if self._running is not None:
            self._running.stop_for(Stop.CANCELED, CancelRequest(self._options.name, "its worker was stopped"))

    async def _run_as_job(self, script: str, *, tag: str, path: str, what: str) -> str:
        logger.info("running the %s worker=%s", what, self._options.name)
        claim = await self._start_job(job(script, worker=self._options.name, tag=tag, path=path))
        held = self._running = self._hold(claim)
        if self._is_stopped:  # while the job was being recorded
            self._stop_running()
        held.task = asyncio.create_task(self._run(held, script, what), name=what)
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({held.task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            self._stop_running()
            await held.task
        finally:
            stopped.cancel()
            self._running = None
        return self._problem

    async def _start_job(self, request: JobRequest) -> Claim:
        while True:
            with contextlib.suppress(QueueAway):
                return await self._queue.start_own(request)

    async def _run(self, held: HeldJob, script: str, what: str) -> None:
        outcome: results.Recorded | None = None
        self._problem = ""
        held.is_executing = True
        try:
            if held.stop is not None:  # nothing has begun that could be cancelled
                self._problem = f"The {what} was stopped.\n"
            else:
                held.isolation = "none"
                await run(
                    script,
                    environment=self._options.environment.for_host(),
                    log=held.log,
                    timeout_s=self._options.max_timeout_s,
                )
                outcome = results.succeeded("null", max_size_mb=1)
        except HostScriptFailed as exc:
            message = f"The {what} of worker group {self._options.group} failed: {exc}"
            logger.error("%s. End of its output:\n%s", message, exc.log[-2000:])
            self._problem = f"{exc.log}\n{message}\n"
            outcome = results.failed_with(f"{what.title().replace(' ', '')}Err", message)
        except asyncio.CancelledError:
            if held.stop is None:
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]  # we are in one
            self._problem = f"The {what} was stopped.\n"
        finally:
            held.is_executing = False
            try:
                await self._record(held, outcome)
            finally:
                held.log.abandon()
                self._let_go(held)


def job(script: str, *, worker: str, tag: str, path: str) -> JobRequest:
    """The job by which everybody can look at what a script did."""
    return JobRequest(
        workspace_id=WORKSPACE,
        kind=JobKind.PREVIEW,
        tag=tag,
        created_by=worker,
        permissioned_as=f"u/{worker}",
        permissioned_as_email=EMAIL,
        args={},
        runnable_path=path,
        raw_code=script,
        language="bash",
    )


async def run(script: str, *, environment: Mapping[str, str], log: JobLog, timeout_s: float) -> str:
    """Run it with bash; answers its output. Raises HostScriptFailed. Cancelling kills it with all its children."""
    with TemporaryDirectory(prefix="windmill-host-script-") as folder:
        path = Path(folder, "script.sh")
        path.write_text(script.replace("\r\n", "\n"))
        try:
            process = await asyncio.create_subprocess_exec(
                "bash",
                str(path),
                cwd=folder,
                env={"HOME": str(Path.home()), **environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except FileNotFoundError as exc:
            raise HostScriptFailed("bash is not installed on this host", "") from exc
        output = ""
        try:
            async with asyncio.timeout(timeout_s):
                assert process.stdout is not None
                decoder = codecs.getincrementaldecoder("utf-8")("replace")
                while data := await process.stdout.read(_READ_BYTES):
                    text = decoder.decode(data)
                    output = (output + text)[-_KEPT_CHARS:]
                    log.write(text)
                exit_code = await process.wait()
        except TimeoutError as exc:
            raise HostScriptFailed(f"it ran for more than {timeout_s:.0f} s", output) from exc
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if exit_code != 0:
        raise HostScriptFailed(f"it ended with exit code {exit_code}", output)
    return output
