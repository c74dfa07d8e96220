"""One run in the browser, with a real worker: written, tested, deployed, run, watched live, canceled, repaired."""

import json
from collections.abc import Callable
from uuid import UUID

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from jobs import queue, runs, scripts
from jobs.models import Job, QueuedJob, Script
from jobs.payloads import Payload
from tests.browser.site import Person, wait_until
from tests.browser.test_runs_pages import finish
from tests.browser.test_scripts_pages import editor, open_editor, write

RESULTS = {
    "table": [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}],
    "html": {"html": "<h1>Report</h1>"},
    "markdown": {"markdown": "# Report\n\n- one"},
    "nothing": None,
    "error": {
        "error": {
            "name": "ValueError",
            "message": "no such customer",
            "stack": 'File "main.py", line 2, in main',
        }
    },
}


@pytest.fixture
def deploy(ada: Person) -> Callable[..., Script]:
    def deploy(content: str, path: str = "u/ada/job", **settings: object) -> Script:
        draft = scripts.ScriptDraft(path=path, content=content, language="python3", **settings)  # type: ignore[arg-type]
        return scripts.deploy_script(ada.caller, draft, auto_parent=True)

    return deploy


def start(person: Person, script: Script, *, tag: str | None = None, **args: object) -> UUID:
    return runs.run_script(
        person.caller, script, Payload(args=args), runs.RunOptions(tag=tag, trigger_kind="ui")
    )


def claim(job_id: UUID) -> queue.Claim:
    """Take this run as a worker would."""
    tag = Job.objects.values_list("tag", flat=True).get(pk=job_id)
    (claim,) = queue.claim_jobs(worker="w1", tags=[tag], limit=1)
    assert claim.id == job_id
    return claim


@pytest.mark.browser
@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_runs_of_every_state_and_result_are_accessible(
    ada_page: Page,
    ada: Person,
    deploy: Callable[..., Script],
    assert_accessible: Callable[[], None],
    width: str,
) -> None:
    script = deploy("def main(name: str = 'x'):\n    raise ValueError(name)\n")
    shown = [start(ada, script, tag="nobody-takes-this", name="ada")]
    for number, result in enumerate(RESULTS.values()):
        job_id = start(ada, script, tag=f"t{number}-{ada.workspace.id}", name="ada")
        finish(job_id, "failure" if result and "error" in result else "success", result)
        shown.append(job_id)
    running = start(ada, script, tag=f"r-{ada.workspace.id}")
    taken = claim(running)
    queue.append_log((taken.id, taken.attempt), "\x1b[31mred\x1b[0m line\n")

    for job_id in [*shown, running]:
        ada_page.goto(ada.url(f"runs/{job_id}/"))
        ada_page.get_by_role("tab", name="Result").wait_for()
        assert_accessible()
    for name in ("Inputs", "Code", "Details"):
        ada_page.get_by_role("tab", name=name).click()
        assert_accessible()


@pytest.mark.browser
def test_from_first_line_to_table(ada_page: Page, ada: Person, worker: str) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/new/?language=python3"))
    page.get_by_label("Name in the path").fill("squares")
    write(
        page,
        "def main(n: int):\n    print('counting')\n    return [{'n': i, 'square': i * i} for i in range(n)]\n",
    )
    page.get_by_role("textbox", name="n (required)").fill("3")

    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("cell", name="4", exact=True)).to_be_visible(timeout=20_000)
    page.get_by_role("tab", name="Logs").click()
    expect(page.get_by_role("log")).to_contain_text("counting")
    page.get_by_role("button", name="Deploy").click()
    page.get_by_role("dialog", name="Deploy").get_by_role("button", name="Deploy").click()
    page.wait_for_url("**/scripts/u/ada/squares/")
    page.get_by_role("link", name="Run", exact=True).click()
    page.get_by_role("textbox", name="n (required)").fill("4")
    page.get_by_role("button", name="Run squares").click()

    page.wait_for_url("**/runs/*/")
    expect(page.get_by_role("cell", name="9", exact=True)).to_be_visible(timeout=20_000)
    expect(page.get_by_text("Success").first).to_be_visible()


@pytest.mark.browser
def test_a_failing_script_leads_to_its_line_and_the_repaired_one_runs(
    ada_page: Page, ada: Person, worker: str, deploy: Callable[..., Script]
) -> None:
    page = ada_page
    script = deploy("def main():\n    total = 0\n    return 1 / total\n")
    page.goto(ada.url(f"runs/{start(ada, script)}/"))

    expect(page.get_by_text("ZeroDivisionError: division by zero").first).to_be_visible(timeout=20_000)
    page.get_by_role("button", name="Show line 3").first.click()
    expect(page.get_by_role("textbox", name="Code that ran")).to_be_visible()
    page.get_by_role("link", name="Open in editor").click()
    editor(page).wait_for()
    write(page, "def main():\n    total = 2\n    return 1 / total\n")
    page.get_by_role("button", name="Deploy").click()
    page.get_by_role("dialog", name="Deploy").get_by_role("button", name="Deploy").click()
    page.wait_for_url("**/scripts/u/ada/job/")
    page.get_by_role("link", name="Run", exact=True).click()
    page.get_by_role("button", name="Run job").click()

    page.wait_for_url("**/runs/*/")
    expect(page.get_by_text("0.5", exact=True)).to_be_visible(timeout=20_000)


@pytest.mark.browser
def test_a_running_job_is_watched_and_canceled(
    ada_page: Page, ada: Person, worker: str, deploy: Callable[..., Script]
) -> None:
    page = ada_page
    script = deploy("import time\ndef main():\n    print('begun', flush=True)\n    time.sleep(600)\n")
    page.goto(ada.url(f"runs/{start(ada, script)}/"))
    expect(page.get_by_role("log")).to_contain_text("begun", timeout=20_000)

    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_label("Reason").fill("wrong customer")
    page.get_by_role("button", name="Cancel the run").click()

    expect(page.get_by_text("Job canceled: wrong customer by ada").first).to_be_visible(timeout=20_000)
    expect(page.get_by_text("Canceled", exact=True).first).to_be_visible()


@pytest.mark.browser
def test_a_run_without_a_worker_for_its_tag_says_so_until_one_takes_it(
    ada_page: Page, ada: Person, deploy: Callable[..., Script]
) -> None:
    page = ada_page
    tag = f"gpu-{ada.workspace.id}"
    job_id = start(ada, deploy("def main(): return 'done'"), tag=tag)

    page.goto(ada.url(f"runs/{job_id}/"))
    expect(page.get_by_text(f"No live worker listens to tag {tag}.")).to_be_visible()
    taken = claim(job_id)
    queue.append_log((taken.id, taken.attempt), "hello\n")
    expect(page.get_by_text("Running", exact=True).first).to_be_visible()
    expect(page.get_by_text("No live worker listens")).to_be_hidden()
    queue.complete_jobs([queue.Completion(taken.id, taken.attempt, "success", json.dumps("finished well"))])

    expect(page.get_by_text("finished well")).to_be_visible()
    expect(page.get_by_text("Success").first).to_be_visible()


@pytest.mark.browser
def test_a_lost_connection_is_quiet_and_loses_and_repeats_nothing(
    ada_page: Page, ada: Person, deploy: Callable[..., Script]
) -> None:
    page = ada_page
    job_id = start(ada, deploy("def main(): pass"), tag=f"slow-{ada.workspace.id}")
    taken = claim(job_id)
    lease = (taken.id, taken.attempt)
    queue.append_log(lease, "line 1\n")
    sockets: list[WebSocketRoute] = []

    def through(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    page.route_web_socket("**/ws/**", through)
    page.goto(ada.url(f"runs/{job_id}/"))
    expect(page.get_by_role("log")).to_contain_text("line 1")

    sockets[0].close(code=1012)
    expect(page.get_by_text("Reconnecting…").first).to_be_visible()
    queue.append_log(lease, "line 2\n")
    expect(page.get_by_role("log")).to_contain_text("line 2")
    queue.append_log(lease, "line 3\n")
    expect(page.get_by_role("log")).to_contain_text("line 3")

    assert [page.get_by_role("log").get_by_text(f"line {n}").count() for n in (1, 2, 3)] == [1, 1, 1]
    expect(page.get_by_text("Reconnecting…").first).to_be_hidden()


@pytest.mark.browser
def test_the_chosen_tab_stays_while_the_run_goes_on(
    ada_page: Page, ada: Person, deploy: Callable[..., Script]
) -> None:
    page = ada_page
    job_id = start(ada, deploy("def main(): pass"), tag=f"slow-{ada.workspace.id}")
    taken = claim(job_id)
    page.goto(ada.url(f"runs/{job_id}/"))

    page.get_by_role("tab", name="Details").click()
    queue.complete_jobs([queue.Completion(taken.id, taken.attempt, "success", json.dumps(1))])

    expect(page.get_by_text("Success").first).to_be_visible()
    expect(page.get_by_role("tab", name="Details")).to_have_attribute("aria-selected", "true")


@pytest.mark.browser
def test_html_of_a_result_is_shown_in_a_frame_of_its_own(
    ada_page: Page, ada: Person, deploy: Callable[..., Script]
) -> None:
    page = ada_page
    job_id = start(ada, deploy("def main(): pass"), tag=f"x-{ada.workspace.id}")
    # No script in it: the browser would say in the console that it kept one from running.
    finish(job_id, result={"html": "<h1>Report</h1>"})
    page.goto(ada.url(f"runs/{job_id}/"))

    frame = page.frame_locator("iframe")

    expect(frame.get_by_role("heading", name="Report")).to_be_visible()
    assert page.locator("iframe").get_attribute("sandbox") == ""


@pytest.mark.browser
def test_a_large_result_waits_for_a_click(ada_page: Page, ada: Person, deploy: Callable[..., Script]) -> None:
    page = ada_page
    job_id = start(ada, deploy("def main(): pass"), tag=f"x-{ada.workspace.id}")
    finish(job_id, result={"rows": ["x" * 100] * 50_000})
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url) if "result.json" in request.url else None)
    page.goto(ada.url(f"runs/{job_id}/"))

    expect(page.get_by_text("The result is 5.0 MB")).to_be_visible()
    assert not loaded
    page.get_by_role("button", name="Show it").click()

    expect(page.get_by_role("treeitem").first).to_be_visible()


@pytest.mark.browser
def test_run_again_with_other_inputs_opens_the_filled_form(
    ada_page: Page, ada: Person, deploy: Callable[..., Script]
) -> None:
    page = ada_page
    job_id = start(ada, deploy("def main(city: str): return city"), tag=f"x-{ada.workspace.id}", city="Turin")
    finish(job_id)
    page.goto(ada.url(f"runs/{job_id}/"))

    page.get_by_role("button", name="More ways to run again").click()
    page.get_by_role("link", name="Change the inputs first").click()

    expect(page.get_by_label("city")).to_have_value("Turin")


@pytest.mark.browser
def test_run_again_goes_to_the_new_run(ada_page: Page, ada: Person, deploy: Callable[..., Script]) -> None:
    page = ada_page
    job_id = start(ada, deploy("def main(city: str): return city", tag=f"x-{ada.workspace.id}"), city="Turin")
    finish(job_id)
    page.goto(ada.url(f"runs/{job_id}/"))

    page.get_by_role("button", name="Run again", exact=True).click()

    again = wait_until(lambda: QueuedJob.objects.filter(workspace_id=ada.workspace.id).first(), "the new run")
    page.wait_for_url(f"**/runs/{again.pk}/")
