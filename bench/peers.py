"""The same no-op job with procrastinate, pgqueuer and celery: enqueue to start on an idle worker, and jobs a second.

Each peer is installed with pip, in the version named here, into a virtual environment that is thrown away, and is used as
its documentation says: its own command starts one worker process, its own call queues jobs. PostgreSQL is the same server
with the same settings; Redis, which celery needs, is started without persistence. One that cannot be installed or started
is left out, and the table says why.

The start is the moment in which the first line of the job runs, by the clock of this machine. What the figures do not
show: the peers keep no result and call a function in the own process of the worker; here each job runs in a sandbox, and
its result and log are recorded.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench import dedicated, harness

PROGRAMS = Path(__file__).parent / "peer_programs"
DATABASE = "windmill_bench_peer"
CODE = "import time\n\ndef main(x: int = 1):\n    return time.time()\n"
SINGLE_JOBS = 200
PAUSE_S = 0.01  # between two of them: the worker is idle again
SLOTS = 8
INSTALL_LIMIT_S = 300.0


class PeerAway(Exception):
    """A peer cannot be measured here; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One of the others. `worker` is the command, within the environment, that starts one worker process."""

    name: str
    requirements: tuple[str, ...]
    worker: tuple[str, ...]
    setting: str
    needs_redis: bool = False

    @property
    def program(self) -> str:
        """The module of PROGRAMS that says what the job is and how it is queued."""
        return f"{self.name}_noop"


PEERS = [
    Peer(
        name="procrastinate",
        requirements=("procrastinate==3.10.0", "psycopg[binary]==3.3.9"),
        worker=("procrastinate", "--app=procrastinate_noop.app", "worker", f"--concurrency={SLOTS}"),
        setting=f"async function, concurrency {SLOTS}",
    ),
    Peer(
        name="pgqueuer",
        requirements=("pgqueuer==1.6.0", "asyncpg==0.32.0"),
        # What `pgq run` does, which cannot read its own options with the typer of the day.
        worker=("python", "-m", "pgqueuer_noop", "work"),
        setting="async function, batches of 10 (default)",
    ),
    Peer(
        name="celery",
        requirements=("celery[redis]==5.7.0",),
        worker=("celery", "--app=celery_noop", "worker", "--concurrency=1", "--loglevel=ERROR"),
        setting="Redis without persistence, 1 process (prefork)",
        needs_redis=True,
    ),
]
COLUMNS = ["", "how", "isolated", "results kept", "enqueue to start ms p50", "p95", "jobs/s"]


def run(arguments: list[str]) -> None:
    count = int(arguments[0]) if arguments else 5_000
    table: list[list[Any]] = [_ordinary(count), _dedicated(count)]
    left_out: dict[str, str] = {}
    for peer in PEERS:
        try:
            table.append([peer.name, peer.setting, "no", "no", *_measure(peer, count)])
        except PeerAway as exc:
            left_out[peer.name] = str(exc)
            table.append([peer.name, f"left out: {exc}", "", "", "", "", ""])
    harness.report(
        "peers",
        COLUMNS,
        table,
        jobs=count,
        versions=", ".join(requirement for peer in PEERS for requirement in peer.requirements),
        left_out=", ".join(left_out) or "none",
    )


# --- ours ---


def _ordinary(count: int) -> list[Any]:
    request = harness.preview(CODE, language="python3")
    with harness.worker(slots=SLOTS):
        waits = _starts(request)
    return [
        "this, python3",
        f"any script, {SLOTS} slots",
        "yes",
        "yes",
        *_percentiles(waits),
        _rate(lambda: harness.queue_many(count), count),
    ]


def _dedicated(count: int) -> list[Any]:
    script, entry = dedicated.deploy_script("python3", CODE, name="told")
    with harness.worker(DEDICATED_WORKER=entry):
        waits = _starts(dedicated.request_of(script, entry))
    return [
        "this, dedicated python3",
        "a warm process of its own",
        "yes",
        "yes",
        *_percentiles(waits),
        _rate(lambda: dedicated.queue_many(script, entry, count), count, slots=1, DEDICATED_WORKER=entry),
    ]


def _starts(request: Any) -> list[float]:
    """Milliseconds from the push to the job's own first line, one job at a time."""
    from jobs import queue

    waiter = harness.ResultWaiter()
    waits = []
    for _ in range(SINGLE_JOBS + 20):
        begin = time.time()
        job_id = queue.push_job(request)
        waiter.wait(job_id)
        started = harness.scalar("SELECT result::text FROM completed_job WHERE id = %s", [job_id])
        waits.append((float(started) - begin) * 1000)
        time.sleep(PAUSE_S)
    waiter.close()
    harness.forget_jobs()
    return waits[20:]


def _rate(fill: Callable[[], None], count: int, *, slots: int = SLOTS, **env: str) -> float:
    """Jobs a second of one worker that starts with a full queue: from the first start to the last recorded result."""
    fill()
    with harness.worker(slots=slots, **env):
        harness.wait_until(
            lambda: harness.scalar("SELECT count(*) FROM completed_job") >= count, "the jobs", every_s=0.1
        )
    seconds = harness.scalar(
        "SELECT extract(epoch FROM max(completed_at) - min(started_at)) FROM completed_job"
    )
    harness.forget_jobs()
    return count / float(seconds)


# --- the others ---


def _measure(peer: Peer, count: int) -> tuple[float, float, float]:
    """Enqueue to start, p50 and p95 in ms, and jobs a second. Raises PeerAway."""
    with tempfile.TemporaryDirectory(prefix="windmill-bench-") as folder, contextlib.ExitStack() as stack:
        place = Path(folder)
        binaries = _install(peer, place / "venv")
        env = {
            **os.environ,
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "PYTHONPATH": str(PROGRAMS),
            "PEER_DATABASE_URL": _fresh_database(),
            "PEER_STARTS": str(place / "starts"),
        }
        if peer.needs_redis:
            env["PEER_REDIS_URL"] = stack.enter_context(_redis(place))
        _call(peer, binaries, env, "setup")
        with _worker_of(peer, binaries, env, place):
            _call(peer, binaries, env, "one_by_one", "20", str(PAUSE_S))  # until everything is warm
            waits = json.loads(_call(peer, binaries, env, "one_by_one", str(SINGLE_JOBS), str(PAUSE_S)))
        (place / "starts").unlink()
        _call(peer, binaries, env, "fill", str(count))
        with _worker_of(peer, binaries, env, place):
            harness.wait_until(lambda: len(_lines(place)) >= count, f"{peer.name}'s jobs", every_s=0.1)
        starts = sorted(map(float, _lines(place)))
        return *_percentiles(waits), (len(starts) - 1) / (starts[-1] - starts[0])


def _install(peer: Peer, venv: Path) -> Path:
    """The folder of commands of a new environment with this peer. Raises PeerAway."""
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", *peer.requirements]
    try:
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, capture_output=True)
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
    except subprocess.CalledProcessError as exc:
        raise PeerAway(f"pip: {_last_line(exc.stderr)}") from exc
    except subprocess.TimeoutExpired as exc:
        raise PeerAway(f"pip took more than {INSTALL_LIMIT_S:.0f} s") from exc
    return venv / "bin"


def _fresh_database() -> str:
    base, _, query = os.environ["DATABASE_URL"].partition("?")
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    return base.rsplit("/", 1)[0] + f"/{DATABASE}" + (f"?{query}" if query else "")


@contextlib.contextmanager
def _redis(place: Path) -> Iterator[str]:
    """A Redis of our own behind a socket. Raises PeerAway."""
    if shutil.which("redis-server") is None:
        raise PeerAway("redis-server is not installed (Debian: apt install redis-server)")
    path = place / "redis.sock"
    process = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=place,
    )
    try:
        harness.wait_until(path.exists, "Redis")
        yield f"redis+socket://{path}"
    finally:
        harness.stop(process)


@contextlib.contextmanager
def _worker_of(peer: Peer, binaries: Path, env: dict[str, str], place: Path) -> Iterator[None]:
    with (place / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [str(binaries / peer.worker[0]), *peer.worker[1:]], env=env, cwd=place, stdout=log, stderr=log
        )
        try:
            yield
        finally:
            harness.stop(process)


def _call(peer: Peer, binaries: Path, env: dict[str, str], *arguments: str) -> str:
    """Run the peer's program within its environment; answers what it printed. Raises PeerAway."""
    command = [str(binaries / "python"), "-m", peer.program, *arguments]
    try:
        return subprocess.run(
            command, env=env, check=True, capture_output=True, text=True, timeout=harness.DEADLINE_S
        ).stdout
    except subprocess.CalledProcessError as exc:
        raise PeerAway(f"{arguments[0]}: {_last_line(exc.stderr)}") from exc
    except subprocess.TimeoutExpired as exc:
        raise PeerAway(f"{arguments[0]} took more than {harness.DEADLINE_S:.0f} s") from exc


def _lines(place: Path) -> list[str]:
    try:
        return (place / "starts").read_text().split()
    except FileNotFoundError:
        return []


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1][:200]


def _percentiles(waits: list[float]) -> tuple[float, float]:
    return harness.percentile(waits, 0.5), harness.percentile(waits, 0.95)
