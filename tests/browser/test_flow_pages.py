"""Flows on the pages around the editor: found on the home page, looked at, run by their form, moved, imported."""

import re

import pytest
from playwright.sync_api import Page, expect

from jobs.flows import deployed
from tests.browser.site import Person

CODE = 'def main(name: str):\n    return {"greeting": f"Hello {name}"}\n'
MODULES = [
    {"id": "a", "summary": "Pass it on", "value": {"type": "identity"}},
    {
        "id": "b",
        "summary": "Greet",
        "value": {
            "type": "rawscript",
            "language": "python3",
            "content": CODE,
            "input_transforms": {"name": {"type": "javascript", "expr": "flow_input.name"}},
        },
        "retry": {"constant": {"attempts": 2, "seconds": 1}},
    },
]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "order": ["name"],
}


@pytest.fixture
def greeting(ada: Person) -> Person:
    """A workspace with a flow of two versions."""
    for modules in (MODULES[:1], MODULES):
        draft = deployed.FlowDraft(
            path="u/ada/greeting", value={"modules": modules}, schema=SCHEMA, summary="Greeting"
        )
        if deployed.flow_exists(ada.caller, draft.path):
            deployed.update_flow(ada.caller, draft.path, draft, deployment_message="Greets too")
        else:
            deployed.create_flow(ada.caller, draft)
    return ada


def test_the_chosen_step_shows_what_it_is(greeting: Person, ada_page: Page) -> None:
    ada_page.goto(greeting.url("flows/u/ada/greeting/"))
    ada_page.locator("wm-flow-graph").get_by_role("button", name="Greet").click()

    step = ada_page.get_by_role("region", name="The chosen step")
    expect(step.get_by_role("heading", name="Greet")).to_be_visible()
    expect(step.get_by_text("flow_input.name")).to_be_visible()
    expect(step.get_by_text("Retried up to 2 times")).to_be_visible()
    expect(step.locator("wm-code")).to_contain_text("Hello")

    ada_page.get_by_role("tab", name="Steps").click()
    ada_page.locator("wm-flow-outline").get_by_role("button", name="Pass it on").click()
    expect(step.get_by_role("heading", name="Pass it on")).to_be_visible()


def test_the_flow_is_shown_as_yaml(greeting: Person, ada_page: Page) -> None:
    ada_page.goto(greeting.url("flows/u/ada/greeting/"))
    ada_page.get_by_role("tab", name="YAML").click()

    expect(ada_page.get_by_role("tabpanel", name="YAML")).to_contain_text("summary: Greeting")


def test_a_flow_is_found_run_by_its_form_and_its_run_ends(
    greeting: Person, ada_page: Page, worker: str
) -> None:
    ada_page.goto(greeting.url())
    ada_page.get_by_role("link", name="Run u/ada/greeting").click()
    ada_page.get_by_label("name").fill("Grace")
    ada_page.get_by_role("button", name="Run greeting").click()

    expect(ada_page).to_have_url(re.compile(r"/runs/[0-9a-f-]{36}/$"))
    expect(ada_page.get_by_text("Hello Grace").first).to_be_visible(timeout=30_000)
    ada_page.goto(greeting.url("runs/"))
    runs = ada_page.get_by_role("table").get_by_role("link", name="Greeting")
    expect(runs).to_have_count(1)
    ada_page.get_by_role("switch", name="Steps too").click()
    expect(ada_page.get_by_role("table").get_by_role("link", name="Greeting, step b")).to_be_visible()
    expect(ada_page).to_have_url(greeting.url("runs/?steps=1"))


def test_chips_tell_flows_from_scripts(greeting: Person, ada_page: Page) -> None:
    ada_page.goto(greeting.url("?kind=script"))
    expect(ada_page.get_by_role("link", name="Greeting")).to_have_count(0)

    ada_page.goto(greeting.url("?kind=flow"))
    expect(ada_page.get_by_role("link", name="Greeting Flow u/ada/greeting")).to_be_visible()


def test_an_older_version_is_compared_and_restored(greeting: Person, ada_page: Page) -> None:
    ada_page.goto(greeting.url("flows/u/ada/greeting/versions/"))
    expect(ada_page.get_by_role("region", name="Difference")).to_contain_text("to v")
    ada_page.get_by_role("radio", name=re.compile("Compare to")).last.check()
    ada_page.get_by_role("button", name="Restore").click()
    ada_page.get_by_role("alertdialog").get_by_role("button", name="Restore").click()

    expect(ada_page).to_have_url(greeting.url("flows/u/ada/greeting/"))
    expect(ada_page.locator("wm-flow-graph").get_by_role("button", name="Greet")).to_have_count(0)
    expect(ada_page.get_by_text("3 in all")).to_be_visible()


def test_a_moved_flow_is_found_by_its_old_address(greeting: Person, ada_page: Page) -> None:
    ada_page.goto(greeting.url("flows/u/ada/greeting/"))
    ada_page.get_by_role("button", name="More").click()
    ada_page.get_by_role("link", name="Move or rename").click()
    ada_page.get_by_label("Name").fill("welcome")
    ada_page.get_by_role("button", name="Move").click()

    expect(ada_page).to_have_url(greeting.url("flows/u/ada/welcome/"))
    ada_page.goto(greeting.url("flows/u/ada/greeting/"))
    expect(ada_page).to_have_url(greeting.url("flows/u/ada/welcome/"))


def test_a_flow_is_archived_from_its_page_and_brought_back(greeting: Person, ada_page: Page) -> None:
    ada_page.goto(greeting.url("flows/u/ada/greeting/"))
    ada_page.get_by_role("button", name="More").click()
    ada_page.get_by_role("button", name="Archive").click()
    ada_page.get_by_role("alertdialog").get_by_role("button", name="Archive").click()
    expect(ada_page.get_by_text("archived", exact=True)).to_be_visible()

    ada_page.get_by_role("button", name="Bring it back").click()

    expect(ada_page.get_by_role("link", name="Run", exact=True)).to_be_visible()


def test_a_pasted_flow_opens_in_the_editor(ada: Person, ada_page: Page) -> None:
    ada_page.goto(ada.url())
    ada_page.get_by_role("link", name="Import a flow").click()
    ada_page.get_by_label("YAML or JSON").fill("modules: [{id: a, value: {type: nonsense}}]")
    ada_page.get_by_role("button", name="Open in the editor").click()
    expect(ada_page.get_by_text("modules[0]")).to_be_visible()

    ada_page.get_by_label("YAML or JSON").fill(
        "summary: Pasted\nvalue:\n  modules:\n    - id: a\n      summary: Only step\n      value: {type: identity}\n"
    )
    ada_page.get_by_role("button", name="Open in the editor").click()

    expect(ada_page).to_have_url(re.compile("/edit/$"))
    expect(ada_page.locator("wm-flow-graph").get_by_role("button", name="Only step Passes")).to_be_visible()
