"""How long a job takes that does nothing, and where the time goes.

`python -m workers.runtimes.bench_probe [N]` prints a table; `measure` returns the figures.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from workers.runtimes import Execution, Executor, Site, look_around
from workers.sandbox import HostPool, JobHost

CODES = {"python3": "def main():\n    return None\n", "bash": "echo ok\n"}
PHASES = ("sandbox", "send", "job", "teardown", "total", "prepare")

Summary = dict[str, dict[str, float]]  # milliseconds: {"total": {"p50": 3.1, "p95": 4.0}, ...}


class _Nowhere:
    def write(self, text: str) -> None: ...

    def stream(self, text: str) -> None: ...


def executor_on(host: JobHost, language: str) -> Executor:
    """The executor of `language`, running its jobs on `host`."""
    available = look_around()
    site = Site(
        host=host,
        hosts=HostPool(host),
        tools=available.tools,
        cache_dir=Path(tempfile.gettempdir()) / "windmill-probe",
    )
    return next(one.make(site) for one in available.runtimes if language in one.languages)


async def measure(host: JobHost, language: str, count: int, *, pause_s: float = 0.0) -> Summary:
    """Run `count` no-op jobs one after the other on a started `host`, from the call of run() to its outcome.

    `pause_s` between them tells an idle worker (the next sandbox is ready) from a busy one.
    """
    executor = executor_on(host, language)
    taken: dict[str, list[float]] = {phase: [] for phase in PHASES}
    for number in range(count):
        execution = Execution(
            job_id=str(number), workspace_id="bench", language=language, code=CODES[language], args={}, env={}
        )
        if pause_s:
            await asyncio.sleep(pause_s)
        began = time.monotonic()
        outcome = await executor.run(execution, _Nowhere())
        taken["total"].append(time.monotonic() - began)
        for phase, seconds in outcome.timings.items():
            taken[phase].append(seconds)
    return {phase: _summary(seconds) for phase, seconds in taken.items()}


def measure_floors(count: int) -> Summary:
    """What the machine takes for the bare parts: fork and exit of this process, start of an empty bash."""
    return {
        "fork and exit": _summary([_seconds(_fork) for _ in range(count)]),
        "spawn bash": _summary([_seconds(_spawn_bash) for _ in range(count)]),
    }


def _seconds(act: Callable[[], None]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _spawn_bash() -> None:
    subprocess.run(["bash", "-c", "echo ok"], stdout=subprocess.DEVNULL, check=True)


def _summary(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50": round(statistics.median(ordered) * 1000, 3),
        "p95": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] * 1000, 3),
    }


async def _report(count: int) -> None:
    floors = measure_floors(count)
    with tempfile.TemporaryDirectory() as base_dir:
        host = JobHost(base_dir=base_dir, policy="warn")
        await host.start()
        try:
            _print(f"{host.isolation}: {host.isolation_reason}")
            for name, summary in floors.items():
                _print(f"{name:28} p50 {summary['p50']:7.3f} ms   p95 {summary['p95']:7.3f} ms")
            for language in CODES:
                for kind, pause_s in (("idle worker", 0.02), ("back to back", 0.0)):
                    figures = await measure(host, language, count, pause_s=pause_s)
                    for phase in PHASES:
                        title = f"{language}, {kind}: {phase}" if phase == PHASES[0] else f"    {phase}"
                        _print(
                            f"{title:36} p50 {figures[phase]['p50']:7.3f} ms   p95 {figures[phase]['p95']:7.3f} ms"
                        )
        finally:
            await host.close()


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    asyncio.run(_report(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
