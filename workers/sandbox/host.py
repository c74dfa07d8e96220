"""The worker's side of the sandbox: `JobHost` keeps a fork server and a few prepared sandboxes, and runs programs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from workers.sandbox import explanations, ownership, server
from workers.sandbox.cgroups import Groups
from workers.sandbox.program_run import Run
from workers.sandbox.programs import (
    ISOLATIONS,
    Ended,
    Environment,
    Isolation,
    IsolationRefused,
    Limits,
    Program,
    ProgramTimedOut,
    SandboxUnavailable,
)
from workers.sandbox.server import NotStarted, Server
from workers.sandbox.session import OnEnd, Session
from workers.sandbox.supply import Supply, to_the_end

logger = logging.getLogger(__name__)

_RESTART_DELAYS_S = (0.05, 0.5, 2.0, 10.0)
_START_TIMEOUT_S = 30.0
_KILL_TIMEOUT_S = 5.0  # after which a fork server that runs code of packages is not believed any more


class JobHost:
    """Runs programs in sandboxes, each with all its processes in one; restarts its fork server when that dies.

    `base_dir` is created (mode 0711) and holds job folders where there are no namespaces. `hidden_paths` are empty
    to jobs even inside folders they see; `read_only` are paths they may read besides the system; `python_paths`
    are put on every Python job's sys.path (and are read-only visible). `writable_root` is a folder that jobs may read,
    too, and below which a program may be allowed to write (Program.writable). `policy` says what to do when the kernel
    offers no isolation: "refuse" makes `start` raise IsolationRefused, "warn" runs jobs without. `warm` sandboxes
    are kept ready, for programs with limits like `usual` (what they say of disks has to be known before there is a job).
    `groups` are control groups made before; "find" makes some, if they are to be had. `blocked_networks`
    ("169.254.0.0/16") cannot be reached from jobs. `preload` names modules to import once, before jobs are forked.
    `python` is another interpreter than the worker's.

    With an `environment` the fork server runs code of packages. So it has no rights outside, nothing that it says is
    believed without doubt, and it is not started again when it ends: `on_end` is called then.
    """

    def __init__(
        self,
        *,
        base_dir: str | Path,
        hidden_paths: Sequence[str | Path] = (),
        read_only: Sequence[str | Path] = (),
        python_paths: Sequence[str | Path] = (),
        writable_root: str | Path | None = None,
        policy: Literal["refuse", "warn"] = "refuse",
        allowed: Sequence[Isolation] = ISOLATIONS,
        warm: int = 2,
        usual: Limits | None = None,
        groups: Groups | Literal["find"] | None = "find",
        blocked_networks: Sequence[str] = (),
        preload: Sequence[str] = (),
        python: str | None = None,
        environment: Environment | None = None,
        on_end: Callable[[], None] = lambda: None,
        start_timeout_s: float = _START_TIMEOUT_S,
    ) -> None:
        self.isolation: Isolation = "none"
        self.isolation_reason = "The job host has not been started."
        self.limits_reason = ""  # what holds jobs to their limits
        self.confinement_reason = ""  # which system calls and addresses are kept from jobs
        self.cuts_network = False  # whether programs without network have none: see start
        self.python_paths = tuple(str(Path(path).resolve()) for path in python_paths)
        # Not the virtual environment's: its packages are the worker's, not the jobs'.
        self._python: str = python or str(getattr(sys, "_base_executable", None) or sys.executable)
        self._base_dir = str(Path(base_dir).resolve())
        self._policy = policy
        self._allowed = tuple(allowed)
        usual = usual or Limits()
        self._finds_groups = groups == "find"
        # Real name first, then as it was called; the same mostly.
        named = (
            [] if writable_root is None else [os.path.realpath(writable_root), os.path.abspath(writable_root)]
        )
        self._writable_at = list(dict.fromkeys(named))
        readable = [*map(str, read_only), *self.python_paths, *self._writable_at]
        if python is None:
            readable += [sys.base_prefix, os.path.dirname(self._python)]
        else:
            readable.append(str(Path(python).resolve().parent.parent))
        self._configuration: dict[str, Any] = {
            "base_dir": self._base_dir,
            "hidden": _with_real_paths([*map(str, hidden_paths), self._base_dir]),
            "read_only": _with_real_paths(readable),
            "writable_at": self._writable_at,
            "tmp_bytes": usual.disk_bytes,
            "blocked_networks": list(blocked_networks),
            "preload": list(preload),
            "environment": None if environment is None else asdict(environment),
        }
        self._environment = environment
        self._on_end = on_end
        self._start_timeout_s = start_timeout_s
        self._supply = Supply(
            warm=max(1, warm),
            usual=usual,
            groups=groups if isinstance(groups, Groups) else None,
            is_trusted=environment is None,
            kill_timeout_s=None if environment is None else _KILL_TIMEOUT_S,
            on_unconfirmed=self._distrust,
        )
        self._loop: asyncio.AbstractEventLoop
        self._server: Server | None = None
        self._restart: asyncio.Task[None] | None = None
        self._is_closing = False
        self._in_use = 0

    @property
    def fork_server_pid(self) -> int | None:
        """The pid of the process that was started; None while there is none."""
        return self._server.pid if self._server else None

    def sibling(
        self,
        *,
        python: str | None = None,
        environment: Environment | None = None,
        on_end: Callable[[], None] = lambda: None,
        start_timeout_s: float = _START_TIMEOUT_S,
    ) -> JobHost:
        """A host, not started, whose jobs see what ours see and are isolated as ours are. This one must be started."""
        return JobHost(
            base_dir=self._base_dir,
            hidden_paths=self._configuration["hidden"],
            read_only=self._configuration["read_only"],
            python_paths=self.python_paths,
            policy="warn" if self.isolation == "none" else "refuse",
            allowed=[self.isolation],
            warm=1,
            usual=self._supply.usual,
            groups=self._supply.groups,
            blocked_networks=self._configuration["blocked_networks"],
            preload=self._configuration["preload"],
            python=python or self._python,
            environment=environment,
            on_end=on_end,
            start_timeout_s=start_timeout_s,
        )

    async def start(self) -> None:
        """Find the strongest isolation there is and prepare the first sandboxes.

        Raises IsolationRefused when that is none and the policy is "refuse", SandboxUnavailable when no fork
        server starts at all.
        """
        self._loop = asyncio.get_running_loop()
        try:
            os.makedirs(self._base_dir, exist_ok=True)
            os.chmod(self._base_dir, 0o711)  # jobs without namespaces pass through; they cannot list it
        except OSError as error:
            raise SandboxUnavailable(
                f"The folder for jobs {self._base_dir} cannot be made: {error.strerror}. "
                "Set WORKER_DIR to a folder that this user may write."
            ) from error
        refusals: list[str] = []
        for isolation in self._allowed:
            if isolation == "namespaces" and os.geteuid() != 0:
                continue
            if isolation == "none" and self._policy == "refuse":
                raise IsolationRefused(
                    "This machine refuses the namespaces that isolate jobs: "
                    + ("; ".join(refusals) or "none of them is allowed by the settings")
                    + ". Allow user namespaces, run the worker with CAP_SYS_ADMIN, or accept jobs without "
                    "isolation with the policy warn."
                )
            try:
                note = await self._start_server(isolation)
            except NotStarted as refusal:
                refusals.append(f"{isolation}: {refusal}")
                continue
            self.isolation = isolation
            self.isolation_reason = explanations.of_isolation(isolation, refusals, note)
            break
        else:
            raise SandboxUnavailable("No fork server could be started: " + "; ".join(refusals))
        if self.isolation == "none":
            _close_own_proc_files()
        why_no_groups = await self._supply.find_groups() if self._finds_groups else "they are turned off"
        self.limits_reason = explanations.of_limits(self._supply.groups, why_no_groups)
        logger.info(
            "job host started isolation=%s reason=%s limits=%s confinement=%s",
            self.isolation,
            self.isolation_reason,
            self.limits_reason,
            self.confinement_reason,
        )
        self._supply.top_up()

    async def close(self) -> None:
        """End the fork server and with it every job; returns when they are gone."""
        self._is_closing = True
        self._supply.close("the job host is closed")
        if self._restart is not None:
            if self._environment is None:
                self._restart.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._restart
        if self._server is not None:
            await self._server.end()
        self._lose_server("the job host is closed")
        if self._finds_groups:
            await self._supply.remove_groups()

    @property
    def limits_cpus(self) -> bool:
        """Whether Limits.cpus is kept."""
        groups = self._supply.groups
        return groups is not None and "cpu" in groups.controllers

    def expect(self, usual: Limits) -> None:
        """Prepare sandboxes for programs with limits like these from now on."""
        self._supply.expect(usual)

    async def run(
        self,
        program: Program,
        *,
        limits: Limits,
        on_output: Callable[[bytes], None],
        timeout_s: float | None = None,
    ) -> Ended:
        """Run `program` to its end and return how it ended.

        `on_output` gets what it writes to standard output and standard error, in order, as it comes. Raises
        ProgramTimedOut, SandboxUnavailable when the sandbox was lost, SharedFolderLost, and ValueError when
        `program.writable` holds what it must not. However this ends, cancellation included, no process of the program
        is left when it returns.
        """
        return await self._run(program, limits=limits, on_output=on_output, timeout_s=timeout_s)

    def open_session(
        self,
        program: Program,
        *,
        limits: Limits,
        on_output: Callable[[bytes], None],
        on_message: Callable[[bytes], None],
        on_closed: Callable[[], None],
        on_end: OnEnd,
    ) -> Session:
        """Start `program`, which stays until it ends by itself or is closed, isolated and limited as any other.

        It finds two pipes more than others: see job_process.serving for where. `on_message` gets what it writes to the
        one for answers, as it comes, in pieces of any size; `on_closed` is called when it cannot write there any more,
        `on_end` once, when nothing of it is left: with how it ended, or why it could not be run. It is not called before
        this returns.
        """
        session = Session(self._loop, on_message=on_message, on_closed=on_closed, on_end=on_end)
        session.attend(self._run(program, limits=limits, on_output=on_output, session=session))
        return session

    async def _run(
        self,
        program: Program,
        *,
        limits: Limits,
        on_output: Callable[[bytes], None],
        timeout_s: float | None = None,
        session: Session | None = None,
    ) -> Ended:
        began = time.monotonic()
        writable = [self._below_writable_root(path) for path in program.writable]
        if not program.network and not self.cuts_network and self._policy == "refuse":
            raise SandboxUnavailable("a program without network cannot be run here")
        has_own_network = not program.network and self.cuts_network
        has_own_disk = limits.disk_bytes != self._supply.usual.disk_bytes and self.isolation != "none"
        if program.share is None and not writable and not has_own_network and not has_own_disk:
            sandbox = await self._supply.take()
        else:
            sandbox = await self._supply.take_own(
                share=program.share,
                writable=writable,
                network=not has_own_network,
                disk_bytes=limits.disk_bytes,
            )
        self._supply.hold(sandbox, limits)
        acquired = time.monotonic()
        run = Run(self._loop, sandbox, limits.result_bytes, on_output)
        self._in_use += 1
        try:
            try:
                if writable and sandbox.uid != os.geteuid():
                    await to_the_end(self._in_thread(ownership.hand_over, writable, sandbox.uid))
                async with asyncio.timeout(timeout_s):
                    await self._begin(run, program, limits, () if session is None else session.channel)
                    if session is not None:
                        session.begun(run)
                    self._supply.top_up_soon()
                    sent = time.monotonic()
                    await run.ended
            except TimeoutError:
                await self._supply.kill(sandbox)
                raise ProgramTimedOut from None
            except BaseException:
                await self._supply.kill(sandbox)
                raise
            if self.isolation == "none":
                await sandbox.gone  # its folder is on disk and is removed by the fork server
        finally:
            self._in_use -= 1
            run.finish()
            self._supply.top_up_soon()
            if writable:
                await to_the_end(self._in_thread(ownership.take_back, writable))
        if run.report is None:
            raise SandboxUnavailable(run.setup_error or "the job's sandbox ended before the job did")
        timings = {
            "sandbox": acquired - began,
            "send": sent - acquired,
            "job": run.report["job_ended_at"] - sent,
            "teardown": time.monotonic() - run.report["job_ended_at"],
            "prepare": run.report["prepare_s"],
        }
        return Ended(
            exit_code=run.report["exit_code"],
            peak_kb=run.report["peak_kb"],
            over_memory=run.report["over_memory"],
            values=run.values,
            overflowed=frozenset(run.overflowed),
            timings=timings,
        )

    async def _begin(self, run: Run, program: Program, limits: Limits, channel: Sequence[int]) -> None:
        try:
            await run.begin(program, limits, channel)
        except OSError as error:
            if self._environment is None:
                raise
            self._distrust(f"it sent what is no sandbox: {error}")
            raise SandboxUnavailable("the job's sandbox is none") from error

    def drop_share(self, name: str, *, is_missed: bool = False) -> None:
        """Empty and forget the folder that programs with this `share` have in common.

        `is_missed`: programs with this `share` may come again; they raise SharedFolderLost until it is dropped without.
        """
        self._supply.drop_share(name, is_missed=is_missed)

    def memory_bytes(self) -> int:
        """What the fork server itself takes, without its sandboxes. 0: it has none, or it cannot be told."""
        return 0 if self._server is None else self._server.memory_bytes

    async def settle(self) -> None:
        """Wait until the sandboxes of all jobs that ended are gone, on the kernel's side too."""
        await self._supply.settle()

    # --- folders that a program may change ---

    def _below_writable_root(self, path: str) -> str:
        """The name of folder `path` below the writable root. Raises ValueError."""
        if not self._writable_at:
            raise ValueError(f"{path} cannot be writable: this host was made without writable_root")
        return ownership.name_below(self._writable_at, path)

    async def _in_thread(self, act: Callable[..., None], names: Sequence[str], *args: int) -> None:
        for name in names:
            await asyncio.to_thread(act, self._writable_at[0], name, *args)

    # --- the fork server ---

    async def _start_server(self, isolation: Isolation) -> str | None:
        """Start one; returns what it noted. Raises NotStarted."""
        started = await server.start(
            python=self._python,
            configuration=self._configuration,
            isolation=isolation,
            is_trusted=self._environment is None,
            timeout_s=self._start_timeout_s,
        )
        self.cuts_network = started.hello.get("cuts_network") is True
        blocked_networks = self._configuration["blocked_networks"]
        self.confinement_reason = explanations.of_confinement(started.hello, blocked_networks)
        self._server = started
        self._supply.use(started)
        started.listen(
            on_answer=self._supply.answered,
            on_failed=self._supply.failed,
            on_nonsense=self._distrust,
            on_end=self._on_server_death,
        )
        return started.hello.get("note")

    def _distrust(self, why: str) -> None:
        """End a fork server that cannot be relied on, with its jobs."""
        logger.warning("fork server killed reason=%s", why)
        if self._server is not None:
            self._server.kill()
            self._on_server_death()

    def _on_server_death(self) -> None:
        dead = self._server
        self._lose_server("the fork server ended unexpectedly, and its jobs with it")
        if self._is_closing or dead is None:
            return
        if self._environment is not None:
            logger.warning("fork server of an environment died jobs_lost=%s", self._in_use)
            self._is_closing = True  # it does not come back
            self._supply.close("the fork server of its environment ended")
            self._restart = self._loop.create_task(dead.buried())
            self._on_end()
            return
        logger.error("fork server died jobs_lost=%s", self._in_use)
        self._restart = self._loop.create_task(self._start_again(dead))

    def _lose_server(self, why: str) -> None:
        if self._server is not None:
            self._server.let_go()
            self._server = None
        self._supply.server_ended(why)

    async def _start_again(self, dead: Server) -> None:
        await dead.buried()
        attempt = 0
        while True:
            await asyncio.sleep(_RESTART_DELAYS_S[min(attempt, len(_RESTART_DELAYS_S) - 1)])
            attempt += 1
            try:
                await self._start_server(self.isolation)
            except NotStarted as refusal:
                logger.error("fork server does not start attempt=%s reason=%s", attempt, refusal)
                continue
            logger.warning("fork server restarted attempt=%s", attempt)
            self._supply.top_up()
            return


def _with_real_paths(paths: Sequence[str]) -> list[str]:
    return sorted({os.path.abspath(path) for path in paths} | {os.path.realpath(path) for path in paths})


def _close_own_proc_files() -> None:
    """Without namespaces jobs may run as the worker's user: keep them out of its /proc/<pid>/environ and memory."""
    from workers.job_process import linux

    linux.prctl(linux.PR_SET_DUMPABLE, 0)
