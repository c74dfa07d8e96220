"""A worker with more jobs than slots serves the workspaces in turn."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from jobs.models import CompletedJob

Make = Callable[..., UUID]
Start = Callable[..., Any]


def test_the_single_job_of_a_workspace_does_not_wait_for_the_backlog_of_another(
    start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    backlog = [make_job(workspace_id="noisy", raw_code="return 1") for _ in range(20)]
    single = make_job(workspace_id="quiet", raw_code="return 2")

    worker = start_worker(slots=1)

    wait_until(lambda: CompletedJob.objects.count() == len(backlog) + 1)
    order = [request.claim.id for request in worker.runner.requests]
    assert order.index(single) <= 2
    assert [job for job in order if job != single] == backlog


def test_without_fairness_jobs_run_in_the_order_in_which_they_came(
    start_worker: Start, make_job: Make, wait_until: Any, settings: Any
) -> None:
    settings.QUEUE_FAIRNESS = False
    jobs = [make_job(workspace_id="noisy", raw_code="return 1") for _ in range(20)]
    jobs.append(make_job(workspace_id="quiet", raw_code="return 2"))

    worker = start_worker(slots=1)

    wait_until(lambda: CompletedJob.objects.count() == len(jobs))
    assert [request.claim.id for request in worker.runner.requests] == jobs
