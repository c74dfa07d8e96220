"""A run that waits says why, and says something else as soon as something else is true."""

import pytest
from playwright.sync_api import Page, expect

from jobs import runs, scripts
from jobs.models import WorkerPing
from jobs.payloads import Payload
from jobs.runs import RunOptions
from tests.browser.site import Person


@pytest.mark.browser
def test_the_reason_changes_on_the_page_when_a_worker_appears(ada_page: Page, ada: Person) -> None:
    tag = f"gpu-{ada.workspace.id}"
    draft = scripts.ScriptDraft(path="u/ada/slow", content="def main(): ...\n", language="python3", tag=tag)
    script = scripts.deploy_script(ada.caller, draft)
    job = runs.run_script(ada.caller, script, Payload(args={}), RunOptions())
    ada_page.goto(ada.url(f"runs/{job}/"))
    expect(ada_page.get_by_text(f"No live worker listens to tag {tag}.")).to_be_visible()

    busy = WorkerPing.objects.create(
        worker=f"wk-{tag}", worker_instance="h", custom_tags=[tag], slots=1, busy_slots=1
    )
    expect(ada_page.get_by_text(f"All slots of the 1 worker for tag {tag} are busy.")).to_be_visible(
        timeout=20_000
    )
    expect(ada_page.get_by_text("No live worker listens")).to_be_hidden()

    busy.delete()
    expect(ada_page.get_by_text(f"No live worker listens to tag {tag}.")).to_be_visible(timeout=20_000)
