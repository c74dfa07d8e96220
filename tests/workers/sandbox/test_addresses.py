"""Addresses that jobs must not reach: hostile code in several languages against servers on blocked addresses."""

import asyncio
import json
import os
import select
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.workers.job_runs import ISOLATED, Jobs, started_with
from tests.workers.sandbox.bpf import receives
from tests.workers.sandbox.test_environments import MODULE, Warm
from workers.job_process import address_guard, processes
from workers.runtimes.python_versions import found_pythons
from workers.sandbox import Isolation, JobHost, Limits, Program

BLOCKED, OPEN = "127.0.0.9", "127.0.0.10"  # both are this machine
NETWORKS = ["169.254.0.0/16", f"{BLOCKED}/32", "fd00:ec2::254/128"]


class Servers:
    """One port of both addresses, TCP and UDP; counts who came to the blocked one, and answers everybody."""

    def __init__(self, stack: ExitStack) -> None:
        first = stack.enter_context(socket.create_server((OPEN, 0)))
        self.port: int = first.getsockname()[1]
        self._streams = {first: OPEN}
        self._streams[stack.enter_context(socket.create_server((BLOCKED, self.port)))] = BLOCKED
        self._datagrams = []
        for address in (OPEN, BLOCKED):
            one = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            one.bind((address, self.port))
            self._datagrams.append(one)
        self.came: list[str] = []
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        stack.callback(self._stop)

    def _serve(self) -> None:
        watched: list[Any] = [*self._streams, *self._datagrams, self._stop_read]
        while True:
            for one in select.select(watched, [], [])[0]:
                if one == self._stop_read:
                    return
                if one in self._streams:
                    with one.accept()[0] as connection:
                        self.came.append(self._streams[one])
                        connection.sendall(b"credentials")
                else:
                    _, sender = one.recvfrom(100)
                    one.sendto(b"credentials", sender)

    def _stop(self) -> None:
        os.write(self._stop_write, b"x")
        self._thread.join()
        os.close(self._stop_read)
        os.close(self._stop_write)


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack)


@pytest.fixture(autouse=True)
def _nobody_came_yet(servers: Servers) -> None:
    servers.came.clear()


@contextmanager
def guarded_jobs(kind: Isolation) -> Iterator[Jobs]:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        with started_with(kind, Path(folder) / "jobs", blocked_networks=NETWORKS) as jobs:
            if "all the same" in jobs.host.confinement_reason:
                pytest.skip(jobs.host.confinement_reason)
            yield jobs


@pytest.fixture(scope="module", params=[*ISOLATED, "none"])
def guarded(request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """Jobs in each kind of isolation that are refused NETWORKS."""
    with guarded_jobs(request.param) as jobs:
        yield jobs


@pytest.fixture
def cut_off(guarded: Jobs) -> Jobs:
    """The same where no trick helps: sockets never hear from there."""
    if "cannot reach" not in guarded.host.confinement_reason:
        pytest.skip(guarded.host.confinement_reason)
    return guarded


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.170.2",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "::ffff:a9fe:a9fe",
    ],
)
def test_the_services_with_a_clouds_credentials_are_refused(guarded: Jobs, address: str) -> None:
    code = """
import socket
def main(address: str):
    try:
        socket.create_connection((address, 80), timeout=5)
    except PermissionError:
        return "refused"
"""

    ran = guarded.python(code, args={"address": address})

    assert ran.result == "refused"
    assert ran.log.text.count("\n") == 1
    assert "cannot be reached from jobs" in ran.log.text
    assert "JOB_BLOCKED_NETWORKS" in ran.log.text


TRIES = {
    "python3": """
import socket
def read(address):
    host, port = address.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5) as one:
            return one.recv(100).decode()
    except PermissionError:
        return "refused"
def main(open: str, blocked: str):
    return [read(open), read(blocked)]
""",
    "bash": """
open="$1"
blocked="$2"
found=$(cat < "/dev/tcp/${open/://}")
(cat < "/dev/tcp/${blocked/://}") || result=refused
echo "[\\"$found\\", \\"$result\\"]" > result.json
""",
    "bun": """
import { connect } from "node:net";
function read(address: string): Promise<string> {
    const [host, port] = address.split(":");
    return new Promise((resolve) => {
        const one = connect({ host, port: Number(port) });
        one.on("data", (data) => resolve(data.toString()));
        one.on("error", () => resolve("refused"));
    });
}
export async function main(open: string, blocked: string) {
    return [await read(open), await read(blocked)];
}
""",
}


@pytest.mark.parametrize("language", TRIES)
def test_other_addresses_are_reached_as_before(guarded: Jobs, servers: Servers, language: str) -> None:
    args = {"open": f"{OPEN}:{servers.port}", "blocked": f"{BLOCKED}:{servers.port}"}

    ran = guarded(language, TRIES[language], args=args)

    assert ran.result == ["credentials", "refused"], ran.log.text
    assert f"{BLOCKED} cannot be reached from jobs" in ran.log.text
    assert servers.came == [OPEN]


def test_blocking_and_waiting_connections_work_and_time_out_as_ever(guarded: Jobs, servers: Servers) -> None:
    code = """
import selectors, socket
def main(host: str, port: int):
    with socket.socket() as blocking:
        blocking.connect((host, port))
        first = blocking.recv(100).decode()
    with socket.socket() as waiting:
        waiting.setblocking(False)
        waiting.connect_ex((host, port))
        selector = selectors.DefaultSelector()
        selector.register(waiting, selectors.EVENT_READ)
        selector.select(5)
        second = waiting.recv(100).decode()
    try:
        socket.create_connection((host, 1))
    except ConnectionRefusedError:
        return [first, second]
"""

    ran = guarded.python(code, args={"host": OPEN, "port": servers.port})

    assert ran.result == ["credentials", "credentials"]


def test_an_address_that_changes_while_it_is_looked_at_helps_nobody(cut_off: Jobs, servers: Servers) -> None:
    code = """
import ctypes, select, socket, struct, threading
libc = ctypes.CDLL(None)
def main(port: int, open: str, blocked: str):
    def named(host):
        return struct.pack("=H", 2) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)
    address = ctypes.create_string_buffer(named(open), 16)
    good, bad, done = named(open), named(blocked), False
    def swap():
        while not done:
            ctypes.memmove(address, bad, 16)
            ctypes.memmove(address, good, 16)
    swapping = threading.Thread(target=swap)
    swapping.start()
    answers = []
    for _ in range(400):
        with socket.socket() as one:
            one.setblocking(False)
            libc.connect(one.fileno(), address, 16)
            try:
                select.select([one], [], [], 0.002)
                if one.getpeername()[0] == blocked:
                    answers.append("connected")
            except OSError:
                pass  # not connected
    done = True
    swapping.join()
    return answers
"""

    ran = cut_off.python(code, args={"port": servers.port, "open": OPEN, "blocked": BLOCKED})

    assert ran.result == []
    assert BLOCKED not in servers.came


def test_answers_to_datagrams_from_there_are_never_read(cut_off: Jobs, servers: Servers) -> None:
    code = """
import socket
def ask(host, port, how):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(0.3)
        try:
            if how == "sendmsg":
                one.sendmsg([b"?"], [], 0, (host, port))
            else:
                one.sendto(b"?", (host, port))
            return one.recv(100).decode()
        except PermissionError:
            return "refused"
        except TimeoutError:
            return "nothing came"
def main(port: int, open: str, blocked: str):
    return [ask(host, port, how) for host in (open, blocked) for how in ("sendto", "sendmsg")]
"""

    ran = cut_off.python(code, args={"port": servers.port, "open": OPEN, "blocked": BLOCKED})

    assert ran.result == ["credentials", "credentials", "refused", "nothing came"]


def test_a_job_cannot_take_the_filter_off_its_sockets(cut_off: Jobs) -> None:
    code = """
import ctypes, socket, struct
def refused(act, *args):
    try:
        act(*args)
    except PermissionError:
        return True
def main():
    everything = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFFFFFF), 8)
    with socket.socket() as one:
        attach, detach, lock = 26, 27, 44
        return [
            refused(one.setsockopt, 1, attach, struct.pack("HxxxxxxQ", 1, ctypes.addressof(everything))),
            refused(one.setsockopt, 1, detach, 0),
            refused(one.setsockopt, 1, lock, 0),
        ]
"""

    assert cut_off.python(code).result == [True, True, True]


def test_other_ways_to_connect_do_not_exist(guarded: Jobs, servers: Servers) -> None:
    code = """
import socket
def tried(act, *args):
    try:
        act(*args)
    except OSError as error:
        return error.strerror
def main(host: str, port: int):
    fast_open = 0x20000000
    return [
        tried(socket.socket().sendto, b"?", fast_open, (host, port)),
        tried(socket.socket().sendmsg, [b"?"], [], fast_open, (host, port)),
        tried(socket.socket, socket.AF_INET, socket.SOCK_STREAM, 132),
        tried(socket.socket, socket.AF_INET, socket.SOCK_STREAM, 262),
        tried(socket.socket, socket.AF_INET, socket.SOCK_RAW, 6),
        tried(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0),
    ]
"""

    ran = guarded.python(code, args={"host": BLOCKED, "port": servers.port})

    assert ran.result == [
        "Operation not supported",
        "Operation not supported",
        "Protocol not supported",
        "Protocol not supported",
        "Operation not permitted",
        "Address family not supported by protocol",
    ]
    assert servers.came == []


@pytest.mark.parametrize("kind", ISOLATED)
def test_packages_of_a_warm_environment_are_held_too(kind: Isolation, servers: Servers) -> None:
    package = f"""
import socket
def read(host):
    try:
        with socket.create_connection((host, {servers.port}), timeout=5) as one:
            return one.recv(100).decode()
    except PermissionError:
        return "refused"
when_imported = [read("{OPEN}"), read("{BLOCKED}")]
"""
    code = f"import {MODULE}\ndef main():\n    return {MODULE}.when_imported, {MODULE}.read('{BLOCKED}')\n"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "environments").mkdir()
        options: dict[str, Any] = {"read_only": [folder / "environments"], "blocked_networks": NETWORKS}
        with started_with(kind, folder / "jobs", **options) as jobs:
            warm = Warm(jobs, folder)
            environment = warm.environment(package)
            warm.go(warm.warmed(environment))
            try:
                answer = warm.go(warm.run(environment, code))
            finally:
                warm.go(warm.pool.close())

    assert answer == [["credentials", "refused"], "refused"]
    assert BLOCKED not in servers.came


@pytest.mark.parametrize("kind", ISOLATED)
def test_a_job_without_network_keeps_its_own(kind: Isolation, servers: Servers) -> None:
    code = f"""
import json, socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
try:
    socket.create_connection(("{OPEN}", {servers.port}), timeout=5)
except ConnectionRefusedError:
    open("result.json", "w").write(json.dumps("only itself"))
"""
    with guarded_jobs(kind) as jobs:
        if not jobs.host.cuts_network:
            pytest.skip("this machine gives no network namespaces")
        program = Program(
            env={},
            files={"main.py": code},
            argv=["/usr/bin/env", "python3", "main.py"],
            result_files={"J": "result.json"},
            network=False,
        )
        ended = jobs.runner.run(jobs.host.run(program, limits=Limits(), on_output=print))

    assert json.loads(ended.values["J"]) == "only itself"
    assert servers.came == []


def test_a_dead_supervisor_takes_no_guard_off(servers: Servers) -> None:
    """Jobs lose the network with it; the fork server starts again with another one."""
    with guarded_jobs(ISOLATED[0]) as jobs:
        jobs.python("def main(): pass")
        before = jobs.host.fork_server_pid
        os.kill(supervisor_below(before or 0), signal.SIGKILL)
        jobs.runner.run(another_server(jobs.host, before))
        args = {"open": f"{OPEN}:{servers.port}", "blocked": f"{BLOCKED}:{servers.port}"}

        ran = jobs.python(TRIES["python3"], args=args)

    assert ran.result == ["credentials", "refused"]


def test_every_python_that_scripts_may_ask_for_guards_its_jobs(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    told = {}
    for python in found_pythons():
        options: dict[str, Any] = {"python": str(python.executable), "read_only": [python.prefix]}
        folder = tmp_path_factory.mktemp("jobs")
        with started_with(ISOLATED[0], folder, blocked_networks=NETWORKS, **options) as jobs:
            told[python.version] = "all the same" not in jobs.host.confinement_reason

    assert told
    assert all(told.values()), told


def supervisor_below(pid: int) -> int:
    for one in processes.descendants(pid):
        with suppress(FileNotFoundError):
            if any("seccomp" in os.readlink(fd) for fd in Path(f"/proc/{one}/fd").iterdir()):
                return one
    raise AssertionError("there is no supervisor")


async def another_server(host: JobHost, before: int | None) -> None:
    async with asyncio.timeout(20):
        while host.fork_server_pid in (before, None):
            await asyncio.sleep(0.01)


# --- the rules themselves ---


def rules(*networks: str, resolvers: tuple[str, ...] = ()) -> address_guard.Rules:
    packed = [socket.inet_pton(socket.AF_INET6 if ":" in one else socket.AF_INET, one) for one in resolvers]
    return address_guard.Rules(networks, packed)


def blocks(given: address_guard.Rules, address: str, port: int = 80) -> bool:
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    return given.blocking(packed, port) is not None


def hears(given: address_guard.Rules, source: str, port: int = 80) -> bool:
    transport = port.to_bytes(2) + bytes(6)
    if ":" in source:
        packet = b"\x60" + bytes(7) + socket.inet_pton(socket.AF_INET6, source) + bytes(16)
    else:
        packet = b"\x45" + bytes(11) + socket.inet_aton(source) + bytes(4)
    return receives(given.socket_filter, packet=packet, transport=transport)


CASES = [
    ("169.254.0.0/16", "169.254.0.0", True),
    ("169.254.0.0/16", "169.254.255.255", True),
    ("169.254.0.0/16", "169.253.255.255", False),
    ("169.254.0.0/16", "169.255.0.0", False),
    ("100.100.100.200/32", "100.100.100.200", True),
    ("100.100.100.200/32", "100.100.100.201", False),
    ("0.0.0.0/0", "8.8.8.8", True),
    ("0.0.0.0/0", "::1", False),
    ("::/0", "8.8.8.8", False),
    ("fe80::/10", "fe80::1", True),
    ("fe80::/10", "febf:ffff::1", True),
    ("fe80::/10", "fec0::1", False),
    ("fd00:ec2::254/128", "fd00:ec2::254", True),
    ("fd00:ec2::254/128", "fd00:ec2::255", False),
    ("2001:db8::/47", "2001:db8:1::", True),
    ("2001:db8::/47", "2001:db8:2::", False),
]


@pytest.mark.parametrize(("network", "address", "is_blocked"), CASES)
def test_an_address_is_blocked_by_its_network_when_it_is_named_and_when_it_answers(
    network: str, address: str, is_blocked: bool
) -> None:
    given = rules("192.0.2.0/24", network, "2001:db8:ffff::/48")

    assert blocks(given, address) is is_blocked
    assert hears(given, address) is not is_blocked


@pytest.mark.parametrize("resolver", ["169.254.169.253", "fe80::53"])
def test_name_servers_of_the_machine_stay_within_reach_for_names_alone(resolver: str) -> None:
    given = rules("169.254.0.0/16", "fe80::/10", resolvers=("8.8.8.8", resolver))

    assert not blocks(given, resolver, port=53)
    assert hears(given, resolver, port=53)
    assert blocks(given, resolver, port=80)
    assert not hears(given, resolver, port=80)
    assert blocks(given, "169.254.169.254", port=53)
    assert not hears(given, "169.254.169.254", port=53)
