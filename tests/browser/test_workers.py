"""The workers page: what is there, what waits for nobody, and its own refreshing."""

import signal
import subprocess

import pytest
from playwright.sync_api import Page, expect

from jobs import runs, scripts
from jobs.models import QueuedJob, WorkerPing
from jobs.payloads import Payload
from tests.browser.site import Person
from workers.views.workers import FEW_GROUPS


@pytest.fixture
def nobody_else_waits(ada: Person) -> None:
    """The page names the first tags only that jobs wait for; other tests leave such jobs."""
    QueuedJob.objects.filter(running=False).delete()


def test_without_workers_the_page_gives_the_command_to_start_one(
    ada: Person, ada_page: Page, worker: str, _running_worker: "subprocess.Popen[bytes]"
) -> None:
    _running_worker.send_signal(signal.SIGSTOP)  # or it would report itself again
    kept = list(WorkerPing.objects.all())
    WorkerPing.objects.all().delete()
    try:
        ada_page.goto(ada.url("workers/"))

        expect(ada_page.get_by_role("heading", name="No worker has reported yet")).to_be_visible()
        ada_page.get_by_role("button", name="Copy the command", exact=True).click()
        assert ada_page.evaluate("navigator.clipboard.readText()") == "./windmill manage runworker"
    finally:
        WorkerPing.objects.bulk_create(kept, ignore_conflicts=True)
        _running_worker.send_signal(signal.SIGCONT)


@pytest.mark.usefixtures("nobody_else_waits")
def test_a_tag_that_no_worker_listens_to_is_named(ada: Person, ada_page: Page) -> None:
    tag = f"gpu-{ada.workspace.id}"
    draft = scripts.ScriptDraft(path="u/ada/train", content="echo 1", language="bash", tag=tag)
    runs.run_script(ada.caller, scripts.deploy_script(ada.caller, draft), Payload(args={}), runs.RunOptions())

    ada_page.goto(ada.url("workers/"))

    expect(ada_page.get_by_text(f"No live worker listens to tag {tag}")).to_be_visible()


def test_the_page_shows_a_new_worker_without_being_reloaded(ada: Person, ada_page: Page) -> None:
    name = f"wk-{ada.workspace.id}"
    ada_page.goto(ada.url("workers/"))
    expect(ada_page.get_by_text(name)).to_have_count(0)

    WorkerPing.objects.create(
        worker=name, worker_instance="host9", worker_group=ada.workspace.id, custom_tags=["python3"]
    )
    try:
        expect(ada_page.get_by_role("cell", name=name)).to_be_visible(timeout=8_000)
    finally:
        WorkerPing.objects.filter(worker=name).delete()


def test_a_worker_whose_init_script_failed_shows_its_log(ada: Person, ada_page: Page) -> None:
    group = ada.workspace.id
    WorkerPing.objects.create(
        worker=f"wk-{group}",
        worker_instance="host9",
        worker_group=group,
        state="failed",
        init_log="E: no such package",
    )
    try:
        ada_page.goto(ada.url(f"workers/?group={group}"))

        expect(ada_page.get_by_text("E: no such package")).to_be_visible()
        expect(ada_page.get_by_role("row", name=f"wk-{group}").get_by_text("Failed")).to_be_visible()
    finally:
        WorkerPing.objects.filter(worker_group=group).delete()


def test_a_worker_shows_what_it_can_run_and_what_it_lacks(ada: Person, ada_page: Page) -> None:
    name = f"wk-{ada.workspace.id}"
    WorkerPing.objects.create(
        worker=name,
        worker_instance="host9",
        worker_group=ada.workspace.id,
        runtimes={
            "bash": {"version": "5.2.15"},
            "php": {"missing": "PHP", "install": "Debian, Ubuntu: apt install php-cli"},
        },
    )
    try:
        ada_page.goto(ada.url(f"workers/?group={ada.workspace.id}"))
        ada_page.get_by_role("button", name="1 language").click()

        expect(ada_page.get_by_text("5.2.15")).to_be_visible()
        expect(ada_page.get_by_text("apt install php-cli")).to_be_visible()
    finally:
        WorkerPing.objects.filter(worker=name).delete()


@pytest.mark.usefixtures("nobody_else_waits")
def test_a_language_whose_tool_every_worker_lacks_is_named_with_the_way_to_get_it(
    ada: Person, ada_page: Page
) -> None:
    name = f"wk-{ada.workspace.id}"
    WorkerPing.objects.create(
        worker=name,
        worker_instance="host9",
        custom_tags=["powershell"],
        runtimes={"powershell": {"missing": "PowerShell", "install": "apt install powershell"}},
    )
    draft = scripts.ScriptDraft(path="u/ada/hello", content="Write-Output 1", language="powershell")
    runs.run_script(ada.caller, scripts.deploy_script(ada.caller, draft), Payload(args={}), runs.RunOptions())
    try:
        ada_page.goto(ada.url("workers/"))

        expect(
            ada_page.get_by_text("No live worker can run PowerShell: PowerShell is missing")
        ).to_be_visible()
        expect(ada_page.get_by_text("To install it: apt install powershell")).to_be_visible()
    finally:
        WorkerPing.objects.filter(worker=name).delete()


def test_among_many_groups_one_is_found_and_opened(ada: Person, ada_page: Page) -> None:
    name = ada.workspace.id
    WorkerPing.objects.bulk_create(
        WorkerPing(
            worker=f"wk-{name}-{n}", worker_instance=f"host{n}", worker_group=f"{name}-g{n}", state="running"
        )
        for n in range(FEW_GROUPS + 1)
    )
    try:
        ada_page.goto(ada.url("workers/"))
        ada_page.get_by_role("textbox", name="Search workers").fill(f"wk-{name}-3")
        expect(ada_page.get_by_role("link", name=f"{name}-g4", exact=True)).to_have_count(0)
        with ada_page.expect_response(lambda answer: f"q=wk-{name}-3" in answer.url, timeout=12_000):
            pass  # what is looked for is looked for when the page asks for itself, too
        expect(ada_page.get_by_role("link", name=f"{name}-g4", exact=True)).to_have_count(0)

        ada_page.get_by_role("link", name=f"{name}-g3", exact=True).click()
        expect(ada_page.get_by_role("cell", name=f"wk-{name}-3")).to_be_visible()
        ada_page.get_by_role("link", name="All groups").click()
        expect(ada_page.get_by_role("link", name=f"{name}-g4", exact=True)).to_be_visible()
    finally:
        WorkerPing.objects.filter(worker_group__startswith=name).delete()
