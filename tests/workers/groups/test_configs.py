"""Who writes configurations of worker groups, and what is kept of it."""

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from jobs import scripts, wakeups
from tests.tenancy import enter, make_account, make_workspace
from workers.groups import configs
from workers.models import Config
from workspaces.access import Identity
from workspaces.errors import BadRequest, NotFound, PermissionDenied
from workspaces.models import AuditEntry

ROOT = Identity(email="root@example.com", super_admin=True)
OPS = Identity(email="ops@example.com", devops=True)


@pytest.fixture(autouse=True)
def admins(db: None) -> None:
    make_account("root@example.com", super_admin=True)
    make_workspace("admins", admin="root@example.com")


def audited() -> list[tuple[str, str, str, str | None, Any]]:
    rows = AuditEntry.objects.filter(operation__startswith="worker_config.").order_by("id")
    return [(row.operation, row.action_kind, row.email, row.resource, row.parameters) for row in rows]


def test_a_group_is_configured_changed_and_forgotten() -> None:
    assert configs.get("gpu") is None

    change = configs.update(name="gpu", config={"worker_tags": ["gpu"]}, actor=ROOT)
    assert (change.name, change.config, change.warnings) == ("gpu", {"worker_tags": ["gpu"]}, [])
    assert [tuple(found) for found in change.differences] == [("worker_tags", None, ["gpu"], "live")]
    assert not change.restarts_workers

    assert configs.update(name="gpu", config={"init_bash": "true"}, actor=OPS).restarts_workers
    assert configs.get("gpu") == {"init_bash": "true"}
    assert configs.list_groups() == [{"name": "gpu", "config": {"init_bash": "true"}}]

    configs.delete(name="gpu", actor=ROOT)
    assert configs.list_groups() == []
    with pytest.raises(NotFound, match="gpu has no configuration"):
        configs.delete(name="gpu", actor=ROOT)


def test_what_is_wrong_changes_nothing() -> None:
    configs.update(name="gpu", config={"worker_tags": ["gpu"]}, actor=ROOT)

    with pytest.raises(BadRequest, match="worker_tags"):
        configs.update(name="gpu", config={"worker_tags": 1}, actor=ROOT)

    assert configs.get("gpu") == {"worker_tags": ["gpu"]}
    assert len(audited()) == 1


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "x" * 61, "é", "a\x00"])
def test_a_group_has_a_name_that_fits_into_a_workers_name(name: str) -> None:
    with pytest.raises(BadRequest, match="worker group"):
        configs.update(name=name, config={}, actor=ROOT)


@pytest.mark.parametrize(
    "actor",
    [
        Identity(email="alice@example.com"),
        Identity(email="root@example.com", super_admin=True, permissioned_as="u/root", workspace_id="admins"),
    ],
    ids=["an ordinary account", "a job of a superadmin"],
)
def test_only_superadmins_and_devops_write(actor: Identity) -> None:
    configs.update(name="gpu", config={}, actor=ROOT)

    with pytest.raises(PermissionDenied):
        configs.update(name="gpu", config={"cache_clear": 1}, actor=actor)
    with pytest.raises(PermissionDenied):
        configs.delete(name="gpu", actor=actor)
    assert configs.get("gpu") == {}


def test_every_write_is_in_the_audit_log_with_its_differences_and_without_values_of_variables() -> None:
    configs.update(name="gpu", config={"env_vars_static": {"A": "s3cret", "B": "s4me"}}, actor=ROOT)
    configs.update(
        name="gpu", config={"env_vars_static": {"A": "n3w", "B": "s4me"}, "cache_clear": 1}, actor=OPS
    )
    configs.update(
        name="gpu", config={"env_vars_static": {"A": "n3w", "B": "s4me"}, "cache_clear": 1}, actor=OPS
    )
    configs.delete(name="gpu", actor=ROOT)

    assert [entry[:4] for entry in audited()] == [
        ("worker_config.update", "create", "root@example.com", "worker__gpu"),
        ("worker_config.update", "update", "ops@example.com", "worker__gpu"),
        ("worker_config.delete", "delete", "root@example.com", "worker__gpu"),
    ]
    changes = [entry[4]["changes"] for entry in audited()]
    assert changes[1] == [
        {
            "field": "env_vars_static",
            "before": {"A": "hidden", "B": "same value"},
            "after": {"A": "hidden", "B": "same value"},
            "effect": "next job",
        },
        {"field": "cache_clear", "before": None, "after": 1, "effect": "restart"},
    ]
    assert not any(secret in str(changes) for secret in ("s3cret", "n3w", "s4me"))


def test_a_dedicated_script_that_does_not_exist_is_reported() -> None:
    change = configs.update(
        name="gpu",
        config={"dedicated_workers": ["acme:f/team/nowhere", "acme:flow/f/team/nowhere"]},
        actor=ROOT,
    )

    assert change.warnings == [
        "dedicated script acme:f/team/nowhere does not exist yet: its workers have nothing to do until it is deployed",
        "dedicated flow acme:flow/f/team/nowhere does not exist yet: its workers have nothing to do until it is deployed",
    ]


def test_a_script_that_is_not_marked_dedicated_is_reported() -> None:
    ada = enter(make_workspace("acme", admin="ada@example.com"), "ada@example.com")
    for path, extra in (("u/ada/plain", {}), ("u/ada/warm", {"dedicated_worker": True})):
        draft = scripts.ScriptDraft(path=path, content="def main(): pass", language="python3", extra=extra)
        scripts.deploy_script(ada, draft)

    change = configs.preview(
        name="gpu", config={"dedicated_workers": ["acme:u/ada/plain", "acme:u/ada/warm"]}, actor=ROOT
    )

    assert change.warnings == [
        "script acme:u/ada/plain has no dedicated worker, so its jobs do not come to this group: set dedicated_worker "
        "on it and deploy it"
    ]


@pytest.mark.django_db(transaction=True)
def test_of_two_who_write_at_once_the_second_sees_what_the_first_wrote() -> None:
    at_once = threading.Barrier(2)

    def write(number: int) -> None:
        try:
            at_once.wait()
            configs.update(name="gpu", config={"cache_clear": number}, actor=ROOT)
        finally:
            connection.close()

    writers = [threading.Thread(target=write, args=[number]) for number in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    first, second = (entry[4]["changes"][0] for entry in audited())
    assert (first["before"], second["before"]) == (None, first["after"])
    assert configs.get("gpu") == {"cache_clear": second["after"]}


@pytest.mark.django_db(transaction=True)
def test_workers_are_told_once_it_is_written(database_url: str, wait_until: Callable[..., Any]) -> None:
    with psycopg.connect(database_url, autocommit=True) as listening:
        listening.execute(f"LISTEN {wakeups.GROUP_CHANNEL}")

        with transaction.atomic():
            configs.update(name="gpu", config={"cache_clear": 1}, actor=ROOT)
            assert not list(listening.notifies(timeout=0))
        configs.update(name="gpu", config={"cache_clear": 1}, actor=ROOT)  # nothing new
        configs.delete(name="gpu", actor=ROOT)

        told = list(listening.notifies(timeout=10, stop_after=2))
        assert [notification.payload for notification in told] == ["gpu", "gpu"]
    assert not Config.objects.exists()
