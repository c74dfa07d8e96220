"""What a job may use: memory, processors, processes, files, the disk; and jobs without network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.workers.job_runs import ISOLATED, Jobs, Log, started_with
from workers.runtimes import Limits
from workers.sandbox import Isolation

MB = 1 << 20


@pytest.fixture(scope="module", params=ISOLATED)
def grouped(request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """Jobs that control groups hold to their limits."""
    with _jobs(request.param) as jobs:
        if "control groups" not in jobs.host.limits_reason:
            pytest.skip(jobs.host.limits_reason)
        yield jobs


@contextmanager
def _jobs(isolation: Isolation, **options: object) -> Iterator[Jobs]:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        with started_with(isolation, Path(folder) / "jobs", **options) as jobs:
            yield jobs


# --- memory ---


def test_many_processes_together_get_no_more_memory_than_one_job(grouped: Jobs) -> None:
    hog = "python3 -I -S -c 'x = bytearray(40 << 20); import time; time.sleep(60)'"

    ran = grouped.bash(f"for i in 1 2 3 4; do {hog} & done; wait", limits=Limits(memory_bytes=100 * MB))

    assert re.match(r"Job used more than its 100 MB of memory \(peak 1\d\d MB\)", ran.error["message"])


def test_a_child_that_takes_too_much_is_no_success_of_its_parent(grouped: Jobs) -> None:
    code = "tail -c 1G /dev/zero | tail > /dev/null || true; echo done"

    ran = grouped.bash(code, limits=Limits(memory_bytes=64 * MB))

    assert ran.error["message"].startswith("Job used more than its 64 MB of memory (peak ")


def test_memory_that_is_taken_and_given_back_between_two_looks_is_seen(grouped: Jobs) -> None:
    code = "head -c 150000000 /dev/zero > /tmp/big; rm /tmp/big; echo done"

    ran = grouped.bash(code, limits=Limits(memory_bytes=100 * MB))

    assert "100 MB of memory" in ran.error["message"]


def test_out_of_memory_is_the_concern_of_that_job_alone(grouped: Jobs) -> None:
    async def beside_another() -> tuple[str, bool]:
        log = Log()
        other = asyncio.create_task(grouped.run("bash", "echo begun; sleep 60", log=log))
        await log.wait_for("begun")
        fat = await grouped.run("bash", "tail /dev/zero", limits=Limits(memory_bytes=64 * MB))
        still_runs = not other.done()
        other.cancel()
        await asyncio.wait([other])
        return fat.error["message"], still_runs

    told, still_runs = grouped.runner.run(beside_another())

    assert told.startswith("Job used more than its 64 MB of memory")
    assert still_runs
    assert grouped.bash("echo next").result == "next"


def test_limits_of_one_job_do_not_hold_for_the_next_in_its_group(grouped: Jobs) -> None:
    take = "def main():\n    return len(bytearray(200 << 20))"
    for _ in range(3):
        assert "64 MB" in grouped.python(take, limits=Limits(memory_bytes=64 * MB)).error["message"]
        assert grouped.python(take, limits=Limits(memory_bytes=512 * MB)).result == 200 * MB


def test_python_says_where_it_was_when_it_got_no_more(any_host: Jobs) -> None:
    ran = any_host.python("def main():\n    return bytearray(10**9)", limits=Limits(memory_bytes=100 * MB))

    assert ran.error["name"] == "MemoryError"
    assert re.fullmatch(
        r"The job asked for more than its 100 MB of memory \(peak \d+ MB\)", ran.error["message"]
    )
    assert "line 2, in main" in ran.error["stack"]


# --- processors, processes, files ---


def test_processor_time_is_limited(grouped: Jobs) -> None:
    if not grouped.host.limits_cpus:
        pytest.skip(grouped.host.limits_reason)
    # Whoever computes for 0.2 s of processor time with a tenth of a processor needs nearly two seconds.
    code = """
import time
def main():
    began, used = time.monotonic(), time.process_time()
    while time.process_time() < used + 0.2: pass
    return time.monotonic() - began
"""
    assert grouped.python(code, limits=Limits(cpus=0.1)).result > 1


def test_processes_are_limited_threads_too(grouped: Jobs) -> None:
    code = """
import threading
def main():
    stop, count = threading.Event(), 0
    try:
        while count < 100:
            threading.Thread(target=stop.wait).start()
            count += 1
    except RuntimeError as error:
        return [count < 20, str(error)]
    finally:
        stop.set()
"""
    assert grouped.python(code, limits=Limits(processes=20)).result == [True, "can't start new thread"]


def test_open_files_are_limited(any_host: Jobs) -> None:
    code = """
def main():
    kept = []
    try:
        while len(kept) < 1000: kept.append(open("/dev/null"))
    except OSError as error:
        return [len(kept) < 40, error.strerror]
"""
    assert any_host.python(code, limits=Limits(open_files=40)).result == [True, "Too many open files"]


def test_the_disk_is_limited_as_the_job_asks(isolated: Jobs) -> None:
    code = "head -c 3000000 /dev/zero > ./file && df --output=size -k /tmp | tail -n 1"

    small = isolated.bash(code, limits=Limits(disk_bytes=2 * MB))
    large = isolated.bash(code, limits=Limits(disk_bytes=4 * MB))

    assert "No space left on device" in small.log.text
    assert large.result.strip() == "4096"


def test_what_becomes_usual_is_prepared_for(isolated: Jobs) -> None:
    usual = Limits()
    size = "stat -f -c '%b %S' /tmp"
    try:
        isolated.host.expect(Limits(disk_bytes=8 * MB))

        asked = [isolated.bash(size, limits=Limits(disk_bytes=8 * MB)) for _ in range(3)]

        assert [ran.result for ran in asked] == ["2048 4096"] * 3
        # Whatever was ready before is not used any more.
        assert all(one.disk_bytes == 8 * MB for one in isolated.host._supply._ready)
    finally:
        isolated.host.expect(usual)


# --- network ---


@contextmanager
def _listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_close_all, args=(server,))
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _close_all(server: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed
        while True:
            server.accept()[0].close()


CONNECT = """
import socket, threading
def main(port: int):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        outside = True
    except OSError:
        outside = False
    with socket.create_server(("127.0.0.1", 0)) as own:
        socket.create_connection(own.getsockname(), timeout=5).close()
    return [outside, [name for _, name in socket.if_nameindex()]]
"""


def test_a_job_without_network_reaches_itself_and_nobody_else(isolated: Jobs) -> None:
    assert isolated.host.cuts_network
    with _listening() as port:
        online = isolated.python(CONNECT, args={"port": port})
        offline = isolated.python(CONNECT, args={"port": port}, network=False)

    assert online.result[0] is True
    assert offline.result == [False, ["lo"]]


def test_without_namespaces_no_job_is_run_with_a_network_that_it_shall_not_have() -> None:
    with _jobs("none") as jobs:
        assert not jobs.host.cuts_network  # the runner decides what that means: tests.workers.test_job_limits
