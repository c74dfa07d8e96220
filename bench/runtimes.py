"""Every language beside its bare tool, in one run: what a job that does nothing costs in the worker, and end to end."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench import harness
from bench.tcp_relay import tcp_address

PAUSE_S = 0.02  # between jobs: the next sandbox is ready, as on a worker that is not full
WARM_UP_S = 4.0  # first use installs, compiles, bundles; an environment that is used again gets a fork server
PYTHON = "def main():\n    return 1\n"
PANDAS = "import numpy\nimport pandas\n\n\ndef main():\n    return int(numpy.int64(1))\n"
TYPESCRIPT = "export function main() {\n  return 1;\n}\n"
GO = "package inner\n\nfunc main() (int, error) {\n\treturn 1, nil\n}\n"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job that does nothing, and the same without us."""

    name: str
    language: str
    code: str
    bare: Callable[[], float]  # does it once, answers the seconds it took
    args: dict[str, Any] = field(default_factory=dict)


def run(arguments: list[str]) -> None:
    count = int(arguments[0]) if arguments else 200
    with _postgres() as database, tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        with _site(runner, Path(folder)) as (site, executors):
            cases = _cases(site, database, Path(folder))
            locks = {case.name: runner.run(_lock(executors, case)) for case in cases}
            inside = {
                case.name: runner.run(_jobs(executors, case, locks[case.name], count)) for case in cases
            }
        with harness.worker(slots=1):
            around = {case.name: _round_trips(case, locks[case.name], min(count, 100)) for case in cases}
    harness.report(
        "runtimes",
        [
            "ms",
            "bare p50",
            "p95",
            "in the worker p50",
            "p95",
            "more than bare p50",
            "enqueue to result p50",
            "p95",
        ],
        [
            [
                case.name,
                *inside[case.name][0],
                *inside[case.name][1],
                inside[case.name][1][0] - inside[case.name][0][0],
                *around[case.name],
            ]
            for case in cases
        ],
        jobs=count,
    )


def _cases(site: Any, database: dict[str, Any], folder: Path) -> list[Case]:
    script, tools = folder / "empty.ts", site.tools
    script.write_text("console.log(1);\n")
    bun, deno = str(tools["Bun"].path), str(tools["Deno"].path)
    go = _go_binary(str(tools["Go"].path), folder)
    connection = psycopg.connect(_conninfo(database), autocommit=True)
    python = [sys.executable, "-I", "-c"]
    return [
        Case(name="python3", language="python3", code=PYTHON, bare=_spawn(*python, "1")),
        Case(
            name="python3, numpy and pandas imported",
            language="python3",
            code=PANDAS,
            bare=_spawn(*python, "1"),
        ),
        Case(name="bun", language="bun", code=TYPESCRIPT, bare=_spawn(bun, "run", str(script))),
        Case(name="nativets", language="nativets", code=TYPESCRIPT, bare=_spawn(bun, "run", str(script))),
        Case(
            name="deno", language="deno", code=TYPESCRIPT, bare=_spawn(deno, "run", "--no-check", str(script))
        ),
        Case(name="bash", language="bash", code="echo 1\n", bare=_spawn("bash", "-c", "echo 1")),
        Case(name="go, compiled", language="go", code=GO, bare=_spawn(go)),
        Case(
            name="postgresql",
            language="postgresql",
            code="SELECT 1 AS one",
            args={"database": database},
            bare=lambda: _seconds(lambda: connection.execute("SELECT 1 AS one").fetchall()),
        ),
        Case(
            name="duckdb",
            language="duckdb",
            code="SELECT 1 AS one",
            bare=_spawn(
                sys.executable, "-c", "import duckdb; duckdb.connect().execute('SELECT 1').fetchall()"
            ),
        ),
    ]


# --- in the worker ---


@contextlib.contextmanager
def _site(runner: asyncio.Runner, folder: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """What the runtimes of a real worker stand on, without a queue; and their executors by language."""
    from workers import preparing
    from workers.runtimes import Site, look_around
    from workers.sandbox import HostPool, JobHost

    available = look_around()
    cache_dir = folder / "cache"
    cache_dir.mkdir(mode=0o711)
    folder.chmod(0o711)
    host = JobHost(
        base_dir=folder / "jobs",
        policy="warn",
        read_only=preparing.readable_paths(available),
        writable_root=cache_dir,
    )
    hosts = HostPool(host)
    site = Site(host=host, hosts=hosts, tools=available.tools, cache_dir=cache_dir)
    runner.run(host.start())
    try:
        yield site, {language: one.make(site) for one in available.runtimes for language in one.languages}
    finally:
        runner.run(hosts.close())
        runner.run(host.close())


def _execution(case: Case, lock: str | None) -> Any:
    from workers.runtimes import Execution

    return Execution(
        job_id="00000000-0000-7000-8000-000000000000",
        workspace_id=harness.WORKSPACE,
        language=case.language,
        code=case.code,
        args=case.args,
        env={},
        lock=lock,
    )


async def _lock(executors: dict[str, Any], case: Case) -> str | None:
    from workers.runtimes import Resolver

    executor = executors[case.language]
    return (
        await executor.resolve(_execution(case, None), _Nowhere()) if isinstance(executor, Resolver) else None
    )


async def _jobs(
    executors: dict[str, Any], case: Case, lock: str | None, count: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """(p50, p95) of the bare tool and of the job, taken in turns."""
    executor, execution = executors[case.language], _execution(case, lock)
    bare: list[float] = []
    jobs: list[float] = []
    warm_at = time.perf_counter() + WARM_UP_S
    while len(jobs) < count:
        await asyncio.sleep(PAUSE_S)
        bare_s = await asyncio.to_thread(case.bare)
        await asyncio.sleep(PAUSE_S)
        began = time.perf_counter()
        outcome = await executor.run(execution, _Nowhere())
        if began > warm_at:
            jobs.append((time.perf_counter() - began) * 1000)
            bare.append(bare_s * 1000)
        assert json.loads(outcome.result_json) in (1, "1", [{"one": 1}]), outcome.result_json
    return _both(bare), _both(jobs)


class _Nowhere:
    def write(self, text: str) -> None: ...

    def stream(self, text: str) -> None: ...


# --- around the worker ---


def _round_trips(case: Case, lock: str | None, count: int) -> tuple[float, float]:
    """From the push to the moment a watcher knows the result, one job at a time."""
    from jobs import queue

    request = harness.preview(case.code, language=case.language, args=case.args, raw_lock=lock)
    waiter = harness.ResultWaiter()
    spent: list[float] = []
    warm_at = time.perf_counter() + WARM_UP_S
    while len(spent) < count:
        time.sleep(PAUSE_S)
        began = time.perf_counter()
        waiter.wait(queue.push_job(request), within_s=120)
        if began > warm_at:
            spent.append((time.perf_counter() - began) * 1000)
    waiter.close()
    failed = harness.scalar("SELECT count(*) FROM completed_job WHERE status <> 'success'")
    harness.forget_jobs()
    if failed:
        sys.exit(f"{failed} of {count} {case.name} jobs failed")
    return _both(spent)


# --- the bare tools ---


def _spawn(*command: str) -> Callable[[], float]:
    return lambda: _seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


def _seconds(act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _go_binary(go: str, folder: Path) -> str:
    (folder / "main.go").write_text('package main\n\nimport "fmt"\n\nfunc main() { fmt.Println(1) }\n')
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GOCACHE": str(folder / "go"),
        "CGO_ENABLED": "0",
    }
    subprocess.run([go, "build", "-o", "bare", "main.go"], cwd=folder, env=environment, check=True)
    return str(folder / "bare")


@contextlib.contextmanager
def _postgres() -> Iterator[dict[str, Any]]:
    """The benchmark's own database as a resource of type postgresql."""
    told = conninfo_to_dict(os.environ["DATABASE_URL"])
    with tcp_address(os.environ["DATABASE_URL"]) as (host, port):
        yield {
            "host": host,
            "port": port,
            "user": told.get("user"),
            "password": told.get("password", ""),
            "dbname": told.get("dbname"),
            "sslmode": "disable",
        }


def _conninfo(database: dict[str, Any]) -> str:
    return psycopg.conninfo.make_conninfo(**{name: value for name, value in database.items() if value})


def _both(spent: list[float]) -> tuple[float, float]:
    return harness.percentile(spent, 0.5), harness.percentile(spent, 0.95)
