"""Flows: the time of sequential steps, of loops, and what a step costs the database."""

import statistics
import subprocess
import sys
import time
from typing import Any
from uuid import UUID

from bench import harness

FIBONACCI = """
def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def main(n: int):
    return fibonacci(n)
"""
# The same work in one bare interpreter, which says how long it took without its own start.
BARE = (
    FIBONACCI
    + """
import time

begin = time.perf_counter()
for _ in range({count}):
    main({n})
print(time.perf_counter() - begin)
"""
)
NOOP = "def main():\n    return 1\n"
TARGET_S = 0.3


def run(arguments: list[str]) -> None:
    rounds = int(arguments[0]) if arguments else 9
    table: list[list[Any]] = []
    with harness.worker(slots=1):
        _time(_steps(40, 10))  # warm-up: V8, definitions, plans
        seconds = [_time(_steps(40, 10)) for _ in range(rounds)]
        table.append(_row("40 sequential steps, fibonacci(10), 1 slot", seconds, 40))
        table.append(_row("1 step, enqueue to result", [_time(_steps(1, 10)) for _ in range(100)], 1))
        writes = _writes(40, 10)
        for count in (10, 100, 1000):
            times = [_time(_steps(count, 1)) for _ in range(max(1, min(rounds, 400 // count)))]
            table.append(_row(f"{count} sequential steps, fibonacci(1), 1 slot", times, count))
        long_steps = _long_steps(min(3, rounds))
    for slots in (1, 2):
        with harness.worker(slots=slots):
            _time(_loop(20))
            for parallel in (None, 8):
                how = "in sequence" if parallel is None else f"parallel={parallel}"
                times = [_time(_loop(1000, parallel=parallel)) for _ in range(2)]
                table.append(_row(f"loop of 1,000 iterations, {how}, {slots} slot(s)", times, 1000))
    harness.report(
        "flow",
        ["flow", "median s", "best s", "ms a step", "runs"],
        table,
        target_s=TARGET_S,
        transactions_per_step=writes[0],
        wal_bytes_per_step=writes[1],
        fork_ms=_fork_ms(),
        **long_steps,
    )


def _row(name: str, seconds: list[float], steps: int) -> list[Any]:
    median = statistics.median(seconds)
    return [name, median, min(seconds), median / steps * 1000, len(seconds)]


# --- flows ---


def _steps(count: int, n: int) -> dict[str, Any]:
    """A flow of so many Python steps, one after the other, each an isolated job."""
    inputs = {"n": {"type": "static", "value": n}}
    value = {"type": "rawscript", "language": "python3", "content": FIBONACCI, "input_transforms": inputs}
    return {"modules": [{"id": f"s{number}", "value": value} for number in range(count)]}


def _loop(count: int, *, parallel: int | None = None) -> dict[str, Any]:
    """A loop around one no-op step."""
    step = {"type": "rawscript", "language": "python3", "content": NOOP, "input_transforms": {}}
    loop: dict[str, Any] = {
        "type": "forloopflow",
        "iterator": {"type": "javascript", "expr": f"Array.from({{length: {count}}}, (_, i) => i)"},
        "skip_failures": False,
        "modules": [{"id": "b", "value": step}],
    }
    if parallel is not None:
        loop |= {"parallel": True, "parallelism": {"type": "static", "value": parallel}}
    return {"modules": [{"id": "a", "value": loop}]}


def _time(flow: dict[str, Any]) -> float:
    """Seconds from the push of a flow to the moment a watcher knows its result."""
    waiter = harness.ResultWaiter()
    begin = time.perf_counter()
    job_id = _push(flow)
    waiter.wait(job_id, within_s=harness.DEADLINE_S)
    seconds = time.perf_counter() - begin
    waiter.close()
    status = harness.scalar("SELECT status FROM completed_job WHERE id = %s", [job_id])
    harness.forget_jobs()
    if status != "success":
        sys.exit(f"a flow of the benchmark ended as {status}")
    return seconds


def _push(flow: dict[str, Any]) -> UUID:
    from jobs import queue
    from jobs.flows.state import initial_state
    from jobs.flows.value import parse_flow_value

    request = queue.JobRequest(
        workspace_id=harness.WORKSPACE,
        kind="flowpreview",
        tag="flow",
        created_by="admin",
        permissioned_as="u/admin",
        permissioned_as_email="admin@windmill.dev",
        args={},
        raw_flow=flow,
        flow_state=initial_state(parse_flow_value(flow)),
    )
    return queue.push_job(request)


# --- what they are compared with ---


def _long_steps(rounds: int) -> dict[str, float]:
    """10 steps of fibonacci(33) beside the bare interpreter that the jobs are forked from, in turns: machines drift."""
    flows, bare = [], []
    for _ in range(rounds):
        bare.append(_bare(10, 33))
        flows.append(_time(_steps(10, 33)))
    flow_s, bare_s = min(flows), min(bare)
    return {
        "fibonacci33_flow_s": flow_s,
        "fibonacci33_bare_s": bare_s,
        "fibonacci33_overhead_percent": (flow_s / bare_s - 1) * 100,
    }


def _bare(count: int, n: int) -> float:
    code = BARE.format(count=count, n=n)
    interpreter = str(getattr(sys, "_base_executable", None) or sys.executable)
    done = subprocess.run([interpreter, "-I", "-S", "-c", code], capture_output=True, check=True, text=True)
    return float(done.stdout)


def _fork_ms() -> float:
    from bench.overhead import _bare_fork

    return _bare_fork(200)[0]


# --- what they write ---


def _writes(count: int, n: int) -> tuple[float, float]:
    """(transactions, bytes of write-ahead log) a step of a flow. Nobody watches: each hint would be a query more.

    The worker's heartbeats and pings, our looking at the end and autovacuum are in it, so it takes many steps.
    """
    flows = 20
    harness.execute("VACUUM ANALYZE")
    transactions, log = _transactions(), _log_position()
    for _ in range(flows):
        _push(_steps(count, n))
    harness.wait_until(lambda: harness.scalar("SELECT count(*) FROM queue") == 0, "the flows", every_s=0.25)
    log = _log_position() - log
    transactions = _transactions() - transactions
    harness.forget_jobs()
    return transactions / (flows * count), log / (flows * count)


def _transactions() -> int:
    time.sleep(1.5)  # statistics are published with a delay
    return int(harness.scalar("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"))


def _log_position() -> int:
    return int(harness.scalar("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))
