"""The home page: first steps, the list with its filters, the menus, the palette."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from jobs import queue, scripts
from jobs.models import Script
from tests.browser.site import Person
from workspaces import folders
from workspaces.access import Caller


def deploy(
    caller: Caller,
    path: str,
    *,
    language: str = "python3",
    summary: str = "",
    labels: list[str] | None = None,
) -> Script:
    content = "def main(): return 1" if language == "python3" else "echo 1"
    draft = scripts.ScriptDraft(path=path, content=content, language=language, summary=summary, labels=labels)
    return scripts.deploy_script(caller, draft)


@pytest.fixture
def billing(ada: Person) -> Person:
    """A workspace with three scripts."""
    folders.create_folder(ada.caller, name="billing")
    deploy(ada.caller, "f/billing/charge_card", summary="Charge saved card", labels=["money"])
    deploy(ada.caller, "f/billing/rotate", language="bash", summary="Rotate logs")
    deploy(ada.caller, "u/ada/export", summary="Ad hoc export")
    return ada


def test_an_empty_workspace_runs_a_sample_in_one_click(ada: Person, ada_page: Page, worker: str) -> None:
    ada_page.goto(ada.url())
    ada_page.get_by_role("button", name="Run the sample").click()

    expect(ada_page).to_have_url(re.compile(r"/runs/[0-9a-f-]{36}/$"))
    expect(ada_page.get_by_text("Kyoto").first).to_be_visible(timeout=30_000)


def test_the_list_is_searched_while_typing_and_the_address_says_how(billing: Person, ada_page: Page) -> None:
    ada_page.goto(billing.url())
    ada_page.keyboard.press("/")
    ada_page.keyboard.type("charge")

    rows = ada_page.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(2)  # the heading and one script
    expect(ada_page).to_have_url(billing.url("?q=charge"))
    ada_page.reload()
    expect(rows).to_have_count(2)


def test_chips_and_search_work_together(billing: Person, ada_page: Page) -> None:
    ada_page.goto(billing.url())
    ada_page.get_by_role("group", name="Language").get_by_role("link", name="Python").click()
    expect(ada_page.get_by_role("link", name="Rotate logs")).to_have_count(0)
    ada_page.get_by_label("Search scripts").fill("export")

    expect(ada_page).to_have_url(billing.url("?q=export&language=python3"))
    expect(ada_page.get_by_role("link", name="Ad hoc export")).to_be_visible()
    expect(ada_page.get_by_role("link", name="Charge saved card")).to_have_count(0)


def test_a_script_is_archived_after_a_question_and_found_in_the_archive(
    billing: Person, ada_page: Page
) -> None:
    ada_page.goto(billing.url())
    ada_page.get_by_role("button", name="More for u/ada/export").click()
    ada_page.get_by_role("button", name="Archive").click()
    ada_page.get_by_role("alertdialog").get_by_role("button", name="Archive").click()

    expect(ada_page.get_by_role("link", name="Ad hoc export")).to_have_count(0)
    ada_page.get_by_role("link", name="Archived").click()
    expect(ada_page.get_by_role("link", name="Ad hoc export")).to_be_visible()


def test_the_last_runs_are_shown_oldest_first(billing: Person, ada_page: Page) -> None:
    script = Script.objects.get(workspace=billing.workspace, path="u/ada/export")
    for status in ("success", "failure"):
        job_id = queue.push_job(
            queue.JobRequest(
                workspace_id=billing.workspace.id, kind="script", tag=f"t-{billing.workspace.id}", created_by="ada",
                permissioned_as="u/ada", permissioned_as_email=billing.account.email, args={},
                runnable_id=script.hash, runnable_path=script.path, language="python3",
            )
        )  # fmt: skip
        [claim] = queue.claim_jobs(worker="wk-test", tags=[f"t-{billing.workspace.id}"])
        assert claim.id == job_id
        queue.complete_job((claim.id, claim.attempt), result=1, status=status)

    ada_page.goto(billing.url())

    expect(ada_page.get_by_role("link", name="Last runs, oldest first")).to_have_text(
        re.compile(r"Success\s*Failed")
    )


def test_a_long_list_loads_more_by_cursor(ada: Person, ada_page: Page) -> None:
    for number in range(53):
        deploy(ada.caller, f"u/ada/task_{number:02}", language="bash")
    ada_page.goto(ada.url())
    links = ada_page.get_by_role("table").get_by_role("link", name="u/ada/task_").filter(has_not_text="never")
    first = ada_page.get_by_role("link", name="u/ada/task_00")
    expect(first).to_have_count(0)

    ada_page.get_by_role("link", name="Load more").click()

    expect(links.filter(has_text="task_00").first).to_be_visible()
    expect(ada_page.get_by_role("link", name="Load more")).to_have_count(0)


def test_an_operator_can_run_and_nothing_else(
    billing: Person, member: Callable[..., Person], page: Page, sign_in: Callable[[Page, Person], None]
) -> None:
    operator = member("cleo", operator=True)
    folders.add_owner(billing.caller, "billing", owner="u/cleo")
    sign_in(page, operator)

    page.goto(operator.url())

    navigation = page.get_by_role("navigation", name="Main")
    expect(navigation.get_by_role("link", name="Runs")).to_be_visible()
    expect(navigation.get_by_role("link", name="Variables")).to_have_count(0)
    expect(page.get_by_role("button", name="New")).to_have_count(0)
    page.get_by_role("button", name="More for f/billing/rotate").click()
    expect(page.get_by_role("link", name="Run", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Edit", exact=True)).to_have_count(0)


def test_the_palette_finds_scripts_and_pages_by_keyboard(billing: Person, ada_page: Page) -> None:
    ada_page.goto(billing.url())
    ada_page.keyboard.press("Control+k")
    ada_page.keyboard.type("charge card")
    expect(ada_page.get_by_role("option", name="Charge saved card")).to_be_visible()
    expect(ada_page.get_by_role("option", selected=True)).to_contain_text("Charge saved card")

    ada_page.keyboard.press("Enter")

    expect(ada_page).to_have_url(billing.url("scripts/f/billing/charge_card/"))


def test_g_and_a_letter_go_to_a_page(billing: Person, ada_page: Page) -> None:
    ada_page.goto(billing.url())
    ada_page.keyboard.press("g")
    ada_page.keyboard.press("w")

    expect(ada_page).to_have_url(billing.url("workers/"))


def test_the_workspace_is_switched_from_the_sidebar(ada: Person, ada_page: Page) -> None:
    ada_page.goto(ada.url())
    ada_page.get_by_role("button", name="switch workspace").click()
    ada_page.get_by_role("link", name="Admins", exact=True).click()

    expect(ada_page).to_have_url(f"{ada.site.url}/w/admins/")
