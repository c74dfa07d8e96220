"""How fast the machine is just now: three things that no benchmark of ours can be faster than.

Machines drift, by a factor of two and more within an hour; figures of two runs are to be compared by these.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import psycopg

TARGETS_SPAWN_MS = 7.1  # `python -I -S` on the machine for which the targets were set (bench/RESULTS.md)
_SPAWNS = 40
_STATEMENTS = 300


def measure() -> dict[str, float]:
    """Medians in ms: a spawn of a bare Python, a round trip to PostgreSQL, a commit of one row."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=1) as connection:
        connection.execute("DROP TABLE IF EXISTS bench_gauge")
        connection.execute("CREATE TABLE bench_gauge (id int)")
        insert = "INSERT INTO bench_gauge VALUES (1)"
        figures = {
            "bare_python_spawn_ms": _median_ms(_spawn, _SPAWNS),
            "round_trip_ms": _median_ms(lambda: connection.execute("SELECT 1").fetchone(), _STATEMENTS),
            "commit_ms": _median_ms(lambda: connection.execute(insert), _STATEMENTS),
        }
        connection.execute("DROP TABLE bench_gauge")
    return {name: round(figure, 3) for name, figure in figures.items()}


def told(figures: dict[str, float]) -> str:
    """One line for the reader of a table."""
    spawn = figures["bare_python_spawn_ms"]
    return (
        f"the machine meanwhile: a spawn of `python -I -S` {spawn:.1f} ms"
        f" ({spawn / TARGETS_SPAWN_MS:.1f} times that of the targets' machine),"
        f" a round trip to PostgreSQL {figures['round_trip_ms']:.2f} ms, a commit {figures['commit_ms']:.2f} ms"
    )


def _spawn() -> None:
    subprocess.run([sys.executable, "-I", "-S", "-c", "1"], check=True)


def _median_ms(act: Callable[[], object], times: int) -> float:
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        act()
        spent.append((time.perf_counter() - begin) * 1000)
    return sorted(spent)[times // 2]
