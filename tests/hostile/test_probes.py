"""Every probe in a sandbox: contained. The same probes where nothing contains them: they notice."""

import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.conftest import Place, a_place, limits_of, probe
from tests.workers.job_runs import ISOLATED
from tests.workers.job_runs import _python_for_everybody as python_for_everybody
from workers.probes import PROBES, Probe, Surroundings, judge
from workers.runtimes import look_around
from workers.runtimes.bun import BUN
from workers.sandbox import Isolation, explanations

# Those about the network and the API need somebody to talk to: test_network.py, tests/api/served/test_hostile_jobs.py.
ALONE = [one for one in PROBES if one.theme not in ("network", "API")]


@pytest.mark.parametrize("attempt", ALONE, ids=lambda one: one.name)
def test_it_is_contained(place: Place, attempt: Probe) -> None:
    args = attempt.args(place.surroundings)
    assert args is not None

    ran = place.run(
        attempt.language,
        attempt.code,
        args=dict(args),
        limits=limits_of(attempt),
        timeout_s=attempt.timeout_s,
        script_path=f"isolation_check/{attempt.subject}",
    )

    judged = judge(
        attempt,
        result=None if ran.error else ran.result,
        error=ran.error.get("message"),
        isolation=place.isolation,
        note=place.note,
    )
    assert judged.verdict == "contained" or (judged.verdict == "not promised" and attempt.unless), judged


@pytest.mark.parametrize("kind", ISOLATED)
def test_memory_is_limited_where_there_are_no_control_groups(kind: Isolation) -> None:
    with a_place(kind, groups=None) as place:
        for name in ("memory_of_many.py", "unreadable_memory.py"):
            attempt = probe(name)

            ran = place.run("python3", attempt.code, limits=limits_of(attempt))

            assert "memory" in ran.error.get("message", ""), (name, ran)


# What cannot do harm outside a sandbox when it runs as nobody; bombs and signals would.
HARMLESS = [
    *("environment.py", "environment.sh", "environment.ts"),
    *("files.py", "files.sh", "files.ts"),
    *("descriptors.py", "descriptors.sh", "descriptors.ts"),
    *("processes.py", "processes.sh", "processes.ts"),
    *("tracing.py", "unix_sockets.py"),
    *("package_cache.py", "package_cache.sh", "package_cache.ts"),
]
NOBODY = 65534


@pytest.fixture
def open_place() -> Iterator[Surroundings]:
    """A place where nothing is hidden from nobody: folders, a process and a socket of theirs."""
    if os.geteuid() != 0:
        pytest.skip(
            "only root can become a user who owns nothing, to whom a probe without a sandbox is harmless"
        )
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as listener:
        folder = Path(name)
        for inner in ("hidden", "shared", "work"):
            (folder / inner).mkdir()
            (folder / inner / "file").write_text("x")
            os.chown(folder / inner, NOBODY, NOBODY)
        folder.chmod(0o755)
        listener.bind(f"\0{folder.name}")
        listener.listen()
        sleeper = subprocess.Popen(["sleep", "600"], user=NOBODY, group=NOBODY, extra_groups=[])
        try:
            yield Surroundings(
                hidden=[str(folder / "hidden")],
                shared=[str(folder / "shared")],
                names=[folder.name],
                target=sleeper.pid,
            )
        finally:
            sleeper.kill()
            sleeper.wait()


@pytest.mark.parametrize("name", HARMLESS)
def test_it_notices_when_nothing_contains_it(name: str, open_place: Surroundings) -> None:
    attempt = probe(name)
    given = attempt.args(open_place)
    assert given is not None
    work = Path(open_place.hidden[0]).parent / "work"
    script = work / attempt.name
    script.write_text(attempt.code)
    inherited = os.open(open_place.hidden[0], os.O_RDONLY)
    command = {
        "python3": [
            python_for_everybody(),
            "-c",
            f"import sys, {attempt.subject} as it; print(it.main(**eval(sys.argv[1])))",
            repr(dict(given)),
        ],
        "bash": ["bash", "-e", str(script), *map(str, given.values())],
        "bun": [
            _bun(),
            "-e",
            f"import * as it from {str(script)!r}; console.log(await it.main(...eval(process.argv[1])))",
            repr(list(given.values())),
        ],
    }[attempt.language]

    ran = subprocess.run(
        command,
        cwd=work,
        env={
            "PATH": os.environ["PATH"],
            "SUPERADMIN_SECRET": "x",
            "HOME": str(work),
            "PYTHONPATH": str(work),
        },
        capture_output=True,
        text=True,
        pass_fds=[inherited],
        timeout=60,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    )
    os.close(inherited)

    judged = judge(attempt, result=ran.stdout.strip().split("\n")[-1], isolation="namespaces")
    assert judged.verdict == "exposed", (judged, ran.stderr)


def _bun() -> str:
    bun = look_around().tools.get(BUN.name)
    if bun is None:
        pytest.skip("Bun is not installed")
    return str(bun.path)


def test_what_is_not_promised_without_isolation_is_no_failure() -> None:
    attempt = probe("processes.py")

    assert judge(attempt, result="exposed: process 7", isolation="namespaces").is_failure
    assert not judge(attempt, result="exposed: process 7", isolation="none").is_failure
    assert judge(probe("descriptors.py"), result="exposed: 7", isolation="none").is_failure


def test_what_a_worker_says_it_lacks_is_no_failure() -> None:
    attempt, told = probe("hidden_memory.py"), "exposed: 256 MB"

    for note, verdict in (
        (explanations.of_limits(None, "they are not writable"), "not promised"),
        ("Memory is limited by control groups (version 2: memory, pids, cpu).", "exposed"),
    ):
        assert judge(attempt, result=told, isolation="namespaces", note=note).verdict == verdict


@pytest.mark.parametrize(
    ("name", "hello"),
    [
        ("unix_sockets.py", {"keeps_sockets": False}),
        ("rights.py", {"calls_note": "the kernel has no seccomp"}),
        ("blocked_address.py", {"addresses": "refused", "addresses_note": "only root may"}),
        ("blocked_address.py", {"addresses": "none", "addresses_note": "no seccomp"}),
    ],
)
def test_each_lack_is_said_in_the_words_that_hosts_use(name: str, hello: dict[str, Any]) -> None:
    whole = {"keeps_sockets": True, "addresses": "kept"}
    unless = probe(name).unless or ""

    assert re.search(unless, explanations.of_confinement({**whole, **hello}, ["169.254.0.0/16"]))
    assert not re.search(unless, explanations.of_confinement(whole, ["169.254.0.0/16"]))


def test_a_probe_that_breaks_proves_nothing() -> None:
    attempt = probe("memory_bomb.py")

    assert judge(attempt, error="NameError: no such thing", isolation="namespaces").is_failure
    assert judge(attempt, result=None, isolation="namespaces").is_failure
    assert judge(attempt, result="whatever", isolation="namespaces").is_failure
    assert (
        judge(attempt, error="it used more than its 96 MB of memory", isolation="none").verdict == "contained"
    )
    assert not judge(attempt, result="untried: no API", isolation="namespaces").is_failure


def test_what_it_must_be_told_is_not_made_up() -> None:
    attempt = probe("database.py")

    assert attempt.args(Surroundings()) is None
    told = attempt.args(Surroundings(host="db", user="a", database="b"))
    assert told == {"host": "db", "port": 5432, "user": "a", "database": "b"}
