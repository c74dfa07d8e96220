"""The list of runs in the browser: filters live in the address, batches ask first, new runs do not move rows."""

import json
from collections.abc import Callable
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from jobs import queue, runs, scripts
from jobs.models import CompletedJob, Job, QueuedJob, Script
from jobs.payloads import Payload
from tests.browser.site import Person, wait_until

PAGES = {
    "runs": "runs/",
    "runs filtered": "runs/?q=path:u/ada tag:idle-*&status=waiting&range=6h",
    "runs filtered to nothing": "runs/?q=tag:nothing",
    "runs of a filter that is none": "runs/?q=colour:red",
}


@pytest.fixture
def greet(ada: Person) -> Script:
    draft = scripts.ScriptDraft(
        path="u/ada/greet", content="def main(): pass", language="python3", summary="Greet somebody"
    )
    return scripts.deploy_script(ada.caller, draft)


@pytest.fixture
def start(ada: Person, greet: Script) -> Callable[..., UUID]:
    """Queue a run that no worker of these tests takes: its tag is its own."""

    def start(tag: str = "") -> UUID:
        options = runs.RunOptions(tag=tag or f"idle-{ada.workspace.id}", trigger_kind="ui")
        return runs.run_script(ada.caller, greet, Payload(args={"name": "ada"}), options)

    return start


def finish(job_id: UUID, status: str = "success", result: object = None) -> None:
    """End a run as a worker would."""
    tag = Job.objects.values_list("tag", flat=True).get(pk=job_id)
    (claim,) = [claim for claim in queue.claim_jobs(worker="w1", tags=[tag], limit=100) if claim.id == job_id]
    queue.complete_jobs([queue.Completion(claim.id, claim.attempt, status, json.dumps(result))])


@pytest.mark.browser
@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_the_list_is_accessible(
    ada_page: Page,
    ada: Person,
    start: Callable[..., UUID],
    assert_accessible: Callable[[], None],
    width: str,
) -> None:
    ada_page.goto(ada.url("runs/"))
    assert_accessible()
    finish(start("one"))
    finish(start("two"), "failure", {"error": {"name": "E", "message": "m"}})
    start()

    for address in PAGES.values():
        ada_page.goto(ada.url(address))
        assert_accessible()
    ada_page.goto(ada.url("runs/"))
    ada_page.get_by_role("checkbox", name="Select the run of").first.check()
    ada_page.get_by_role("button", name="All on this page").click()
    assert_accessible()


@pytest.mark.browser
def test_filters_live_in_the_address_through_back_and_reload(
    ada_page: Page, ada: Person, start: Callable[..., UUID]
) -> None:
    page = ada_page
    finish(start("cpu"))
    start("gpu")
    rows = page.get_by_role("row").filter(has_text="Greet somebody")
    page.goto(ada.url("runs/"))
    expect(rows).to_have_count(2)

    page.keyboard.press("/")
    page.keyboard.type("tag:gpu")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Succeeded").click()
    expect(page.get_by_text("These filters hide every run")).to_be_visible()
    page.go_back()
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Remove the filter tag: gpu").click()

    expect(rows).to_have_count(2)
    assert page.url == ada.url("runs/")


@pytest.mark.browser
def test_an_empty_list_is_cleared_of_its_filters_by_one_click(
    ada_page: Page, ada: Person, start: Callable[..., UUID]
) -> None:
    page = ada_page
    start()
    page.goto(ada.url("runs/?q=tag:nothing&status=failure"))

    page.get_by_role("link", name="Show all runs").click()

    expect(page.get_by_role("row").filter(has_text="Greet somebody")).to_have_count(1)


@pytest.mark.browser
def test_new_runs_are_announced_without_moving_rows(
    ada_page: Page, ada: Person, start: Callable[..., UUID]
) -> None:
    page = ada_page
    start()
    page.goto(ada.url("runs/"))
    rows = page.get_by_role("row").filter(has_text="Greet somebody")
    expect(rows).to_have_count(1)

    start()
    pill = page.get_by_role("link", name="1 new")
    expect(pill).to_be_visible()
    expect(rows).to_have_count(1)
    pill.click()

    expect(rows).to_have_count(2)


@pytest.mark.browser
def test_a_run_that_ends_changes_in_its_place(
    ada_page: Page, ada: Person, start: Callable[..., UUID]
) -> None:
    page = ada_page
    first, second = start("one"), start("two")
    page.goto(ada.url("runs/"))
    rows = page.get_by_role("row").filter(has_text="Greet somebody")
    expect(rows.filter(has_text="Queued")).to_have_count(2)
    rows.last.get_by_role("checkbox").check()

    finish(first)

    expect(rows.last).to_contain_text("Success")
    expect(rows.last.get_by_role("checkbox")).to_be_checked()
    expect(rows.first).to_contain_text("Queued")
    assert QueuedJob.objects.filter(pk=second).exists()


@pytest.mark.browser
def test_more_rows_are_loaded_below(ada_page: Page, ada: Person, start: Callable[..., UUID]) -> None:
    page = ada_page
    for _ in range(60):
        start()
    page.goto(ada.url("runs/"))
    rows = page.get_by_role("row").filter(has_text="Greet somebody")
    expect(rows).to_have_count(50)

    page.get_by_role("button", name="Load more").click()

    expect(rows).to_have_count(60)
    expect(page.get_by_role("button", name="Load more")).to_have_count(0)


@pytest.mark.browser
def test_a_batch_asks_first_then_cancels_what_is_ticked(
    ada_page: Page, ada: Person, start: Callable[..., UUID]
) -> None:
    page = ada_page
    kept, gone = start(), start()
    page.goto(ada.url("runs/"))

    page.get_by_role("row").filter(has_text="Greet somebody").first.get_by_role("checkbox").check()
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("Cancel 1 run?")
    dialog.get_by_role("button", name="Cancel them").click()

    expect(page.get_by_text("1 run canceled")).to_be_visible()
    assert CompletedJob.objects.get(pk=gone).status == "canceled"
    assert QueuedJob.objects.filter(pk=kept).exists()


@pytest.mark.browser
def test_all_matching_runs_are_canceled_with_their_count(
    ada_page: Page, ada: Person, start: Callable[..., UUID]
) -> None:
    page = ada_page
    for _ in range(55):
        start()
    other = start(f"kept-{ada.workspace.id}")
    page.goto(ada.url(f"runs/?q=tag:idle-{ada.workspace.id}"))

    page.get_by_role("checkbox", name="Select all on this page").check()
    page.get_by_role("checkbox", name="All 55 that match").check()
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("alertdialog")).to_contain_text("Cancel all 55 runs that match?")
    page.get_by_role("alertdialog").get_by_role("button", name="Cancel them").click()

    expect(page.get_by_text("55 runs canceled")).to_be_visible()
    left = QueuedJob.objects.filter(workspace_id=ada.workspace.id)
    wait_until(lambda: list(left.values_list("pk", flat=True)) == [other], "the other run alone to be left")
