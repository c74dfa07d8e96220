"""The worker's side of the sandbox: `JobHost` keeps a fork server and a few prepared sandboxes, and runs programs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import pwd
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal

from workers.job_process import packets, processes
from workers.sandbox import cgroups, ownership
from workers.sandbox.cgroups import Group, GroupLimits, Groups, NoGroups
from workers.sandbox.program_run import Run, Sandbox
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
    SharedFolderLost,
)
from workers.sandbox.session import OnEnd, Session

logger = logging.getLogger(__name__)

_PACKAGE_FOLDER = Path(__file__).resolve().parent.parent  # holds job_process
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, {folder!r}); from job_process import fork_server; sys.path.pop(0); "
    "fork_server.main({fd})"
)
_RESTART_DELAYS_S = (0.05, 0.5, 2.0, 10.0)
_START_TIMEOUT_S = 30.0
_KILL_TIMEOUT_S = 5.0  # after which a fork server that runs code of packages is not believed any more
_NO_SERVER = 0  # fork servers are counted from 1
_TOP_UP_DELAY_S = 0.01  # short jobs are over by then
_JOIN_TIMEOUT_S = 5.0  # after which the first sandbox will not be in its control group any more


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
        self._warm = max(1, warm)
        self._usual = usual or Limits()
        self._finds_groups = groups == "find"
        self._groups = groups if isinstance(groups, Groups) else None
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
            "tmp_bytes": self._usual.disk_bytes,
            "blocked_networks": list(blocked_networks),
            "preload": list(preload),
            "environment": None if environment is None else asdict(environment),
        }
        self._environment = environment
        self._on_end = on_end
        self._start_timeout_s = start_timeout_s
        self._loop: asyncio.AbstractEventLoop
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._sandboxes: dict[int, Sandbox] = {}
        self._ready: deque[Sandbox] = deque()
        self._coming = 0  # asked for, not ready yet
        self._waiting: deque[asyncio.Future[Sandbox]] = deque()
        self._next_number = 1
        self._restart: asyncio.Task[None] | None = None
        self._is_closing = False
        self._in_use = 0
        self._server_number = 0  # counts fork servers
        self._is_up = asyncio.Event()
        self._shares: dict[str, int] = {}  # number of the fork server that holds a shared folder, by its name

    @property
    def fork_server_pid(self) -> int | None:
        """The pid of the process that was started; None while there is none."""
        return self._process.pid if self._process else None

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
            usual=self._usual,
            groups=self._groups,
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
            refusal, note = await self._start_server(isolation)
            if refusal is None:
                self.isolation = isolation
                self.isolation_reason = _explain(isolation, refusals, note)
                break
            refusals.append(f"{isolation}: {refusal}")
        else:
            raise SandboxUnavailable("No fork server could be started: " + "; ".join(refusals))
        if self.isolation == "none":
            _close_own_proc_files()
        why_no_groups = await self._find_groups() if self._finds_groups else "they are turned off"
        self.limits_reason = _explain_limits(self._groups, why_no_groups)
        logger.info(
            "job host started isolation=%s reason=%s limits=%s confinement=%s",
            self.isolation,
            self.isolation_reason,
            self.limits_reason,
            self.confinement_reason,
        )
        self._top_up()

    async def close(self) -> None:
        """End the fork server and with it every job; returns when they are gone."""
        self._is_closing = True
        if self._restart is not None:
            if self._environment is None:
                self._restart.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._restart
        if self._control is not None:
            self._control.shutdown(socket.SHUT_WR)
        process = self._process
        if process is not None:
            try:
                await asyncio.to_thread(process.wait, 10)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)
        self._lose_server("the job host is closed")
        if self._finds_groups and self._groups is not None:
            groups, self._groups = self._groups, None
            await asyncio.to_thread(groups.close)

    @property
    def limits_cpus(self) -> bool:
        """Whether Limits.cpus is kept."""
        return self._groups is not None and "cpu" in self._groups.controllers

    def expect(self, usual: Limits) -> None:
        """Prepare sandboxes for programs with limits like these from now on."""
        if usual == self._usual:
            return
        if usual.disk_bytes != self._usual.disk_bytes:
            for sandbox in self._ready:
                sandbox.close()  # it ends by itself
            self._ready.clear()
        self._usual = usual
        self._top_up()

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
        has_own_disk = limits.disk_bytes != self._usual.disk_bytes and self.isolation != "none"
        if program.share is None and not writable and not has_own_network and not has_own_disk:
            sandbox = await self._acquire()
        else:
            sandbox = await self._acquire_own(
                share=program.share,
                writable=writable,
                network=not has_own_network,
                disk_bytes=limits.disk_bytes,
            )
        if sandbox.group is not None:
            self._hold(sandbox, limits)
        acquired = time.monotonic()
        run = Run(self._loop, sandbox, limits.result_bytes, on_output)
        self._in_use += 1
        try:
            try:
                if writable and sandbox.uid != os.geteuid():
                    await _to_the_end(self._in_thread(ownership.hand_over, writable, sandbox.uid))
                async with asyncio.timeout(timeout_s):
                    await self._begin(run, program, limits, () if session is None else session.channel)
                    if session is not None:
                        session.begun(run)
                    if self._ready or (self._environment is not None and not self._waiting):
                        # The next job has its sandbox, or there may be none; preparing another would only take the
                        # processor from this one.
                        self._loop.call_later(_TOP_UP_DELAY_S, self._top_up)
                    else:
                        self._top_up()
                    sent = time.monotonic()
                    await run.ended
            except TimeoutError:
                await self._kill(sandbox)
                raise ProgramTimedOut from None
            except BaseException:
                await self._kill(sandbox)
                raise
            if self.isolation == "none":
                await sandbox.gone  # its folder is on disk and is removed by the fork server
        finally:
            self._in_use -= 1
            run.finish()
            self._top_up()
            if writable:
                await _to_the_end(self._in_thread(ownership.take_back, writable))
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
        if self._shares.pop(name, None) == self._server_number:
            self._tell({"op": "drop", "share": name})
        if is_missed:
            self._shares[name] = _NO_SERVER

    def memory_bytes(self) -> int:
        """What the fork server itself takes, without its sandboxes. 0: it has none, or it cannot be told."""
        return 0 if self._process is None else processes.last_resident_bytes(self._process.pid)

    async def settle(self) -> None:
        """Wait until the sandboxes of all jobs that ended are gone, on the kernel's side too."""
        ending = [one.gone for one in self._sandboxes.values() if one.is_used and one.job is None]
        if ending:
            await asyncio.wait(ending)

    # --- sandboxes ---

    async def _acquire(self) -> Sandbox:
        if self._is_closing:
            raise SandboxUnavailable("the job host is closed")
        if self._ready:
            return self._taken(self._ready.popleft())
        waiter: asyncio.Future[Sandbox] = self._loop.create_future()
        self._waiting.append(waiter)
        self._top_up()
        try:
            return self._taken(await waiter)
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._offer(waiter.result())
            raise

    async def _acquire_own(
        self, *, share: str | None, writable: Sequence[str], network: bool, disk_bytes: int
    ) -> Sandbox:
        """One with folders or without network. Made when it is wanted: a prepared one cannot be changed any more."""
        while self._control is None or self._is_closing:
            if self._is_closing:
                raise SandboxUnavailable("the job host is closed")
            await self._is_up.wait()
        if share is not None and self._shares.setdefault(share, self._server_number) != self._server_number:
            raise SharedFolderLost(
                "The folder ./shared of this flow is lost: the process of the worker that held it ended, or too many "
                "flows with such a folder are under way on this worker."
            )
        wanted_by: asyncio.Future[Sandbox] = self._loop.create_future()
        self._spawn(wanted_by, share=share, writable=writable, network=network, disk_bytes=disk_bytes)
        return self._taken(await wanted_by)

    def _spawn(
        self,
        wanted_by: asyncio.Future[Sandbox] | None = None,
        *,
        share: str | None = None,
        writable: Sequence[str] = (),
        network: bool = True,
        disk_bytes: int | None = None,
    ) -> None:
        number, self._next_number = self._next_number, self._next_number + 1
        disk_bytes = self._usual.disk_bytes if disk_bytes is None else disk_bytes
        sandbox = Sandbox(number, self._loop.create_future(), disk_bytes=disk_bytes, wanted_by=wanted_by)
        self._sandboxes[number] = sandbox
        if self._groups is not None:
            try:
                sandbox.group = self._groups.take()
            except OSError as error:
                self._loop.call_soon(self._on_failed_spawn, number, f"no control group: {error}")
                return
        request: dict[str, Any] = {"op": "spawn", "id": number}
        if not network:
            request["network"] = False
        if disk_bytes != self._configuration["tmp_bytes"]:
            request["tmp_bytes"] = disk_bytes
        if share is not None:
            request["share"] = share
        if writable:
            request["writable"] = list(writable)
        self._tell(request, sandbox.group)

    def _taken(self, sandbox: Sandbox) -> Sandbox:
        sandbox.is_used = True
        return sandbox

    def _offer(self, sandbox: Sandbox) -> None:
        if sandbox.disk_bytes != self._usual.disk_bytes:
            sandbox.close()  # it was made before others became usual; it ends by itself
            self._top_up()
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(sandbox)
                return
        self._ready.append(sandbox)

    def _top_up(self) -> None:
        if self._control is None or self._is_closing:
            return
        wanted = self._warm + sum(not waiter.done() for waiter in self._waiting)
        while len(self._ready) + self._coming < wanted:
            self._spawn()
            self._coming += 1

    # --- control groups ---

    async def _find_groups(self) -> str:
        """Use control groups, if there are; returns why not."""
        try:
            self._groups = await asyncio.to_thread(
                lambda: Groups(cgroups.own_place(), _group_limits(self._usual))
            )
        except NoGroups as error:
            return str(error)
        wanted_by: asyncio.Future[Sandbox] = self._loop.create_future()
        self._spawn(wanted_by)
        with contextlib.suppress(SandboxUnavailable):
            sandbox = await wanted_by
            until = time.monotonic() + _JOIN_TIMEOUT_S
            while sandbox.group is not None and sandbox.job is not None and time.monotonic() < until:
                if sandbox.group.is_joined():
                    self._offer(sandbox)
                    return ""
                if select.select([sandbox.job], [], [], 0)[0]:
                    break  # the job process says that it cannot, or has ended
                await asyncio.sleep(0.002)
            await self._kill(sandbox)
            sandbox.close()
        groups, self._groups = self._groups, None
        await asyncio.to_thread(groups.close)
        return "the kernel does not let a job's processes into the ones that were made"

    def _hold(self, sandbox: Sandbox, limits: Limits) -> None:
        """Let `limits` hold for the processes of `sandbox`. Raises SandboxUnavailable."""
        assert sandbox.group is not None
        try:
            sandbox.group.hold_to(_group_limits(limits))
        except OSError as error:
            self._tell({"op": "kill", "id": sandbox.number})
            sandbox.close()
            raise SandboxUnavailable(f"the job cannot be held to its limits: {error}") from error

    def _give_group_back(self, sandbox: Sandbox) -> None:
        group, sandbox.group = sandbox.group, None
        if group is not None and self._groups is not None:
            self._groups.give_back(group)

    # --- ends ---

    async def _kill(self, sandbox: Sandbox) -> None:
        """Have all processes of `sandbox` killed and wait for it, also when cancelled meanwhile."""
        self._tell({"op": "kill", "id": sandbox.number})
        await _to_the_end(self._confirmed(sandbox))

    async def _confirmed(self, sandbox: Sandbox) -> None:
        """Return when `sandbox` is gone. A server that runs code of packages and does not say so soon has to go, too."""
        limit_s = None if self._environment is None else _KILL_TIMEOUT_S
        await asyncio.wait([sandbox.gone], timeout=limit_s)
        if not sandbox.gone.done():
            self._distrust("it did not end a job")

    # --- folders that a program may change ---

    def _below_writable_root(self, path: str) -> str:
        """The name of folder `path` below the writable root. Raises ValueError."""
        if not self._writable_at:
            raise ValueError(f"{path} cannot be writable: this host was made without writable_root")
        for root in self._writable_at:
            name = path.removeprefix(root.rstrip("/") + "/")
            if name == path:
                continue
            if not all(part not in ("", ".", "..") for part in name.split("/")):
                break
            try:
                with ownership.opened_below(root, name):
                    return name
            except OSError as error:
                raise ValueError(
                    f"{path} is not a folder without links on its way: {error.strerror}"
                ) from error
        raise ValueError(f"{path} cannot be writable: only folders below {self._writable_at[-1]} can")

    async def _in_thread(self, act: Callable[..., None], names: Sequence[str], *args: int) -> None:
        for name in names:
            await asyncio.to_thread(act, self._writable_at[0], name, *args)

    # --- the fork server ---

    async def _start_server(self, isolation: Isolation) -> tuple[str | None, str | None]:
        """Start one; returns why it refused (None: it runs) and what it noted."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        silent = subprocess.DEVNULL if self._environment is not None else None
        with theirs:
            code = _BOOTSTRAP.format(folder=str(_PACKAGE_FOLDER), fd=theirs.fileno())
            try:
                process = subprocess.Popen(
                    [self._python, "-I", "-S", "-u", "-X", "utf8", "-c", code],
                    env={},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=silent,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                return f"cannot start {self._python}: {error.strerror}", None
        ours.setblocking(False)
        packets_out = packets.packets(
            "C", json.dumps({**self._configuration, "isolation": isolation}).encode()
        )
        hello: dict[str, Any] = {"op": "refused", "message": "the fork server did not answer"}
        try:
            with contextlib.suppress(TimeoutError, OSError, ValueError):
                async with asyncio.timeout(self._start_timeout_s):
                    for packet in packets_out:
                        await self._loop.sock_sendall(ours, packet)
                    answer = await self._loop.sock_recv(ours, packets.PACKET_BYTES)
                    if answer:
                        hello = json.loads(answer[1:])
        except BaseException:
            ours.close()
            process.kill()
            process.wait()  # at once, after such a signal
            raise
        if not isinstance(hello, dict) or hello.get("op") != "hello":
            ours.close()
            process.kill()
            await asyncio.to_thread(process.wait)
            return str(hello.get("message")) if isinstance(hello, dict) else "it answered nonsense", None
        self._process, self._control = process, ours
        self.cuts_network = hello.get("cuts_network") is True
        self.confinement_reason = _explain_confinement(hello, self._configuration["blocked_networks"])
        self._server_number += 1
        self._is_up.set()
        self._loop.add_reader(ours, self._on_message)
        return None, hello.get("note")

    def _tell(self, message: dict[str, Any], group: Group | None = None, server: int | None = None) -> None:
        """The descriptors of `group` go along. `server`: the number of the one it is for, the present one if not said."""
        server = self._server_number if server is None else server
        if self._control is None or server != self._server_number:
            return
        packet = b"M" + json.dumps(message).encode()
        with contextlib.ExitStack() as kept:
            try:
                fds = [] if group is None else kept.enter_context(group.opened())
            except OSError as error:
                reason = f"its control group cannot be opened: {error}"
                self._loop.call_soon(self._on_failed_spawn, message["id"], reason)
                return
            self._send(packet, fds, partial(self._tell, message, group, server))

    def _send(self, packet: bytes, fds: Sequence[int], again: Callable[[], None]) -> None:
        assert self._control is not None
        try:
            socket.send_fds(self._control, [packet], fds)
        except BlockingIOError:
            # It reads requests as fast as it can; a full socket means hundreds of them wait.
            self._loop.call_later(0.005, again)
        except OSError:
            pass  # end of file follows

    def _on_message(self) -> None:
        assert self._control is not None
        for _ in range(16):
            try:
                packet, fds, _, _ = socket.recv_fds(
                    self._control, packets.PACKET_BYTES, 3, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except OSError:
                packet, fds = b"", []
            if not packet:
                self._on_server_death()
                return
            try:
                self._take(json.loads(packet[1:]), fds)
            except (ValueError, LookupError, TypeError, OSError) as error:
                if self._environment is None:
                    raise
                self._distrust(f"it said what makes no sense: {error!r}")
                return

    def _take(self, message: dict[str, Any], fds: Sequence[int]) -> None:
        number = int(message["id"])
        if message["op"] == "ready":
            self._on_ready(self._sandboxes[number], int(message["uid"]), fds)
        elif message["op"] == "gone":
            self._on_gone(number)
        else:
            self._on_failed_spawn(number, str(message["message"]))

    def _distrust(self, why: str) -> None:
        """End a fork server that cannot be relied on, with its jobs."""
        logger.warning("fork server killed reason=%s", why)
        if self._process is not None:
            self._process.kill()
            self._on_server_death()

    def _on_ready(self, sandbox: Sandbox, uid: int, fds: Sequence[int]) -> None:
        sandbox.attach(uid, fds)
        if sandbox.wanted_by is None:
            self._coming -= 1
            self._offer(sandbox)
        elif not sandbox.wanted_by.done():
            sandbox.wanted_by.set_result(sandbox)
        else:
            sandbox.close()  # nobody wants it any more; it ends by itself

    def _on_gone(self, number: int) -> None:
        sandbox = self._sandboxes.pop(number)
        if not sandbox.gone.done():
            sandbox.gone.set_result(None)
        self._give_group_back(sandbox)
        if sandbox in self._ready:
            # It died while nobody used it (the kernel short of memory takes jobs first): another one, not at once.
            self._ready.remove(sandbox)
            sandbox.close()
            self._loop.call_later(0.5, self._top_up)

    def _on_failed_spawn(self, number: int, message: str) -> None:
        logger.error("sandbox not made reason=%s", message)
        sandbox = self._sandboxes.pop(number, None)
        if sandbox is None:
            return  # the server that could not make it has died meanwhile
        sandbox.gone.cancel()
        self._give_group_back(sandbox)
        if sandbox.wanted_by is not None:
            if not sandbox.wanted_by.done():
                sandbox.wanted_by.set_exception(SandboxUnavailable(f"no sandbox could be made: {message}"))
            return
        self._coming -= 1
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(SandboxUnavailable(f"no sandbox could be made: {message}"))
                break
        self._loop.call_later(0.5, self._top_up)

    def _on_server_death(self) -> None:
        process = self._process
        self._lose_server("the fork server ended unexpectedly, and its jobs with it")
        if self._is_closing:
            return
        if self._environment is not None:
            logger.warning("fork server of an environment died jobs_lost=%s", self._in_use)
            self._is_closing = True  # it does not come back
            self._is_up.set()
            self._fail_waiting("the fork server of its environment ended")
            if process is not None:
                self._restart = self._loop.create_task(_buried(process))
            self._on_end()
            return
        logger.error("fork server died jobs_lost=%s", self._in_use)
        self._restart = self._loop.create_task(self._start_again(process))

    def _lose_server(self, why: str) -> None:
        if self._control is not None:
            self._loop.remove_reader(self._control)
            self._control.close()
            self._control = None
        self._process = None
        self._is_up.clear()
        if self._is_closing:
            self._is_up.set()  # whoever waits for it learns that it will not come
        self._coming = 0
        sandboxes, self._sandboxes = self._sandboxes, {}
        for sandbox in self._ready:
            sandbox.close()
        self._ready.clear()
        for sandbox in sandboxes.values():
            if not sandbox.gone.done():
                sandbox.gone.set_result(None)
            self._give_group_back(sandbox)
            if sandbox.wanted_by is not None and not sandbox.wanted_by.done():
                sandbox.wanted_by.set_exception(SandboxUnavailable(why))
        if self._is_closing:
            self._fail_waiting(why)

    def _fail_waiting(self, why: str) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(SandboxUnavailable(why))
        self._waiting.clear()

    async def _start_again(self, dead: subprocess.Popen[bytes] | None) -> None:
        if dead is not None:
            dead.kill()
            await asyncio.to_thread(dead.wait)
        attempt = 0
        while True:
            await asyncio.sleep(_RESTART_DELAYS_S[min(attempt, len(_RESTART_DELAYS_S) - 1)])
            refusal, _ = await self._start_server(self.isolation)
            if refusal is None:
                logger.warning("fork server restarted attempt=%s", attempt + 1)
                self._top_up()
                return
            attempt += 1
            logger.error("fork server does not start attempt=%s reason=%s", attempt, refusal)


async def _buried(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    await asyncio.to_thread(process.wait)


async def _to_the_end(awaitable: Awaitable[None]) -> None:
    """Wait for `awaitable` until it is done; whoever is cancelled meanwhile learns it afterwards."""
    future = asyncio.ensure_future(awaitable)
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    if not future.cancelled():
        future.result()


def _with_real_paths(paths: Sequence[str]) -> list[str]:
    return sorted({os.path.abspath(path) for path in paths} | {os.path.realpath(path) for path in paths})


def _explain(isolation: Isolation, refusals: Sequence[str], note: str | None) -> str:
    user = pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() else "root"
    if isolation == "namespaces":
        return "Each job has its own file system view, process and IPC namespace, and a user id of its own."
    why = "; ".join(refusals)
    if isolation == "user-namespaces":
        told = f" ({why})" if why else ""
        return f"Each job has its own file system view, process and IPC namespace, inside a user namespace{told}."
    return (
        f"Jobs are not isolated from each other or from this machine ({why or 'namespaces are turned off'}); they can "
        f"read what every local user can" + (f"; {note}." if note else f", and the worker runs as {user}.")
    )


def _explain_limits(groups: Groups | None, why_not: str) -> str:
    if groups is None:
        return (
            "Memory is looked at four times a second, and limited for each process; processor time is not limited "
            f"(no control groups: {why_not})."
        )
    missing = [one for one in cgroups.CONTROLLERS if one not in groups.controllers]
    return (
        f"Memory is limited by control groups (version {groups.version}: {', '.join(groups.controllers)})"
        + (f"; not {', '.join(missing)}" if missing else "")
        + "."
    )


def _explain_confinement(hello: Mapping[str, Any], networks: Sequence[str]) -> str:
    why = hello.get("calls_note")
    calls = f"System calls are not filtered ({why})." if why else "System calls are filtered."
    if not hello.get("keeps_sockets"):
        calls += " Abstract Unix sockets of this machine can be reached (that takes Linux 6.12 and Landlock)."
    if not networks:
        return f"{calls} No networks are kept from jobs: JOB_BLOCKED_NETWORKS is empty."
    why = hello.get("addresses_note")
    match hello.get("addresses"):
        case "kept":
            return f"{calls} Jobs cannot reach JOB_BLOCKED_NETWORKS" + (f" ({why})." if why else ".")
        case "refused":
            return (
                f"{calls} Jobs are refused JOB_BLOCKED_NETWORKS, but one that changes an address while it is looked at "
                f"may get through ({why})."
            )
        case _:
            return f"{calls} Jobs can reach JOB_BLOCKED_NETWORKS all the same ({why})."


def _group_limits(limits: Limits) -> GroupLimits:
    return GroupLimits(memory_bytes=limits.memory_bytes, processes=limits.processes, cpus=limits.cpus)


def _close_own_proc_files() -> None:
    """Without namespaces jobs may run as the worker's user: keep them out of its /proc/<pid>/environ and memory."""
    from workers.job_process import linux

    linux.prctl(linux.PR_SET_DUMPABLE, 0)
