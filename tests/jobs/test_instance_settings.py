"""Instance settings that change how jobs run: they count from the next claim or clean-up on, without a restart."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models.functions import Now

from jobs import queue
from jobs.models import CompletedJob
from workspaces.models import InstanceSetting

pytestmark = pytest.mark.django_db
Make = Callable[..., UUID]


def claim() -> queue.Claim:
    (claimed,) = queue.claim_jobs(worker="w", tags=["python3"])
    return claimed


def test_a_job_without_a_timeout_of_its_own_gets_the_default_of_the_instance(make_job: Make) -> None:
    InstanceSetting.objects.create(name="job_default_timeout", value=77)
    make_job()

    assert claim().timeout == 77


def test_a_jobs_own_timeout_outranks_the_default_of_the_instance(make_job: Make) -> None:
    InstanceSetting.objects.create(name="job_default_timeout", value=77)
    make_job(timeout_s=900)

    assert claim().timeout == 900


@pytest.mark.parametrize("value", ["soon", {"a": 1}, True])
def test_a_default_timeout_that_is_no_number_stops_no_claim(make_job: Make, value: Any) -> None:
    InstanceSetting.objects.create(name="job_default_timeout", value=value)
    make_job()

    assert claim().timeout is None


@pytest.mark.parametrize(("kept_for_s", "left"), [(60, 0), (0, 1), (86_400, 1)])
def test_retention_follows_the_setting_of_the_instance(make_job: Make, kept_for_s: int, left: int) -> None:
    InstanceSetting.objects.create(name="retention_period_secs", value=kept_for_s)
    make_job()
    claimed = claim()
    queue.complete_job((claimed.id, claimed.attempt), result=1)
    CompletedJob.objects.update(completed_at=Now() - timedelta(minutes=5))

    queue.delete_expired_jobs()

    assert CompletedJob.objects.count() == left
