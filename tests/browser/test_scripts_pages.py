"""Writing scripts in the browser: the form follows the code, drafts, deploying, conflicts, the run form, versions."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from jobs import drafts, scripts
from jobs.models import Draft, Script
from tests.browser.site import Person, wait_until
from workspaces import folders, variables

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
    draft = scripts.ScriptDraft(path=path, content=content, language="python3", summary="Greet somebody")
    return scripts.deploy_script(person.caller, draft, auto_parent=True, **given)  # type: ignore[arg-type]


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


def open_editor(page: Page, url: str) -> None:
    page.goto(url)
    editor(page).wait_for()


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_pages_of_scripts_are_accessible(
    ada_page: Page, ada: Person, greet: Script, assert_accessible: Callable[[], None], theme: str, width: str
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

    page.get_by_label("Language").select_option("Bash")
    expect(editor(page)).to_contain_text('echo "Hello $name"')
    write(page, 'city="$1"')
    page.get_by_label("Language").select_option("Python")

    expect(editor(page)).to_contain_text('city="$1"')


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
