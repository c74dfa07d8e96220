"""Jobs that are forgotten after use: what is emptied, when, and what never is."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs import canceling, cleanup, monitor, queue
from jobs.models import CachedResult, CompletedJob, Job, JobCleanup, QueuedJob

Make = Callable[..., UUID]


@pytest.fixture
def run(make_job: Make) -> Callable[..., UUID]:
    """Queue a job and complete it, with a log."""

    def run_job(*, ends: bool = True, **given: Any) -> UUID:
        job = make_job(args={"secret": 1}, **given)
        (held,) = queue.claim_jobs(worker="w", tags=["python3"])
        queue.append_log((held.id, held.attempt), "secret")
        queue.append_log((held.id, held.attempt), " and more")
        if ends:
            queue.complete_job((held.id, held.attempt), result={"secret": 2})
        return job

    return run_job


def contents(job: UUID) -> tuple[Any, Any, str]:
    """(arguments, result, log)"""
    done = CompletedJob.objects.filter(pk=job).first()
    return Job.objects.get(pk=job).args, done and done.result, queue.read_logs(job)[0]


UNTOUCHED = ({"secret": 1}, {"secret": 2}, "secret and more")
FORGOTTEN = ({}, {}, "##DELETED##")


@pytest.mark.django_db
def test_a_job_is_forgotten_when_its_time_has_come(run: Make) -> None:
    soon, later, never = run(delete_after_s=0), run(delete_after_s=3600), run()

    assert cleanup.forget_due() == 1

    assert contents(soon) == FORGOTTEN and CompletedJob.objects.get(pk=soon).deleted
    assert contents(later) == contents(never) == UNTOUCHED
    with connection.cursor() as cursor:
        cursor.execute("UPDATE job_cleanup SET due_at = due_at - interval '1 hour'")
    assert cleanup.forget_due() == 1
    assert contents(later) == FORGOTTEN
    assert not JobCleanup.objects.exists()


@pytest.mark.django_db
def test_a_job_that_has_not_ended_is_left_alone(run: Make) -> None:
    running = run(delete_after_s=0, ends=False)

    assert cleanup.forget_due() == 0

    assert contents(running) == ({"secret": 1}, None, "secret and more")


@pytest.mark.django_db
def test_a_job_that_nobody_ran_is_forgotten_too(make_job: Make) -> None:
    job = make_job(args={"secret": 1}, delete_after_s=0)
    canceling.cancel_job(job_id=job, workspace_id="test", username="alice", reason=None)

    monitor.recover()

    assert contents(job) == FORGOTTEN


@pytest.mark.django_db
def test_steps_are_forgotten_when_the_topmost_flow_has_ended(run: Make, make_job: Make) -> None:
    top = make_job(tag="flow")
    step, other = run(), run()
    JobCleanup.objects.create(job_id=step, top_id=top, after_s=0)
    assert cleanup.forget_due() == 0

    canceling.cancel_job(job_id=top, workspace_id="test", username="alice", reason=None)

    assert cleanup.forget_due(top) == 1
    assert contents(step) == FORGOTTEN
    assert contents(other) == UNTOUCHED


@pytest.mark.django_db
def test_only_what_belongs_to_a_flow_is_forgotten_with_it(run: Make) -> None:
    one, other = run(delete_after_s=0), run(delete_after_s=0)

    cleanup.forget_due(one)

    assert (contents(one), contents(other)) == (FORGOTTEN, UNTOUCHED)


@pytest.mark.django_db
def test_a_forgotten_result_is_not_in_the_cache_either(run: Make) -> None:
    job = run()
    CachedResult.objects.create(
        key="k", workspace_id="test", job_id=job, result={"secret": 2}, expires_at="2999-01-01T00:00Z"
    )

    cleanup.forget([job])

    assert not CachedResult.objects.exists()


@pytest.mark.django_db
def test_jobs_without_the_option_are_on_no_list(run: Make, django_assert_num_queries: Any) -> None:
    run()

    assert not JobCleanup.objects.exists()


@pytest.mark.django_db
def test_what_was_deleted_is_taken_off_the_list(make_job: Make) -> None:
    kept = make_job(delete_after_s=5)
    deleted = make_job(delete_after_s=5)
    QueuedJob.objects.filter(pk=deleted).delete()

    cleanup.prune()

    assert list(JobCleanup.objects.values_list("job_id", flat=True)) == [kept]


@pytest.mark.parametrize(
    ("extra", "seconds"),
    [
        ({}, None),
        ({"delete_after_use": True}, 0),
        ({"delete_after_use": False}, None),
        ({"delete_after_secs": 60}, 60),
        ({"delete_after_secs": 60, "delete_after_use": True}, 60),
        ({"delete_after_secs": -1}, None),
        ({"delete_after_secs": 10**12}, 2_147_483_647),
    ],
)
def test_what_a_script_says(extra: dict[str, Any], seconds: int | None) -> None:
    assert cleanup.delay_of_extra(extra) == seconds
