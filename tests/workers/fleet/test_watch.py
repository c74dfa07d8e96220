"""A group with too few live workers is an alert, until there are enough again."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs.models import WorkerPing
from workers.fleet.watch import report_missing_workers
from workers.models import Config
from workspaces.models import Alert


@pytest.fixture
def gpu(db: None) -> None:
    Config.objects.create(name="worker__gpu", config={"min_alive_workers_alert_threshold": 2})
    Config.objects.create(name="worker__other", config={"min_alive_workers_alert_threshold": 0})
    Config.objects.create(name="worker__broken", config={"min_alive_workers_alert_threshold": "many"})


@pytest.fixture
def worker() -> Callable[..., None]:
    return lambda name, **columns: WorkerPing.objects.create(
        **{"worker": name, "worker_group": "gpu", "state": "running", **columns}
    )


def half_a_minute_later() -> int:
    Alert.objects.update(created_at=Now() - timedelta(seconds=31))
    return report_missing_workers()


def raised() -> list[str]:
    return list(
        Alert.objects.exclude(raised_at=None).filter(resolved_at=None).values_list("message", flat=True)
    )


def test_too_few_live_workers_are_an_alert_once_it_lasts(gpu: None, worker: Any) -> None:
    worker("wk-1")
    worker("wk-silent", ping_at=Now() - timedelta(minutes=2))
    worker("wk-leaving", state="draining")
    worker("wk-elsewhere", worker_group="other")

    assert report_missing_workers() == 0
    assert raised() == []
    assert half_a_minute_later() == 1
    assert raised() == [
        "Worker group gpu has 1 live worker; there shall be at least 2 (min_alive_workers_alert_threshold)."
    ]
    assert half_a_minute_later() == 0  # told once

    WorkerPing.objects.all().delete()
    report_missing_workers()
    assert "gpu has no live workers" in raised()[0]


def test_it_is_over_when_there_are_enough_and_the_next_time_is_another_alert(gpu: None, worker: Any) -> None:
    report_missing_workers()
    half_a_minute_later()

    worker("wk-1")
    worker("wk-2", state="starting")
    assert report_missing_workers() == 1
    assert raised() == []
    assert Alert.objects.get().resolved_at is not None

    WorkerPing.objects.all().delete()
    report_missing_workers()
    half_a_minute_later()
    assert Alert.objects.count() == 2


def test_workers_that_start_again_are_not_missed(gpu: None, worker: Any) -> None:
    report_missing_workers()
    worker("wk-1")
    worker("wk-2")
    report_missing_workers()

    assert not Alert.objects.exists()


def test_a_group_that_is_not_watched_any_more_has_no_alert(gpu: None) -> None:
    report_missing_workers()
    half_a_minute_later()
    Config.objects.filter(name="worker__gpu").delete()

    assert report_missing_workers() == 1
    assert raised() == []
