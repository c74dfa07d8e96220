"""Ending trees of jobs: who is over at once, who is asked, which flow looks again."""

import threading
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.utils import timezone

from jobs import canceling, queue
from jobs.errors import JobNotFound
from jobs.models import CompletedJob, FlowStatus, FlowStep, Job, JobStatus, LogChunk, QueuedJob


@pytest.fixture
def make_flow(make_job: Callable[..., UUID]) -> Callable[..., UUID]:
    """A flow that waits for its steps: parked. `within`: the flow that it is a step or body of. Columns of queue last."""

    def make(within: UUID | None = None, **columns: object) -> UUID:
        flow = make_job(
            kind="flowpreview" if within is None else "flownode",
            tag="flow",
            raw_code=None,
            language=None,
            raw_flow={"modules": []},
            flow_state={"step": 0},
            parent_job=within,
            root_job=within,
            flow_step_id=None if within is None else "loop",
        )
        parked = {"running": True, "worker": "w", "started_at": timezone.now(), "attempt": 1}
        QueuedJob.objects.filter(pk=flow).update(**{**parked, **columns})
        return flow

    return make


@pytest.fixture
def make_step(make_job: Callable[..., UUID]) -> Callable[..., UUID]:
    """A step of a flow; `running` ones are in a worker's hands."""

    def make(flow: UUID, *, running: bool = False, **request: object) -> UUID:
        step = make_job(kind="flowscript", parent_job=flow, root_job=flow, flow_step_id="a", **request)
        if running:
            QueuedJob.objects.filter(pk=step).update(
                running=True, worker="w", attempt=1, started_at=timezone.now(), last_ping=timezone.now()
            )
        return step

    return make


def cancel(job: UUID, *, force: bool = False, reason: str | None = "enough") -> bool:
    return canceling.cancel_job(job_id=job, workspace_id="test", username="bob", reason=reason, force=force)


def over() -> dict[UUID, str]:
    return dict(CompletedJob.objects.values_list("pk", "status"))


def is_claimable(flow: UUID) -> bool:
    return QueuedJob.objects.filter(pk=flow, running=False, scheduled_for__lte=timezone.now()).exists()


def version(flow: UUID) -> int:
    return FlowStatus.objects.get(pk=flow).version


def test_a_flow_that_has_begun_ends_by_its_workers(make_flow, make_step):
    flow = make_flow()
    running, waiting, later = (
        make_step(flow, running=True),
        make_step(flow),
        make_step(flow, scheduled_in_s=60),
    )

    is_over = cancel(flow)

    assert is_over is False
    assert over() == {waiting: "canceled", later: "canceled"}
    result = CompletedJob.objects.get(pk=waiting).result["error"]
    assert (result["name"], result["canceler"], result["reason"]) == ("Canceled", "bob", "enough")
    asked = QueuedJob.objects.get(pk=running)
    assert (asked.canceled_by, asked.canceled_reason, asked.running) == ("bob", "enough", True)
    assert QueuedJob.objects.get(pk=flow).canceled_by == "bob" and is_claimable(flow)
    assert version(flow) > 0, "whoever is advancing it at this moment notices"


@pytest.mark.parametrize("columns", [{"suspend": 1}, {}], ids=["suspended", "asleep"])
def test_a_flow_that_waits_for_a_time_is_looked_at_now(make_flow, columns):
    in_an_hour = timezone.now() + timedelta(hours=1)
    flow = make_flow(running=False, scheduled_for=in_an_hour, **columns)

    assert cancel(flow) is False

    assert is_claimable(flow) and QueuedJob.objects.get(pk=flow).canceled_by == "bob"
    assert QueuedJob.objects.get(pk=flow).started_at is not None


def test_a_flow_that_has_not_begun_is_over_at_once(make_flow):
    flow = make_flow(running=False, worker=None, started_at=None)

    assert cancel(flow) is True

    assert over() == {flow: "canceled"}
    assert "canceled by bob" in LogChunk.objects.get(job_id=flow).logs


def test_all_levels_are_canceled(make_flow, make_step):
    top = make_flow()
    body = make_flow(top)
    inner = make_flow(body)
    step = make_step(inner)
    finished = make_flow(top)
    QueuedJob.objects.filter(pk=finished).delete()

    cancel(top)

    assert over() == {step: "canceled"}
    assert set(QueuedJob.objects.filter(canceled_by="bob").values_list("pk", flat=True)) == {top, body, inner}
    assert all(is_claimable(flow) for flow in (top, body, inner))


def test_children_that_a_script_started_go_on(make_job):
    parent = make_job()
    child = make_job(parent_job=parent)

    cancel(parent)

    assert over() == {parent: "canceled"} and QueuedJob.objects.get(pk=child).canceled_by is None


def test_canceling_one_step_lets_its_flow_look(make_flow, make_step):
    flow = make_flow()
    step = make_step(flow)

    assert cancel(step) is True

    assert over() == {step: "canceled"}
    assert is_claimable(flow) and version(flow) == 1 and QueuedJob.objects.get(pk=flow).canceled_by is None


def test_a_flow_that_a_worker_advances_at_this_moment_stays_with_it(make_flow):
    flow = make_flow(last_ping=timezone.now())

    cancel(flow)

    row = QueuedJob.objects.get(pk=flow)
    assert (row.running, row.canceled_by, version(flow)) == (True, "bob", 1)


def test_by_force_a_step_takes_its_whole_flow_with_it(make_flow, make_step):
    top = make_flow()
    body = make_flow(top)
    steps = [make_step(body, running=True), make_step(body), make_step(top)]
    stranger = make_flow()

    assert cancel(steps[0], force=True) is True

    assert over() == dict.fromkeys([top, body, *steps], "canceled")
    assert list(QueuedJob.objects.values_list("pk", flat=True)) == [stranger]


def test_canceling_twice_keeps_the_first_author(make_flow, make_step):
    flow = make_flow()
    make_step(flow, running=True)
    cancel(flow)

    again = canceling.cancel_job(job_id=flow, workspace_id="test", username="eve", reason=None)

    assert again is False
    assert set(QueuedJob.objects.values_list("canceled_by", flat=True)) == {"bob"}


def test_what_is_over_or_elsewhere_cannot_be_canceled(make_flow, make_job):
    flow = make_flow()
    cancel(flow, force=True)

    with pytest.raises(JobNotFound, match="ended already"):
        cancel(flow)
    with pytest.raises(JobNotFound, match="does not exist"):
        canceling.cancel_job(
            job_id=make_job(workspace_id="other"), workspace_id="test", username="b", reason=None
        )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("force", [False, True])
def test_a_step_that_is_started_meanwhile_is_canceled_too(make_flow, make_step, wait_until, force):
    flow = make_flow()
    first = make_step(flow, running=True)
    canceled = threading.Event()

    def cancel_elsewhere() -> None:
        cancel(flow, force=force)
        connection.close()
        canceled.set()

    # The worker holds the step that it completes, and starts the next one in the same transaction.
    with transaction.atomic():
        QueuedJob.objects.select_for_update().get(pk=first)
        thread = threading.Thread(target=cancel_elsewhere)
        thread.start()
        assert not canceled.wait(0.1)
        QueuedJob.objects.filter(pk=first).delete()
        CompletedJob.objects.create(pk=first, workspace_id="test", status="success", duration_ms=1)
        second = make_step(flow)
    thread.join()

    assert over()[second] == "canceled"


@pytest.mark.django_db(transaction=True)
def test_canceling_waits_for_no_worker_and_no_worker_for_it(make_flow, make_step):
    """Heartbeats lock many jobs at once, in their own order."""
    flows = [make_flow() for _ in range(4)]
    steps = [make_step(flow, running=True) for flow in flows for _ in range(3)]
    stop = threading.Event()
    failures: list[BaseException] = []

    def heartbeats() -> None:
        try:
            while not stop.is_set():
                queue.heartbeat([(step, 1) for step in reversed(steps)])
        except BaseException as exc:
            failures.append(exc)
        finally:
            connection.close()

    worker = threading.Thread(target=heartbeats)
    worker.start()
    for flow in flows:
        cancel(flow)
    stop.set()
    worker.join()

    assert failures == []
    assert set(QueuedJob.objects.values_list("canceled_by", flat=True)) == {"bob"}


# --- other ends that a server puts to a step ---


def lose(*jobs: UUID) -> None:
    QueuedJob.objects.filter(pk__in=jobs).update(last_ping=timezone.now() - timedelta(hours=1))


def test_the_flow_of_a_lost_step_looks_again(make_flow, make_step, settings):
    settings.RESTART_ZOMBIE_JOBS = False
    flow = make_flow()
    step = make_step(flow, running=True)
    lose(step)

    assert queue.recover_lost_jobs() == (0, 1)

    assert over() == {step: "failure"} and is_claimable(flow) and version(flow) == 1


def test_steps_that_share_a_folder_are_lost_with_their_worker(make_flow, make_step):
    flow = make_flow()
    step = make_step(flow, running=True, same_worker=True)
    lose(step)

    assert queue.recover_lost_jobs() == (0, 1)

    assert "reason: SameWorker" in CompletedJob.objects.get(pk=step).result["error"]["message"]
    assert is_claimable(flow)


@pytest.mark.parametrize("canceled_by", [None, "bob"])
def test_a_flow_whose_worker_fell_silent_goes_on_where_it_stands(make_flow, settings, canceled_by):
    settings.RESTART_ZOMBIE_JOBS = False  # which is about running code again
    flow = make_flow(canceled_by=canceled_by)
    started_at = QueuedJob.objects.get(pk=flow).started_at
    lose(flow)

    assert queue.recover_lost_jobs() == (1, 0)

    row = QueuedJob.objects.get(pk=flow)
    assert (row.running, row.started_at, row.restarts) == (False, started_at, 1)


def test_a_flow_that_is_lost_again_and_again_fails_with_its_steps(make_flow, make_step, settings):
    flow = make_flow(restarts=settings.RESTART_LIMIT)
    waiting, running = make_step(flow), make_step(flow, running=True)
    lose(flow)

    assert queue.recover_lost_jobs() == (0, 1)

    assert over() == {flow: "failure", waiting: "canceled"}
    assert QueuedJob.objects.get(pk=running).canceled_by == "monitor"


def test_a_parked_flow_is_not_missed(make_flow):
    make_flow(last_ping=None)

    assert queue.recover_lost_jobs() == (0, 0)


def test_the_flow_of_a_step_that_nobody_took_looks_again(make_flow, make_step, settings):
    settings.STALE_JOB_THRESHOLD_MINUTES = 1
    long_ago = timezone.now() - timedelta(hours=1)
    flow = make_flow(running=False, scheduled_for=long_ago)
    step = make_step(flow)
    QueuedJob.objects.filter(pk=step).update(scheduled_for=long_ago)

    assert queue.cancel_stale_jobs() == 1

    assert over() == {step: "canceled"} and version(flow) == 1


def test_requeueing_a_flow_keeps_its_start(make_flow, make_step):
    flow = make_flow()
    step = make_step(flow, running=True)

    queue.requeue_job(job_id=flow, workspace_id="test")
    queue.requeue_job(job_id=step, workspace_id="test")

    assert QueuedJob.objects.get(pk=flow).started_at is not None
    assert QueuedJob.objects.get(pk=step).started_at is None


# --- forgetting ---


def end(job: UUID, *, days_ago: int = 0) -> None:
    QueuedJob.objects.filter(pk=job).delete()
    CompletedJob.objects.create(
        pk=job,
        workspace_id="test",
        status=JobStatus.SUCCESS,
        duration_ms=1,
        completed_at=timezone.now() - timedelta(days=days_ago),
    )


def test_a_step_is_kept_until_its_flow_has_ended(make_flow, make_step):
    flow = make_flow()
    step = make_step(flow)
    end(step, days_ago=1000)

    assert queue.delete_expired_jobs() == 0
    end(flow, days_ago=1000)
    assert queue.delete_expired_jobs() == 2

    assert not Job.objects.exists() and not FlowStatus.objects.exists()


def test_deleting_a_step_lets_its_flow_look(make_flow, make_step):
    flow = make_flow()
    step = make_step(flow)

    with transaction.atomic():
        queue.delete_jobs([step])

    assert list(Job.objects.values_list("pk", flat=True)) == [flow]
    assert version(flow) == 1


def test_nothing_of_a_deleted_flow_is_left(make_flow, make_step):
    flow = make_flow()
    make_step(make_flow(flow))
    FlowStep.objects.create(flow_id=flow, step_id="a", status={}, result={})

    with transaction.atomic():
        queue.delete_jobs(canceling.tree_of([flow]))

    for table in (Job, QueuedJob, FlowStatus, FlowStep):
        assert not table.objects.exists()
