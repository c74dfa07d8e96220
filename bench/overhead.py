"""One slot, N no-op jobs: time a job, and where it goes."""

import itertools
import os
import subprocess
import sys
import time
from typing import Any

from bench import harness

TELLS_ITS_START = "import time\n\ndef main():\n    return time.time()\n"
PAUSE_S = 0.01  # between two jobs: the worker is idle again


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
        table += _phases(min(count, 200))
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

    request = harness.preview(harness.NOOP[language], language=language)
    waiter = harness.ResultWaiter()
    spent = []
    for _ in range(count):
        begin = time.perf_counter()
        waiter.wait(queue.push_job(request))
        spent.append((time.perf_counter() - begin) * 1000)
    waiter.close()
    harness.forget_jobs()
    return harness.percentile(spent, 0.5), harness.percentile(spent, 0.95)


def _phases(count: int) -> list[list[Any]]:
    """Where the time of one Python job on an idle worker goes, by the clock of this machine, one job at a time."""
    from jobs import queue

    request = harness.preview(TELLS_ITS_START, language="python3")
    waiter = harness.ResultWaiter()
    moments = []
    for _ in range(count + 20):
        begin = time.time()
        job_id = queue.push_job(request)
        pushed = time.time()
        waiter.wait(job_id)
        known = time.time()
        ((claimed, began, recorded),) = harness.rows(
            "SELECT extract(epoch FROM started_at)::float8, result::text::float8,"
            "       extract(epoch FROM completed_at)::float8 FROM completed_job WHERE id = %s",
            [job_id],
        )
        moments.append((begin, pushed, claimed, began, recorded, known))
        time.sleep(PAUSE_S)
    waiter.close()
    harness.forget_jobs()
    names = [
        "queued, hint sent",
        "claim reaches the database",
        "first line of the script",
        "recorded",
        "a watcher knows",
    ]

    def between(name: str, first: int, last: int) -> list[Any]:
        spent = [(moment[last] - moment[first]) * 1000 for moment in moments[20:]]
        return [name, harness.percentile(spent, 0.5), harness.percentile(spent, 0.95)]

    return [
        between("python3: enqueue to start, idle worker", 0, 3),
        *(between(f"  until {name}", number, number + 1) for number, name in enumerate(names)),
    ]


def _wake(tag: str) -> None:
    from jobs import wakeups

    wakeups.job_queued(tag)
