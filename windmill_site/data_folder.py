"""The data folder: where an instance keeps its embedded PostgreSQL, generated secrets and static files.

postgres/           the database cluster (owned by the account that PostgreSQL runs as)
run/                its socket (closed to everybody else)
secrets/            secret-key, postgres-password, postgres-admin-password: one generated value a file
static/             collected static files
supervisor.json     address and process id of the running `up`, for people and for a second `up`
*.lock              see `Lock`
"""

import fcntl
import os
import secrets
from pathlib import Path
from typing import Self

PROJECT_DIR = Path(__file__).resolve().parent.parent


class StartError(Exception):
    """Something on this machine keeps us from starting; the message says what, where and what to do."""


class Lock:
    """A lock on a file, held while the file is open: the kernel releases it however the holder dies.

    Pass `fileno()` to a child (`pass_fds`) and the child holds the lock too; it is free when the last holder
    is gone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self, *, wait: bool = False, shared: bool = False) -> bool:
        """Take the lock (`shared`: beside other sharers); False when it is taken and `wait` is false."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(fd)
            return False
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return True

    def fileno(self) -> int:
        if self._fd is None:
            raise ValueError(f"{self.path} is not locked")
        return self._fd

    def release(self) -> None:
        """Let go of it. Children that were given the descriptor go on holding the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        self.acquire(wait=True)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.release()


class DataFolder:
    """Paths and secrets of one data folder. Raises StartError when it cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.postgres = self.path / "postgres"
        self.secrets = self.path / "secrets"
        self.static = self.path / "static"
        self.supervisor_state = self.path / "supervisor.json"

    @classmethod
    def from_environment(cls) -> "DataFolder":
        """The folder named by DATA_DIR, else `.data` in the project's folder (as in settings.py)."""
        named = os.environ.get("DATA_DIR")
        return cls(Path(os.environ.get("WINDMILL_CWD", "."), named)) if named else cls.usual()

    @classmethod
    def usual(cls) -> "DataFolder":
        """The one that is used when nobody names another."""
        return cls(PROJECT_DIR / ".data")

    def create(self) -> None:
        """Make the folder, closed to other accounts (root's lets PostgreSQL's account pass, not list)."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self.path.stat().st_uid == os.geteuid():
                self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)
            self.secrets.mkdir(mode=0o700, exist_ok=True)
            probe = self.path / f".writable-{os.getpid()}"
            probe.write_bytes(b"x")
            probe.unlink()
        except OSError as exc:
            raise StartError(
                f"The data folder {self.path} cannot be written: {exc.strerror}. Choose another with --data "
                f"DIR "
                "(or DATA_DIR), or make room or permissions for it."
            ) from exc

    def lock(self, name: str) -> Lock:
        return Lock(self.path / f"{name}.lock")

    def secret(self, name: str, *, byte_count: int = 32) -> str:
        """The value kept under this name, generated on first use (URL-safe text, mode 0600).

        Two processes that ask at once get the same value.
        """
        path = self.secrets / name
        try:
            value = path.read_text().strip()
        except FileNotFoundError:
            value = ""
        except OSError as exc:
            raise StartError(
                f"{path} cannot be read: {exc.strerror}. The data folder belongs to another account?"
            ) from exc
        if value:
            return value
        with self.lock("secrets"):
            if not self.has_secret(name):
                self._write_secret(name, secrets.token_urlsafe(byte_count))
        return path.read_text().strip()

    def has_secret(self, name: str) -> bool:
        path = self.secrets / name
        return path.is_file() and path.stat().st_size > 0

    def _write_secret(self, name: str, value: str) -> None:
        draft = self.secrets / f".{name}.new"
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(value + "\n")
                file.flush()
                # The value opens the database for ever after: a power cut must not lose it.
                os.fsync(file.fileno())
            draft.rename(self.secrets / name)
        except OSError as exc:
            raise StartError(f"{self.secrets / name} cannot be written: {exc.strerror}.") from exc
