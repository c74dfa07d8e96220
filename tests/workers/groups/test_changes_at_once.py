"""Two people who change a group or the custom tags at the same time: nobody's change is lost without a word."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections, transaction

from tests.tenancy import identity, make_workspace
from workers.fleet import custom_tags
from workers.groups import configs
from workers.models import Config
from workspaces.access import Identity
from workspaces.custom_tags import SETTING, parse
from workspaces.errors import Conflict
from workspaces.models import AuditEntry, InstanceSetting


@pytest.fixture
def root(db: None) -> Identity:
    make_workspace("acme", admin="ann@example.com")
    return identity("root@example.com")


def test_a_change_made_from_what_is_no_longer_there_is_refused(root: Identity) -> None:
    configs.update(name="gpu", config={"worker_tags": ["gpu"]}, actor=root)
    seen = configs.fingerprint(configs.get("gpu"))
    configs.update(name="gpu", config={"worker_tags": ["big"]}, actor=root, seen=seen)

    with pytest.raises(Conflict, match="gpu was changed by somebody else"):
        configs.update(name="gpu", config={"worker_tags": ["slow"]}, actor=root, seen=seen)

    assert configs.get("gpu") == {"worker_tags": ["big"]}
    assert AuditEntry.objects.filter(operation="worker_config.update").count() == 2


def test_a_group_that_two_make_at_once_is_that_of_the_first(root: Identity) -> None:
    configs.update(name="gpu", config={"worker_tags": ["gpu"]}, actor=root, seen="")

    with pytest.raises(Conflict):
        configs.update(name="gpu", config={}, actor=root, seen="")


def test_a_change_of_a_group_that_was_deleted_meanwhile_leaves_nothing_behind(root: Identity) -> None:
    with pytest.raises(Conflict):
        configs.update(name="gone", config={}, actor=root, seen=configs.fingerprint({"worker_tags": ["x"]}))

    assert not Config.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_clearing_caches_takes_nothing_back_that_somebody_saves_at_that_moment(
    root: Identity, wait_until: Callable[..., Any]
) -> None:
    configs.update(name="gpu", config={}, actor=root)
    refused = []

    def clear() -> None:
        try:
            configs.clear_caches(name="gpu", actor=root)
        except Conflict as exc:
            refused.append(exc.message)
        finally:
            connections.close_all()

    thread = threading.Thread(target=clear)
    with transaction.atomic():
        Config.objects.select_for_update().get(pk="worker__gpu")
        thread.start()
        wait_until(_somebody_waits)
        Config.objects.update(config={"worker_tags": ["gpu"]})
    thread.join(10)

    assert len(refused) == 1 and configs.get("gpu") == {"worker_tags": ["gpu"]}


@pytest.mark.django_db(transaction=True)
def test_custom_tags_that_two_add_at_once_are_both_there(
    root: Identity, wait_until: Callable[..., Any]
) -> None:
    custom_tags.add(parse("gpu"), actor=root)

    def second() -> None:
        try:
            custom_tags.add(parse("slow"), actor=root)
        finally:
            connections.close_all()

    thread = threading.Thread(target=second)
    with transaction.atomic():
        InstanceSetting.objects.select_for_update().get(pk=SETTING)
        thread.start()
        wait_until(_somebody_waits)
        InstanceSetting.objects.filter(pk=SETTING).update(value=["gpu", "big"])
    thread.join(10)

    assert [row.tag.name for row in custom_tags.list_tags()] == ["gpu", "big", "slow"]


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_stat_clear_snapshot()"
        )  # within a transaction the view stays as it was first seen
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])
