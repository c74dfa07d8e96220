"""However a job ends, nothing of it stays: no process, no folder, no descriptor in the worker."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.workers.job_runs import Jobs, Log, processes_with, started
from workers.runtimes import SandboxUnavailable

# Three children that try to outlive the job: in a new session, forked twice, and deaf to polite signals.
ESCAPE = """
setsid sleep {marker}1 >/dev/null 2>&1 &
(setsid sh -c 'sleep {marker}2 & sleep {marker}3 & wait' >/dev/null 2>&1 &)
nohup sh -c 'trap "" TERM HUP INT; sleep {marker}4; sleep {marker}5' >/dev/null 2>&1 &
running() {{ cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c '^{marker}[1-4]$'; }}
while [ "$(running)" -lt 4 ]; do sleep 0.01; done
echo started
"""


@pytest.fixture
def marker() -> str:
    """A number that no other process has in its command line; `sleep` takes it as seconds."""
    return str(uuid.uuid4().int)[:12]


@pytest.mark.parametrize("ending", ["ends", "fails", "times out", "is cancelled", "is killed from inside"])
def test_children_that_fled_die_with_the_job(any_host: Jobs, marker: str, ending: str) -> None:
    code = ESCAPE.format(marker=marker)
    code += {"ends": "", "fails": "exit 3", "is killed from inside": "kill -9 $$"}.get(ending, "sleep 60")

    async def run() -> None:
        log = Log()
        timeout_s = 1.5 if ending == "times out" else 60
        job = asyncio.create_task(any_host.run("bash", code, log=log, timeout_s=timeout_s))
        await log.wait_for("started")
        if ending == "is cancelled":
            assert len(processes_with(marker)) >= 4
            job.cancel()
        await asyncio.wait([job])

    any_host.runner.run(run())

    assert processes_with(marker) == []


def test_a_python_jobs_forked_children_die_with_it(any_host: Jobs, marker: str) -> None:
    code = f"""
import os, subprocess
def main():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "{marker}"])
        os._exit(0)
    subprocess.Popen(["sleep", "{marker}"], start_new_session=True)
    return "ok"
"""
    assert any_host.python(code).result == "ok"
    assert processes_with(marker) == []


def test_a_cancelled_run_returns_only_when_all_is_dead(any_host: Jobs, marker: str) -> None:
    async def run() -> bool:
        log = Log()
        job = asyncio.create_task(any_host.run("bash", f"echo go; sleep {marker}", log=log))
        await log.wait_for("go")
        job.cancel()
        job.cancel()
        await asyncio.wait([job])
        return job.cancelled()

    assert any_host.runner.run(run()) is True
    assert processes_with(marker) == []


def test_no_descriptor_and_no_folder_is_left(any_host: Jobs) -> None:
    def count() -> int:
        any_host.runner.run(any_host.host.settle())
        return len(os.listdir("/proc/self/fd")) if os.geteuid() == 0 else 0

    any_host.bash("echo warm")
    any_host.runner.run(asyncio.sleep(0.2))
    before = count()
    for _ in range(10):
        any_host.bash("mkdir -p a/b/c; echo x > a/b/c/file; ln -s / a/link; chmod 000 a/b")
        any_host.python("def main():\n    open('file', 'w').write('x')")

    base = Path(any_host.host._configuration["base_dir"])
    assert abs(count() - before) <= 6  # a prepared sandbox more or less, of three descriptors each
    assert all(not any((folder / "job").iterdir()) for folder in base.iterdir())


def test_a_fork_bomb_is_stopped_by_the_process_limit_and_its_timeout(isolated: Jobs) -> None:
    ran = isolated.bash("bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 60", timeout_s=1)

    assert "timed out" in ran.error["message"]
    assert isolated.bash("echo fine").result == "fine"


def test_when_the_fork_server_dies_its_jobs_are_reported_and_it_comes_back(tmp_path: Path) -> None:
    with started(base_dir=tmp_path / "base", policy="warn") as jobs:

        async def lose() -> Any:
            log = Log()
            job = asyncio.create_task(jobs.run("bash", "echo go; sleep 60", log=log))
            await log.wait_for("go")
            os.kill(jobs.host.fork_server_pid, signal.SIGKILL)
            with pytest.raises(SandboxUnavailable):
                await job

        jobs.runner.run(lose())

        assert jobs.bash("echo back").result == "back"


def test_jobs_die_with_a_worker_that_is_killed(
    tmp_path: Path, marker: str, wait_until: Callable[..., Any]
) -> None:
    import subprocess
    import sys

    code = f"""
import asyncio
from workers.sandbox import JobHost, Limits, Program
async def main():
    host = JobHost(base_dir={str(tmp_path / "base")!r}, policy="warn")
    await host.start()
    program = Program(env={{}}, argv=["bash", "-c", "setsid sleep {marker}1 & sleep {marker}2"])
    await host.run(program, limits=Limits(), on_output=print)
asyncio.run(main())
"""
    worker = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
    wait_until(lambda: len([pid for pid in processes_with(marker) if pid != worker.pid]) >= 2)

    worker.kill()
    worker.wait()

    wait_until(lambda: processes_with(marker) == [])


def test_closing_the_host_ends_running_jobs(tmp_path: Path, marker: str) -> None:
    with started(base_dir=tmp_path / "base", policy="warn") as jobs:

        async def close() -> None:
            log = Log()
            job = asyncio.create_task(jobs.run("bash", f"echo go; sleep {marker}", log=log))
            await log.wait_for("go")
            await jobs.host.close()
            with pytest.raises(SandboxUnavailable):
                await job

        jobs.runner.run(close())

        assert processes_with(marker) == []


def test_a_timeout_is_kept(any_host: Jobs) -> None:
    began = time.monotonic()

    ran = any_host.python("import time\ndef main():\n    time.sleep(60)", timeout_s=0.2)

    assert ran.error == {"name": "ExecutionErr", "message": "Job timed out after (>0.2s)"}
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("language", ["python3", "bash"])
def test_memory_of_all_processes_together_is_limited(any_host: Jobs, language: str) -> None:
    from workers.runtimes import Limits

    limits = Limits(memory_bytes=150 << 20)
    hog = "import time; x = bytearray(90 << 20); time.sleep(30)"
    codes = {
        "python3": f"""
import subprocess, sys
def main():
    children = [subprocess.Popen([sys.executable, "-I", "-S", "-c", {hog!r}]) for _ in range(3)]
    return [child.wait() for child in children]
""",
        "bash": "\n".join([f"{any_host.host._python} -I -S -c '{hog}' &" for _ in range(3)] + ["wait"]),
    }
    ran = any_host(language, codes[language], limits=limits, timeout_s=20)

    assert "Job used more than its 150 MB of memory (peak " in ran.error["message"]
