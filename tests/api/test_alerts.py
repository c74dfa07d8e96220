"""The routes of alerts, for those who operate the instance."""

import pytest
from django.utils import timezone

from tests.api.conftest import World
from workspaces.models import Alert


@pytest.fixture
def three(world: World) -> list[int]:
    """Two that were raised, of which one is over, and one that may be over in a moment."""
    now = timezone.now()
    return [
        Alert.objects.create(kind="k", subject="a", message="over", raised_at=now, resolved_at=now).pk,
        Alert.objects.create(kind="k", subject="b", message="goes on", raised_at=now).pk,
        Alert.objects.create(kind="k", subject="c", message="perhaps").pk,
    ]


def test_alerts_are_listed_newest_first_page_by_page(world: World, three: list[int]) -> None:
    first = world.get("root", "settings/critical_alerts?page_size=1").json()
    second = world.get("root", "settings/critical_alerts?page_size=1&page=2").json()

    assert (first["total_rows"], first["total_pages"], first["page_size"]) == (2, 2, 1)
    assert [alert["message"] for alert in first["alerts"] + second["alerts"]] == ["goes on", "over"]
    assert first["alerts"][0]["alert_type"] == "critical_error"
    assert second["alerts"][0]["alert_type"] == "recovered_critical_error"


def test_one_or_all_are_acknowledged(world: World, three: list[int]) -> None:
    over, goes_on, perhaps = three

    assert world.post("root", f"settings/critical_alerts/{goes_on}/acknowledge").status_code == 200
    unseen = world.get("root", "settings/critical_alerts?acknowledged=false").json()["alerts"]
    assert [alert["id"] for alert in unseen] == [over]
    assert Alert.objects.get(pk=goes_on).acknowledged_by == "root@example.com"

    assert world.post("root", "settings/critical_alerts/acknowledge_all").content == b"acknowledged 1"
    assert world.get("root", "settings/critical_alerts?acknowledged=false").json()["alerts"] == []
    assert not Alert.objects.get(pk=perhaps).acknowledged


@pytest.mark.parametrize("which", ["0", "x", "9" * 30])
def test_an_alert_that_is_not_there_is_a_404(world: World, which: str) -> None:
    assert world.post("root", f"settings/critical_alerts/{which}/acknowledge").status_code == 404


@pytest.mark.parametrize("asked", ["page=0", "page=x", "page_size=0", "acknowledged=perhaps"])
def test_a_wrong_page_is_refused(world: World, asked: str) -> None:
    assert world.get("root", f"settings/critical_alerts?{asked}").status_code == 400
