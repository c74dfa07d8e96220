"""Worker groups and custom tags in the browser: by keyboard, with the question before changes are lost."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from playwright.sync_api import Dialog, Page, expect

from jobs import scripts
from jobs.models import WorkerPing
from tests.browser.site import Person
from workers.fleet import custom_tags
from workers.groups import configs
from workspaces.custom_tags import parse


@pytest.fixture
def group(ada: Person) -> Iterator[str]:
    """A configured group of this test's own."""
    name = f"gpu-{ada.workspace.id}"
    config = {"worker_tags": ["gpu", "python3"], "env_vars_static": {"API_KEY": "hidden-key"}}
    configs.update(name=name, config=config, actor=ada.identity)
    yield name
    if configs.get(name) is not None:
        configs.delete(name=name, actor=ada.identity)


def config_of(name: str) -> dict[str, object]:
    return configs.get(name) or {}


def test_a_group_is_changed_after_its_changes_were_reviewed(ada: Person, ada_page: Page, group: str) -> None:
    ada_page.goto(ada.url(f"workers/?group={group}"))
    ada_page.get_by_role("link", name=f"Edit group {group}").click()
    tags = ada_page.get_by_role("combobox", name="Tags", exact=True)
    tags.fill("fast")
    tags.press("Enter")
    ada_page.get_by_role("button", name="Remove python3").click()
    ada_page.get_by_label("Init script", exact=True).fill("echo hi")
    ada_page.get_by_role("button", name="Review changes").click()

    expect(ada_page.get_by_role("heading", name="What changes")).to_be_focused()
    expect(ada_page.get_by_text("Added fast")).to_be_visible()
    expect(ada_page.get_by_text("Removed python3")).to_be_visible()
    expect(ada_page.get_by_text("Its workers finish what they run and start again")).to_be_visible()
    assert config_of(group)["worker_tags"] == ["gpu", "python3"]

    ada_page.get_by_role("button", name="Save changes").click()
    expect(ada_page.get_by_text(f"Group {group} saved")).to_be_visible()
    assert config_of(group)["worker_tags"] == ["gpu", "fast"]

    ada_page.goto(ada.url(f"workers/groups/{group}/"))
    ada_page.get_by_text("2 changes").first.click()  # newest first
    expect(ada_page.get_by_text("Added fast")).to_be_visible()


def test_the_tags_of_all_languages_are_added_at_once(ada: Person, ada_page: Page, group: str) -> None:
    ada_page.goto(ada.url(f"workers/groups/{group}/"))
    ada_page.get_by_role("button", name="Add the tags of all languages").click()

    for tag in ("bash", "dependency", "flow"):
        expect(ada_page.get_by_role("button", name=f"Remove {tag}", exact=True)).to_be_visible()
    expect(ada_page.get_by_role("button", name="Remove python3")).to_have_count(1)


def test_back_from_the_review_nothing_that_was_typed_is_lost(ada: Person, ada_page: Page, group: str) -> None:
    ada_page.goto(ada.url(f"workers/groups/{group}/"))
    ada_page.get_by_label("Memory (MB)").fill("512")
    ada_page.get_by_role("button", name="Add a variable").click()
    ada_page.get_by_label("Name of the variable").last.fill("REGION")
    ada_page.get_by_label("Value", exact=True).fill("eu")
    ada_page.get_by_role("button", name="Review changes").click()
    ada_page.get_by_role("button", name="Back to editing").click()

    expect(ada_page.get_by_label("Memory (MB)")).to_have_value("512")
    expect(ada_page.get_by_label("Value of REGION")).to_have_value("eu")
    ada_page.get_by_role("button", name="Review changes").click()
    ada_page.get_by_role("button", name="Save changes").click()
    expect(ada_page.get_by_text(f"Group {group} saved")).to_be_visible()
    assert config_of(group)["env_vars_static"] == {"API_KEY": "hidden-key", "REGION": "eu"}


def test_what_is_wrong_is_shown_at_its_field(ada: Person, ada_page: Page, group: str) -> None:
    ada_page.goto(ada.url(f"workers/groups/{group}/"))
    entry = ada_page.get_by_role("textbox", name="Variables of the worker that jobs see")
    entry.fill("2X")
    ada_page.get_by_role("button", name="Review changes").click()

    entry = ada_page.get_by_role("textbox", name="Variables of the worker that jobs see")
    expect(ada_page.get_by_text("expected the name of a variable")).to_be_visible()
    expect(entry).to_have_attribute("aria-invalid", "true")
    expect(entry).to_be_focused()


def test_values_of_variables_come_when_they_are_asked_for(ada: Person, ada_page: Page, group: str) -> None:
    ada_page.goto(ada.url(f"workers/groups/{group}/"))
    assert "hidden-key" not in ada_page.content()

    ada_page.get_by_role("button", name="Show values").click()

    expect(ada_page.get_by_label("Value of API_KEY")).to_have_value("hidden-key")


def test_leaving_with_changes_asks_first(ada: Person, ada_page: Page, group: str) -> None:
    ada_page.goto(ada.url(f"workers/groups/{group}/"))
    ada_page.get_by_label("Memory (MB)").fill("512")
    asked: list[str] = []

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    ada_page.on("dialog", stay)
    ada_page.get_by_role("link", name="Cancel").click(no_wait_after=True)
    expect(ada_page.get_by_label("Memory (MB)")).to_have_value("512")

    assert asked == ["beforeunload"]


def test_the_keyboard_alone_is_enough(ada: Person, ada_page: Page, group: str) -> None:
    ada_page.goto(ada.url(f"workers/groups/{group}/"))
    tags = ada_page.get_by_role("combobox", name="Tags", exact=True)
    tags.focus()
    ada_page.keyboard.type("fast")
    ada_page.keyboard.press("Enter")
    ada_page.keyboard.press("Shift+Tab")  # to the last chip's button
    expect(ada_page.get_by_role("button", name="Remove fast")).to_be_focused()
    ada_page.keyboard.press("Enter")
    expect(tags).to_be_focused()
    ada_page.keyboard.press("Backspace")  # the chip before the field

    expect(ada_page.get_by_role("button", name="Remove python3")).to_have_count(0)
    ada_page.get_by_role("button", name="Review changes").press("Enter")
    ada_page.get_by_role("button", name="Save changes").press("Enter")
    expect(ada_page.get_by_text(f"Group {group} saved")).to_be_visible()
    assert config_of(group)["worker_tags"] == ["gpu"]


def test_a_new_group_begins_with_its_name(ada: Person, ada_page: Page) -> None:
    name = f"new-{ada.workspace.id}"
    ada_page.goto(ada.url("workers/"))
    ada_page.get_by_role("button", name="New group").click()
    ada_page.get_by_label("Name").fill(name)
    ada_page.get_by_role("button", name="Go on").click()

    expect(ada_page.get_by_role("heading", name=f"Group {name}")).to_be_visible()
    expect(ada_page.get_by_text("Not configured yet")).to_be_visible()


def test_a_group_is_deleted_after_a_question(ada: Person, ada_page: Page, group: str) -> None:
    ada_page.goto(ada.url(f"workers/groups/{group}/"))
    ada_page.get_by_role("button", name="Delete", exact=True).click()
    ada_page.get_by_role("button", name="Delete configuration").click()

    expect(ada_page.get_by_text(f"The configuration of group {group} is deleted")).to_be_visible()
    assert configs.get(group) is None


def test_scripts_marked_dedicated_are_suggested(ada: Person, ada_page: Page, group: str) -> None:
    draft = scripts.ScriptDraft(
        path="u/ada/infer",
        content="def main(): ...",
        language="python3",
        extra={"dedicated_worker": True},
    )
    scripts.deploy_script(ada.caller, draft)
    ada_page.goto(ada.url(f"workers/groups/{group}/"))

    with ada_page.expect_response("**/workers/dedicated/?q=*infer*") as answer:
        ada_page.get_by_role("combobox", name="Dedicated to").fill(f"{ada.workspace.id}:u/ada/infer")

    assert answer.value.json() == [f"{ada.workspace.id}:u/ada/infer"]


def test_others_see_the_group_and_change_nothing(
    ada: Person,
    page: Page,
    group: str,
    member: Callable[..., Person],
    sign_in: Callable[[Page, Person], None],
) -> None:
    sign_in(page, member("bob"))
    page.goto(ada.url(f"workers/?group={group}"))
    page.get_by_role("link", name=f"Configuration group {group}").click()

    expect(page.get_by_text("python3")).to_be_visible()
    expect(page.get_by_role("button", name="Review changes")).to_have_count(0)
    assert "hidden-key" not in page.content()


def test_a_tag_is_added_and_removed(ada: Person, ada_page: Page) -> None:
    name = f"tag-{ada.workspace.id}"
    ada_page.goto(ada.url("workers/tags/"))
    ada_page.get_by_role("button", name="New tag").click()
    drawer = ada_page.get_by_role("dialog")
    drawer.get_by_role("textbox", name="Tag").fill(name)
    expect(drawer.get_by_role("combobox", name="Workspaces")).to_be_hidden()
    drawer.get_by_label("Jobs may ask for it").select_option("only")
    drawer.get_by_role("button", name="Save tag").click()
    expect(drawer.get_by_text("Name at least one workspace")).to_be_visible()
    drawer.get_by_role("combobox", name="Workspaces").fill(ada.workspace.id)
    drawer.get_by_role("button", name="Save tag").click()

    row = ada_page.get_by_role("row", name=name)
    expect(row.get_by_text(f"only in {ada.workspace.id}")).to_be_visible()

    row.get_by_role("button", name=f"Remove {name}").click()
    ada_page.get_by_role("button", name="Remove tag", exact=True).click()
    expect(row).to_have_count(0)


def test_who_asks_for_a_tag_is_shown(ada: Person, ada_page: Page) -> None:
    name = f"asked-{ada.workspace.id}"
    custom_tags.add(parse(name), actor=ada.identity)
    draft = scripts.ScriptDraft(path="u/ada/train", content="echo 1", language="bash", tag=name)
    scripts.deploy_script(ada.caller, draft)
    try:
        ada_page.goto(ada.url("workers/tags/"))
        ada_page.get_by_role("button", name=f"Show who asks for {name}").click()
        ada_page.get_by_role("dialog").get_by_role("link", name="u/ada/train").click()

        expect(ada_page).to_have_url(ada.url("scripts/u/ada/train/"))
    finally:
        custom_tags.remove(name, actor=ada.identity)


def test_dead_workers_are_taken_off_the_list(ada: Person, ada_page: Page) -> None:
    group = f"dead-{ada.workspace.id}"
    for number in (1, 2, 3):
        WorkerPing.objects.create(worker=f"wk-{group}-{number}", worker_instance="h", worker_group=group)
    WorkerPing.objects.filter(worker_group=group).exclude(worker=f"wk-{group}-3").update(
        ping_at=Now() - timedelta(minutes=5)
    )
    try:
        ada_page.goto(ada.url(f"workers/?group={group}"))
        ada_page.get_by_role("button", name=f"Take wk-{group}-1 off the list").click()
        ada_page.get_by_role("button", name="Take off the list", exact=True).click()
        expect(ada_page.get_by_role("cell", name=f"wk-{group}-1")).to_have_count(0)

        ada_page.get_by_role("button", name=f"Clear dead workers of group {group}").click()
        ada_page.get_by_role("button", name="Clear", exact=True).click()
        expect(ada_page.get_by_role("cell", name=f"wk-{group}-2")).to_have_count(0)
        expect(ada_page.get_by_role("cell", name=f"wk-{group}-3")).to_be_visible()
    finally:
        WorkerPing.objects.filter(worker_group=group).delete()


def test_a_worker_tells_what_it_is_and_what_it_is_about(ada: Person, ada_page: Page) -> None:
    group = f"native-{ada.workspace.id}"
    WorkerPing.objects.create(
        worker=f"wk-{group}",
        worker_instance="h",
        worker_group=group,
        state="draining",
        state_note="restarting to apply init_bash",
        native_mode=True,
        dedicated_workers=["acme:f/team/infer"],
        job_isolation="namespaces",
        isolation_note="Memory is limited by control groups (v2).",
    )
    try:
        ada_page.goto(ada.url(f"workers/?group={group}"))
        row = ada_page.get_by_role("row", name=f"wk-{group}")

        for text in ("h, native", "restarting to apply init_bash", "Dedicated to acme:f/team/infer"):
            expect(row.get_by_text(text)).to_be_visible()
        row.get_by_role("button", name="namespaces").click()
        expect(ada_page.get_by_text("Memory is limited by control groups (v2).")).to_be_visible()
    finally:
        WorkerPing.objects.filter(worker_group=group).delete()
