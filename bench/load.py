"""100,000 jobs of 20 tags, 90 % of one workspace's, on 8 slots: how long does the single job of another workspace wait?

Real jobs (Bash no-ops in their sandboxes). While one worker works through them, a workspace with nothing else queues one
job after the other. A fair share is one job of each workspace that waits; first come, first served is the whole backlog.
"""

import time
from uuid import UUID

from bench import harness

TAGS = [f"tag{number}" for number in range(20)]
NOISY, QUIET = "noisy", "quiet"
OTHERS = [f"other{number}" for number in range(9)]
SLOTS = 8
PROBES = 100
PATIENCE_S = 20.0  # for one job


def run(arguments: list[str]) -> None:
    queued = int(arguments[0]) if arguments else 100_000
    table = []
    for fairness in (True, False):
        for tag in TAGS:
            harness.queue_many(queued * 9 // 10 // len(TAGS), language="bash", tag=tag, workspaces=[NOISY])
            harness.queue_many(queued // 10 // len(TAGS), language="bash", tag=tag, workspaces=OTHERS)
        with harness.worker(slots=SLOTS, FORCE_WORKER_TAGS=",".join(TAGS), QUEUE_FAIRNESS=str(fairness)):
            harness.wait_until(lambda: _ended() > 200, "the first jobs")
            begun, ended = time.monotonic(), _ended()
            waits = _probe()
            rate = (_ended() - ended) / (time.monotonic() - begun)
            claimer = harness.Claimer()
            cost = claimer.cost_ms(tags=TAGS, times=100, in_turn=fairness)
            claimer.close()
        table.append(
            [
                "in turn" if fairness else "first come, first served",
                *[_ms(harness.percentile(waits, share)) for share in (0.5, 0.95, 1.0)],
                len(waits),
                (len(OTHERS) + 1) / rate * 1000,
                rate,
                *cost,
            ]
        )
        harness.forget_jobs()
    harness.report(
        "load",
        ["", "wait p50", "p95", "longest ms", "probes", "fair share ms", "jobs/s", "claim p50 ms", "p95"],
        table,
        queued=queued,
        tags=len(TAGS),
        slots=SLOTS,
        patience_s=PATIENCE_S,
    )


def _probe() -> list[float]:
    """Milliseconds from the push of a job to its start, one job at a time. A job that is not begun in time ends it."""
    waits: list[float] = []
    waiter = harness.ResultWaiter()
    for number in range(PROBES):
        job_id = _push(TAGS[number % len(TAGS)])
        if not waiter.has_ended(job_id, within_s=PATIENCE_S):
            waits.append(float("inf"))
            break
        waits.append(
            harness.scalar(
                "SELECT extract(epoch FROM done.started_at - job.created_at) * 1000"
                "  FROM completed_job AS done JOIN job USING (id) WHERE id = %s",
                [job_id],
            )
        )
    waiter.close()
    return [float(wait) for wait in waits]


def _push(tag: str) -> UUID:
    from jobs import queue

    return queue.push_job(harness.preview(harness.NOOP["bash"], language="bash", workspace_id=QUIET, tag=tag))


def _ended() -> int:
    count: int = harness.scalar("SELECT count(*) FROM completed_job")
    return count


def _ms(wait: float) -> float | str:
    return wait if wait < float("inf") else f"over {PATIENCE_S:.0f} s"
