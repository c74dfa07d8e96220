"""The settings of a script, as somebody changes them in the editor."""

import pytest
from playwright.sync_api import Page, expect

from jobs import scripts
from jobs.models import Script
from tests.browser.site import Person


@pytest.mark.browser
def test_a_concurrency_limit_is_set_and_shown_again(ada_page: Page, ada: Person) -> None:
    draft = scripts.ScriptDraft(path="u/ada/limited", content="def main(): ...\n", language="python3")
    scripts.deploy_script(ada.caller, draft)
    ada_page.goto(ada.url("scripts/u/ada/limited/edit/"))
    ada_page.get_by_role("button", name="Settings").click()
    limit = ada_page.get_by_role("group", name="Concurrency limit")
    limit.get_by_label("At most at once").fill("2")
    limit.get_by_label("Within").fill("60")
    limit.get_by_label("Counted by").fill("gate-$args[x]")
    ada_page.get_by_role("button", name="Done").click()

    ada_page.get_by_role("button", name="Deploy", exact=True).click()
    changed = "Settings changed: concurrent_limit, concurrency_time_window_s, concurrency_key."
    expect(ada_page.get_by_text(changed)).to_be_visible()
    ada_page.get_by_role("dialog").get_by_role("button", name="Deploy").click()
    ada_page.wait_for_url(ada.url("scripts/u/ada/limited/"))

    live = Script.objects.get(path="u/ada/limited", workspace=ada.workspace, archived=False)
    assert live.extra == {
        "concurrent_limit": 2,
        "concurrency_time_window_s": 60,
        "concurrency_key": "gate-$args[x]",
    }
    ada_page.goto(ada.url("scripts/u/ada/limited/edit/"))
    ada_page.get_by_role("button", name="Settings").click()
    expect(limit.get_by_label("At most at once")).to_have_value("2")
    expect(limit.get_by_label("Counted by")).to_have_value("gate-$args[x]")
