"""What the benchmarks share: the database, worker and server processes, percentiles, tables, JSON.

A benchmark runs against the PostgreSQL of DATABASE_URL (`./windmill bench` starts one with durable settings), in a
database of its own, made anew. Figures are medians over many jobs; compare within one run, machines drift.
"""

import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from bench import gauge

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
DATABASE = "windmill_bench"
NOOP = {"python3": "def main():\n    return 1\n", "bash": "echo 1\n"}
WORKSPACE = "bench"
DEADLINE_S = 300.0


def prepare_database() -> str:
    """Make the benchmark database anew, migrate it and set up Django on it. Returns its URL."""
    admin_url = os.environ.get("DATABASE_URL")
    if not admin_url:
        sys.exit(
            "DATABASE_URL is not set; start benchmarks with ./windmill bench, which brings its own PostgreSQL"
        )
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    base, _, query = admin_url.partition("?")
    url = base.rsplit("/", 1)[0] + f"/{DATABASE}" + (f"?{query}" if query else "")
    os.environ.update(DATABASE_URL=url, LOG_LEVEL="WARNING", DJANGO_SETTINGS_MODULE="windmill_site.settings")
    os.environ.setdefault("SECRET_KEY", "benchmark-only-secret-key")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from workspaces.accounts import bootstrap
    from workspaces.models import Account, Member, Workspace

    bootstrap()
    Account.objects.update(must_change_password=False)
    workspace = Workspace.objects.create(pk=WORKSPACE, name="Benchmark", owner="admin@windmill.dev")
    Member.objects.create(workspace=workspace, username="admin", email="admin@windmill.dev", is_admin=True)
    return url


@contextlib.contextmanager
def worker(slots: int = 1, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A real `runworker` with this many slots, ready to claim when the block starts."""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "runworker"],
        env={
            **os.environ,
            "NUM_WORKERS": str(slots),
            "WORKER_DIR": f"/tmp/windmill-bench-{os.getpid()}",
            **env,
        },
    )
    try:
        wait_until(
            lambda: (
                process.poll() is not None
                or scalar("SELECT count(*) FROM worker_ping WHERE state = 'running'") > 0
            ),
            "the worker to register",
        )
        if process.poll() is not None:
            sys.exit(f"the worker left with status {process.returncode}")
        yield process
    finally:
        stop(process)
        execute("DELETE FROM worker_ping")


@contextlib.contextmanager
def server() -> Iterator[str]:
    """A real daphne. Gives its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "daphne",
            "-b",
            "127.0.0.1",
            "-p",
            str(port),
            "windmill_site.asgi:application",
        ],
        env={**os.environ, "PORT": str(port), "BASE_URL": url},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def answers() -> bool:
        try:
            return urllib.request.urlopen(f"{url}/api/version", timeout=2).status == 200
        except OSError:
            return False

    try:
        wait_until(answers, "the server to answer")
        yield url
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL after 15 s."""
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(condition: Any, what: str, *, every_s: float = 0.02) -> None:
    """Poll until `condition()`; ends the benchmark with a sentence after DEADLINE_S."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"gave up after {DEADLINE_S:.0f} s waiting for {what}")
        time.sleep(every_s)


def execute(statement: str, parameters: Sequence[Any] = ()) -> None:
    """Run one statement through Django's connection."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def rows(statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of one query."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def scalar(statement: str, parameters: Sequence[Any] = ()) -> Any:
    """The first column of the first row."""
    return rows(statement, parameters)[0][0]


def preview(code: str, *, language: str, **given: Any) -> Any:
    """A `jobs.queue.JobRequest` for `code`, as the editor's test button makes it; `given` are further fields of it."""
    from jobs import queue

    return queue.JobRequest(
        **{
            "workspace_id": WORKSPACE,
            "kind": "preview",
            "tag": language,
            "created_by": "admin",
            "permissioned_as": "u/admin",
            "permissioned_as_email": "admin@windmill.dev",
            "args": {},
            "raw_code": code,
            "language": language,
            **given,
        }
    )


def queue_many(
    count: int,
    *,
    language: str = "python3",
    tag: str | None = None,
    later: bool = False,
    workspaces: Sequence[str] = (WORKSPACE,),
    code: str | None = None,
    args: dict[str, Any] | None = None,
) -> None:
    """Queue `count` previews in one statement, dealt out to `workspaces` in turn. Without code they do nothing."""
    execute(
        """
        WITH asked AS (
            INSERT INTO job (id, workspace_id, kind, raw_code, script_lang, args, tag, created_by, permissioned_as,
                             permissioned_as_email)
            SELECT gen_random_uuid(), (%s::text[])[1 + n %% %s], 'preview', %s, %s, %s, %s, 'admin', 'u/admin',
                   'admin@windmill.dev'
              FROM generate_series(1, %s) AS n
            RETURNING id, workspace_id, created_at, tag)
        INSERT INTO queue (id, workspace_id, created_at, scheduled_for, tag)
        SELECT id, workspace_id, created_at,
               created_at + CASE WHEN %s THEN interval '1 day' ELSE interval '0' END, tag
          FROM asked
        """,
        [
            list(workspaces),
            len(workspaces),
            code or NOOP.get(language, "x"),
            language,
            json.dumps(args or {}),
            tag or language,
            count,
            later,
        ],
    )


class Claimer:
    """Claims as a worker does, on a connection of its own with prepared statements, and gives back what it took."""

    def __init__(self) -> None:
        from workers.pg_lane import _ONLY_INDEX_PROBES

        self._connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=1)
        self._connection.execute(_ONLY_INDEX_PROBES)
        self._turn = ""

    def cost_ms(self, *, tags: Sequence[str], times: int, in_turn: bool = False) -> tuple[float, float]:
        """p50 and p95 of a claim of one job."""
        from jobs import queue, sql

        statement = sql.load("claim_in_turn" if in_turn else "claim")
        parameters = queue.claim_parameters(worker="bench", tags=tags, limit=1)
        spent = []
        for _ in range(times):
            begin = time.perf_counter()
            found = self._connection.execute(statement, parameters | {"turn": self._turn}).fetchall()
            spent.append((time.perf_counter() - begin) * 1000)
            for row in found:  # not by a rollback, with which psycopg forgets what it has prepared
                release = {"id": row[0], "attempt": row[1], "count_restart": False}
                self._connection.execute(sql.load("release"), release)
            if in_turn and found:
                self._turn = found[-1][-2]
        return percentile(spent, 0.5), percentile(spent, 0.95)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def forget_jobs() -> None:
    """Empty the job tables, beside a worker that may be looking at them: all locks at once or none, then again."""
    from django.db import OperationalError, transaction

    tables = "job, queue, completed_job, job_logs, flow_status, flow_step, flow_iteration, flow_result, flow_user_state"

    def emptied() -> bool:
        try:
            with transaction.atomic():
                execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE NOWAIT")
                execute(f"TRUNCATE {tables}")
        except OperationalError:
            return False
        return True

    wait_until(emptied, "the tables to be free")


class ResultWaiter:
    """Listens like a server process does and looks into the database at each hint."""

    def __init__(self) -> None:
        self._listen = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        self._listen.execute("LISTEN wm_job")
        self._look = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)

    def wait(self, job_id: UUID, *, within_s: float = 10) -> None:
        """Return when the job has ended; ends the benchmark when that takes longer."""
        if not self.has_ended(job_id, within_s=within_s):
            sys.exit(f"job {job_id} did not finish in {within_s:.0f} s")

    def has_ended(self, job_id: UUID, *, within_s: float) -> bool:
        """Wait until the job has ended. False: it has not in this time."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if self._look.execute("SELECT 1 FROM completed_job WHERE id = %s", [job_id]).fetchone():
                return True
            for _ in self._listen.notifies(timeout=0.5, stop_after=1):
                pass
        return False

    def close(self) -> None:
        """Let go of the connections."""
        self._listen.close()
        self._look.close()


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile; 0.5 is the median."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def report(name: str, columns: Sequence[str], table: Sequence[Sequence[Any]], **facts: Any) -> None:
    """Print the table and write it, with its speed just now, to bench/results/<name>.json."""
    cells = [list(columns)] + [[_cell(value) for value in row] for row in table]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for number, row in enumerate(cells):
        print(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        )
        if number == 0:
            print("  ".join("-" * width for width in widths))
    for fact, value in facts.items():
        print(f"{fact}: {_cell(value)}")
    machine = gauge.measure()
    print(gauge.told(machine))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(
        json.dumps(
            {
                "benchmark": name,
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "python": platform.python_version(),
                "processors": os.cpu_count(),
                "postgresql": scalar("SHOW server_version"),
                "columns": list(columns),
                "rows": [list(row) for row in table],
                "machine": machine,
                **facts,
            },
            indent=1,
        )
        + "\n"
    )


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
