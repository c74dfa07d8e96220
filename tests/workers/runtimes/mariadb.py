"""A MariaDB server of the tests' own, on a port and a folder of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

PASSWORD = "correct horse"
USER = "jobs"
DATABASE = "shop"


@contextmanager
def started() -> Iterator[dict[str, object]]:
    """A running server; answers the resource to connect with. Skips the test where none is installed, fails in CI."""
    server, install = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
    if server is None or install is None:
        message = "MariaDB is not installed (Debian: mariadb-server)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    # Not below pytest's folders: those are private to their owner, and made so again by every pytest that starts.
    folder = Path(tempfile.mkdtemp(prefix="mariadb-"))
    data = folder / "data"
    user = _owner(folder)
    common = ["--no-defaults", f"--datadir={data}", *([f"--user={user}"] if user else [])]
    subprocess.run(
        [install, *common, "--skip-test-db", "--auth-root-authentication-method=normal"],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    init = folder / "init.sql"
    init.write_text(
        f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4;\n"
        f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}';\n"
        f"GRANT ALL ON *.* TO {USER}@'%';\n"
    )
    init.chmod(0o644)
    port = _free_port()
    log = (folder / "server.log").open("wb")
    process = subprocess.Popen(
        [
            server,
            *common,
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--socket={folder}/server.sock",
            f"--init-file={init}",
            "--innodb-buffer-pool-size=16M",
            "--innodb-flush-log-at-trx-commit=0",
            "--skip-name-resolve",
        ],
        stdout=log,
        stderr=log,
    )
    resource: dict[str, object] = {
        "host": "127.0.0.1", "port": port, "user": USER, "password": PASSWORD, "database": DATABASE,
    }  # fmt: skip
    try:
        _wait_until_it_answers(process, resource, folder)
        yield resource
    finally:
        process.terminate()
        process.wait(30)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def _owner(folder: Path) -> str | None:
    """The user that the server runs as: it refuses to be root."""
    if os.geteuid() != 0:
        return None
    shutil.chown(folder, "mysql")
    return "mysql"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(
    process: subprocess.Popen[bytes], resource: dict[str, object], folder: Path
) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, (folder / "server.log").read_text(errors="replace")[-2000:]
        try:
            pymysql.connect(
                host="127.0.0.1",
                port=int(str(resource["port"])),
                user=USER,
                password=PASSWORD,
                database=DATABASE,
            ).close()
            return
        except pymysql.MySQLError:
            assert time.monotonic() < deadline, "MariaDB did not start"
            time.sleep(0.05)
