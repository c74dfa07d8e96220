"""Whatever workers, users and crashes do in whatever order: each job is recorded exactly once."""

import json
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from jobs import canceling, queue
from jobs.errors import JobNotFound, LeaseLost
from jobs.models import CompletedJob, JobStatus, QueuedJob

WORKERS = ["w1", "w2"]


class QueueMachine(RuleBasedStateMachine):
    """A model of the queue beside the real one: per job the claim that is alive, or how it ended."""

    claims: Bundle[queue.Claim] = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[UUID, tuple[UUID, int] | None] = {}  # waiting jobs have None
        self.ended: dict[UUID, str] = {}
        self.asked_to_cancel: set[UUID] = set()
        self.results: dict[UUID, Any] = {}
        self.count = 0
        self.savepoint = transaction.savepoint()

    def teardown(self) -> None:
        transaction.savepoint_rollback(self.savepoint)

    @rule(priority=st.integers(0, 3))
    def push(self, priority: int) -> None:
        job = queue.push_job(
            queue.JobRequest(
                workspace_id="test",
                kind="preview",
                tag="python3",
                created_by="a",
                permissioned_as="u/a",
                permissioned_as_email="a@example.com",
                args={},
                raw_code="",
                language="python3",
                priority=priority,
            )
        )
        self.alive[job] = None

    @rule(target=claims, worker=st.sampled_from(WORKERS))
    def claim(self, worker: str) -> Any:
        claimed = queue.claim_jobs(worker=worker, tags=["python3"], limit=1)
        waiting = [job for job, lease in self.alive.items() if lease is None]
        assert bool(claimed) == bool(waiting)
        if not claimed:
            return None
        assert claimed[0].id in waiting
        self.alive[claimed[0].id] = (claimed[0].id, claimed[0].attempt)
        return claimed[0]

    @rule(claim=claims, status=st.sampled_from([JobStatus.SUCCESS, JobStatus.FAILURE]))
    def complete(self, claim: queue.Claim | None, status: str) -> None:
        if claim is None:
            return
        self.count += 1
        held = self._is_held(claim)
        recorded = queue.complete_jobs(
            [queue.Completion(claim.id, claim.attempt, status, json.dumps(self.count))]
        )
        assert recorded == ({claim.id} if held else set())
        if held:
            self._end(claim.id, status)
            self.results[claim.id] = self.count

    @rule(claim=claims)
    def heartbeat(self, claim: queue.Claim | None) -> None:
        if claim is None:
            return
        kept = queue.heartbeat([(claim.id, claim.attempt)])
        assert (claim.id in kept) == self._is_held(claim)
        if claim.id in kept:
            assert (kept[claim.id] is not None) == (claim.id in self.asked_to_cancel)

    @rule(claim=claims, count_restart=st.booleans())
    def release(self, claim: queue.Claim | None, count_restart: bool) -> None:
        if claim is None:
            return
        if self._is_held(claim):
            queue.release_job((claim.id, claim.attempt), count_restart=count_restart)
            self.alive[claim.id] = None
        else:
            with pytest.raises(LeaseLost):
                queue.release_job((claim.id, claim.attempt))

    @rule(claim=claims)
    def lose_worker(self, claim: queue.Claim | None) -> None:
        if claim is None or not self._is_held(claim):
            return
        row = QueuedJob.objects.get(pk=claim.id)
        QueuedJob.objects.filter(pk=claim.id).update(last_ping="2020-01-01T00:00:00Z")
        restarted, failed = queue.recover_lost_jobs()
        assert restarted + failed == 1
        if restarted:
            assert row.restarts < 3 and claim.id not in self.asked_to_cancel
            self.alive[claim.id] = None
        else:
            self._end(claim.id, JobStatus.CANCELED if claim.id in self.asked_to_cancel else JobStatus.FAILURE)

    @rule(claim=claims)
    def requeue(self, claim: queue.Claim | None) -> None:
        if claim is None:
            return
        if self.alive.get(claim.id) is not None:
            queue.requeue_job(job_id=claim.id, workspace_id="test")
            self.alive[claim.id] = None
        else:
            with pytest.raises(JobNotFound):
                queue.requeue_job(job_id=claim.id, workspace_id="test")

    @rule(data=st.data(), force=st.booleans())
    def cancel(self, data: st.DataObject, force: bool) -> None:
        jobs = [*self.alive, *self.ended]
        if not jobs:
            return
        job = data.draw(st.sampled_from(jobs))
        if job in self.ended:
            with pytest.raises(JobNotFound, match="has ended"):
                canceling.cancel_job(job_id=job, workspace_id="test", username="u", reason=None, force=force)
            return
        over = canceling.cancel_job(job_id=job, workspace_id="test", username="u", reason=None, force=force)
        assert over == (force or self.alive[job] is None)
        if over:
            self._end(job, JobStatus.CANCELED)
        else:
            self.asked_to_cancel.add(job)

    @invariant()
    def every_job_is_in_one_place_as_the_model_says(self) -> None:
        assert dict(CompletedJob.objects.values_list("id", "status")) == self.ended
        queued = {row.id: (row.id, row.attempt) if row.running else None for row in QueuedJob.objects.all()}
        assert queued == self.alive
        for job, result in self.results.items():
            assert CompletedJob.objects.get(pk=job).result == result

    def _is_held(self, claim: queue.Claim) -> bool:
        return self.alive.get(claim.id) == (claim.id, claim.attempt)

    def _end(self, job: UUID, status: str) -> None:
        del self.alive[job]
        self.ended[job] = str(status)


@pytest.mark.django_db
def test_each_job_is_recorded_exactly_once() -> None:
    assert connection.in_atomic_block
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
