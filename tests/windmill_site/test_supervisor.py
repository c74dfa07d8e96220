"""`./windmill up` as a real process tree: what it says, what it keeps alive, what it leaves behind."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from windmill_site.console import Console
from windmill_site.data_folder import DataFolder
from windmill_site.embedded_postgres import EmbeddedPostgres
from windmill_site.supervisor import LEAST_LIFE_S, Child
from workers.worker import RESTART_CODE

PROJECT = Path(__file__).resolve().parents[2]
OURS = ("DATABASE_", "SECRET_KEY", "DATA_DIR", "MODE", "PORT", "SUPERADMIN_", "STATIC_ROOT")


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return kept | {name: str(value) for name, value in more.items()}


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    """Start a supervisor: `with up(data) as (process, output)`. Killed at the end, if it still runs.

    Static files are collected once for all: the tests are about processes.
    """
    static = tmp_path_factory.mktemp("static")

    @contextmanager
    def start(data, *arguments, **variables):
        log = Path(f"{data}.log")
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "windmill_site.supervisor", "--data", data, "--port", "0", *arguments],
                cwd=PROJECT,
                env=environment(STATIC_ROOT=static, **variables),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        try:
            yield process, lambda: log.read_text(errors="replace")
        finally:
            process.kill()
            process.wait()
            EmbeddedPostgres(DataFolder(data)).stop(even_if_used=True, immediately=True)

    return start


def until(condition, process=None, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (outcome := condition()):
        assert process is None or process.poll() is None, "the supervisor has ended"
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return outcome


def address(output):
    found = re.search(r"Open +(http://\S+)", output)
    return found and found.group(1)


def get(url):
    with urllib.request.urlopen(url, timeout=20) as response:
        return response.read().decode()


def run(*command, **variables):
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=PROJECT,
        env=environment(**variables),
        capture_output=True,
        text=True,
    )


def alive(family: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run. Orphans that have died wait for init to bury them, which is init's business."""
    running = []
    for process in family:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                running.append(process)
        except psutil.NoSuchProcess:
            pass
    return running


def test_one_instance_from_start_to_stop(up, tmp_path):
    data = tmp_path / "my data"
    with up(data) as (process, output):
        url = until(lambda: address(output()), process)
        assert "admin@windmill.dev / changeme" in output()
        assert f"DATA_DIR='{data}' ./windmill manage" in output()  # in quotes: it has a blank
        assert get(f"{url}/api/version").startswith("CE v")

        assert json.loads((data / "supervisor.json").read_text()) == {"pid": process.pid, "url": url}

        # A second one on the same folder says where the first one is.
        second = run("windmill_site.supervisor", "--data", str(data), "--port", "0")
        assert second.returncode == 1
        assert f"already running on {data} at {url} (process {process.pid})" in second.stderr

        # manage.py finds the database and the key by itself, and leaves the server running.
        managed = run("windmill_site.tasks", "manage", "bootstrap", DATA_DIR=data)
        assert managed.stdout == "superadmin admin@windmill.dev exists\n"
        assert "nothing runs on" not in managed.stderr

        # A killed server comes back, on the same socket: requests wait instead of failing.
        [server] = [child for child in psutil.Process(process.pid).children() if "daphne" in child.cmdline()]
        server.kill()
        assert get(f"{url}/api/version").startswith("CE v")
        assert "The server was killed by SIGKILL" in output()

        # So does a killed database.
        psutil.Process(EmbeddedPostgres(DataFolder(data)).pid).kill()
        until(lambda: "PostgreSQL is gone; starting it again" in output(), process)

        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)

        assert process.wait(60) == 0
        assert "Stopping: running jobs finish first. Ctrl-C again stops at once." in output()
        assert output().endswith("Stopped.\n")
        # Orphans that have died wait for init to bury them, which is init's business.
        assert not [
            child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE
        ]
        assert not EmbeddedPostgres(DataFolder(data)).is_running()
        assert not (data / "supervisor.json").exists()
        with pytest.raises(OSError):
            get(f"{url}/api/version")


def test_nothing_outlives_a_killed_supervisor_and_the_next_one_takes_over(up, tmp_path):
    data = tmp_path / "data"
    with up(data, MODE="server") as (process, output):
        until(lambda: address(output()), process)
        family = psutil.Process(process.pid).children(recursive=True)
        assert family
        process.kill()
        process.wait()
        until(lambda: not alive(family))
    Path(f"{data}.log").unlink()

    with up(data, MODE="server") as (process, output):
        until(lambda: address(output()), process)


def test_a_worker_joins_the_database_of_a_running_server_and_leaves_it_running(up, tmp_path):
    data = tmp_path / "data"
    with up(data, MODE="server") as (server, output):
        url = until(lambda: address(output()), server)
        key = (data / "secrets" / "secret-key").read_text()

        worker = subprocess.Popen(
            [sys.executable, "-m", "windmill_site.supervisor", "--data", data],
            cwd=PROJECT,
            env=environment(MODE="worker"),
            stdout=subprocess.PIPE,
            text=True,
        )
        until(lambda: "started. Ctrl-C stops it" in worker.stdout.readline(), worker)
        [child] = until(lambda: psutil.Process(worker.pid).children())
        assert child.environ()["SECRET_KEY"] == key.strip()
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)

        assert worker.returncode == 0
        assert get(f"{url}/api/version")


def test_a_port_in_use_is_told_before_a_database_is_made(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run("windmill_site.supervisor", "--data", str(tmp_path / "data"), "--port", str(port))

    assert refused.returncode == 1
    assert f"Port {port} on 127.0.0.1 is in use by another program" in refused.stderr
    assert not (tmp_path / "data" / "postgres").exists()


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"MODE": "both"}, "MODE is 'both'; expected standalone, server or worker."),
        ({"PORT": "http"}, "PORT is 'http'; expected a whole number."),
        ({"SERVER_BIND_ADDR": "203.0.113.7"}, "Cannot listen on 203.0.113.7"),
        ({"DATABASE_URL": "postgresql:///x?nonsense=1"}, "DATABASE_URL is no PostgreSQL address"),
        ({"DATABASE_URL": "mysql://x"}, "DATABASE_URL must start with postgres://"),
    ],
)
def test_a_wrong_variable_stops_the_start_with_a_sentence(tmp_path, variables, sentence):
    port = {} if "PORT" in variables else {"PORT": "0"}

    refused = run("windmill_site.supervisor", "--data", str(tmp_path), **port, **variables)

    assert refused.returncode == 1
    assert sentence in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_lost_secret_key_is_not_replaced_under_a_database_that_needs_it(tmp_path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("18\n")

    refused = run("windmill_site.supervisor", "--data", str(tmp_path), "--port", "0")

    assert refused.returncode == 1
    assert "secret-key is missing" in refused.stderr


def child(script):
    return Child("worker", ["sh", "-c", script], console=Console(), environment=dict(os.environ))


async def printed(capsys, text):
    """Output so far, once it contains `text`."""
    seen = ""
    while text not in seen:
        await asyncio.sleep(0.02)
        seen += capsys.readouterr().out
    return seen


async def test_a_child_that_ends_is_started_again_and_its_last_words_come_first(capsys):
    failing = child("echo the reason; exit 3")
    running = asyncio.create_task(failing.keep_running())

    seen = await printed(capsys, "in 2 s")
    failing.terminate()
    await running

    assert seen.splitlines() == [
        "worker | the reason",
        "The worker ended with exit status 3; starting it again in 1 s.",
        "worker | the reason",
        "The worker ended with exit status 3; starting it again in 2 s.",
    ]


@pytest.mark.parametrize("code", [0, RESTART_CODE])
async def test_a_child_that_leaves_in_order_is_started_again_without_alarm_but_not_in_a_tight_loop(
    capsys, code
):
    leaving = child(f"date +%s.%N; exit {code}")
    running = asyncio.create_task(leaving.keep_running())

    seen = ""
    while seen.count("left in order") < 2:
        seen += await printed(capsys, "left in order")
    leaving.terminate()
    await running

    first, second = (float(found) for found in re.findall(r"worker \| (\S+)", seen))
    assert second - first >= LEAST_LIFE_S * 0.9
    assert re.findall(r"The worker .*", seen) == ["The worker left in order; starting it again."] * 2


async def test_a_child_that_was_told_to_end_may_finish_what_it_does(capsys):
    polite = child("trap 'echo finishing; exit 0' TERM; echo busy; while :; do sleep 0.02; done")
    running = asyncio.create_task(polite.keep_running())

    await printed(capsys, "busy")
    polite.terminate()
    await running

    assert "worker | finishing" in capsys.readouterr().out


async def test_a_child_that_ignores_the_request_is_killed_with_its_own_children(capsys):
    stubborn = child("trap '' TERM; sh -c 'echo $$; sleep 600'; sleep 600")
    running = asyncio.create_task(stubborn.keep_running())
    seen = await printed(capsys, "\n")
    grandchild = psutil.Process(int(seen.split("|")[1]))
    stubborn.terminate()

    stubborn.kill()
    await running

    until(lambda: not alive([grandchild]))
