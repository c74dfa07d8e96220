"""`./windmill up`: database, server and workers of one instance, started, watched and stopped together."""

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from windmill_site import static_files
from windmill_site.child_process import before_exec, exit_sentence
from windmill_site.console import Console
from windmill_site.data_folder import PROJECT_DIR, DataFolder, StartError
from windmill_site.embedded_postgres import EmbeddedPostgres

MOST_DEFAULT_SLOTS = 4  # jobs at once when nobody said how many
MODES = ("standalone", "server", "worker")
SERVER_STOP_S = (
    10.0  # open requests and websockets get this long; the workers' jobs get all the time they need
)
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 30.0
STEADY_S = 60.0  # a child that ran this long starts over with a short backoff
LOOK_AT_IT_AFTER = 4  # deaths in a row before we say that it will not mend itself
# Exit codes of a child that left in order and is to be started again at once: a worker with EXIT_AFTER_N_JOBS, one whose
# group has a new configuration (workers.worker.RESTART_CODE; its own log says which).
LEFT_IN_ORDER = (0, 75)
LEAST_LIFE_S = (
    2.0  # between two starts of a child that leaves in order: what leaves at once may keep no processor busy
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to start, from arguments and environment."""

    mode: str
    host: str
    port: int  # 0: any free port
    folder: DataFolder
    workers: int | None  # None: settings.py decides


def parse_options(arguments: list[str]) -> Options:
    """Arguments win over the environment. StartError for a wrong variable, SystemExit for an argument."""
    parser = argparse.ArgumentParser(
        prog="./windmill up", description="Start everything: database, server, workers."
    )
    parser.add_argument(
        "--port", type=int, metavar="N", help="port of the web server (PORT, default 8000; 0: any free one)"
    )
    parser.add_argument(
        "--host", metavar="ADDR", help="address to listen on (SERVER_BIND_ADDR, default 127.0.0.1)"
    )
    parser.add_argument("--data", metavar="DIR", help="data folder (DATA_DIR, default .data in the project)")
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="jobs that run at the same time (NUM_WORKERS; default: one a processor)",
    )
    given = parser.parse_args(arguments)
    mode = os.environ.get("MODE") or "standalone"
    if mode not in MODES:
        raise StartError(f"MODE is {mode!r}; expected {', '.join(MODES[:-1])} or {MODES[-1]}.")
    port = given.port
    if port is None:
        port = _whole_number("PORT", 8000)
    if not 0 <= port <= 65535:
        parser.error(f"the port is {port}; expected 0 to 65535")
    if given.workers is not None and given.workers < 1:
        parser.error(f"--workers is {given.workers}; expected at least 1 (MODE=server starts no worker)")
    if given.data is not None and not given.data:
        parser.error("--data is empty; expected a folder")
    # The launcher changed into the project's folder; the path means the one its caller was in.
    folder = (
        DataFolder(Path(os.environ.get("WINDMILL_CWD", "."), given.data))
        if given.data
        else DataFolder.from_environment()
    )
    host = given.host or os.environ.get("SERVER_BIND_ADDR") or "127.0.0.1"
    return Options(mode=mode, host=host.strip("[]"), port=port, folder=folder, workers=given.workers)


def _whole_number(name: str, default: int) -> int:
    raw = os.environ.get(name) or str(default)
    try:
        return int(raw)
    except ValueError as exc:
        raise StartError(f"{name} is {raw!r}; expected a whole number.") from exc


def bind(host: str, port: int) -> socket.socket:
    """The server's listening socket, taken before anything heavy starts, kept when the server restarts.

    Raises StartError when the port is taken or the address is not ours.
    """
    try:
        family, _type, _proto, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as exc:
        raise StartError(f"--host {host} is no address of this machine: {exc.strerror}.") from exc
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(1024)
    except PermissionError as exc:
        raise StartError(
            f"Port {port} is reserved for root; choose one above 1023 with --port N (or PORT)."
        ) from exc
    except OSError as exc:
        if exc.errno in (98, 48):  # EADDRINUSE on Linux, on BSD and macOS
            raise StartError(
                f"Port {port} on {host} is in use by another program; choose another with --port N (or PORT)."
            ) from exc
        raise StartError(f"Cannot listen on {host}, port {port}: {exc.strerror}.") from exc
    return listener


class Child:
    """A process that is kept running: its output gets its name in front, its death a sentence."""

    def __init__(
        self, name: str, command: list[str], *, console: Console, environment: dict[str, str]
    ) -> None:
        self.name = name
        self._command = command
        self._console = console
        self._environment = environment
        self._pass_fds: tuple[int, ...] = ()
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = asyncio.Event()

    def give(self, *fds: int) -> None:
        """Let the process inherit these descriptors."""
        self._pass_fds = fds

    async def keep_running(self) -> None:
        """Start it again and again until `terminate`, then wait for its end."""
        backoff_s, deaths = FIRST_BACKOFF_S, 0
        while not self._is_stopping.is_set():
            began = time.monotonic()
            code = await self._run_once()
            if self._is_stopping.is_set():
                return
            lived_s = time.monotonic() - began
            if code in LEFT_IN_ORDER:
                self._console.say(f"The {self.name} left in order; starting it again.")
                backoff_s, deaths = FIRST_BACKOFF_S, 0
                await self._pause(LEAST_LIFE_S - lived_s)
                continue
            if lived_s > STEADY_S:
                backoff_s, deaths = FIRST_BACKOFF_S, 0
            deaths += 1
            advice = ""
            if deaths >= LOOK_AT_IT_AFTER:
                advice = f" It ended {deaths} times in a row: its last lines above say why."
            self._console.warn(
                f"The {self.name} {exit_sentence(code)}; starting it again in {backoff_s:.0f} s.{advice}"
            )
            await self._pause(backoff_s)
            backoff_s = min(backoff_s * 2, LONGEST_BACKOFF_S)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_stopping.wait(), seconds)

    async def _run_once(self) -> int:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
            cwd=PROJECT_DIR,
            pass_fds=self._pass_fds,
            limit=1 << 20,
            # Out of the terminal's reach: Ctrl-C is ours to translate into an orderly stop.
            start_new_session=True,
            preexec_fn=before_exec(dies_with_us=signal.SIGKILL),
        )
        if self._is_stopping.is_set():
            self.send(signal.SIGTERM)
        output = asyncio.create_task(self._copy_output(self._process))
        code = await self._process.wait()
        # What it left in the pipe belongs before the sentence about its end; a grandchild may hold the pipe
        # open.
        await asyncio.wait([output], timeout=1.0)
        output.cancel()
        return code

    async def _copy_output(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than a megabyte
                continue
            if not line:
                return
            self._console.child_line(self.name, line.decode(errors="replace").rstrip("\r\n"))

    def send(self, signum: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signum)

    def terminate(self) -> None:
        """Ask it to finish what it does and end; it is not started again."""
        self._is_stopping.set()
        self.send(signal.SIGTERM)

    def kill(self) -> None:
        """End it, and all that shares its process group, now."""
        self._is_stopping.set()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)


class Supervisor:
    """One run of `up`."""

    def __init__(self, options: Options, console: Console) -> None:
        self.options = options
        self.console = console
        self.postgres: EmbeddedPostgres | None = None
        self.listener: socket.socket | None = None
        self.stop_requests = 0
        self._stop = asyncio.Event()
        self._kill = asyncio.Event()
        self._children: dict[str, Child] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._environment: dict[str, str] = {}
        self._report: dict[str, Any] = {}  # what prepare.py found
        self._static_failure = ""

    # --- start ---------------------------------------------------------------------------------------------

    def start_database(self) -> None:
        """Bind the port, start PostgreSQL, settle the children's environment. In the main thread."""
        folder, options = self.options.folder, self.options
        environment = dict(os.environ)
        environment.pop("WINDMILL_CWD", None)
        if options.mode != "worker":
            self.listener = bind(options.host, options.port)
            environment["PORT"] = str(self.listener.getsockname()[1])
            environment["SERVER_BIND_ADDR"] = options.host
        if options.workers is not None:
            environment["NUM_WORKERS"] = str(options.workers)
        elif options.mode == "standalone":
            # With one slot a single long job would hold up everything that a person tries meanwhile. A default only: a
            # native worker has another one.
            environment.setdefault("NUM_WORKERS_DEFAULT", str(min(os.cpu_count() or 1, MOST_DEFAULT_SLOTS)))
        environment["MODE"] = options.mode
        environment["DATA_DIR"] = str(folder.path)
        environment.setdefault("STATIC_ROOT", str(folder.static))
        environment["PYTHONUNBUFFERED"] = "1"
        is_external = bool(environment.get("DATABASE_URL") or environment.get("DATABASE_URL_FILE"))
        if not environment.get("SECRET_KEY"):
            environment["SECRET_KEY"] = secret_key(folder, has_external_database=is_external)
            if is_external:
                self.console.say(
                    f"  SECRET_KEY is not set; using the one in {folder.secrets}. Servers and workers on "
                    "other hosts need the same value: set SECRET_KEY everywhere."
                )
        if not is_external:
            with self.console.step("PostgreSQL") as details:
                postgres = EmbeddedPostgres(folder)
                self.postgres = postgres
                # A second worker on this folder joins the database that is there, and must not take it away.
                owns = options.mode != "worker"
                if not postgres.start(dies_with_us=owns, say=self.console.say):
                    details.append("was running already")
                environment["DATABASE_URL"] = postgres.dsn()
        self._environment = environment

    async def run(self) -> int:
        """Prepare, run until told to stop, stop in order. Answers the exit status."""
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(signum, self._on_signal)
        try:
            if not await self._prepare():
                return 130 if self._stop.is_set() else 1
            self._start_children()
            watchers = [asyncio.create_task(self._announce())]
            if self.postgres is not None:
                watchers.append(asyncio.create_task(self._watch_postgres(self.postgres)))
            await self._stop.wait()
            for watcher in watchers:
                watcher.cancel()
            await self._drain()
            return 0
        finally:
            for child in self._children.values():
                child.kill()

    def _on_signal(self) -> None:
        self.stop_requests += 1
        self._stop.set()
        if self.stop_requests > 1:
            self._kill.set()
            for child in self._children.values():
                child.kill()

    async def _prepare(self) -> bool:
        """Migrations and static files, side by side; False when one failed or we were told to stop."""
        if self.options.mode == "worker":
            steps = [self._bring_up_database("wait")]
        else:
            steps = [self._bring_up_database("migrate"), self._collect_static()]
        work = asyncio.gather(*steps)
        stop = asyncio.ensure_future(self._stop.wait())
        waiting: list[asyncio.Future[Any]] = [work, stop]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not work.done():
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
            return False
        if all(work.result()) and self._static_failure:
            self.console.error(self._static_failure)
        return all(work.result()) and not self._static_failure

    async def _bring_up_database(self, how: str) -> bool:
        with self.console.step("Database") as details:
            code, output = await self._run_once([sys.executable, "-P", "-m", "windmill_site.prepare", how])
            if code != 0:
                # Its own sentence is on the screen already.
                self.console.error(f"The database could not be prepared ({exit_sentence(code)}).")
                return False
            self._report = json.loads(output.splitlines()[-1])
            if self._report["applied"]:
                details.append(f"{self._report['applied']} migrations applied")
        return True

    async def _collect_static(self) -> bool:
        root = Path(self._environment["STATIC_ROOT"])
        wanted = static_files.fingerprint()
        if static_files.is_collected(root, wanted):
            return True
        with self.console.step("Static files"):
            if (
                root == self.options.folder.static
            ):  # not where an operator told us to put them: it may hold more
                shutil.rmtree(root, ignore_errors=True)
            code, output = await self._run_once(
                [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"],
                stderr=asyncio.subprocess.STDOUT,
            )
            if code != 0:
                # Told later, if at all: a wrong setting fails both steps, and the other one has the sentence.
                self._static_failure = f"{output}\nStatic files could not be collected into {root}."
                return True
            static_files.mark_collected(root, wanted)
        return True

    async def _run_once(self, command: list[str], *, stderr: int | None = None) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=self._environment | {"PYTHONPATH": str(PROJECT_DIR)},
            cwd=PROJECT_DIR,
            start_new_session=True,
            preexec_fn=before_exec(dies_with_us=signal.SIGKILL),
        )
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        return process.returncode or 0, output.decode(errors="replace")

    def _start_children(self) -> None:
        if self.listener is not None:
            server = self._child("server", self._server_command(self.listener))
            if self.listener.family == socket.AF_INET:
                server.give(self.listener.fileno())
        if self.options.mode != "server":
            self._child("worker", [sys.executable, "manage.py", "runworker"])
        for name, child in self._children.items():
            self._tasks[name] = asyncio.create_task(child.keep_running())

    def _child(self, name: str, command: list[str]) -> Child:
        child = Child(name, command, console=self.console, environment=self._environment)
        self._children[name] = child
        return child

    def _server_command(self, listener: socket.socket) -> list[str]:
        command = [sys.executable, "-m", "daphne", "--verbosity", "0", "--no-server-name"]
        if self._environment.get("TRUST_PROXY_HEADERS", "").lower() in ("1", "true", "yes", "on"):
            command.append("--proxy-headers")
        if listener.family == socket.AF_INET:
            # Our socket, not a port: connections that arrive while the server restarts wait instead of
            # failing.
            command += ["--fd", str(listener.fileno())]
        else:
            # daphne adopts IPv4 sockets only.
            host, port = listener.getsockname()[:2]
            listener.close()
            command += ["-b", host, "-p", str(port)]
        return [*command, "windmill_site.asgi:application"]

    # --- while it runs -------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        host = self.options.host
        shown = "localhost" if host in ("127.0.0.1", "0.0.0.0", "::", "::1", "localhost") else host
        default = f"http://[{shown}]" if ":" in shown else f"http://{shown}"
        return self._environment.get("BASE_URL") or f"{default}:{self._environment['PORT']}"

    async def _announce(self) -> None:
        say, folder = self.console.say, self.options.folder
        if self.options.mode == "worker":
            say(
                f"Worker of Windmill {self._report['version']} started. "
                "Ctrl-C stops it when its jobs are finished."
            )
            return
        with self.console.step("Server"):
            await self._wait_for_server()
        _write_state(folder, {"pid": os.getpid(), "url": self.url})
        email = self._report["superadmin"]
        if self._report["has_default_password"]:
            password = os.environ.get("SUPERADMIN_PASSWORD", "changeme")
            account = (
                f"{email} / {password}   (change it after the first sign-in)"
                if password == "changeme"
                else email
            )
        else:
            account = email
        say()
        say(self.console.strong(f"Windmill {self._report['version']} is running."))
        say(f"  Open      {self.console.strong(self.url)}")
        say(f"  Account   {account}")
        say(f"  Data      {folder.path}")
        if folder.path != DataFolder.usual().path:
            say(f"  Commands  DATA_DIR={shlex.quote(str(folder.path))} ./windmill manage ...")
        say("  Stop      Ctrl-C: running jobs finish first; Ctrl-C again stops at once")
        say()

    async def _wait_for_server(self) -> None:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.options.host, self.options.host)
        lines = (
            "GET /api/version HTTP/1.1",
            f"Host: localhost:{self._environment['PORT']}",
            "Connection: close",
        )
        request = "\r\n".join(lines) + "\r\n\r\n"
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                reader, writer = await asyncio.open_connection(host, int(self._environment["PORT"]))
                try:
                    writer.write(request.encode())
                    status = await asyncio.wait_for(reader.readline(), 60)
                    if status.startswith(b"HTTP/"):
                        if b" 200 " not in status:
                            self.console.warn(
                                f"The server answers /api/version with {status.decode().strip()}."
                            )
                        return
                finally:
                    writer.close()
            await asyncio.sleep(0.1)

    async def _watch_postgres(self, postgres: EmbeddedPostgres) -> None:
        backoff_s = FIRST_BACKOFF_S
        while True:
            await asyncio.sleep(1.0)
            if postgres.is_running():
                backoff_s = FIRST_BACKOFF_S
                continue
            self.console.warn(
                f"PostgreSQL is gone; starting it again. Its log is in {postgres.cluster / 'log'}. "
                "Server and workers reconnect by themselves."
            )
            try:
                postgres.start(dies_with_us=self.options.mode != "worker", say=self.console.say)
            except StartError as exc:
                self.console.error(f"{exc}\nTrying again in {backoff_s:.0f} s.")
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, LONGEST_BACKOFF_S)

    # --- stop ----------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Workers first: their jobs may still call the server, and both need the database."""
        self.console.say()
        if "worker" in self._children:
            self.console.say("Stopping: running jobs finish first. Ctrl-C again stops at once.")
            await self._end("worker", patience_s=None)
        else:
            self.console.say("Stopping. Ctrl-C again stops at once.")
        if self.listener is not None:
            self.listener.close()
        if "server" in self._children:
            await self._end("server", patience_s=SERVER_STOP_S)

    async def _end(self, name: str, *, patience_s: float | None) -> None:
        child, task = self._children[name], self._tasks[name]
        child.terminate()
        kill = asyncio.create_task(self._kill.wait())
        await asyncio.wait([task, kill], timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        kill.cancel()
        if not task.done():
            child.kill()
            await task

    def stop_database(self) -> None:
        if self.postgres is not None:
            self.postgres.stop(even_if_used=self.options.mode != "worker", immediately=self.stop_requests > 1)


def secret_key(folder: DataFolder, *, has_external_database: bool) -> str:
    """The data folder's SECRET_KEY, made on first use. StartError when it was lost, its database not."""
    is_lost = (
        not folder.has_secret("secret-key")
        and not has_external_database
        and (folder.postgres / "PG_VERSION").exists()
    )
    if is_lost:
        raise StartError(
            f"{folder.secrets / 'secret-key'} is missing, but the database in {folder.postgres} holds "
            "secrets that were encrypted with it. Restore that file from a backup, or set SECRET_KEY."
        )
    return folder.secret("secret-key", byte_count=48)


def _write_state(folder: DataFolder, state: dict[str, object]) -> None:
    draft = folder.supervisor_state.with_suffix(".new")
    draft.write_text(json.dumps(state) + "\n")
    draft.rename(folder.supervisor_state)


def _already_running(folder: DataFolder) -> StartError:
    try:
        state = json.loads(folder.supervisor_state.read_text())
        where = (
            f" at {state['url']} (process {state['pid']}); stop it with Ctrl-C there, or kill {state['pid']}"
        )
    except (OSError, ValueError, KeyError):
        where = " (it is just starting)"
    return StartError(
        f"Windmill is already running on {folder.path}{where}. Another instance needs another --data DIR."
    )


def _interrupt(*_signal: object) -> NoReturn:
    raise KeyboardInterrupt


def up(arguments: list[str]) -> int:
    """Run until stopped; answers the exit status."""
    console = Console()
    try:
        options = parse_options(arguments)
        folder = options.folder
        folder.create()
        lock = folder.lock("supervisor")
        # Any number of workers may join; what owns port and database is alone on its folder.
        if options.mode != "worker":
            if not lock.acquire():
                raise _already_running(folder)
            folder.supervisor_state.unlink(missing_ok=True)
    except StartError as exc:
        console.error(f"windmill: {exc}")
        return 1
    supervisor = Supervisor(options, console)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        console.say("Starting Windmill")
        supervisor.start_database()
        status = asyncio.run(supervisor.run())
    except StartError as exc:
        console.error(f"windmill: {exc}")
        status = 1
    except KeyboardInterrupt:
        status = 130
    finally:
        supervisor.stop_database()
        if options.mode != "worker":
            folder.supervisor_state.unlink(missing_ok=True)
        lock.release()
    if status == 0:
        console.say(
            "Stopped."
            if supervisor.stop_requests < 2
            else "Stopped at once; unfinished jobs start again later."
        )
    return status


if __name__ == "__main__":
    sys.exit(up(sys.argv[1:]))
