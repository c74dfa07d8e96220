"""An idle instance: transactions a second and resident memory of server, worker, fork server and database."""

import time
from pathlib import Path

import psutil

from bench import harness

WINDOW_S = 20


def run(arguments: list[str]) -> None:
    harness.execute("VACUUM ANALYZE")  # or the autovacuum of a new database is counted as ours
    with harness.server() as url, harness.worker(slots=1) as worker:
        time.sleep(1)  # statistics are published with a delay
        first, begin = _transactions(), time.monotonic()
        time.sleep(WINDOW_S)
        rate = (_transactions() - first) / (time.monotonic() - begin)
        memory = {
            "worker (with its fork server)": _memory_mb(worker.pid),
            "server": _memory_mb(_pid_on(url)),
            "PostgreSQL": _postgres_mb(),
        }
        table = [*memory.items(), ("all", sum(memory.values()))]
        harness.report("idle", ["memory", "MB"], table, transactions_per_second=rate, window_s=WINDOW_S)


def _transactions() -> int:
    """Committed and rolled back in our database so far. Asking costs transactions of its own, as few as one a window."""
    return int(
        harness.scalar(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        )
    )


def _memory_mb(pid: int) -> float:
    """Proportional share of memory of a process and its children: shared pages are counted once in all."""
    process = psutil.Process(pid)
    return sum(_pss(p.pid) for p in [process, *process.children(recursive=True)]) / 1024


def _pss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def _pid_on(url: str) -> int:
    port = int(url.rsplit(":", 1)[1])
    return next(
        c.pid
        for c in psutil.net_connections("tcp")
        if c.laddr and c.laddr.port == port and c.status == psutil.CONN_LISTEN and c.pid
    )


def _postgres_mb() -> float:
    """The server process behind our connection, and everything it started."""
    backend = harness.scalar("SELECT pg_backend_pid()")
    try:
        return _memory_mb(psutil.Process(backend).ppid())
    except psutil.NoSuchProcess:  # a database on another host
        return 0.0
