"""The launcher's other verbs: manage, seed, test, check, bench. Each gets the database it needs."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from windmill_site.child_process import before_exec
from windmill_site.console import Console
from windmill_site.data_folder import PROJECT_DIR, DataFolder, StartError
from windmill_site.embedded_postgres import EmbeddedPostgres
from windmill_site.supervisor import secret_key

MANAGE = [sys.executable, str(PROJECT_DIR / "manage.py")]


def manage(arguments: list[str]) -> int:
    """`manage.py` on the instance's database, from the caller's folder."""
    with instance_environment() as environment:
        # manage.py is named by path, so relative paths in its arguments mean the caller's folder.
        return run([*MANAGE, *arguments], environment, folder=Path(os.environ.get("WINDMILL_CWD", ".")))


def seed(arguments: list[str]) -> int:
    """Demo data, into a database that is brought up to date first: it may be the very first command."""
    with instance_environment() as environment:
        prepared = run([sys.executable, "-m", "windmill_site.prepare", "migrate"], environment, is_quiet=True)
        return prepared or run([*MANAGE, "seed_demo", *arguments], environment)


def test(arguments: list[str]) -> int:
    """pytest, on a PostgreSQL that is thrown away afterwards (or on DATABASE_URL_FOR_TESTS)."""
    chooses_processes = any(
        argument.startswith(("-n", "--numprocesses", "--pdb", "--trace"))
        or argument == "no:xdist"
        or "::" in argument
        for argument in arguments
    )
    command = [sys.executable, "-m", "pytest", *([] if chooses_processes else ["-n", "auto"]), *arguments]
    with scratch_environment("DATABASE_URL_FOR_TESTS", durable=False) as environment:
        return run(command, environment)


def bench(arguments: list[str]) -> int:
    """A benchmark, on a PostgreSQL of its own, durable as a real one (or on DATABASE_URL_FOR_BENCH)."""
    with scratch_environment("DATABASE_URL_FOR_BENCH", durable=True) as environment:
        return run([sys.executable, "-m", "bench", *arguments], environment)


def check(arguments: list[str]) -> int:
    """Every check that needs no running instance."""
    from windmill_site.checks import check_all

    return check_all(arguments)


VERBS = {"manage": manage, "seed": seed, "test": test, "check": check, "bench": bench}


@contextmanager
def instance_environment() -> Iterator[dict[str, str]]:
    """Environment for commands on the instance: the given DATABASE_URL and SECRET_KEY, or the data folder's.

    The embedded server is started when it does not run, and stopped when nobody else uses it.
    """
    folder = DataFolder.from_environment()
    environment = {**os.environ, "DATA_DIR": str(folder.path)}
    is_external = bool(environment.get("DATABASE_URL") or environment.get("DATABASE_URL_FILE"))
    folder.create()
    if not environment.get("SECRET_KEY"):
        environment["SECRET_KEY"] = secret_key(folder, has_external_database=is_external)
    if is_external:
        yield environment
        return
    postgres = EmbeddedPostgres(folder)
    try:
        if postgres.start(say=lambda line: print(line, file=sys.stderr)):
            # Or somebody whose instance runs on another folder would wonder where this went.
            print(
                f"windmill: nothing runs on {folder.path}; its PostgreSQL is started for this command. "
                "DATA_DIR=DIR names another data folder.",
                file=sys.stderr,
            )
        environment["DATABASE_URL"] = postgres.dsn()
        yield environment
    finally:
        postgres.stop()


@contextmanager
def scratch_environment(url_variable: str, *, durable: bool) -> Iterator[dict[str, str]]:
    """Environment with a database and a data folder that end with the block; the URL is a superuser's."""
    # What is set for a real instance must neither change the outcome nor be touched.
    theirs = ("DATABASE_", "SUPERADMIN_", "SECRET_KEY", "MODE", "PORT", "WORKER_", "STATIC_ROOT", "BASE_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    # Speed that is measured must be that of a real disk: /tmp may be memory.
    (PROJECT_DIR / ".data").mkdir(exist_ok=True)
    parent = PROJECT_DIR / ".data" if durable else None
    scratch = Path(tempfile.mkdtemp(prefix="windmill-scratch-", dir=parent))
    environment |= {"DATA_DIR": str(scratch), "SECRET_KEY": "scratch-" + "0123456789abcdef" * 4}
    postgres = EmbeddedPostgres(DataFolder(scratch), durable=durable)
    try:
        given = os.environ.get(url_variable)
        if given is None:
            postgres.start(dies_with_us=True)
        environment["DATABASE_URL"] = given or postgres.admin_dsn()
        yield environment
    finally:
        if not durable:
            postgres.stop(even_if_used=True, immediately=True)
        else:
            postgres.stop(even_if_used=True)
        shutil.rmtree(scratch, ignore_errors=True)


def run(
    command: list[str], environment: dict[str, str], *, folder: Path = PROJECT_DIR, is_quiet: bool = False
) -> int:
    """Run a command to its end and answer its exit status, 128 + n for signal n.

    Ctrl-C reaches it from the terminal by itself; a SIGTERM that we get is passed on. Either way we outlive
    it, to clean up after it.
    """
    environment = {name: value for name, value in environment.items() if name != "WINDMILL_CWD"}
    process: subprocess.Popen[bytes] | None = None

    def pass_on(signum: int, _frame: FrameType | None) -> None:
        if process is not None:
            process.send_signal(signum)

    previous = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
    }
    end_with_us = before_exec(dies_with_us=signal.SIGKILL)

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # being ignored is inherited
        end_with_us()

    try:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL if is_quiet else None,
            preexec_fn=prepare,
        )
        code = process.wait()
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)
    return code if code >= 0 else 128 - code


def _interrupt(*_signal: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return VERBS[arguments[0]](arguments[1:])
    except StartError as exc:
        Console().error(f"windmill: {exc}")
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
