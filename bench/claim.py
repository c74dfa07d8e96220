"""Cost of one claim, prepared as in a worker: none to 1,000,000 jobs in the queue, of few and of many workspaces.

`claim` is what a worker asks as long as it finds fewer jobs than it has room for, or one workspace alone; `in turn` while
jobs of several pile up (docs/decisions/0014-workspaces-take-turns.md).
"""

from collections.abc import Sequence

from bench import harness

TAGS = ["python3", "bash", "dependency", "flow", "other"]
MANY_TAGS = [f"tag{number}" for number in range(20)]
TIMES = 300


def run(arguments: list[str]) -> None:
    some = int(arguments[0]) if arguments else 100_000
    many = int(arguments[1]) if len(arguments) > 1 else 1_000_000
    table: list[list[object]] = []

    def measure(name: str, tags: Sequence[str] = TAGS) -> None:
        harness.queue_many(1, tag=tags[0])
        claimer = harness.Claimer()
        claimer.cost_ms(tags=tags, times=20)  # until it is prepared, and the pages are in memory
        plain = claimer.cost_ms(tags=tags, times=TIMES)
        claimer.cost_ms(tags=tags, times=20, in_turn=True)
        table.append([name, *plain, *claimer.cost_ms(tags=tags, times=TIMES, in_turn=True)])
        claimer.close()

    measure("empty queue")
    harness.queue_many(some // 2, tag="gpu")
    harness.queue_many(some // 4, later=True)
    harness.queue_many(some // 4)
    measure(f"{some:,} jobs, 3/4 of other tags or for later")
    harness.execute(
        """
        INSERT INTO completed_job (id, workspace_id, status, started_at, duration_ms, result)
        SELECT gen_random_uuid(), 'bench', 'success', now(), 5, '1' FROM generate_series(1, %s)
        """,
        [many],
    )
    measure(f"the same, {many:,} completed")
    harness.forget_jobs()
    for tags, where in ((TAGS, "one tag"), (MANY_TAGS, "20 tags")):
        filled = tags if tags is MANY_TAGS else tags[:1]
        for workspaces in (1, 20, 1000):
            for tag in filled:
                names = [f"workspace{number}" for number in range(workspaces)]
                harness.queue_many(some // len(filled), tag=tag, workspaces=names)
            measure(f"{some:,} jobs of {where}, {workspaces:,} workspaces", tags)
            harness.forget_jobs()
    harness.queue_many(some)
    harness.queue_many(10_000, later=True, workspaces=[f"workspace{number}" for number in range(10_000)])
    measure(f"{some:,} jobs, 10,000 workspaces with a job for later")
    harness.forget_jobs()
    harness.queue_many(many)
    measure(f"{many:,} jobs, one tag")
    harness.forget_jobs()
    harness.report("claim", ["ms", "claim p50", "p95", "in turn p50", "p95"], table, claims=TIMES)
