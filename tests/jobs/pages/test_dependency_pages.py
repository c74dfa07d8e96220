"""Pages of dependency files: the list, the editor, and who reads a file."""

from html import unescape

import pytest

from jobs import locks, queue, scripts, workspace_dependencies
from jobs.models import Job, QueuedJob, WorkspaceDependencies
from tests.jobs.pages.test_runs_page import queries_of
from workspaces import groups

LIST = "/w/acme/dependencies/"
FILE = f"{LIST}python3/ml/"
READER = "#requirements: ml\n\ndef main(): ...\n"


@pytest.fixture
def ml(alice):
    """The file ml of Python."""
    return workspace_dependencies.create(alice, language="python3", name="ml", content="numpy==1.26.4\n")


@pytest.fixture
def reader(alice, ml):
    """A script that reads it, locked."""
    draft = scripts.ScriptDraft(path="u/alice/train", content=READER, language="python3")
    script = scripts.deploy_script(alice, draft)
    [claim] = queue.claim_jobs(worker="w", tags=["dependency"])
    locks.record(script.hash, job_id=claim.id, lock="numpy==1.26.4", author=locks.Author.of(alice))
    queue.complete_job((claim.id, claim.attempt), status="success", result=None)
    return script


def text_of(answer):
    return unescape(answer.content.decode())


def test_the_list_names_files_with_how_many_use_them(browser_of, reader, alice):
    workspace_dependencies.create(alice, language="bun", name="", content="{}")

    text = text_of(browser_of("dave").get(LIST))

    assert 'href="/w/acme/dependencies/python3/ml/"' in text and "dependencies/ml.requirements.in" in text
    assert 'href="/w/acme/dependencies/bun/default/"' in text
    assert '1 <span class="dim">script or flow</span>' in text and "nothing yet" in text


def test_the_list_costs_the_same_for_many_files(browser_of, alice):
    browser = browser_of("alice")
    workspace_dependencies.create(alice, language="python3", name="f0", content="")
    one = queries_of(lambda: browser.get(LIST))
    for number in range(1, 8):
        workspace_dependencies.create(alice, language="python3", name=f"f{number}", content="")

    assert queries_of(lambda: browser.get(LIST)) == one <= 10


def test_an_empty_list_says_what_files_are_for(browser_of):
    assert "No dependency files yet" in text_of(browser_of("alice").get(LIST))


def test_only_those_who_may_are_offered_changes(browser_of, alice, reader):
    for name, is_offered in (("alice", True), ("dave", False)):
        browser = browser_of(name)
        assert (f'href="{LIST}new/"' in text_of(browser.get(LIST))) == is_offered
        page = text_of(browser.get(FILE))
        assert ('id="save"' in page) == ('action="delete/"' in page) == is_offered
        assert ("readonly" in page) != is_offered
        assert "numpy==1.26.4" in page

    assert browser_of("dave").post(FILE, {"content": "evil"}).status_code in (403, 422)
    assert browser_of("dave").post(f"{FILE}delete/").status_code == 403
    assert browser_of("oscar").get(LIST).status_code == 403
    assert workspace_dependencies.get_latest(alice, "python3", "ml").content == "numpy==1.26.4\n"


def test_deployers_are_offered_changes(browser_of, alice, ml):
    groups.add_to_group(alice, "wm_deployers", username="dave")

    assert browser_of("dave").post(FILE, {"content": "numpy==2"}).status_code == 302


def test_a_new_file_is_created(browser_of, alice):
    form = browser_of("alice").get(f"{LIST}new/?language=bun")
    assert '<option value="bun" selected>' in form.content.decode()

    answer = browser_of("alice").post(
        f"{LIST}new/",
        {"language": "bun", "name": "", "content": '{\r\n  "dependencies": {}\r\n}', "description": "All"},
    )

    assert answer.headers["Location"] == f"{LIST}bun/default/"
    file = workspace_dependencies.get_latest(alice, "bun", "")
    assert (file.content, file.description) == ('{\n  "dependencies": {}\n}', "All")


def test_a_new_file_does_not_replace_one_that_is_there(browser_of, ml):
    answer = browser_of("alice").post(f"{LIST}new/", {"language": "python3", "name": "ml", "content": "evil"})

    assert answer.status_code == 422
    assert "dependencies/ml.requirements.in exists already" in text_of(answer)
    assert WorkspaceDependencies.objects.get() == ml


@pytest.mark.parametrize(
    ("address", "data", "message"),
    [
        (FILE, {"content": "numpy\n>>> 1"}, "line 2"),
        (f"{LIST}new/", {"language": "bun", "content": "{,}"}, "line 1"),
        (
            f"{LIST}new/",
            {"language": "python3", "name": "Not valid", "content": ""},
            "Name 'Not valid' is not valid",
        ),
        (f"{LIST}new/", {"language": "perl", "content": ""}, "perl"),
    ],
)
def test_what_is_wrong_is_said_and_what_was_typed_is_kept(browser_of, ml, address, data, message):
    answer = browser_of("alice").post(address, data)

    assert answer.status_code == 422
    assert message in text_of(answer) and data["content"] in text_of(answer)


def test_a_wrong_line_is_marked_in_the_editor(browser_of, ml):
    text = text_of(browser_of("alice").post(FILE, {"content": "numpy\n>>> 1"}))

    assert 'error-line="2"' in text


def test_replacing_a_file_has_its_readers_resolved_again_and_the_page_shows_how_far_they_are(
    browser_of, reader
):
    browser = browser_of("alice")
    assert (
        'data-confirm="Replace dependencies/ml.requirements.in? The dependencies of 1 script or flow'
        in text_of(browser.get(FILE))
    )

    browser.post(FILE, {"content": "numpy==2.0.0\n"})

    [job] = Job.objects.filter(pk__in=QueuedJob.objects.values("pk"))
    assert job.runnable_path == "u/alice/train"
    page = text_of(browser.get(FILE))
    assert "the dependencies of 1 script or flow are being resolved again" in page
    assert f"/w/acme/runs/{job.pk}/" in page and "being resolved" in page
    part = text_of(browser.get(FILE, headers={"HX-Request": "true"}))
    assert "every 2s" in part and "<html" not in part

    [claim] = queue.claim_jobs(worker="w", tags=["dependency"])
    queue.complete_job((claim.id, claim.attempt), status="failure", result=None)

    part = text_of(browser.get(FILE, headers={"HX-Request": "true"}))
    assert "failed" in part and "every 2s" not in part


def test_readers_that_the_visitor_may_not_read_are_not_named(browser_of, reader):
    text = text_of(browser_of("dave").get(FILE))

    assert "u/alice/train" not in text and "1 that you may not read" in text


def test_a_file_is_deleted(browser_of, reader):
    browser = browser_of("alice")

    answer = browser.post(f"{FILE}delete/")

    assert answer.headers["Location"] == LIST
    assert not WorkspaceDependencies.objects.exists()
    said = "dependencies/ml.requirements.in deleted; the dependencies of 1 script or flow are being resolved"
    assert said in text_of(browser.get(LIST))


@pytest.mark.parametrize(
    "address", ["python3/nothing/", "perl/default/", "python3/Wrong/", "python3/nothing/delete/"]
)
def test_a_file_that_is_not_there_is_a_404(browser_of, address):
    browser = browser_of("alice")
    method = browser.post if "delete" in address else browser.get

    assert method(LIST + address).status_code == 404


def test_the_content_of_a_file_cannot_break_out_of_the_page(browser_of, alice):
    workspace_dependencies.create(
        alice,
        language="bun",
        name="",
        content='{"x": "</pre><script>alert(1)</script>"}',
        description="<b>x</b>",
    )

    for address in (LIST, f"{LIST}bun/default/"):
        html = browser_of("alice").get(address).content.decode()
        assert "<script>alert" not in html and "<b>x</b>" not in html
