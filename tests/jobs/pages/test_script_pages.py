"""A script's pages: overview, run form, versions; archive and restore."""

from html import unescape

import pytest

from jobs import locks, queue, scripts
from jobs.models import Job, JobKind, JobStatus, Script
from tests.jobs.pages.conftest import CODE
from tests.jobs.pages.test_runs_page import queries_of

AT = "scripts/f/shared/greet/"
URL = f"/w/acme/{AT}"


def redeploy(alice, greet, content, **changes):
    draft = scripts.ScriptDraft(path=greet.path, content=content, language="python3", **changes)
    return scripts.deploy_script(alice, draft, parent_hash=greet.hash)


def test_the_overview_shows_description_inputs_runs_and_how_to_call_it(browser_of, alice, greet, finish):
    redeploy(alice, greet, CODE, summary="Greet", description="Says **hello**. <script>no</script>")
    finish()

    text = unescape(browser_of("alice").get(URL).content.decode())

    assert "Says <strong>hello</strong>." in text
    assert "<script>no" not in browser_of("alice").get(URL).content.decode()
    assert "/api/w/acme/jobs/run/p/f/shared/greet" in text
    assert '{"name": "text", "times": 1}' in text
    assert "alice, API" in text


def test_the_overview_costs_at_most_twelve_queries(browser_of, finish):
    for _ in range(6):
        finish()
    browser = browser_of("alice")

    assert queries_of(lambda: browser.get(URL)) <= 12


def test_who_may_only_read_a_script_is_offered_no_changes(browser_of, greet):
    for name in ("dave", "oscar"):
        text = browser_of(name).get(URL).content.decode()

        assert 'href="run/"' in text
        assert 'href="edit/"' not in text
        assert "/archive/" not in text and "/move/" not in text


def test_a_missing_script_suggests_similar_paths(browser_of, greet):
    answer = browser_of("alice").get("/w/acme/scripts/f/shared/great/")

    assert answer.status_code == 404
    assert "f/shared/greet" in answer.content.decode()


def test_archiving_takes_a_script_out_of_use_and_restoring_brings_it_back(browser_of, greet):
    browser = browser_of("alice")

    browser.post(f"/w/acme/archive/{AT}")
    archived = browser.get(URL).content.decode()
    form = browser.get(f"{URL}run/")
    browser.post(f"/w/acme/restore/{AT}", {"version": greet.hash_hex})

    assert "Bring it back" in archived
    assert form.status_code == 404
    assert scripts_live("f/shared/greet") == CODE


def scripts_live(path):
    return Script.objects.get(path=path, archived=False).content


def test_a_script_moves_with_its_versions_and_its_old_address_leads_to_it(browser_of, greet):
    browser = browser_of("alice")

    answer = browser.post(f"/w/acme/move/{AT}", {"owner": "u/alice", "name": "hail"})

    assert answer.headers["Location"] == "/w/acme/scripts/u/alice/hail/"
    assert browser.get(URL).headers["Location"] == "/w/acme/scripts/u/alice/hail/"
    moved = Script.objects.get(archived=False)
    assert (moved.path, moved.content, moved.parent_hashes) == ("u/alice/hail", CODE, [greet.hash])


def test_a_path_that_is_taken_comes_back_with_the_form(browser_of, alice, greet):
    draft = scripts.ScriptDraft(path="u/alice/hail", content=CODE, language="python3")
    scripts.deploy_script(alice, draft)

    answer = browser_of("alice").post(f"/w/acme/move/{AT}", {"owner": "u/alice", "name": "hail"})

    assert answer.status_code == 422
    assert "choose another path" in answer.content.decode()
    assert scripts_live(greet.path) == CODE


@pytest.mark.parametrize("deed", ["archive", "restore", "move"])
def test_readers_and_operators_cannot_change_a_script(browser_of, greet, deed):
    for name in ("dave", "oscar"):
        answer = browser_of(name).post(f"/w/acme/{deed}/{AT}", {"version": greet.hash_hex})

        assert answer.status_code == 403
    assert scripts_live(greet.path) == CODE


# --- the form ---------------------------------------------------------------------------------------------------------


def test_the_form_runs_the_script_and_goes_to_its_run(browser_of, greet):
    answer = browser_of("oscar").post(f"{URL}run/", {"args": '{"name": "ada", "times": 2}'})

    job = Job.objects.get()
    assert answer.headers["Location"] == f"/w/acme/runs/{job.id}/"
    assert (job.args, job.trigger_kind, job.created_by) == ({"name": "ada", "times": 2}, "ui", "oscar")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("{}", "This field is required."),
        ('{"name": "ada", "times": "two"}', "Should be a whole number, not text."),
        ('["ada"]', "The arguments should be an object"),
        ("{", "The body is not valid JSON"),
        ('{"name": "\\u0000"}', "NUL character"),
    ],
)
def test_wrong_inputs_come_back_with_the_form_and_nothing_runs(browser_of, greet, args, message):
    answer = browser_of("alice").post(f"{URL}run/", {"args": args})

    assert answer.status_code == 422
    assert message in unescape(answer.content.decode())
    assert not Job.objects.exists()


def test_a_run_can_be_scheduled_for_later_with_a_tag(browser_of, greet):
    data = {"args": '{"name": "ada"}', "later": "2100-01-31T08:30:00Z", "tag": "gpu"}

    answer = browser_of("alice").post(f"{URL}run/", data)

    assert answer.status_code == 302
    assert "in " in browser_of("alice").get(answer.headers["Location"]).content.decode()
    assert Job.objects.get().tag == "gpu"


@pytest.mark.parametrize("later", ["2001-01-31T08:30:00Z", "soon", "2100-13-31T08:30:00Z"])
def test_a_time_that_is_past_or_none_is_refused(browser_of, greet, later):
    answer = browser_of("alice").post(f"{URL}run/", {"args": '{"name": "ada"}', "later": later})

    assert answer.status_code == 422
    assert not Job.objects.exists()


def test_the_address_prefills_the_form(browser_of, greet, finish):
    done = finish(args={"name": "grace", "times": 3})
    browser = browser_of("alice")

    by_name = browser.get(f"{URL}run/", {"name": "5", "times": "5"}).context["args"]
    by_run = browser.get(f"{URL}run/", {"fill": str(done)}).context["args"]

    assert by_name == {"name": "5", "times": 5}
    assert by_run == {"name": "grace", "times": 3}
    assert browser.get(f"{URL}run/", {"fill": "x"}).status_code == 400


def test_recent_inputs_are_offered(browser_of, finish):
    finish(args={"name": "grace"})

    page = browser_of("alice").get(f"{URL}run/")

    assert "name: grace" in page.content.decode()
    assert page.context["recent_args"] == [{"name": "grace"}]


# --- versions ---------------------------------------------------------------------------------------------------------


def compared(page):
    return page.context["before"].key, page.context["after"].key


def test_any_two_versions_compare_with_code_and_settings(browser_of, alice, greet):
    second = redeploy(alice, greet, CODE.replace("hello", "hi"), summary="Greet somebody", timeout_s=60)

    page = browser_of("dave").get(f"{URL}versions/")

    assert compared(page) == (greet.hash_hex, second.hash_hex)
    assert [change["name"] for change in page.context["changes"]] == ["timeout"]
    assert "Restore" not in page.content.decode()
    other = browser_of("dave").get(f"{URL}versions/", {"from": second.hash_hex, "to": greet.hash_hex})
    assert compared(other) == (second.hash_hex, greet.hash_hex)


def test_restoring_deploys_the_old_code_as_a_new_version(browser_of, alice, greet):
    second = redeploy(alice, greet, CODE.replace("hello", "hi"))

    browser_of("alice").post(f"/w/acme/restore/{AT}", {"version": greet.hash_hex})

    live = Script.objects.get(path=greet.path, archived=False)
    assert live.content == CODE
    assert live.parent_hashes[0] == second.hash
    assert live.deployment_message == f"Restored {greet.hash_hex[:8]}"


@pytest.mark.parametrize("chosen", ["zzz", "0000000000000001", "' OR 1=1"])
def test_a_version_that_is_none_is_refused(browser_of, greet, chosen):
    assert browser_of("alice").get(f"{URL}versions/", {"to": chosen}).status_code in (400, 404)


# --- dependencies -----------------------------------------------------------------------------------------------------

NEEDY = "import nopackage\n\ndef main(): ...\n"


@pytest.fixture
def locking(alice, greet):
    """The newest version of greet waits for its dependencies; the first runs meanwhile."""
    draft = scripts.ScriptDraft(path=greet.path, content=NEEDY, language="python3")
    return scripts.deploy_script(alice, draft, auto_parent=True)


def fail(script, log="No solution found:\nnopackage was not found"):
    locks.record_failure(script.hash, job_id=script.lock_job, message=log)


def overview(browser, script, **headers):
    return browser.get(f"/w/acme/scripts/{script.path}/", headers=headers).content.decode()


def test_dependencies_being_resolved_are_told_with_the_job_and_what_runs_meanwhile(
    browser_of, greet, locking
):
    page = overview(browser_of("alice"), locking)

    assert "Dependencies are being resolved" in page
    assert f"/w/acme/runs/{locking.lock_job}/" in page
    assert greet.hash_hex[:8] in page.split("Until it is done, version")[1].split("runs.")[0]


def test_a_failed_resolution_shows_its_log_and_can_be_tried_again(browser_of, locking):
    fail(locking)
    alice = browser_of("alice")
    page = overview(alice, locking)
    assert "could not be resolved: see line 1" in page
    assert "nopackage was not found" in page

    answer = alice.post(f"/w/acme/relock/scripts/{locking.path}/", headers={"HX-Request": "true"})

    again = Script.objects.get(pk=locking.pk)
    assert "Dependencies are being resolved" in answer.content.decode()
    assert again.lock_job != locking.lock_job
    assert Job.objects.get(pk=again.lock_job).kind == JobKind.DEPENDENCIES


def test_the_part_that_the_page_asks_for_says_when_it_is_done(browser_of, alice, locking):
    author = locks.Author("alice", "u/alice", "alice@example.com")
    locks.record(locking.hash, job_id=locking.lock_job, lock="requests==2.32.3\n", author=author)
    (claim,) = queue.claim_jobs(worker="w1", tags=[locks.DEPENDENCY_TAG], limit=1)
    queue.complete_jobs([queue.Completion(claim.id, claim.attempt, JobStatus.SUCCESS, "{}")])

    part = overview(browser_of("alice"), locking, **{"HX-Request": "true"})

    assert "<html" not in part
    assert "Dependencies are resolved" in part
    assert "requests==2.32.3" in part
    assert "requirements.txt" in part


@pytest.mark.parametrize("name", ["dave", "oscar"])
def test_who_may_not_write_sees_the_log_and_cannot_try_again(browser_of, locking, name):
    fail(locking)
    browser = browser_of(name)

    page = overview(browser, locking)

    assert "nopackage was not found" in page
    assert "Try again" not in page
    assert browser.post(f"/w/acme/relock/scripts/{locking.path}/").status_code == 403


def test_the_list_marks_scripts_whose_dependencies_are_not_there(browser_of, alice, locking):
    assert "resolving dependencies" in browser_of("alice").get("/w/acme/").content.decode()
    fail(locking)

    assert "dependencies failed" in browser_of("alice").get("/w/acme/").content.decode()
