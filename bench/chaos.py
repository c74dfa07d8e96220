"""Workers are killed, stopped beyond their leases and cut off: is each job recorded once, with its own result?

Real worker processes with ordinary slots and with dedicated scripts, and flows over both. Each job tells this process
that it begins, so that runs are counted where no database loses them: a job may begin once more than it was restarted.
Seconds of trouble and the seed of its choices are arguments. Ends with status 1 when a promise was broken.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

from bench import dedicated, harness

ZOMBIE_S = 5
PAUSE_S = (0.5, 3.5)  # between two blows
RUN_S = (0.0, 0.01, 0.1)  # of a job
STEPS = 4  # of a flow
_PYTHON = """
import os, time, urllib.request

def main(x: int, s: float = 0.01):
    urllib.request.urlopen("{begun}" + os.environ["WM_JOB_ID"], timeout=30).read()
    time.sleep(s)
    return x * 2
"""
_TYPESCRIPT = """
export async function main(x: number, s: number) {{
  await (await fetch("{begun}" + process.env.WM_JOB_ID)).text();
  await new Promise((done) => setTimeout(done, s * 1000));
  return x * 2;
}}
"""


def run(arguments: list[str]) -> None:
    seconds = float(arguments[0]) if arguments else 60.0
    chance = random.Random(int(arguments[1]) if len(arguments) > 1 else 1)
    with _begins() as (begun, address):
        kinds = _Kinds(address)
        crew = _Crew(kinds.entries)
        wanted: dict[UUID, tuple[str, Any]] = {}
        blows: Counter[str] = Counter()
        try:
            harness.wait_until(crew.has_begun, "the workers to register")
            until, next_blow = time.monotonic() + seconds, time.monotonic() + 1.0
            while time.monotonic() < until:
                kind, request, result = kinds.next_request(chance, number=len(wanted))
                wanted[_push(request)] = kind, result
                crew.look_after()
                if time.monotonic() > next_blow:
                    blows[crew.strike(chance)] += 1
                    next_blow = time.monotonic() + chance.uniform(*PAUSE_S)
                time.sleep(chance.expovariate(20))
            harness.wait_until(crew.has_emptied_the_queue, "the queue to be empty", every_s=0.2)
        finally:
            crew.end()
    _judge(wanted, begun, blows)


def _push(request: Any) -> UUID:
    from jobs import queue

    return queue.push_job(request)


@contextlib.contextmanager
def _begins() -> Iterator[tuple[Counter[str], str]]:
    """How often each job has begun, and the address at which jobs tell that they do."""
    begun: Counter[str] = Counter()

    class Begins(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            begun[self.path.strip("/")] += 1
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Begins) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield begun, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Kinds:
    """What is queued: runs of two dedicated scripts, ordinary ones, and flows."""

    def __init__(self, address: str) -> None:
        self._code = _PYTHON.format(begun=address)
        self._scripts = {
            "dedicated python3": dedicated.deploy_script("python3", self._code, "chaos"),
            "dedicated bun": dedicated.deploy_script("bun", _TYPESCRIPT.format(begun=address), "chaos"),
        }
        self.entries = ",".join(entry for _, entry in self._scripts.values())

    def next_request(self, chance: random.Random, *, number: int) -> tuple[str, Any, Any]:
        """A kind, a run of it and its result."""
        kind = chance.choice(
            [*self._scripts, *self._scripts, "python3", "flow"] if number % 8 else ["python3", "flow"]
        )
        args = {"x": number, "s": chance.choice(RUN_S)}
        if kind == "flow":
            return kind, self._flow(number), number * 2**STEPS
        if kind in self._scripts:
            request = replace(dedicated.request_of(*self._scripts[kind]), args=args)
        else:
            request = harness.preview(self._code, language="python3", raw_lock="", args=args)
        return kind, request, number * 2

    def _flow(self, number: int) -> Any:
        from jobs.flows.state import initial_state
        from jobs.flows.value import parse_flow_value

        expressions = ["flow_input.x", *(f"results.s{step}" for step in range(STEPS - 1))]
        value = {
            "modules": [
                {
                    "id": f"s{step}",
                    "value": {
                        "type": "rawscript",
                        "language": "python3",
                        "content": self._code,
                        "lock": "",
                        "input_transforms": {"x": {"type": "javascript", "expr": expression}},
                    },
                }
                for step, expression in enumerate(expressions)
            ]
        }
        request = harness.preview("", language="python3", kind="flowpreview", tag="flow", args={"x": number})
        return replace(
            request,
            raw_code=None,
            language=None,
            raw_flow=value,
            flow_state=initial_state(parse_flow_value(value)),
        )


@dataclass(eq=False)
class _Member:
    """A worker: how it is started, the process, and when it goes on if it is stopped (monotonic time)."""

    slots: int
    env: dict[str, str]
    process: "subprocess.Popen[bytes] | None" = None
    goes_on_at: float | None = None


class _Crew:
    """Workers that are started again whenever they end."""

    def __init__(self, entries: str) -> None:
        ordinary, warm = {"WORKER_TAGS": "python3,flow"}, {"DEDICATED_WORKER": entries}
        self._members = [
            _Member(2, ordinary),
            _Member(2, ordinary | {"EXIT_AFTER_N_JOBS": "50"}),
            _Member(2, warm),
            _Member(2, warm),
        ]
        self.look_after()

    def look_after(self) -> None:
        """Start what has ended, let go on what was stopped long enough."""
        for number, member in enumerate(self._members):
            if member.process is None or member.process.poll() is not None:
                member.goes_on_at = None
                member.process = subprocess.Popen(
                    [
                        sys.executable,
                        str(harness.ROOT / "manage.py"),
                        "runworker",
                        "--slots",
                        str(member.slots),
                    ],
                    env={
                        **os.environ,
                        "LOG_LEVEL": "ERROR",
                        "HEARTBEAT_SECONDS": "1",
                        "MONITOR_INTERVAL_SECONDS": "1",
                        "ZOMBIE_JOB_TIMEOUT": str(ZOMBIE_S),
                        "WORKER_DIR": f"/tmp/windmill-bench-{os.getpid()}-{number}",
                        **member.env,
                    },
                )
            elif member.goes_on_at is not None and time.monotonic() > member.goes_on_at:
                member.goes_on_at = None
                member.process.send_signal(signal.SIGCONT)

    def has_begun(self) -> bool:
        """Whether all of them have registered."""
        running = harness.scalar("SELECT count(*) FROM worker_ping WHERE state = 'running'")
        return bool(running == len(self._members))

    def has_emptied_the_queue(self) -> bool:
        """Whether nothing is left to run. Looks after them."""
        self.look_after()
        return bool(harness.scalar("SELECT NOT EXISTS (SELECT FROM queue WHERE tag <> 'dependency')"))

    def strike(self, chance: random.Random) -> str:
        """Do something bad to one of them, or to the connections of all; answers what."""
        member = chance.choice(self._members)
        blow = chance.choice(["SIGKILL", "SIGTERM", "SIGSTOP", "connections"])
        if blow == "connections":
            harness.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                " AND starts_with(application_name, 'windmill ') AND random() < 0.7"
            )
            return blow
        process = member.process
        assert process is not None
        if blow == "SIGSTOP":
            member.goes_on_at = time.monotonic() + chance.choice([1.0, ZOMBIE_S * 2.0])
            process.send_signal(signal.SIGSTOP)
            return blow
        process.send_signal(signal.SIGKILL if blow == "SIGKILL" else signal.SIGTERM)
        return blow

    def end(self) -> None:
        """End them all."""
        for member in self._members:
            if member.process is not None:
                member.process.send_signal(signal.SIGCONT)
                harness.stop(member.process)


def _judge(wanted: dict[UUID, tuple[str, Any]], begun: Counter[str], blows: Counter[str]) -> None:
    rows = harness.rows("SELECT id, status, result::text, restarts FROM completed_job")
    recorded = {row[0]: row[1:] for row in rows}
    table, broken = [], []
    for kind in sorted({kind for kind, _ in wanted.values()}):
        ids = [job_id for job_id, (of, _) in wanted.items() if of == kind]
        right = [id for id in ids if recorded.get(id, ())[:2] == ("success", str(wanted[id][1]))]
        table.append([kind, len(ids), len(right), sum(recorded[id][2] for id in ids if id in recorded)])
        broken += [f"{kind} job {id}: {recorded.get(id, 'not recorded')}" for id in set(ids) - set(right)]
    restarts = {str(id): row[2] for id, row in recorded.items()}
    for job_id, times in begun.items():
        if job_id not in restarts or times > 1 + restarts[job_id]:
            broken.append(
                f"job {job_id} began {times} times, restarts: {restarts.get(job_id, 'not recorded')}"
            )
    harness.report(
        "chaos",
        ["", "jobs", "right results, recorded once", "restarts"],
        table,
        begun=sum(begun.values()),
        begun_again=sum(times - 1 for times in begun.values()),
        **{f"blows_{blow.replace(' ', '_')}": count for blow, count in sorted(blows.items())},
    )
    if broken:
        sys.exit("\n".join(["a promise was broken:", *broken[:20]]))
