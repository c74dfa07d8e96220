"""Writing scripts in the browser: the form follows the code, drafts, deploying, conflicts, the run form, versions."""

import shutil
from collections.abc import Callable

import pytest
from django.db import transaction
from playwright.sync_api import Locator, Page, expect

from jobs import drafts, locks, queue, scripts
from jobs.models import Draft, JobStatus, Language, QueuedJob, Script, WorkerPing
from tests.browser.site import Person, wait_until
from workspaces import folders, resources, variables

CODE = 'def main(name: str, times: int = 1):\n    return [{"line": i, "text": f"hello {name}"} for i in range(times)]\n'
PAGES = {
    "overview": "scripts/f/shared/greet/",
    "editor": "scripts/f/shared/greet/edit/",
    "editor with a draft": "scripts/f/shared/drafted/edit/",
    "new script": "scripts/new/?language=bash",
    "run form": "scripts/f/shared/greet/run/",
    "versions": "scripts/f/shared/greet/versions/",
    "missing script": "scripts/f/shared/great/",
}


def deploy(person: Person, content: str = CODE, path: str = "f/shared/greet", **given: object) -> Script:
    """Deploy it. Its dependency job, if it needs one, waits for `end_resolution`: no worker of the site sees it."""
    draft = scripts.ScriptDraft(path=path, content=content, language="python3", summary="Greet somebody")
    with transaction.atomic():
        script = scripts.deploy_script(person.caller, draft, auto_parent=True, **given)  # type: ignore[arg-type]
        QueuedJob.objects.filter(pk=script.lock_job).update(tag=f"held-{script.lock_job}")
    return script


@pytest.fixture
def greet(ada: Person) -> Script:
    """A deployed script in a folder that everybody may read."""
    folders.create_folder(ada.caller, name="shared", extra_perms={"g/all": False})
    return deploy(ada, deployment_message="First version")


def editor(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Code of the script")


def write(page: Page, code: str) -> None:
    """Replace all of the code, as if pasted."""
    editor(page).click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(code)


def choose_language(page: Page, name: str) -> None:
    page.get_by_role("button", name="Language").click()
    page.get_by_role("option", name=name, exact=True).click()


def end_resolution(script: Script, *, lock: str = "", failure: str = "") -> None:
    """End the dependency job of a version as a worker does."""
    assert script.lock_job is not None
    (claim,) = queue.claim_jobs(worker="w1", tags=[f"held-{script.lock_job}"], limit=1)
    if failure:
        locks.record_failure(script.hash, job_id=script.lock_job, message=failure)
    else:
        author = locks.Author(script.created_by, f"u/{script.created_by}", "")
        locks.record(script.hash, job_id=script.lock_job, lock=lock, author=author)
    status = JobStatus.FAILURE if failure else JobStatus.SUCCESS
    queue.complete_jobs([queue.Completion(claim.id, claim.attempt, status, "{}")])


def open_editor(page: Page, url: str) -> None:
    page.goto(url)
    editor(page).wait_for()


@pytest.mark.browser
@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_pages_of_scripts_are_accessible(
    ada_page: Page, ada: Person, greet: Script, assert_accessible: Callable[[], None], width: str
) -> None:
    deploy(ada, CODE.replace("hello", "hi"))
    drafted = deploy(ada, path="f/shared/drafted")
    drafts.save_draft(
        ada.caller, drafted.path, {"language": "python3", "content": "def main(: int"}, base_hash=drafted.hash
    )

    for address in PAGES.values():
        ada_page.goto(ada.url(address))
        if "edit" in address or "new" in address:
            editor(ada_page).wait_for()
        assert_accessible()


@pytest.mark.browser
def test_the_form_follows_the_code_and_keeps_what_was_typed(ada_page: Page, ada: Person) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/new/?language=python3"))

    write(page, "def main(city: str, days: int = 3): return city")
    page.get_by_label("city").fill("Turin")
    write(page, "def main(city: str, nights: int = 2): return city")

    expect(page.get_by_label("nights")).to_have_value("2")
    expect(page.get_by_label("days")).to_have_count(0)
    expect(page.get_by_label("city")).to_have_value("Turin")


@pytest.mark.browser
def test_code_that_cannot_be_read_marks_its_line_and_the_last_form_stays(ada_page: Page, ada: Person) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/new/?language=python3"))

    write(page, "x = 1\ndef main(city: str:\n    pass")

    expect(page.get_by_text("Line 2:")).to_be_visible()
    expect(page.get_by_text("Form of the last readable version")).to_be_visible()
    expect(page.get_by_label("times")).to_be_visible()


@pytest.mark.browser
def test_changing_the_language_brings_its_starter_but_never_replaces_code(
    ada_page: Page, ada: Person
) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/new/?language=python3"))

    choose_language(page, "Bash")
    expect(editor(page)).to_contain_text('echo "Hello $name, number $number"')
    write(page, 'city="$1"')
    choose_language(page, "Python")

    expect(editor(page)).to_contain_text('city="$1"')
    expect(page.get_by_text("Your code is kept, now as Python.")).to_be_visible()


@pytest.mark.browser
def test_the_starter_can_still_be_had_and_undone(ada_page: Page, ada: Person) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/new/?language=python3"))
    write(page, "def main(mine: str): ...")
    choose_language(page, "TypeScript (Bun)")

    page.get_by_role("button", name="Begin with its starter").click()
    expect(editor(page)).to_contain_text("export async function main")
    page.keyboard.press("Control+Z")
    expect(editor(page)).to_contain_text("def main(mine: str)")

    write(page, "")
    expect(page.get_by_text("There is no code.")).to_be_visible()


@pytest.mark.browser
def test_languages_are_found_by_typing_and_chosen_by_keys(ada_page: Page, ada: Person) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/new/"))
    button = page.get_by_role("button", name="Language: Python")

    button.focus()
    page.keyboard.press("ArrowDown")
    field = page.get_by_role("combobox", name="Find a language")
    expect(field).to_be_focused()
    expect(page.get_by_role("group", name="SQL").get_by_role("option")).to_have_count(3)
    page.keyboard.type("sql post")
    expect(page.get_by_role("listbox", name="Languages").get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")

    expect(page.get_by_role("button", name="Language: PostgreSQL")).to_be_focused()
    expect(editor(page)).to_contain_text("generate_series")
    page.goto(ada.url("scripts/new/"))
    expect(page.get_by_role("button", name="Language: PostgreSQL")).to_be_visible()


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("pwsh") is not None, reason="the worker of the site can run PowerShell")
def test_a_language_that_no_worker_can_run_says_what_to_install_and_can_be_written(
    ada_page: Page, ada: Person
) -> None:
    ping = WorkerPing.objects.create(
        worker=f"wk-{ada.workspace.id}",
        worker_instance="host9",
        runtimes={"powershell": {"missing": "PowerShell", "install": "apt install powershell"}},
    )
    try:
        page = ada_page
        open_editor(page, ada.url("scripts/new/?language=bash"))

        page.get_by_role("button", name="Language").click()
        option = page.get_by_role("option", name="PowerShell")
        expect(option).to_contain_text("PowerShell is missing. To install it: apt install powershell")
        option.click()

        expect(editor(page)).to_contain_text("param(")
        expect(page.get_by_role("status").get_by_text("PowerShell is missing")).to_be_visible()
    finally:
        ping.delete()


@pytest.mark.browser
def test_the_form_follows_typescript_and_stays_while_it_cannot_be_read(ada_page: Page, ada: Person) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/new/?language=bun"))

    write(page, 'export async function main(city: string, size: "small" | "large") { return city }')
    page.get_by_label("city").fill("Turin")
    expect(page.get_by_label("size")).to_be_visible()
    write(page, "export async function main(city: string,\n  size: ) { return city }")

    expect(page.get_by_text("Line 2:")).to_be_visible()
    expect(page.get_by_text("Form of the last readable version")).to_be_visible()
    expect(page.get_by_label("city")).to_have_value("Turin")


@pytest.mark.browser
def test_the_form_of_a_query_has_its_parameters_and_a_choice_of_databases(
    ada_page: Page, ada: Person
) -> None:
    resources.create_resource(
        ada.caller, path="u/ada/warehouse", resource_type="postgresql", value={"host": "db"}
    )
    page = ada_page
    open_editor(page, ada.url("scripts/new/?language=postgresql"))

    write(page, "-- $1 city (text)\n-- $2 days (int) = 3\nSELECT $1, $2")
    expect(page.get_by_label("days")).to_have_value("3")
    page.get_by_label("database").select_option("u/ada/warehouse")
    write(page, "-- database u/ada/warehouse\n-- $1 city (text)\nSELECT $1")

    expect(page.get_by_label("database")).to_have_count(0)
    expect(page.get_by_label("city")).to_be_visible()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("language", "typed", "offered", "written"),
    [
        ("python3", "from f.sh", "f.shared.greet", "from f.shared.greet"),
        ("python3", "from f.shared import g", "greet", "from f.shared import greet"),
        ("python3", 'wmill.get_variable("u/a', "u/ada/api_key", 'wmill.get_variable("u/ada/api_key'),
        ("bun", 'import { x } from "/u/ad', "/u/ada/tool.ts", 'import { x } from "/u/ada/tool.ts'),
        ("bun", 'import { x } from "./to', "./tool.ts", 'import { x } from "./tool.ts'),
        ("bun", 'wmill.runScript("f/', "f/shared/greet", 'wmill.runScript("f/shared/greet'),
        ("postgresql", "-- database u/", "u/ada/warehouse", "-- database u/ada/warehouse"),
        ("duckdb", "ATTACH '$res:u/", "u/ada/warehouse", "ATTACH '$res:u/ada/warehouse"),
    ],
)
def test_paths_of_the_workspace_complete_in_code(
    ada_page: Page, ada: Person, greet: Script, language: str, typed: str, offered: str, written: str
) -> None:
    variables.create_variable(ada.caller, path="u/ada/api_key", value="s", is_secret=True)
    resources.create_resource(ada.caller, path="u/ada/warehouse", resource_type="postgresql", value={})
    code = "export async function main() {}"
    scripts.deploy_script(ada.caller, scripts.ScriptDraft(path="u/ada/tool", content=code, language="bun"))
    page = ada_page
    open_editor(page, ada.url(f"scripts/new/?language={language}"))
    write(page, " ")

    page.keyboard.press("Backspace")
    page.keyboard.type(typed, delay=15)
    page.get_by_role("listbox", name="Completions").get_by_role("option", name=offered).click()

    expect(editor(page)).to_contain_text(written)


@pytest.mark.browser
def test_the_page_follows_the_resolution_of_dependencies_and_its_failure(
    ada_page: Page, ada: Person, greet: Script, worker: str
) -> None:
    page = ada_page
    # The comment says that no package is wanted: the worker, which has the second try, asks no registry.
    waiting = deploy(ada, "#requirements:\nimport nopackage\n\ndef main(): ...\n")
    page.goto(ada.url("scripts/f/shared/greet/"))
    expect(page.get_by_role("status").get_by_text("Dependencies are being resolved")).to_be_visible()
    expect(page.get_by_text(f"version {greet.hash_hex[:8]} runs")).to_be_visible()

    end_resolution(waiting, failure="No solution found:\nnopackage was not found")
    expect(page.get_by_role("alert").get_by_text("could not be resolved: see line 2")).to_be_visible(
        timeout=15_000
    )
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert").get_by_text("could not be resolved")).to_be_hidden(timeout=15_000)

    wait_until(lambda: Script.objects.get(pk=waiting.pk).lock == "", "the lock")


@pytest.mark.browser
def test_the_page_follows_the_resolution_of_dependencies_to_the_lock(
    ada_page: Page, ada: Person, greet: Script
) -> None:
    page = ada_page
    waiting = deploy(ada, "import requests\n\ndef main(): ...\n")
    page.goto(ada.url("scripts/f/shared/greet/"))
    expect(page.get_by_role("status").get_by_text("Dependencies are being resolved")).to_be_visible()

    end_resolution(waiting, lock="requests==2.32.3\n")

    expect(page.get_by_text("Dependencies are resolved")).to_be_visible(timeout=15_000)
    page.get_by_text("requirements.txt").click()
    expect(page.get_by_role("region", name="requirements.txt")).to_have_text("requests==2.32.3")


@pytest.mark.browser
def test_the_editor_marks_the_line_whose_package_could_not_be_resolved(
    ada_page: Page, ada: Person, greet: Script
) -> None:
    page = ada_page
    end_resolution(
        deploy(ada, "import json\nimport nopackage\n\ndef main(): ...\n"), failure="nopackage was not found"
    )

    open_editor(page, ada.url("scripts/f/shared/greet/edit/"))

    expect(page.get_by_text("could not be resolved: see line 2")).to_be_visible()
    page.get_by_text("Log", exact=True).click()
    expect(page.get_by_role("region", name="Log of the resolution")).to_contain_text(
        "nopackage was not found"
    )
    page.get_by_role("button", name="Show line 2").click()
    expect(editor(page)).to_be_focused()


@pytest.mark.browser
def test_a_draft_is_kept_by_itself_restored_and_discarded(ada_page: Page, ada: Person, greet: Script) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/f/shared/greet/edit/"))

    write(page, "def main(): return 'unfinished'")
    expect(page.get_by_text("Draft saved")).to_be_visible()
    page.goto(ada.url())
    open_editor(page, ada.url("scripts/f/shared/greet/edit/"))
    expect(editor(page)).to_contain_text("unfinished")

    page.get_by_role("button", name="Discard draft").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Discard").click()
    expect(page.get_by_text("As deployed")).to_be_visible()
    expect(editor(page)).to_contain_text("hello")
    assert not Draft.objects.filter(workspace=ada.workspace).exists()


@pytest.mark.browser
def test_leaving_at_once_keeps_the_draft_too(ada_page: Page, ada: Person, greet: Script) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/f/shared/greet/edit/"))

    write(page, "def main(): return 'in a hurry'")
    page.goto(ada.url())

    draft = wait_until(lambda: Draft.objects.filter(workspace=ada.workspace).first(), "the draft")
    assert draft.value["content"] == "def main(): return 'in a hurry'"


@pytest.mark.browser
def test_a_new_script_is_written_and_deployed_by_keyboard(ada_page: Page, ada: Person) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/new/?language=python3"))

    page.get_by_label("Name in the path").fill("daily/report")
    editor(page).press("Control+A")
    page.keyboard.insert_text("def main(): return 1")
    page.keyboard.press("Control+s")
    expect(page.get_by_text("Draft saved")).to_be_visible()
    page.get_by_role("button", name="Deploy").press("Enter")
    page.get_by_label("What changed").fill("First version")
    page.keyboard.press("Enter")

    page.wait_for_url("**/scripts/u/ada/daily/report/")
    live = Script.objects.get(workspace=ada.workspace, archived=False)
    assert (live.path, live.content, live.deployment_message) == (
        "u/ada/daily/report",
        "def main(): return 1",
        "First version",
    )
    assert not Draft.objects.filter(workspace=ada.workspace).exists()


@pytest.mark.browser
def test_deploying_shows_the_difference_and_settings_first(
    ada_page: Page, ada: Person, greet: Script
) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/f/shared/greet/edit/"))

    write(page, CODE.replace("hello", "goodbye"))
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Timeout").fill("30")
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Deploy").click()
    dialog = page.get_by_role("dialog", name="Deploy")
    expect(dialog.get_by_text("+1 −1")).to_be_visible()
    expect(dialog.get_by_text("Settings changed: timeout.")).to_be_visible()
    dialog.get_by_role("button", name="Deploy").click()

    page.wait_for_url("**/scripts/f/shared/greet/")
    live = Script.objects.get(workspace=ada.workspace, archived=False)
    assert (live.timeout, "goodbye" in live.content) == (30, True)


@pytest.mark.browser
def test_a_dedicated_worker_is_asked_for_in_the_settings(ada_page: Page, ada: Person, greet: Script) -> None:
    ada_page.goto(ada.url(f"scripts/{greet.path}/edit/"))
    ada_page.get_by_role("button", name="Settings").click()
    ada_page.get_by_role("switch", name="Dedicated worker").check()
    ada_page.get_by_role("button", name="Done").click()
    ada_page.get_by_role("button", name="Deploy", exact=True).click()
    expect(ada_page.get_by_text("Settings changed: dedicated_worker.")).to_be_visible()
    ada_page.get_by_role("dialog").get_by_role("button", name="Deploy").click()
    ada_page.wait_for_url(ada.url(f"scripts/{greet.path}/"))

    assert Script.objects.get(path=greet.path, workspace=ada.workspace, archived=False).extra == {
        "dedicated_worker": True
    }


@pytest.mark.browser
def test_a_version_deployed_meanwhile_is_shown_and_can_be_replaced(
    ada_page: Page, ada: Person, greet: Script
) -> None:
    page = ada_page
    open_editor(page, ada.url("scripts/f/shared/greet/edit/"))
    write(page, CODE.replace("hello", "mine"))
    theirs = deploy(ada, CODE.replace("hello", "theirs"), deployment_message="Quick fix")

    page.get_by_role("button", name="Deploy").click()
    page.get_by_role("dialog", name="Deploy").get_by_role("button", name="Deploy").click()
    conflict = page.get_by_role("alertdialog", name="Changed since you opened it")
    expect(conflict.get_by_text("Quick fix")).to_be_visible()
    expect(conflict.get_by_role("textbox", name="Theirs")).to_contain_text("theirs")
    conflict.get_by_role("button", name="Deploy mine on top").click()

    page.wait_for_url("**/scripts/f/shared/greet/")
    live = Script.objects.get(workspace=ada.workspace, archived=False)
    assert "mine" in live.content
    assert live.parent_hashes[0] == theirs.hash


@pytest.mark.browser
def test_the_picker_inserts_the_call_of_the_language(ada_page: Page, ada: Person) -> None:
    variables.create_variable(ada.caller, path="u/ada/api_key", value="s", is_secret=True, description="Key")
    page = ada_page
    open_editor(page, ada.url("scripts/new/?language=python3"))
    write(page, "")

    page.get_by_role("button", name="Variable").click()
    page.get_by_role("button", name="u/ada/api_key").click()

    expect(editor(page)).to_contain_text("import wmill")
    expect(editor(page)).to_contain_text('wmill.get_variable("u/ada/api_key")')


@pytest.mark.browser
def test_operators_are_told_that_they_cannot_edit(
    page: Page, ada: Person, member: Callable[..., Person], sign_in: Callable[..., None], greet: Script
) -> None:
    sign_in(page, member("oscar", operator=True))

    page.goto(ada.url("scripts/f/shared/greet/edit/"))

    expect(page.get_by_text("developer role")).to_be_visible()
    expect(page.get_by_role("textbox", name="Code of the script")).to_have_count(0)


@pytest.mark.browser
def test_the_form_names_what_is_wrong_beside_the_field(ada_page: Page, ada: Person, greet: Script) -> None:
    page = ada_page
    page.goto(ada.url("scripts/f/shared/greet/run/"))

    page.get_by_role("button", name="Run greet").click()

    expect(page.get_by_label("name")).to_be_focused()
    expect(page.get_by_text("This is required")).to_be_visible()


@pytest.mark.browser
def test_the_address_fills_the_form_and_json_shows_the_same(
    ada_page: Page, ada: Person, greet: Script
) -> None:
    page = ada_page

    page.goto(ada.url("scripts/f/shared/greet/run/?name=Grace&times=3"))
    expect(page.get_by_label("name")).to_have_value("Grace")
    page.get_by_role("button", name="JSON").click()

    expect(page.get_by_label("Arguments as JSON")).to_have_value('{\n  "name": "Grace",\n  "times": 3\n}')


@pytest.mark.browser
def test_two_versions_are_chosen_compared_and_one_restored(
    ada_page: Page, ada: Person, greet: Script
) -> None:
    page = ada_page
    deploy(ada, CODE.replace("hello", "hi"))
    deploy(ada, CODE.replace("hello", "hey"))

    page.goto(ada.url("scripts/f/shared/greet/versions/"))
    page.get_by_role("radio", name=f"Compare to {greet.hash_hex[:8]}").check()
    expect(page.get_by_role("heading", name=f"to {greet.hash_hex[:8]}")).to_be_visible()
    assert f"to={greet.hash_hex}" in page.url
    page.get_by_role("button", name=f"Restore {greet.hash_hex[:8]}").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Restore").click()

    page.wait_for_url("**/scripts/f/shared/greet/")
    assert Script.objects.get(workspace=ada.workspace, archived=False).content == CODE


GZIPPED = """async () => {
  const gzip = async (url) => {
    const body = (await fetch(url)).body.pipeThrough(new CompressionStream("gzip"));
    return (await new Response(body).arrayBuffer()).byteLength;
  };
  const names = performance.getEntriesByType("resource").map((e) => e.name.split("?")[0]);
  const sizes = await Promise.all([...new Set(names)].filter((name) => name.endsWith(".js")).map(gzip));
  return sizes.reduce((a, b) => a + b, 0);
}"""
COLOURED = "document.getElementById('code').shadowRoot.querySelectorAll('.cm-line > span[class]').length"


@pytest.mark.browser
def test_every_language_is_highlighted_within_the_budget_of_the_page(ada_page: Page, ada: Person) -> None:
    page = ada_page
    sizes = {}
    for language in Language.values:
        open_editor(page, ada.url(f"scripts/new/?language={language}"))
        page.wait_for_function(f"() => {COLOURED} > 5")
        sizes[language] = page.evaluate(GZIPPED)

    assert sizes["python3"] < 230 * 1024
    assert max(sizes.values()) < 255 * 1024, sizes
