"""Random flows under random events, on the real database: they end as the interpreter says, each step once.

Two simulated workers claim, advance and complete through the same store and driver as real ones; only the steps' code is
imagined. They die between any two statements, before or after the database has heard them, and come back late.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jobs import queue, sql
from jobs.flows.driver import FlowDriver
from jobs.flows.state import initial_state
from jobs.flows.steps import Here
from jobs.flows.store import LeaseOver
from jobs.flows.value import parse_flow_value
from jobs.models import FLOW_KINDS, JobKind
from jobs.queue import Claim, Completion, claim_parameters
from tests.flows.simple_flows import Case, cases, expected, result_of
from workers.pg_flows import PgFlowStore
from workers.pg_lane import Lane

pytestmark = pytest.mark.django_db(transaction=True)
ARGS = {"seed": 5}
MOST_ACTIONS = 3000


class Died(BaseException):
    """The worker is gone, in the middle of something."""


class MortalLane(Lane):
    """A connection whose worker may die at a statement: before it is sent, or before its answer is read."""

    dies_at: int | None = None  # statements from now
    sent = False

    async def fetch(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        if self.dies_at is not None:
            self.dies_at -= 1
            if self.dies_at < 0:
                self.dies_at = None
                if self.sent:
                    await super().fetch(statement, parameters)
                raise Died
        return await super().fetch(statement, parameters)


@dataclass
class Worker:
    """One worker: what it has claimed, and what it remembers of flows."""

    name: str
    lane: MortalLane
    lives: int = 0
    held: list[Claim] = field(default_factory=list)
    ghosts: list[Claim] = field(default_factory=list)  # of former lives
    driver: FlowDriver = field(init=False)

    def __post_init__(self) -> None:
        self.be_born()

    def be_born(self) -> None:
        """A new process: nothing is known, what was held is somebody else's."""
        self.lives += 1
        self.ghosts += self.held
        self.held = []
        self.driver = FlowDriver(
            PgFlowStore(work=self.lane, side=self.lane),
            worker=f"{self.name}-{self.lives}",
            here=Here(tags={"python3", "flow"}, languages={"python3"}),
        )

    @property
    def process(self) -> str:
        return f"{self.name}-{self.lives}"


class World:
    """The workers, and what may happen to them."""

    def __init__(self, case: Case, seed: int, lane: MortalLane) -> None:
        self.case = case
        self.random = Random(seed)  # not hypothesis': what happens depends on what the database answers
        self.lane = lane
        self.workers = [Worker("one", lane), Worker("two", lane)]
        self.recorded: Counter[UUID] = Counter()
        self.deaths = 0

    async def run(self, flow_id: UUID) -> None:
        """Until the flow has ended."""
        idle = 0
        for _ in range(MOST_ACTIONS):
            worker = self.workers[self.choose(0, 1)]
            try:
                self.perhaps_mortal(worker)
                did_something = await self.act(worker)
            except Died:
                self.deaths += 1
                await self.bury(worker)
                continue
            finally:
                worker.lane.dies_at = None
            if await self.ask("SELECT count(*) FROM completed_job WHERE id = %(id)s", id=flow_id):
                return
            idle = 0 if did_something else idle + 1
            assert idle < 100, f"nobody has anything to do, and the flow has not ended: {await self.stuck()}"
        raise AssertionError("the flow does not end")

    def choose(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def perhaps_mortal(self, worker: Worker) -> None:
        if self.deaths < 6 and self.choose(0, 7) == 7:
            worker.lane.dies_at = self.choose(0, 3)
            worker.lane.sent = bool(self.choose(0, 1))

    async def act(self, worker: Worker) -> bool:
        """One thing that a worker does: claim, or bring one of its jobs on; now and then something comes late."""
        if worker.ghosts and self.choose(0, 3) == 3:
            await self.haunt(worker, worker.ghosts.pop())
            return True
        if worker.held and self.choose(0, 4):
            await self.bring_on(worker, worker.held.pop(self.choose(0, len(worker.held) - 1)))
            return True
        claimed = await self.claim(worker)
        worker.held += claimed
        return bool(claimed or worker.held)

    async def claim(self, worker: Worker) -> list[Claim]:
        parameters = claim_parameters(
            worker=worker.process, tags=["python3", "flow"], limit=self.choose(1, 2)
        )
        return [Claim(*row) for row in await worker.lane.fetch(sql.load("claim"), parameters)]

    async def bring_on(self, worker: Worker, claim: Claim) -> None:
        worker.held.append(claim)  # until it is over, in case of death
        may_take = bool(self.choose(0, 3))
        try:
            if claim.kind in FLOW_KINDS:
                advanced = await worker.driver.flow_claimed(claim, may_take=may_take)
            else:
                advanced = await worker.driver.step_ended(
                    claim, await self.completion(claim), may_take=may_take
                )
                self.recorded[claim.id] += 1
        except LeaseOver:
            worker.held.remove(claim)
            return
        worker.held.remove(claim)
        if advanced.claim is not None:
            worker.held.append(advanced.claim)
        if claim.kind not in FLOW_KINDS and self.choose(0, 5) == 5:
            worker.ghosts.append(claim)  # says it again, later

    async def haunt(self, worker: Worker, claim: Claim) -> None:
        """A worker that was declared dead, or says something twice: nothing of it may count."""
        try:
            if claim.kind in FLOW_KINDS:
                await worker.driver.flow_claimed(claim, may_take=True)
            else:
                await worker.driver.step_ended(claim, await self.completion(claim), may_take=True)
        except LeaseOver:
            return
        pytest.fail(f"a {claim.kind} whose lease was over was heard")

    async def bury(self, worker: Worker) -> None:
        """What the monitor does for a worker that fell silent."""
        await self.ask(
            "UPDATE queue SET last_ping = last_ping - interval '1 day'"
            " WHERE worker = %(worker)s AND running AND last_ping IS NOT NULL RETURNING 1",
            worker=worker.process,
        )
        await self.lane.fetch(
            sql.load("requeue_lost"), {"timeout_s": 3600, "restart": True, "limit": 1_000_000}
        )
        worker.be_born()

    async def completion(self, claim: Claim) -> Completion:
        """What the step's code would have come to."""
        before = await self.ask(
            "SELECT count(*) FROM job JOIN completed_job USING (id) WHERE parent_job = %(parent)s"
            " AND flow_step_id = %(step)s AND flow_n IS NOT DISTINCT FROM %(n)s::int AND job.id <> %(id)s",
            parent=claim.parent_job,
            step=claim.flow_step_id,
            n=await self.ask("SELECT flow_n FROM job WHERE id = %(id)s", id=claim.id),
            id=claim.id,
        )
        failures = self.case.failures if claim.flow_step_id != "failure" else {}
        is_success, result = result_of(claim.flow_step_id or "", claim.args or {}, before, failures)
        status = "success" if is_success else "failure"
        return Completion(claim.id, claim.attempt, status, json.dumps(result))

    async def stuck(self) -> str:
        rows = await self.lane.fetch(
            "SELECT kind, flow_step_id, running, last_ping, scheduled_for - now(), attempt, worker, state"
            " FROM queue JOIN job USING (id) LEFT JOIN flow_status USING (id)",
            {},
        )
        return "\n".join(map(str, rows))

    async def ask(self, statement: str, **parameters: Any) -> Any:
        lane, mortal = self.lane, self.lane.dies_at
        lane.dies_at = None
        try:
            rows = await lane.fetch(statement, parameters)
        finally:
            lane.dies_at = mortal
        return rows[0][0] if rows else None


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def lane(database_url: str, runner: asyncio.Runner) -> Iterator[MortalLane]:
    lane = MortalLane(name="simulated", url=database_url, pooled=False)
    yield lane
    runner.run(lane.close())


@hypothesis_settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(case=cases(), seed=st.integers(0, 2**32))
def test_whatever_happens_a_flow_ends_as_it_must(
    case: Case, seed: int, lane: MortalLane, runner: asyncio.Runner
) -> None:
    flow_id = push(case)
    world = World(case, seed, lane)
    runner.run(world.run(flow_id))
    check(case, flow_id, world, Rows(lane, runner))


@dataclass
class Rows:
    """Questions to the database."""

    lane: MortalLane
    runner: asyncio.Runner

    def __call__(self, statement: str, **parameters: Any) -> Sequence[tuple[Any, ...]]:
        return self.runner.run(self.lane.fetch(statement, parameters))


def push(case: Case) -> UUID:
    return queue.push_job(
        queue.JobRequest(
            workspace_id="test",
            kind=JobKind.FLOW_PREVIEW,
            tag="flow",
            created_by="alice",
            permissioned_as="u/alice",
            permissioned_as_email="alice@example.com",
            args=dict(ARGS),
            raw_flow=case.value,
            flow_state=initial_state(parse_flow_value(case.value)),
        )
    )


def check(case: Case, flow_id: UUID, world: World, rows: Rows) -> None:
    tree = {"root": flow_id}
    [[status, result]] = rows("SELECT status, result FROM completed_job WHERE id = %(root)s", **tree)
    assert (status, result) == expected(case, ARGS)

    left = rows("SELECT queue.id FROM queue JOIN job USING (id) WHERE root_job = %(root)s", **tree)
    assert not left, "something still waits or runs for a flow that has ended"
    assert all(count == 1 for count in world.recorded.values()), "a step's result was recorded twice"
    lost = rows(
        "SELECT job.id FROM job LEFT JOIN completed_job USING (id)"
        " WHERE root_job = %(root)s AND completed_job.id IS NULL",
        **tree,
    )
    assert not lost, "a job was started and never ended"
    # Each step of each flow job has one job, and one more for each retry.
    attempts = rows(
        "SELECT parent_job, flow_step_id, flow_n, count(*), max(coalesce((SELECT json_array_length("
        "       flow_step.status->'failed_retries') FROM flow_step"
        "       WHERE flow_id = job.parent_job AND step_id = job.flow_step_id), 0))"
        "  FROM job WHERE root_job = %(root)s GROUP BY 1, 2, 3",
        **tree,
    )
    assert all(jobs == 1 + retries for *_, jobs, retries in attempts), attempts
    # One after another: no step of a sequence was started before the one before it had ended.
    for modules in (case.value["modules"],):
        order = [module["id"] for module in modules]
        times = {
            step: (first, last)
            for step, first, last in rows(
                "SELECT flow_step_id, min(job.created_at), max(completed_at) FROM job JOIN completed_job USING (id)"
                " WHERE parent_job = %(root)s GROUP BY 1",
                **tree,
            )
        }
        known = [times[id] for id in order if id in times]
        assert all(before[1] <= after[0] for before, after in pairwise(known))
