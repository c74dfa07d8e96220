"""One slot, N no-op jobs: time a job, and where it goes."""

import itertools
import os
import subprocess
import sys
import time

from bench import harness


def run(arguments: list[str]) -> None:
    count = int(arguments[0]) if arguments else 500
    table = [
        ["raw SQL: claim + complete, one connection", *_sql_loop(count)],
        ["bare fork + exit of this Python", *_bare_fork(200)],
    ]
    table.append(["bare spawn of bash", *_bare_spawn(["bash", "-c", "echo 1"], 100)])
    table.append(["bare spawn of python -I -S", *_bare_spawn([sys.executable, "-I", "-S", "-c", "1"], 50)])
    with harness.worker(slots=1):
        for language in ("python3", "bash"):
            table.append([f"{language}: one job in a busy queue", *_busy_queue(language, count)])
        for language in ("python3", "bash"):
            table.append(
                [f"{language}: enqueue to result, idle worker", *_round_trips(language, min(count, 200))]
            )
    harness.report("overhead", ["ms", "p50", "p95"], table, jobs=count)


def _sql_loop(count: int) -> tuple[float, float]:
    from jobs import queue
    from jobs.models import JobStatus

    harness.queue_many(count)
    spent = []
    for _ in range(count):
        begin = time.perf_counter()
        (claim,) = queue.claim_jobs(worker="bench", tags=["python3", "bash"])
        queue.complete_jobs([queue.Completion(claim.id, claim.attempt, JobStatus.SUCCESS, "1")])
        spent.append((time.perf_counter() - begin) * 1000)
    harness.forget_jobs()
    return harness.percentile(spent, 0.5), harness.percentile(spent, 0.95)


def _bare_fork(count: int) -> tuple[float, float]:
    spent = []
    for _ in range(count):
        begin = time.perf_counter()
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        spent.append((time.perf_counter() - begin) * 1000)
    return harness.percentile(spent, 0.5), harness.percentile(spent, 0.95)


def _bare_spawn(command: list[str], count: int) -> tuple[float, float]:
    spent = []
    for _ in range(count):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        spent.append((time.perf_counter() - begin) * 1000)
    return harness.percentile(spent, 0.5), harness.percentile(spent, 0.95)


def _busy_queue(language: str, count: int) -> tuple[float, float]:
    """Jobs waiting in line for one slot: the time from one recorded result to the next."""
    harness.queue_many(20, language=language)  # warm-up
    _wake(language)
    harness.wait_until(lambda: harness.scalar("SELECT count(*) FROM queue") == 0, "the warm-up")
    harness.forget_jobs()
    harness.queue_many(count, language=language)
    _wake(language)
    harness.wait_until(
        lambda: harness.scalar("SELECT count(*) FROM completed_job") == count, "the jobs", every_s=0.2
    )
    ends = [
        row[0].timestamp()
        for row in harness.rows("SELECT completed_at FROM completed_job ORDER BY completed_at")
    ]
    failed = harness.scalar("SELECT count(*) FROM completed_job WHERE status <> 'success'")
    harness.forget_jobs()
    if failed:
        sys.exit(f"{failed} of {count} no-op jobs failed")
    steps = [(later - earlier) * 1000 for earlier, later in itertools.pairwise(ends)]
    return harness.percentile(steps, 0.5), harness.percentile(steps, 0.95)


def _round_trips(language: str, count: int) -> tuple[float, float]:
    """From the push to the moment a watcher knows the result, one job at a time."""
    from jobs import queue

    request = queue.JobRequest(
        workspace_id=harness.WORKSPACE,
        kind="preview",
        tag=language,
        created_by="admin",
        permissioned_as="u/admin",
        permissioned_as_email="admin@windmill.dev",
        args={},
        raw_code=harness.NOOP[language],
        language=language,
    )
    waiter = harness.ResultWaiter()
    spent = []
    for _ in range(count):
        begin = time.perf_counter()
        waiter.wait(queue.push_job(request))
        spent.append((time.perf_counter() - begin) * 1000)
    waiter.close()
    harness.forget_jobs()
    return harness.percentile(spent, 0.5), harness.percentile(spent, 0.95)


def _wake(tag: str) -> None:
    from jobs import wakeups

    wakeups.job_queued(tag)
