"""Dead workers are taken off the list; live ones stay, whoever asks."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from jobs.models import WorkerPing
from workers.fleet import dead_workers
from workspaces.access import Identity
from workspaces.errors import BadRequest, PermissionDenied
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db
OPS = Identity(email="ops@example.com", devops=True)


@pytest.fixture(autouse=True)
def workers() -> None:
    for name, group, silent_s in (("old-a", "a", 90), ("old-b", "b", 90), ("live-a", "a", 5)):
        WorkerPing.objects.create(worker=name, worker_instance="h", worker_group=group)
        WorkerPing.objects.filter(pk=name).update(ping_at=Now() - timedelta(seconds=silent_s))


def left() -> set[str]:
    return set(WorkerPing.objects.values_list("worker", flat=True))


def test_all_dead_workers_go_and_the_audit_log_names_them() -> None:
    assert dead_workers.forget(actor=OPS) == ["old-a", "old-b"]

    assert left() == {"live-a"}
    told = AuditEntry.objects.filter(operation="workers.forget", email="ops@example.com")
    assert set(told.values_list("resource", flat=True)) == {"old-a", "old-b"}


def test_those_of_one_group_go() -> None:
    assert dead_workers.forget(actor=OPS, group="a") == ["old-a"]

    assert left() == {"old-b", "live-a"}


def test_a_worker_that_is_alive_stays() -> None:
    with pytest.raises(BadRequest, match="live-a reported lately"):
        dead_workers.forget(actor=OPS, worker="live-a")

    assert left() == {"old-a", "old-b", "live-a"}


def test_others_than_those_who_run_the_instance_are_refused() -> None:
    with pytest.raises(PermissionDenied):
        dead_workers.forget(actor=Identity(email="ann@example.com"))

    assert len(left()) == 3
