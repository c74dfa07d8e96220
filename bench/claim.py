"""Cost of one claim: an empty database, 200,000 queued jobs of other tags or for later, 1,000,000 completed rows."""

import time

from bench import harness

TAGS = ["python3", "bash", "dependency", "flow", "other"]


def run(arguments: list[str]) -> None:
    queued = int(arguments[0]) if arguments else 200_000
    completed = int(arguments[1]) if len(arguments) > 1 else 1_000_000
    table: list[tuple[str, float, float]] = [("empty database", *_measure())]
    harness.queue_many(queued // 2, tag="gpu")
    harness.queue_many(queued // 4, tag="python3", later=True)
    harness.queue_many(queued // 4, tag="python3")
    harness.execute("ANALYZE queue")
    table.append((f"{queued:,} queued", *_measure()))
    harness.execute(
        """
        INSERT INTO completed_job (id, workspace_id, status, started_at, duration_ms, result)
        SELECT gen_random_uuid(), 'bench', 'success', now(), 5, '1' FROM generate_series(1, %s)
        """,
        [completed],
    )
    harness.execute("ANALYZE completed_job")
    table.append((f"{queued:,} queued, {completed:,} completed", *_measure()))
    harness.forget_jobs()
    base = table[0][1]
    harness.report(
        "claim", ["ms", "p50", "p95", "against empty"], [[*row, row[1] / base] for row in table], claims=400
    )


def _measure() -> tuple[float, float]:
    """400 claims, each of one job pushed just before with a higher priority; the job is completed outside the clock."""
    from jobs import queue

    spent = []
    for _ in range(400):
        queue.push_job(
            queue.JobRequest(
                workspace_id=harness.WORKSPACE,
                kind="preview",
                tag="python3",
                created_by="admin",
                permissioned_as="u/admin",
                permissioned_as_email="admin@windmill.dev",
                args={},
                raw_code="1",
                language="python3",
                priority=1,
            )
        )
        begin = time.perf_counter()
        (claim,) = queue.claim_jobs(worker="bench", tags=TAGS)
        spent.append((time.perf_counter() - begin) * 1000)
        queue.complete_job((claim.id, claim.attempt), result=1)
    return harness.percentile(spent, 0.5), harness.percentile(spent, 0.95)
