"""Dedicated scripts: what one job takes at low load, how many there are a second, a flow of dedicated steps."""

import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from bench import harness

CODE = {
    "python3": "def main(x: int = 1):\n    return x\n",
    "bun": "export function main(x: number) {\n  return x;\n}\n",
}
STEPS = 40


def run(arguments: list[str]) -> None:
    count = int(arguments[0]) if arguments else 20_000
    scripts = {language: deploy_script(language, code) for language, code in CODE.items()}
    flow = deploy_flow(STEPS)
    entries = ",".join(entry for _, entry in scripts.values())
    table: list[list[Any]] = []
    rates: list[list[Any]] = []
    with harness.worker(slots=1, DEDICATED_WORKER=entries) as worker:
        wake_ms = _wake_up(200)
        table.append(["a notification's way from one connection to another", *wake_ms])
        for language, (script, entry) in scripts.items():
            _round_trips(script, entry, 50)
            table.append(
                [f"{language}: enqueue to result known by a watcher", *_round_trips(script, entry, 300)]
            )
            recorded_ms = _recorded(script, entry, 300)
            table.append([f"{language}: enqueue to result recorded", *recorded_ms])
            # What there would be without us: the worker hears of the job by a notification.
            beyond_ms = [value - wake_ms[0] for value in recorded_ms]
            table.append([f"{language}: enqueue to result recorded, beyond the wake-up", *beyond_ms])
        for language, (script, entry) in scripts.items():
            rates.append([language, *_rate(script, entry, count, worker.pid)])
    # In turns, because machines drift. Each worker takes its own flows only.
    with (
        harness.worker(slots=1, DEDICATED_WORKER=flow),
        harness.worker(slots=1, WORKER_TAGS="flow,python3"),
    ):
        flows = [(_flow(flow), _flow(None)) for _ in range(9)][2:]
    seconds, ordinary = zip(*flows, strict=True)
    harness.report(
        "dedicated",
        ["one job at a time, ms", "p50", "p95"],
        table,
        jobs=count,
        **{f"{row[0]}_jobs_per_s": row[1] for row in rates},
        **{f"{row[0]}_worker_us_a_job": row[2] for row in rates},
        flow_of_40_s=statistics.median(seconds),
        flow_of_40_best_s=min(seconds),
        same_flow_without_dedicated_s=statistics.median(ordinary),
    )


# --- what runs ---


def deploy_script(language: str, code: str, name: str = "") -> tuple[Any, str]:
    """A dedicated script: its version, and how a group's configuration names it."""
    from jobs import scripts

    draft = scripts.ScriptDraft(
        path=f"u/admin/{name or 'noop'}_{language}",
        content=code,
        language=language,
        lock="",
        extra={"dedicated_worker": True},
    )
    script = scripts.deploy_script(_admin(), draft, auto_parent=True)
    return script, f"{harness.WORKSPACE}:{script.path}"


def deploy_flow(count: int) -> str:
    """A dedicated flow of Python steps; answers how a group's configuration names it."""
    from jobs.flows import deployed

    draft = deployed.FlowDraft(path="u/admin/steps", value=_steps(count), extra={"dedicated_worker": True})
    deployed.create_flow(_admin(), draft)
    return f"{harness.WORKSPACE}:flow/u/admin/steps"


def _steps(count: int) -> dict[str, Any]:
    inputs = {"x": {"type": "static", "value": 1}}
    step = {
        "type": "rawscript",
        "language": "python3",
        "content": CODE["python3"],
        "lock": "",
        "input_transforms": inputs,
    }
    return {"modules": [{"id": f"s{number}", "value": step} for number in range(count)]}


def _admin() -> Any:
    from workspaces.access import Identity, enter_workspace
    from workspaces.models import Account

    account = Account.objects.get(pk="admin@windmill.dev")
    identity = Identity(email=account.email, account=account, super_admin=True)
    return enter_workspace(identity, harness.WORKSPACE)


def request_of(script: Any, entry: str) -> Any:
    """A run of the script, as the server queues it."""
    from jobs import dedicated, queue

    return queue.JobRequest(
        workspace_id=harness.WORKSPACE,
        kind="script",
        runnable_id=script.hash,
        runnable_path=script.path,
        language=script.language,
        tag=dedicated.parse(entry).tag,
        created_by="admin",
        permissioned_as="u/admin",
        permissioned_as_email="admin@windmill.dev",
        args={"x": 1},
    )


def queue_many(script: Any, entry: str, count: int) -> None:
    """Queue so many runs of the script in one statement."""
    from jobs import dedicated

    harness.execute(
        """
        WITH asked AS (
            INSERT INTO job (id, workspace_id, kind, runnable_id, runnable_path, script_lang, args, tag, created_by,
                             permissioned_as, permissioned_as_email)
            SELECT gen_random_uuid(), %s, 'script', %s, %s, %s, '{"x": 1}', %s, 'admin', 'u/admin', 'admin@windmill.dev'
              FROM generate_series(1, %s)
            RETURNING id, workspace_id, runnable_path, created_at, tag)
        INSERT INTO queue (id, workspace_id, script_path, created_at, scheduled_for, tag)
        SELECT id, workspace_id, runnable_path, created_at, created_at, tag FROM asked
        """,
        [
            harness.WORKSPACE,
            script.hash,
            script.path,
            script.language,
            dedicated.parse(entry).tag,
            count,
        ],
    )


# --- one at a time ---


def _wake_up(count: int) -> tuple[float, float]:
    """What LISTEN and NOTIFY take by themselves: no job comes faster."""
    import psycopg

    url = os.environ["DATABASE_URL"]
    spent = []
    with psycopg.connect(url, autocommit=True) as listening, psycopg.connect(url, autocommit=True) as telling:
        listening.execute("LISTEN bench")
        for _ in range(count):
            begin = time.perf_counter()
            telling.execute("NOTIFY bench")
            for _ in listening.notifies(timeout=5, stop_after=1):
                spent.append((time.perf_counter() - begin) * 1000)
    return _spread(spent)


def _round_trips(script: Any, entry: str, count: int) -> tuple[float, float]:
    """From the push to the moment a watcher knows the result, one job at a time."""
    from jobs import queue

    request = request_of(script, entry)
    waiter = harness.ResultWaiter()
    spent = []
    for _ in range(count):
        begin = time.perf_counter()
        waiter.wait(queue.push_job(request))
        spent.append((time.perf_counter() - begin) * 1000)
    waiter.close()
    harness.forget_jobs()
    return _spread(spent)


def _recorded(script: Any, entry: str, count: int) -> tuple[float, float]:
    """From the job in the queue to the statement that records its result, by the database's clock."""
    from jobs import queue

    request = request_of(script, entry)
    waiter = harness.ResultWaiter()
    for _ in range(count):
        waiter.wait(queue.push_job(request))
    waiter.close()
    spent = [
        float(row[0])
        for row in harness.rows(
            "SELECT extract(epoch FROM done.completed_at - job.created_at) * 1000"
            " FROM completed_job AS done JOIN job USING (id)"
        )
    ]
    harness.forget_jobs()
    return _spread(spent)


def _spread(spent: list[float]) -> tuple[float, float]:
    return harness.percentile(spent, 0.5), harness.percentile(spent, 0.95)


# --- many ---


def _rate(script: Any, entry: str, count: int, pid: int) -> tuple[float, float]:
    """(jobs a second, processor time of the worker in us a job), from the first claim to the last result."""
    from jobs import dedicated, wakeups

    tag = dedicated.parse(entry).tag
    for number in (500, count):  # warm-up, then the run
        harness.forget_jobs()
        queue_many(script, entry, number)
        harness.execute("VACUUM ANALYZE queue")
        before = worker_cpu_s(pid)
        wakeups.job_queued(tag)
        harness.wait_until(lambda: harness.scalar("SELECT count(*) FROM queue") == 0, "the jobs", every_s=0.1)
        spent = worker_cpu_s(pid) - before
    ended, failed = harness.rows(
        "SELECT count(*), count(*) FILTER (WHERE status <> 'success') FROM completed_job"
    )[0]
    if ended != count or failed:
        sys.exit(f"{ended} of {count} jobs have a result, {failed} of them failed")
    seconds = harness.scalar(
        "SELECT extract(epoch FROM max(completed_at) - min(started_at)) FROM completed_job"
    )
    harness.forget_jobs()
    return count / float(seconds), spent / count * 1e6


def worker_cpu_s(pid: int) -> float:
    """Processor time that the worker process itself has taken so far; without its sandboxes."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- a flow ---


def _flow(entry: str | None) -> float:
    """Seconds from the push of the flow to the moment a watcher knows its result. None: the same steps, not dedicated."""
    from jobs import dedicated, queue
    from jobs.flows import deployed
    from jobs.flows.state import initial_state
    from jobs.flows.value import parse_flow_value

    value = _steps(STEPS)
    of_version: dict[str, Any] = {"kind": "flowpreview", "tag": "flow", "raw_flow": value}
    if entry is not None:
        one = dedicated.parse(entry)
        flow, version = deployed.get_to_run(_admin(), path=one.path)
        of_version = {"kind": "flow", "tag": one.tag, "runnable_id": version.pk, "runnable_path": flow.path}
    request = queue.JobRequest(
        workspace_id=harness.WORKSPACE,
        created_by="admin",
        permissioned_as="u/admin",
        permissioned_as_email="admin@windmill.dev",
        args={},
        flow_state=initial_state(parse_flow_value(value)),
        **of_version,
    )
    waiter = harness.ResultWaiter()
    begin = time.perf_counter()
    job_id: UUID = queue.push_job(request)
    waiter.wait(job_id, within_s=harness.DEADLINE_S)
    seconds = time.perf_counter() - begin
    waiter.close()
    status = harness.scalar("SELECT status FROM completed_job WHERE id = %s", [job_id])
    harness.forget_jobs()
    if status != "success":
        sys.exit(f"a flow of the benchmark ended as {status}")
    return seconds
