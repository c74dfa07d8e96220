"""The page of workers: what it shows of many groups, workers and tags."""

import pytest

from jobs.models import WorkerPing
from tests.tenancy import identity, make_workspace, token_for
from tests.workers.pages.test_group_pages import browser
from workers.groups import configs
from workers.views.workers import FEW_GROUPS, PAGE_SIZE

pytestmark = pytest.mark.django_db
PAGE = "/w/acme/workers/"


@pytest.fixture(autouse=True)
def _acme() -> None:
    make_workspace("acme", admin="ann@example.com")
    token_for("root@example.com")


def add_workers(count: int, *, group: str, first: int = 0, **given: object) -> None:
    WorkerPing.objects.bulk_create(
        WorkerPing(
            worker=f"wk-{group}-{number:03}",
            worker_instance=f"host{number}",
            worker_group=group,
            state="running",
            slots=2,
            **given,
        )
        for number in range(first, first + count)
    )


def test_few_groups_are_shown_with_their_workers() -> None:
    add_workers(2, group="default")
    configs.update(name="gpu", config={}, actor=identity("root@example.com"))

    page = browser("root@example.com").get(PAGE)

    assert [(listed.group.name, len(listed.workers)) for listed in page.context["shown"]] == [
        ("default", 2),
        ("gpu", 0),
    ]
    assert not page.context["rows"] and b"Search workers" not in page.content


def test_many_groups_have_a_row_each_and_their_workers_on_their_own_page() -> None:
    for number in range(FEW_GROUPS + 1):
        add_workers(1, group=f"g{number}")
    client = browser("root@example.com")

    page = client.get(PAGE)
    assert len(page.context["rows"]) == FEW_GROUPS + 1 and not page.context["shown"]
    assert b"wk-g3-000" not in page.content

    page = client.get(PAGE + "?group=g3")
    assert [listed.group.name for listed in page.context["shown"]] == ["g3"]
    assert b"wk-g3-000" in page.content and b"wk-g4-000" not in page.content


def test_many_groups_come_a_part_at_a_time() -> None:
    for number in range(PAGE_SIZE + 5):
        add_workers(1, group=f"g{number:02}")
    client = browser("root@example.com")

    page = client.get(PAGE)
    assert (len(page.context["rows"]), page.context["more_rows"]) == (PAGE_SIZE, 5)

    page = client.get(f"{PAGE}?limit={page.context['more_limit']}")
    assert (len(page.context["rows"]), page.context["more_rows"]) == (PAGE_SIZE + 5, 0)


@pytest.mark.parametrize("limit", ["-1", "x", "0", "9" * 5000])
def test_a_limit_that_makes_no_sense_is_none(limit: str) -> None:
    add_workers(PAGE_SIZE + 1, group="default")

    page = browser("root@example.com").get(PAGE, {"group": "default", "limit": limit})

    assert page.status_code == 200 and page.context["shown"][0].more == 1


def test_groups_are_found_by_their_workers_hosts_and_tags() -> None:
    for number in range(FEW_GROUPS):
        add_workers(1, group=f"g{number}", first=number, custom_tags=[f"rack-{number}"])
    add_workers(PAGE_SIZE + 2, group="default", first=100)
    client = browser("root@example.com")

    def found(search: str) -> list[str]:
        return [group.name for group in client.get(PAGE, {"q": search}).context["rows"]]

    assert found("G3") == found("wk-g3") == found("rack-3") == ["g3"]
    assert found("host131") == ["default"]
    assert found("zzz") == []

    listed = client.get(PAGE, {"group": "default", "q": "host131"}).context["shown"][0]
    assert [worker.ping.worker for worker in listed.workers] == ["wk-default-131"]
    assert listed.group.live_count == PAGE_SIZE + 2  # the figures are of the group, whatever is looked for
