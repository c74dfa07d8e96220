"""Whatever happens, no window holds more jobs of a key than its limit allows, and all have their turn.

Time passes by changing rows: in steps of ten seconds, so that what the test itself takes does not matter.
"""

from dataclasses import dataclass, field
from uuid import UUID

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from jobs import queue, sql
from jobs.concurrency import Limit
from jobs.models import QueuedJob

TICK_S = 10
KEY = "test/script/f/ops/one"
_TIMES = {
    "queue": ("scheduled_for", "was_due_at", "started_at", "last_ping"),
    "completed_job": ("completed_at",),
    "concurrency_key": ("ended_at",),
}

happenings = st.one_of(
    st.tuples(st.just("push"), st.integers(0, 2)),  # with this priority
    st.tuples(st.just("begin"), st.integers(1, 3)),  # a worker with so many slots looks
    st.tuples(st.just("end"), st.integers(0, 9)),  # which of those that run
    st.tuples(st.just("lose"), st.integers(0, 9)),  # its worker dies
    st.tuples(st.just("wait"), st.integers(1, 9)),  # ticks
)


@dataclass
class World:
    """The jobs of one key, and what is known of them outside the database."""

    limit: Limit
    now_s: int = 0
    running: list[queue.Claim] = field(default_factory=list)
    ended_s: list[int] = field(default_factory=list)
    pushed: int = 0

    def push(self, priority: int) -> UUID:
        self.pushed += 1
        request = queue.JobRequest(
            workspace_id="test",
            kind="preview",
            tag="python3",
            created_by="alice",
            permissioned_as="u/alice",
            permissioned_as_email="alice@example.com",
            args={},
            priority=priority,
            **self.limit.request_fields(),
        )
        return queue.push_job(request)

    def begin(self, slots: int) -> None:
        for claim in queue.claim_jobs(worker="w", tags=["python3"], limit=slots):
            with connection.cursor() as cursor:
                cursor.execute(sql.load("take_place"), {"id": claim.id, "attempt": claim.attempt})
                outcome = cursor.fetchone()[0]
            assert outcome in ("taken", "held back")
            if outcome == "taken":
                self.running.append(claim)
                self.check()

    def end(self, which: int) -> None:
        if not self.running:
            return
        claim = self.running.pop(which % len(self.running))
        queue.complete_job((claim.id, claim.attempt), result=1)
        with connection.cursor() as cursor:
            cursor.execute(sql.load("offer_place"), {"key": KEY, "window_s": self.limit.window_s})
        self.ended_s.append(self.now_s)

    def lose(self, which: int) -> None:
        if self.running:
            claim = self.running.pop(which % len(self.running))
            queue.requeue_job(job_id=claim.id, workspace_id="test")

    def wait(self, ticks: int) -> None:
        self.now_s += ticks * TICK_S
        with connection.cursor() as cursor:
            for table, columns in _TIMES.items():
                earlier = ", ".join(f"{name} = {name} - make_interval(secs => %(s)s)" for name in columns)
                cursor.execute(f"UPDATE {table} SET {earlier}", {"s": ticks * TICK_S})

    def check(self) -> None:
        counted = sum(self.now_s - ended_s < self.limit.window_s for ended_s in self.ended_s)
        if len(self.running) + counted == self.limit.places:
            event("the limit was reached")
        assert len(self.running) + counted <= self.limit.places


@pytest.mark.django_db
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    places=st.integers(1, 3),
    window=st.integers(0, 6),
    story=st.lists(happenings, min_size=5, max_size=40),
)
def test_no_window_holds_more_than_the_limit_and_everybody_has_a_turn(
    places: int, window: int, story: list[tuple[str, int]]
) -> None:
    with transaction.atomic():
        world = World(Limit(key=KEY, places=places, window_s=window * TICK_S))

        for what, how in story:
            getattr(world, what)(how)
        # From here on nothing new comes, and what begins ends.
        for _ in range(100 + 60 * world.pushed):
            while world.running:
                world.end(0)
            if not QueuedJob.objects.exists():
                break
            world.wait(1)
            world.begin(3)

        assert not QueuedJob.objects.exists()
        assert len(world.ended_s) == world.pushed
        transaction.set_rollback(True)
