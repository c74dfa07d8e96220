"""Hostile jobs in real sandboxes, as root and as an ordinary user; after each, all is as if it had never run.

place       a started job host in each kind of isolation; place.run(...) runs a hostile job and then asks whether the
            place is sound: the same fork server, as many prepared sandboxes as before, no process, mount, file or
            descriptor more, and the next ordinary job succeeds
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from jobs.limits import header_of
from tests.workers.job_runs import ISOLATED, Jobs, Log, Ran, processes_with, started_with
from workers.job_process import processes
from workers.probes import PROBES, Probe, Surroundings
from workers.runtimes import Limits
from workers.runtimes.bun import Bun
from workers.sandbox import Isolation

SETTLE_S = 10.0


@dataclass(frozen=True)
class State:
    """What a hostile job must not change."""

    fork_server: int | None
    prepared: int  # sandboxes that wait for a job
    processes: int  # of the fork server, with those of the prepared sandboxes
    descriptors: int  # of the worker, this process, besides those of sandboxes
    mounts: int  # in the fork server's namespace
    folders: tuple[str, ...]  # in the folder for jobs


@dataclass
class Place:
    """A host for jobs, and what is around it."""

    jobs: Jobs
    surroundings: Surroundings
    marker: str  # in the command line of whatever hostile jobs leave behind
    _sound: State | None = None

    @property
    def isolation(self) -> Isolation:
        return self.jobs.host.isolation

    @property
    def note(self) -> str:
        """What its host says of its isolation."""
        host = self.jobs.host
        return " ".join((host.isolation_reason, host.limits_reason, host.confinement_reason))

    def run(self, language: str, code: str, /, **given: Any) -> Ran:
        """Run a hostile job; then the place must be sound."""
        self.begin()
        ran = self.jobs(language, code, **{"timeout_s": 60, **given})
        self.assert_sound()
        return ran

    def cancel(self, language: str, code: str, /, *, once_it_says: str) -> None:
        """Run a hostile job and cancel it when it has printed a text; then the place must be sound."""

        async def run() -> None:
            log = Log()
            job = asyncio.create_task(self.jobs.run(language, code, log=log, timeout_s=60))
            await log.wait_for(once_it_says)
            job.cancel()
            await asyncio.wait([job])

        self.begin()
        self.jobs.runner.run(run())
        self.assert_sound()

    def begin(self) -> None:
        """A hostile job is about to run."""
        assert self._sound is not None
        # Of this process only those count that come with the job: the tests have descriptors of their own.
        self._sound = replace(self._sound, descriptors=self._descriptors())

    def _descriptors(self) -> int:
        sandboxes = self.jobs.host._supply._sandboxes.values()
        links = [_link(fd) for fd in os.listdir("/proc/self/fd")]
        # Control groups are kept for later jobs, as many as ran at once.
        kept = [link for link in links if not link.startswith("/sys/fs/cgroup/")]
        return len(kept) - 3 * sum(one.job is not None for one in sandboxes)

    def assert_sound(self) -> None:
        """Nothing is left of any job, and the next one runs."""
        if self._sound is not None:
            assert self._settled(self._sound) == self._sound
            assert processes_with(self.marker) == []
        for language, code in ORDINARY.items():
            if language in self.jobs.executors:
                assert self.jobs(language, code, timeout_s=60).result == "fine"

    def remember(self) -> None:
        """What is now is how it shall be after every job."""
        self.assert_sound()
        self._sound = self._settled(None)

    def _settled(self, wanted: State | None) -> State:
        """The state, once it is `wanted`, or for None once all sandboxes that shall be are prepared."""
        host = self.jobs.host

        async def settle() -> State:
            deadline = time.monotonic() + SETTLE_S
            while True:
                for executor in self.jobs.executors.values():
                    if isinstance(executor, Bun):
                        executor.spares.rest()  # processes that wait for the next job are none that were left behind
                await host.settle()
                await asyncio.sleep(0)
                state = self._state()
                # The fork server, and of each sandbox its guard and its job process.
                whole = (
                    1 + 2 * host._supply._warm + bool(host._configuration["blocked_networks"])
                )  # who supervises calls
                is_whole = (state.prepared, state.processes) == (host._supply._warm, whole)
                if (state == wanted if wanted else is_whole) or time.monotonic() > deadline:
                    return state
                await asyncio.sleep(0.01)

        return self.jobs.runner.run(settle())

    def _state(self) -> State:
        host = self.jobs.host
        pid = host.fork_server_pid or 0
        below = processes.descendants(pid)
        return State(
            fork_server=pid,
            prepared=len(host._supply._ready),
            processes=len(below),
            descriptors=self._descriptors(),
            mounts=_mounts(pid),
            folders=tuple(sorted(os.listdir(host._configuration["base_dir"]))),
        )


# After a hostile job these succeed on the same host.
ORDINARY = {"python3": "def main():\n    return 'fine'", "bash": "echo fine"}


def _link(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # the one that lists
        return ""


def _mounts(started: int) -> int:
    """Of the fork server, which is the child of the process that was `started`."""
    try:
        server = Path(f"/proc/{started}/task/{started}/children").read_text().split()[0]
        return len(Path(f"/proc/{server}/mountinfo").read_text().splitlines())
    except (OSError, IndexError):  # it is not dumpable, and we are not root
        return 0


@contextmanager
def a_place(kind: Isolation, **options: Any) -> Iterator[Place]:
    """A place with this isolation, remembered as it is before the first hostile job."""
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as listener:
        folder = Path(name)
        folder.chmod(0o711)
        hidden = folder / "hidden"
        hidden.mkdir()
        (hidden / "secret.txt").write_text("the secret")
        for path in (hidden, hidden / "secret.txt"):
            path.chmod(0o755)
        listener.bind(f"\0{folder.name}")
        listener.listen()
        with started_with(kind, folder / "jobs", hidden_paths=[hidden], **options) as jobs:
            package = jobs.site.cache_dir / "python-packages" / ("ab" * 32)
            package.mkdir(parents=True)
            (package / "useful.py").write_text("useful = True\n")
            place = Place(
                jobs=jobs,
                surroundings=Surroundings(
                    hidden=[str(hidden)],
                    shared=[str(jobs.site.cache_dir), str(package)],
                    names=[folder.name],
                ),
                marker=str(uuid.uuid4().int)[:12],
            )
            place.remember()
            yield place


@pytest.fixture(scope="package", params=ISOLATED)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place in each kind of isolation."""
    with a_place(request.param) as place:
        yield place


def limits_of(probe: Probe) -> Limits:
    """The limits that a probe asks for above its code."""
    asked = asdict(header_of(probe.code, probe.language).limits)
    known = {one.name for one in fields(Limits)}
    return Limits(**{name: value for name, value in asked.items() if value is not None and name in known})


def probe(name: str) -> Probe:
    """The probe of this name, as in fork_bomb.sh."""
    return next(one for one in PROBES if one.name == name)
