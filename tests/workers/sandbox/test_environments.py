"""Warm hosts for environments: packages are imported once, by processes that own nothing, and only while it pays."""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.workers.job_runs import ISOLATED, Jobs, started_with
from workers.job_process import processes
from workers.sandbox import (
    HostPool,
    Isolation,
    JobHost,
    Limits,
    Program,
    ProgramTimedOut,
    SandboxUnavailable,
    SharedFolderLost,
    preloadable,
)

MODULE = "tabulate"  # a name that may be preloaded; the tests write packages of their own under it
TELLS_ITS_PROCESS = "import os\nimported_by = os.getpid()\n"
NAMES_IMPORTER = f"import os, {MODULE}\ndef main():\n    return {MODULE}.imported_by == os.getpid()\n"


class Warm:
    """A pool beside a started host, and environments that hold one package of the test's."""

    def __init__(self, jobs: Jobs, folder: Path, **options: Any) -> None:
        self.jobs = jobs
        self.pool = HostPool(jobs.host, **options)
        self._folder = folder

    def environment(self, code: str, name: str = "one") -> Path:
        folder = self._folder / "environments" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{MODULE}.py").write_text(code)
        return folder

    async def run(
        self, environment: Path, code: str = NAMES_IMPORTER, *, timeout_s: float | None = 20, **given: Any
    ) -> Any:
        """Run `code` on the host that the pool gives; its result."""
        given = {"workspace_id": "demo", "modules": [MODULE], **given}
        async with self.pool.host_for(environment=environment, **given) as host:
            return await run_on(host, environment, code, timeout_s=timeout_s)

    async def warmed(self, environment: Path, **given: Any) -> None:
        """Use `environment` until it is warm."""
        async with asyncio.timeout(20):
            while environment not in self.pool.warm_environments:
                await self.run(environment, "def main(): pass", **given)

    def go(self, act: Any) -> Any:
        return self.jobs.runner.run(act)


async def run_on(host: JobHost, environment: Path, code: str, *, timeout_s: float | None = 20) -> Any:
    program = Program(
        env={},
        python={
            "script_path": "f/test.py",
            "code": code,
            "args": {},
            "entrypoint": "main",
            "preprocess": False,
            "python_paths": [str(environment)],
            "result_bytes": 1 << 20,
            "memory_bytes": 1 << 30,
            "scripts": {},
            "folders": [],
        },
    )
    output = bytearray()
    ended = await host.run(program, limits=Limits(), on_output=output.extend, timeout_s=timeout_s)
    assert "R" in ended.values, (ended, output.decode())
    return json.loads(ended.values["R"])


@contextmanager
def a_pool(kind: Isolation, **options: Any) -> Iterator[Warm]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        hidden = folder / "environments" / "hidden"
        hidden.mkdir(parents=True)
        (hidden / "secret.txt").write_text("the-hidden-secret")
        with started_with(
            kind,
            folder / "jobs",
            read_only=[folder / "environments"],
            hidden_paths=[hidden],
        ) as jobs:
            warm = Warm(jobs, folder, **options)
            try:
                yield warm
            finally:
                warm.go(warm.pool.close())


@pytest.fixture(params=ISOLATED)
def warm(request: pytest.FixtureRequest) -> Iterator[Warm]:
    with a_pool(request.param) as warm:
        yield warm


@pytest.fixture
def one_kind() -> Iterator[Warm]:
    with a_pool(ISOLATED[0], most=2, start_timeout_s=1.5, idle_s=600) as warm:
        yield warm


def test_a_package_of_a_warm_environment_is_not_imported_again(warm: Warm) -> None:
    environment = warm.environment(TELLS_ITS_PROCESS)

    async def run() -> list[Any]:
        first = await warm.run(environment)
        await warm.warmed(environment)
        return [first, await warm.run(environment), await warm.run(environment)]

    assert warm.go(run()) == [True, False, False]


def test_jobs_of_a_warm_environment_are_isolated_like_others(warm: Warm) -> None:
    environment = warm.environment(TELLS_ITS_PROCESS)
    code = """
import os, subprocess
def main():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    written = []
    for path in ("/usr/x", "/etc/x", "/x", "/.shares/x", os.environ.get("PROBE", "/home/x")):
        try:
            open(path, "w")
            written.append(path)
        except OSError:
            pass
    open("/tmp/own.txt", "w").write("x")
    return {
        "rights": {int(status[key], 16) for key in ("CapEff", "CapPrm", "CapInh")} == {0} or status["CapPrm"],
        "pids": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "written": written,
        "own": sorted(os.listdir("/tmp")),
        "user": os.getuid(),
        "namespaces": subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode,
        "mount": subprocess.run(["mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True).returncode,
    }
"""

    async def run() -> Any:
        await warm.warmed(environment)
        return await warm.run(environment, code)

    seen = warm.go(run())

    assert seen["rights"] is True and seen["written"] == [] and seen["user"] != 0
    assert seen["pids"] == [1, 2] and "own.txt" in seen["own"]
    assert seen["namespaces"] != 0 and seen["mount"] != 0


HOSTILE = """
import ctypes, glob, os, subprocess
found = []
def note(what, act):
    try:
        value = act()
    except Exception as error:
        return
    if value:
        found.append([what, repr(value)[:200]])
libc = ctypes.CDLL(None, use_errno=True)
hidden = {hidden!r}
def covers_off():
    for target in (hidden, "/.shares", "/.stash", "/usr", "/etc", "/proc", "/"):
        for _ in range(5):
            libc.umount2(target.encode(), 2)
    return None
def remounted():
    return [at for at in ("/", "/usr", "/etc") if libc.mount(b"none", at.encode(), None, 0x1000 | 0x20, None) == 0]
def environments():
    needle = b"the-workers-" + b"secret"
    readable = [path for path in glob.glob("/proc/*/environ") if os.access(path, os.R_OK)]
    return [path for path in readable if needle in open(path, "rb").read()]
note("hidden before", lambda: os.listdir(hidden))
note("environment", lambda: "SANDBOX_TEST_SECRET" in os.environ)
covers_off()
note("remounted", remounted)
note("hidden after", lambda: os.listdir(hidden))
note("environments", environments)
SECRETS = (os.path.expanduser("~root/.bashrc"), "/etc/shadow", "/.old/etc/passwd")
note("host", lambda: [path for path in SECRETS if os.access(path, os.R_OK)])
note("written", lambda: [path for path in ("/usr/x", "/etc/x") if os.open(path, os.O_CREAT | os.O_WRONLY)])
note("killed", lambda: [pid for pid in {pids} if os.kill(pid, 0) is None])
note("root", lambda: os.getuid() == 0)
note("became root", lambda: os.setuid(0) or os.getuid() == 0)
note("user namespace", lambda: libc.unshare(0x10000000) == 0)
def raised():
    with open("/proc/sys/user/max_user_namespaces", "w") as limit:
        limit.write("100")
    return libc.unshare(0x10000000) == 0
note("limit raised", raised)
note("host network", lambda: libc.mount(b"sysfs", b"/mnt", b"sysfs", 0, None) == 0)
note("device", lambda: os.mknod("/tmp/disk", 0o60600, 0x800) is None)
"""


def test_a_package_gains_nothing_by_being_imported_in_the_server(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_TEST_SECRET", "the-workers-secret")
    hidden = warm.jobs.host._configuration["hidden"]
    place = next(path for path in hidden if path.endswith("/hidden"))
    pids = [os.getpid(), warm.jobs.host.fork_server_pid]
    environment = warm.environment(
        TELLS_ITS_PROCESS + HOSTILE.replace("{hidden!r}", repr(place)).replace("{pids}", repr(pids))
    )

    async def run() -> Any:
        await warm.warmed(environment)
        return await warm.run(environment, f"import {MODULE}\ndef main():\n    return {MODULE}.found\n")

    assert [what for what, _ in warm.go(run())] == []


def test_what_one_job_does_to_a_package_the_next_does_not_see(one_kind: Warm) -> None:
    environment = one_kind.environment(TELLS_ITS_PROCESS + "state = 'clean'\n")
    code = f"import {MODULE}\ndef main():\n    was = {MODULE}.state\n    {MODULE}.state = 'dirty'\n    return was\n"

    async def run() -> list[Any]:
        await one_kind.warmed(environment)
        return [await one_kind.run(environment, code) for _ in range(3)]

    assert one_kind.go(run()) == ["clean"] * 3


def test_other_workspaces_and_interpreters_have_servers_of_their_own(one_kind: Warm) -> None:
    environment = one_kind.environment(TELLS_ITS_PROCESS)

    async def run() -> list[Any]:
        await one_kind.warmed(environment)
        return [await one_kind.run(environment), await one_kind.run(environment, workspace_id="other")]

    assert one_kind.go(run()) == [False, True]


def test_jobs_that_share_a_folder_stay_on_the_host_that_holds_it(one_kind: Warm) -> None:
    environment = one_kind.environment(TELLS_ITS_PROCESS)

    async def run() -> JobHost:
        await one_kind.warmed(environment)
        async with one_kind.pool.host_for(
            workspace_id="demo", environment=environment, modules=[MODULE], share="flow"
        ) as host:
            return host

    assert one_kind.go(run()) is one_kind.jobs.host


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.sleep(600)\n",
        "import os\nos._exit(0)\n",
        "import ctypes\nctypes.string_at(0)\n",
    ],
    ids=["hangs", "exits", "crashes"],
)
def test_an_environment_whose_import_does_not_end_well_is_given_up(one_kind: Warm, code: str) -> None:
    environment = one_kind.environment(code)

    async def run() -> None:
        for _ in range(2):
            await one_kind.run(environment, "def main(): pass")
        assert len(one_kind.pool._warm) == 1
        async with asyncio.timeout(20):
            while one_kind.pool._warm:
                await asyncio.sleep(0.01)
        for _ in range(3):
            await one_kind.run(environment, "def main(): pass")

    one_kind.go(run())

    assert one_kind.pool._warm == {}


def test_a_package_that_starts_threads_is_not_kept_warm(one_kind: Warm) -> None:
    environment = one_kind.environment(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    )
    host = one_kind.jobs.host

    async def run() -> None:
        from workers.sandbox import Environment

        warm_host = host.sibling(
            environment=Environment(paths=[str(environment)], modules=[MODULE], memory_bytes=1 << 30)
        )
        await warm_host.start()

    with pytest.raises(SandboxUnavailable, match="starts threads when it is imported"):
        one_kind.go(run())


def test_a_package_that_cannot_be_imported_is_the_concern_of_the_job(one_kind: Warm) -> None:
    environment = one_kind.environment("raise RuntimeError('broken')\n")
    code = f"def main():\n    try:\n        import {MODULE}\n    except RuntimeError as exc:\n        return str(exc)\n"

    async def run() -> Any:
        await one_kind.warmed(environment)
        return await one_kind.run(environment, code)

    assert one_kind.go(run()) == "broken"


DEAF = (
    TELLS_ITS_PROCESS
    + """
import signal, sys
def deaf(*_):
    while True:
        signal.pause()
for name, module in list(sys.modules.items()):
    if name.endswith("fork_server"):
        module.ForkServer._kill = deaf
"""
)


def test_a_server_that_does_not_end_its_jobs_is_killed_with_them(
    one_kind: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.sandbox.host._KILL_TIMEOUT_S", 0.3)
    environment = one_kind.environment(DEAF)

    async def run() -> Any:
        await one_kind.warmed(environment)
        pid = one_kind.pool._warm[next(iter(one_kind.pool._warm))].host.fork_server_pid
        with pytest.raises(ProgramTimedOut):
            await one_kind.run(environment, "import time\ndef main():\n    time.sleep(600)", timeout_s=0.2)
        imported_itself = await one_kind.run(environment)
        async with asyncio.timeout(20):
            while Path(f"/proc/{pid}").exists():  # until the kernel has ended all that it started
                await asyncio.sleep(0.01)
        return imported_itself

    imported_itself = one_kind.go(run())

    assert imported_itself is True and one_kind.pool.warm_environments == []


LIAR = (
    TELLS_ITS_PROCESS
    + """
import sys
fork_server = next(module for name, module in sys.modules.items() if name.endswith("fork_server"))
say = fork_server._say
def lie(control, message, fds=None):
    say(control, {lie} if message["op"] == "gone" else message, fds)
fork_server._say = lie
"""
)


@pytest.mark.parametrize(
    "lie",
    ['{"op": "gone", "id": 10**9}', '{"op": "ready", "id": 1, "uid": "x"}', '["nonsense"]', '{"id": None}'],
)
def test_a_server_that_says_what_makes_no_sense_is_ended(one_kind: Warm, lie: str) -> None:
    environment = one_kind.environment(LIAR.replace("{lie}", lie))

    async def run() -> bool:
        await one_kind.warmed(environment)
        async with asyncio.timeout(20):
            while one_kind.pool.warm_environments:
                with suppress(SandboxUnavailable):
                    await one_kind.run(environment, "def main(): pass")
        return await one_kind.run(environment)

    assert one_kind.go(run()) is True


def test_a_job_whose_server_is_lost_is_not_to_blame(one_kind: Warm) -> None:
    environment = one_kind.environment(TELLS_ITS_PROCESS)

    async def run() -> None:
        await one_kind.warmed(environment)
        (kept,) = one_kind.pool._warm.values()
        job = asyncio.create_task(one_kind.run(environment, "import time\ndef main():\n    time.sleep(600)"))
        while not kept.host._in_use:
            await asyncio.sleep(0.01)
        os.kill(kept.host.fork_server_pid or 0, signal.SIGKILL)
        with pytest.raises(SandboxUnavailable):
            await job

    one_kind.go(run())


def test_of_more_environments_than_may_be_warm_the_one_used_longest_ago_goes(one_kind: Warm) -> None:
    environments = [one_kind.environment(TELLS_ITS_PROCESS, name) for name in ("one", "two", "three")]

    async def run() -> None:
        for environment in environments[:2]:
            await one_kind.warmed(environment)
        await one_kind.run(environments[0])
        await one_kind.warmed(environments[2])

    one_kind.go(run())

    assert set(one_kind.pool.warm_environments) == {environments[0], environments[2]}


def test_environments_that_take_too_much_memory_together_go_the_one_used_longest_ago_first() -> None:
    with a_pool(ISOLATED[0], memory_bytes=90 << 20) as warm:
        big = TELLS_ITS_PROCESS + "big = bytearray(b'x') * (35 << 20)\n"
        environments = [warm.environment(big, name) for name in ("one", "two")]

        async def run() -> None:
            for environment in environments:
                await warm.warmed(environment)
            async with asyncio.timeout(20):
                while len(warm.pool.warm_environments) > 1:
                    await asyncio.sleep(0.01)

        warm.go(run())

        assert warm.pool.warm_environments == environments[1:]


def test_a_package_cannot_take_more_memory_than_environments_may() -> None:
    with a_pool(ISOLATED[0], memory_bytes=60 << 20) as warm:
        environment = warm.environment(TELLS_ITS_PROCESS + "big = bytearray(80 << 20)\n")

        async def run() -> Any:
            await warm.warmed(environment)
            return await warm.run(environment)

        assert warm.go(run()) is True  # the job, which may take more, imported it


def test_one_that_nobody_uses_is_closed() -> None:
    with a_pool(ISOLATED[0], idle_s=0.2) as warm:
        environment = warm.environment(TELLS_ITS_PROCESS)

        async def run() -> None:
            await warm.warmed(environment)
            async with asyncio.timeout(20):
                while warm.pool.warm_environments:
                    await asyncio.sleep(0.01)

        warm.go(run())


def test_closing_the_pool_leaves_no_process(one_kind: Warm, wait_until: Callable[..., None]) -> None:
    environment = one_kind.environment(TELLS_ITS_PROCESS)
    one_kind.go(one_kind.warmed(environment))
    (kept,) = one_kind.pool._warm.values()
    family = {kept.host.fork_server_pid, *processes.descendants(kept.host.fork_server_pid or 0)}
    assert len(family) >= 3

    one_kind.go(one_kind.pool.close())

    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))


def test_environments_end_with_a_worker_that_is_killed(
    tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    import subprocess

    (tmp_path / f"{MODULE}.py").write_text("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n")
    code = f"""
import asyncio
from workers.sandbox import Environment, JobHost
async def main():
    host = JobHost(base_dir={str(tmp_path / "base")!r}, read_only=[{str(tmp_path)!r}], allowed=["{ISOLATED[0]}"])
    await host.start()
    warm = host.sibling(environment=Environment(paths=[{str(tmp_path)!r}], modules=["{MODULE}"], memory_bytes=1 << 30))
    await warm.start()
    print(warm.fork_server_pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    worker = subprocess.Popen(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    pid = int(worker.stdout.readline())
    family = {pid, *processes.descendants(pid)}

    worker.kill()
    worker.communicate()

    wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in family))


def test_another_interpreter_has_a_host_of_its_own(one_kind: Warm) -> None:
    python = Path(one_kind.jobs.host._python)
    environment = one_kind.environment(TELLS_ITS_PROCESS)

    async def run() -> list[Any]:
        hosts = []
        for _ in range(2):
            async with one_kind.pool.host_for(workspace_id="demo", python=python) as host:
                hosts.append(host)
                assert await run_on(host, environment, NAMES_IMPORTER) is True
        return hosts

    first, second = one_kind.go(run())

    assert first is second and first is not one_kind.jobs.host


def test_another_interpreter_and_a_shared_folder_together_are_refused(one_kind: Warm) -> None:
    async def run() -> None:
        async with one_kind.pool.host_for(
            workspace_id="demo", python=Path("/usr/bin/python3.99"), share="flow"
        ):
            pass

    with pytest.raises(SharedFolderLost, match=r"runs on python3\.99, and shares a folder"):
        one_kind.go(run())


def test_an_interpreter_that_does_not_start_is_an_error_each_time(one_kind: Warm) -> None:
    async def run() -> None:
        async with one_kind.pool.host_for(workspace_id="demo", python=Path("/nowhere/python3")):
            pass

    for _ in range(2):
        with pytest.raises(SandboxUnavailable, match="cannot start /nowhere/python3"):
            one_kind.go(run())


def test_without_isolation_no_environment_is_kept_warm() -> None:
    with a_pool("none") as warm:
        environment = warm.environment(TELLS_ITS_PROCESS)

        assert [warm.go(warm.run(environment)) for _ in range(4)] == [True] * 4
        assert warm.pool.warm_environments == []


def test_only_packages_that_survive_a_fork_are_imported_before_it() -> None:
    wanted = [
        "torch",
        "pandas",
        "pandas.plotting",
        "pandas_gbq",
        "google.auth.transport",
        "google.cloud",
        "numpy",
    ]

    assert preloadable(wanted) == ["google.auth.transport", "numpy", "pandas", "pandas.plotting"]


def test_a_warm_import_takes_no_time(one_kind: Warm) -> None:
    environment = one_kind.environment(TELLS_ITS_PROCESS + "import time\ntime.sleep(0.5)\n")

    async def run() -> float:
        await one_kind.warmed(environment)
        began = time.monotonic()
        await one_kind.run(environment)
        return time.monotonic() - began

    assert one_kind.go(run()) < 0.4
