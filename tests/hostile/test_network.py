"""The database asks jobs for a password, and addresses that are blocked do not answer them."""

import asyncio
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.hostile.conftest import Place, a_place, probe
from tests.workers.job_runs import ISOLATED, Log, Ran
from windmill_site.data_folder import DataFolder
from windmill_site.embedded_postgres import EmbeddedPostgres
from workers.probes import Judged, Surroundings, judge

LANGUAGES = ["py", "sh", "ts"]
BLOCKED = "127.0.0.77"  # of this machine, so that somebody can listen there; blocked as those of clouds are


@pytest.fixture(scope="module", params=ISOLATED)
def walled(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place whose jobs must not reach BLOCKED."""
    with a_place(request.param, blocked_networks=[f"{BLOCKED}/32"]) as place:
        yield place


class Answers:
    """Answers over TCP and UDP, on one port of an address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._tcp = socket.create_server((address, 0))
        self.port: int = self._tcp.getsockname()[1]
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind((address, self.port))
        for serve in (self._serve_tcp, self._serve_udp):
            threading.Thread(target=serve, daemon=True).start()

    def _serve_tcp(self) -> None:
        while True:
            try:
                one, _ = self._tcp.accept()
                one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")
                one.close()
            except OSError:
                return

    def _serve_udp(self) -> None:
        while True:
            try:
                _, sender = self._udp.recvfrom(100)
                self._udp.sendto(b"secret", sender)
            except OSError:
                return

    def close(self) -> None:
        for one in (self._tcp, self._udp):
            one.close()


def surroundings(server: Answers) -> Surroundings:
    return Surroundings(address=server.address, address_port=server.port)


def judged_at(place: Place, name: str, around: Surroundings) -> Judged:
    attempt = probe(name)
    args = attempt.args(around)
    assert args is not None
    ran = place.run(attempt.language, attempt.code, args=dict(args), env={"PATH": os.environ["PATH"]})
    assert not ran.error, ran.error
    return judge(attempt, result=ran.result, isolation=place.isolation, note=place.note)


def verdict(place: Place, name: str, around: Surroundings) -> str:
    return judged_at(place, name, around).verdict


@pytest.mark.parametrize("ending", LANGUAGES)
def test_an_address_that_is_blocked_does_not_answer(walled: Place, ending: str) -> None:
    server = Answers(BLOCKED)
    try:
        judged = judged_at(walled, f"blocked_address.{ending}", surroundings(server))
    finally:
        server.close()

    if (
        judged.verdict == "not promised"
    ):  # a machine that lets only root attach filters to sockets; its host says so
        assert "TCP" not in judged.happened and "UDP" in judged.happened
    else:
        assert judged.verdict == "contained", judged


@pytest.mark.parametrize("ending", LANGUAGES)
def test_any_other_address_does(walled: Place, ending: str) -> None:
    server = Answers("127.0.0.1")
    try:
        assert verdict(walled, f"blocked_address.{ending}", surroundings(server)) != "contained"
    finally:
        server.close()


# Whoever asks for a socket here hardly ever runs, so that it takes long until it has what it asked for.
KEEPS_WAITING = """
import os, socket, time
def main():
    for _ in range(4 * os.cpu_count()):
        if os.fork() == 0:
            while True: pass
    for _ in range(4):
        if os.fork() == 0:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            while True: socket.socket().close()
    print("begun", flush=True)
    time.sleep(600)
"""
ASKS = """
import socket, time
def main():
    for _ in range(20):
        socket.socket().close()
        time.sleep(0.02)
    return "answered"
"""


def test_a_job_that_is_slow_to_take_its_sockets_keeps_nobody_elses(walled: Place) -> None:
    async def run() -> Ran:
        log = Log()
        hostile = asyncio.create_task(walled.jobs.run("python3", KEEPS_WAITING, log=log, timeout_s=600))
        await log.wait_for("begun")
        try:
            return await walled.jobs.run("python3", ASKS, timeout_s=30)
        finally:
            hostile.cancel()
            await asyncio.wait([hostile])

    walled.begin()
    assert walled.jobs.runner.run(run()).result == "answered"
    walled.assert_sound()


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedPostgres]:
    """The database as ./windmill up starts it, but in a folder that is in sight."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        server = EmbeddedPostgres(DataFolder(Path(name)), durable=False)
        server.start(dies_with_us=True)
        yield server
        server.stop(even_if_used=True)


@pytest.fixture(scope="module")
def listening(embedded: EmbeddedPostgres) -> Iterator[tuple[str, int]]:
    """A port that leads to the embedded database: one that listens on TCP, too."""
    folder = str(psycopg.conninfo.conninfo_to_dict(embedded.dsn())["host"])
    port = str(psycopg.conninfo.conninfo_to_dict(embedded.dsn()).get("port") or 5432)
    server = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                target.sendall(data)
        except OSError:
            pass
        finally:
            for one in (source, target):
                one.close()

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(f"{folder}/.s.PGSQL.{port}")
            except OSError:
                return
            for pair in ((client, upstream), (upstream, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()
    server.close()


@pytest.mark.parametrize("ending", LANGUAGES)
def test_nobody_enters_the_embedded_database_without_its_password(
    place: Place, listening: tuple[str, int], ending: str
) -> None:
    around = Surroundings(host=listening[0], port=listening[1], user="windmill", database="windmill")

    assert verdict(place, f"database.{ending}", around) == "contained"


@pytest.mark.parametrize("ending", LANGUAGES)
def test_a_database_that_trusts_everybody_is_noticed(place: Place, ending: str) -> None:
    """A server that lets in whoever connects, which is how some are set up."""

    def serve() -> None:
        one, _ = server.accept()
        with one:
            one.recv(1000)
            one.sendall(b"R\0\0\0\x08\0\0\0\0")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        port = server.getsockname()[1]
        around = Surroundings(host="127.0.0.1", port=port, user="windmill", database="windmill")

        assert verdict(place, f"database.{ending}", around) == "exposed"


@pytest.mark.parametrize("ending", LANGUAGES)
def test_its_socket_is_out_of_sight(ending: str, embedded: EmbeddedPostgres) -> None:
    folder = str(psycopg.conninfo.conninfo_to_dict(embedded.dsn())["host"])
    around = Surroundings(host=folder, port=5432, user="windmill", database="windmill")
    with a_place(ISOLATED[0]) as place:
        assert verdict(place, f"database.{ending}", around) == "contained"
