"""The statement that records what has ended and claims what comes next, as a worker runs it."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from jobs import queue, sql
from jobs.dedicated import Dedicated
from jobs.models import CompletedJob, QueuedJob
from jobs.queue import Completion, NarrowClaim
from workers.job_queue import Exchange
from workers.pg_queue import PgJobQueue

SCRIPT = Dedicated("test", "u/alice/fast")


@pytest.fixture
def with_queue(database_url: str, settings: Any) -> Callable[..., Any]:
    """Run something with the queue of worker w1."""
    settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = database_url

    def with_queue(work: Callable[[PgJobQueue], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            queue_of_worker = PgJobQueue(worker="w1")
            try:
                return await work(queue_of_worker)
            finally:
                await queue_of_worker.close()

        return asyncio.run(main())

    return with_queue


@pytest.fixture
def push(make_job: Any) -> Callable[..., UUID]:
    """Queue a run of the dedicated script; keyword arguments are those of JobRequest."""

    def push(**given: Any) -> UUID:
        request = {"kind": "script", "runnable_id": 7, "runnable_path": SCRIPT.path, "tag": SCRIPT.tag}
        return make_job(raw_code=None, **{**request, **given})

    return push


async def exchange(
    queue_of_worker: PgJobQueue, done: list[Completion] | None = None, limit: int = 10, held: Any = list
) -> Exchange:
    return await queue_of_worker.exchange(
        done or [], dedicated=SCRIPT, limit=limit, mem_peak_kb=1234, isolation="user-namespaces", held=held
    )


def done(claim: NarrowClaim, result: str = "1") -> Completion:
    return Completion(claim.id, claim.attempt, "success", result)


def test_results_are_recorded_and_the_next_jobs_claimed_at_once(push: Any, with_queue: Any) -> None:
    first, second, third = push(args={"x": 1}), push(args={"x": 2}), push(args={"x": 3})

    async def work(queue_of_worker: PgJobQueue) -> tuple[Exchange, Exchange]:
        claimed = await exchange(queue_of_worker, limit=2)
        return claimed, await exchange(queue_of_worker, [done(claim) for claim in claimed.claims])

    claimed, then = with_queue(work)

    assert [(claim.id, claim.args, claim.is_plain) for claim in claimed.claims] == [
        (first, '{"x": 1}', True),
        (second, '{"x": 2}', True),
    ]
    assert [claim.id for claim in then.claims] == [third]
    recorded = {job.pk: job for job in CompletedJob.objects.all()}
    assert recorded.keys() == {first, second}
    assert (recorded[first].worker, recorded[first].mem_peak, recorded[first].result) == ("w1", 1234, 1)
    assert recorded[second].isolation == "user-namespaces"


def test_results_alone_are_recorded_and_nothing_is_claimed(push: Any, with_queue: Any) -> None:
    first, second = push(), push()

    async def work(queue_of_worker: PgJobQueue) -> Exchange:
        claimed = await exchange(queue_of_worker, limit=1)
        return await exchange(queue_of_worker, [done(claim) for claim in claimed.claims], limit=0)

    then = with_queue(work)

    assert (then.claims, then.lost) == ([], set())
    recorded = CompletedJob.objects.get()
    assert (recorded.pk, recorded.worker, recorded.mem_peak, recorded.result) == (first, "w1", 1234, 1)
    assert QueuedJob.objects.get(pk=second).running is False


def test_a_claim_alone_takes_jobs_as_one_that_records_results_does() -> None:
    alone, with_results = (
        re.sub(r"^--.*\n", "", sql.load(name), flags=re.M)
        for name in ("claim_dedicated", "complete_and_claim")
    )

    claiming = with_results[with_results.index("lane (priority) AS (") :]

    assert alone == "WITH RECURSIVE " + claiming.replace("(SELECT count(*) FROM recorded)::int", "0")


def test_the_most_urgent_job_that_is_due_comes_first(push: Any, with_queue: Any) -> None:
    late, urgent = push(), push(priority=5)
    push(priority=9, scheduled_in_s=3600)
    push(tag="other")

    claimed = with_queue(lambda queue_of_worker: exchange(queue_of_worker))

    assert [claim.id for claim in claimed.claims] == [urgent, late]


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "preview"},
        {"workspace_id": "other"},
        {"runnable_path": "u/alice/other"},
        {"cache_ttl_s": 5},
        {"concurrency_key": "k", "concurrent_limit": 1},
        {"delete_after_s": 5},
        {"preprocessed": False},
        {"entrypoint": "other"},
        {"same_worker": True},
    ],
)
def test_what_is_more_than_a_call_of_the_script_is_not_plain(
    push: Any, with_queue: Any, given: dict[str, Any]
) -> None:
    push(**given)

    async def work(queue_of_worker: PgJobQueue) -> Any:
        claimed = await exchange(queue_of_worker)
        (claim,) = claimed.claims
        return claim.is_plain, await queue_of_worker.whole([(claim.id, claim.attempt)])

    is_plain, whole = with_queue(work)

    assert not is_plain
    assert whole[0].tag == SCRIPT.tag


def test_a_lease_that_is_over_records_nothing(push: Any, with_queue: Any) -> None:
    kept, lost = push(), push()

    async def work(queue_of_worker: PgJobQueue) -> Exchange:
        claimed = await exchange(queue_of_worker)
        await asyncio.to_thread(queue.requeue_job, job_id=lost, workspace_id="test")
        return await exchange(queue_of_worker, [done(claim) for claim in claimed.claims], limit=0)

    then = with_queue(work)

    assert then.lost == {lost}
    assert set(CompletedJob.objects.values_list("pk", flat=True)) == {kept}
    assert QueuedJob.objects.get(pk=lost).running is False


def test_a_result_that_cannot_be_stored_does_not_take_others_with_it(push: Any, with_queue: Any) -> None:
    good, bad, following = push(), push(), push()

    async def work(queue_of_worker: PgJobQueue) -> Exchange:
        first, second = (await exchange(queue_of_worker, limit=2)).claims
        return await exchange(queue_of_worker, [done(first), done(second, "{not json")])

    then = with_queue(work)

    assert [claim.id for claim in then.claims] == [following]
    assert CompletedJob.objects.get(pk=good).status == "success"
    failed = CompletedJob.objects.get(pk=bad)
    assert (failed.status, failed.result["error"]["name"]) == ("failure", "ResultNotStorable")


class CutBefore(PgJobQueue):
    """Loses the connection once, after the server has carried the statement out and before its answer is read."""

    def __init__(self, *, worker: str) -> None:
        super().__init__(worker=worker)
        self.cuts = 0
        fetch = self._warm.fetch

        async def cut(statement: str, parameters: Any) -> Any:
            answer = await fetch(statement, parameters)
            if self.cuts and "INSERT INTO completed_job" in statement:
                self.cuts -= 1
                from workers.job_queue import QueueAway

                raise QueueAway("the answer was lost", outcome_unknown=True)
            return answer

        self._warm.fetch = cut  # type: ignore[method-assign]


def test_a_lost_answer_records_once_and_puts_back_what_nobody_heard_of(
    push: Any, database_url: str, settings: Any
) -> None:
    settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = database_url
    first, second = push(), push()

    async def main() -> Exchange:
        queue_of_worker = CutBefore(worker="w1")
        (claim,) = (await exchange(queue_of_worker, limit=1)).claims
        queue_of_worker.cuts = 1
        then = await exchange(queue_of_worker, [done(claim)], held=lambda: [claim.id])
        await queue_of_worker.close()
        return then

    then = asyncio.run(main())

    assert then.lost == set()
    assert list(CompletedJob.objects.values_list("pk", flat=True)) == [first]
    # Claimed by the statement whose answer was lost, put back, claimed again.
    assert [(claim.id, claim.attempt) for claim in then.claims] == [(second, 2)]


def test_results_alone_whose_answer_was_lost_are_not_taken_for_lost(
    push: Any, database_url: str, settings: Any
) -> None:
    settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = database_url
    job = push()

    async def main() -> Exchange:
        queue_of_worker = CutBefore(worker="w1")
        (claim,) = (await exchange(queue_of_worker, limit=1)).claims
        queue_of_worker.cuts = 1
        then = await exchange(queue_of_worker, [done(claim)], limit=0, held=lambda: [claim.id])
        await queue_of_worker.close()
        return then

    then = asyncio.run(main())

    assert (then.claims, then.lost) == ([], set())
    assert list(CompletedJob.objects.values_list("pk", flat=True)) == [job]


@pytest.mark.parametrize("name", ["complete_and_claim", "claim_dedicated"])
def test_a_claim_costs_the_same_however_many_jobs_are_done_or_wait_elsewhere(
    push: Any, database_url: str, name: str
) -> None:
    push()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO job (id, workspace_id, kind, tag, created_by, permissioned_as, permissioned_as_email)"
            " SELECT gen_random_uuid(), 'w', 'script', 'other', 'a', 'u/a', 'a@b.c' FROM generate_series(1, 3000)"
        )
        connection.execute(
            "INSERT INTO queue (id, workspace_id, tag) SELECT id, 'w', tag FROM job WHERE tag = 'other'"
        )
        connection.execute("ANALYZE")
        connection.execute("SET enable_seqscan = off")
        parameters = {
            "worker": "w1",
            "tag": SCRIPT.tag,
            "workspace_id": "test",
            "path": SCRIPT.path,
            "limit": 10,
            "mem_peak": None,
            "isolation": None,
            "ids": [],
            "attempts": [],
            "statuses": [],
            "results": [],
        }
        plan = "\n".join(
            row[0]
            for row in connection.execute(
                "EXPLAIN (ANALYZE, TIMING off, SUMMARY off) " + sql.load(name), parameters
            )
        )

    assert "Seq Scan on queue" not in plan and "Seq Scan on job" not in plan
