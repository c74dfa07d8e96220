"""The editor: who may open it, what its script calls, drafts and conflicts."""

import json

import pytest
from django.test import Client

from jobs import drafts, scripts
from jobs.models import Draft, Job, Language, Script
from jobs.starters import starters
from tests.jobs.pages.conftest import CODE
from tests.tenancy import enter, token_for
from workspaces.errors import BadRequest, PermissionDenied
from workspaces.variables import create_variable

EDITOR = "/w/acme/scripts/editor/"
EDIT = "/w/acme/scripts/f/shared/greet/edit/"


@pytest.fixture
def call(browser_of):
    """What the editor's script does: POST JSON."""

    def call(word, body, who="alice"):
        text = body if isinstance(body, bytes) else json.dumps(body)
        return browser_of(who).post(f"{EDITOR}{word}/", text, content_type="application/json")

    return call


def value(content=CODE, **settings):
    return {"content": content, "language": "python3", **settings}


def test_operators_and_readers_are_told_which_role_they_lack(browser_of, greet):
    for name, right in (("oscar", "developer role"), ("dave", "right to write f/shared/greet")):
        answer = browser_of(name).get(EDIT)

        assert answer.status_code == 403
        assert right in answer.content.decode()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "def main("),
        ("?language=bash", 'echo "Hello $name'),
        ("?from=f/shared/greet", 'return f"hello {name}"'),
    ],
)
def test_a_new_script_starts_from_a_starter_or_a_copy(browser_of, greet, query, expected):
    page = browser_of("alice").get(f"/w/acme/scripts/new/{query}")

    assert expected in page.context["state"]["value"]["content"]
    assert page.context["state"]["isNew"]


def test_a_new_script_in_an_unknown_language_is_refused(browser_of):
    assert browser_of("alice").get("/w/acme/scripts/new/?language=cobol").status_code == 400


def test_a_new_script_begins_in_the_language_written_last_in_this_browser(browser_of):
    browser = browser_of("alice")
    browser.cookies["language"] = "go"

    assert browser.get("/w/acme/scripts/new/").context["state"]["value"]["language"] == "go"
    browser.cookies["language"] = "cobol"
    assert browser.get("/w/acme/scripts/new/").context["state"]["value"]["language"] == "python3"


@pytest.mark.parametrize("language", Language.values)
def test_every_language_with_a_parser_gets_its_form_while_typing(call, language):
    answer = call("signature", {"language": language, "content": starters()[language]}).json()

    assert (answer["problem"], answer["isSupported"]) == (None, True)
    assert answer["schema"]["order"]


def test_the_form_follows_the_code(call):
    answer = call("signature", value("def main(when: int, note: str = 'x'): pass")).json()

    assert answer["schema"]["order"] == ["when", "note"]
    assert answer["problem"] is None


def test_code_that_cannot_be_read_names_its_line(call):
    answer = call("signature", value("x = 1\ndef main(:\n")).json()

    assert answer["problem"]["line"] == 2


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"content": 5}', b'{"content": "\\u0000"}', b"\xff"])
def test_bodies_that_are_no_question_are_refused_in_a_sentence(call, body):
    answer = call("signature", body)

    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.content.decode().endswith(".")


@pytest.mark.parametrize("word", ["signature", "draft", "discard", "test", "deploy"])
def test_nothing_of_the_editor_answers_operators_or_strangers(call, client, word):
    assert call(word, {}, who="oscar").status_code == 403
    assert client.post(f"{EDITOR}{word}/", "{}", content_type="application/json").status_code == 401


def test_a_test_runs_the_code_as_it_stands(call):
    answer = call(
        "test", {**value("def main(): return 2"), "path": "u/alice/new", "args": {"n": 1}, "tag": "gpu"}
    )

    job = Job.objects.get(pk=answer.json()["id"])
    assert (job.kind, job.raw_code, job.args, job.tag) == ("preview", "def main(): return 2", {"n": 1}, "gpu")
    assert job.trigger_kind == "ui"


def test_tests_are_listed_by_path_for_who_ran_them(call, browser_of, dave):
    job_id = call("test", {**value(), "path": "u/alice/new"}).json()["id"]

    assert job_id in browser_of("alice").get(f"{EDITOR}tests/", {"path": "u/alice/new"}).content.decode()
    assert job_id not in browser_of("dave").get(f"{EDITOR}tests/", {"path": "u/alice/new"}).content.decode()


def test_the_picker_lists_paths_and_never_a_value(alice, browser_of):
    create_variable(alice, path="u/alice/key", value="hunter2", is_secret=True, description="API key")

    text = browser_of("alice").get(f"{EDITOR}picks/", {"kind": "variable"}).content.decode()

    assert json.loads(text)["items"] == [{"path": "u/alice/key", "note": "API key", "type": "secret"}]
    assert json.loads(browser_of("dave").get(f"{EDITOR}picks/", {"kind": "variable"}).content)["items"] == []


def test_completion_offers_what_the_caller_may_read(alice, browser_of, greet):
    create_variable(alice, path="u/alice/key", value="hunter2", is_secret=True, description="API key")

    def found(name, **query):
        return browser_of(name).get(f"{EDITOR}paths/", query).json()

    assert found("alice", prefix="u/", kind="variable") == {
        "items": [{"kind": "variable", "path": "u/alice/key", "type": "secret", "note": "API key"}],
        "isWhole": True,
    }
    assert [item["path"] for item in found("dave", prefix="")["items"]] == ["f/shared/greet"]
    assert found("dave", prefix="", kind=["script"], language=["bash"])["items"] == []


@pytest.mark.parametrize(
    ("name", "query", "status"), [("oscar", {}, 403), ("alice", {"kind": "secret"}, 400)]
)
def test_completion_answers_no_operators_and_no_nonsense(browser_of, name, query, status):
    assert browser_of(name).get(f"{EDITOR}paths/", query).status_code == status


def test_the_editor_shows_why_the_deployed_dependencies_failed_and_the_line(browser_of, alice, greet):
    code = "import json\nimport nopackage\n\ndef main(): ...\n"
    draft = scripts.ScriptDraft(path=greet.path, content=code, language="python3")
    script = scripts.deploy_script(alice, draft, auto_parent=True)
    Script.objects.filter(pk=script.pk).update(
        lock=None, lock_error_logs="No such thing:\nnopackage was not found"
    )

    page = browser_of("alice").get(EDIT)

    assert page.context["state"]["lockProblem"] == {"line": 2, "message": "nopackage was not found"}
    assert "could not be resolved: see line 2" in page.content.decode()


def test_deploying_says_that_dependencies_are_being_resolved(call, browser_of, greet):
    call("deploy", {"path": "u/alice/web", "value": value("import requests\n\ndef main(): ...\n")})

    page = browser_of("alice").get("/w/acme/scripts/u/alice/web/")

    assert "Dependencies are being resolved" in page.content.decode()


# --- drafts -----------------------------------------------------------------------------------------------------------


def test_a_draft_is_opened_again_and_only_by_its_author(call, browser_of, greet):
    call("draft", {"path": greet.path, "base": greet.hash_hex, "value": value("def main(): 'mine'")})

    mine = browser_of("alice").get(EDIT)

    assert mine.context["state"]["value"]["content"] == "def main(): 'mine'"
    assert "Discard draft" in mine.content.decode()
    assert "mine" not in json.dumps(browser_of("root").get(EDIT).context["state"]["value"])


def test_a_draft_of_a_new_script_moves_with_its_path(call, browser_of):
    call("draft", {"path": "u/alice/one", "value": value()})
    call("draft", {"path": "u/alice/two", "was": "u/alice/one", "value": value()})

    assert list(Draft.objects.values_list("path", flat=True)) == ["u/alice/two"]
    assert browser_of("alice").get("/w/acme/scripts/u/alice/two/edit/").context["state"]["isNew"]
    assert browser_of("alice").get("/w/acme/scripts/u/alice/one/edit/").status_code == 404


def test_discarding_a_draft_brings_the_deployed_code_back(call, browser_of, greet):
    call("draft", {"path": greet.path, "base": greet.hash_hex, "value": value("def main(): 'mine'")})

    call("discard", {"path": greet.path})

    assert browser_of("alice").get(EDIT).context["state"]["value"]["content"] == CODE


def test_drafts_are_checked(alice, acme):
    with pytest.raises(BadRequest, match="path"):
        drafts.save_draft(alice, "nowhere", {}, base_hash=None)
    with pytest.raises(BadRequest, match="larger than"):
        drafts.save_draft(alice, "u/alice/big", {"content": "x" * drafts.MAX_SIZE}, base_hash=None)


def test_operators_keep_no_drafts(acme):
    oscar = enter(acme, "oscar@example.com")

    with pytest.raises(PermissionDenied):
        drafts.save_draft(oscar, "u/oscar/one", {}, base_hash=None)


# --- deploying --------------------------------------------------------------------------------------------------------


def test_deploying_makes_a_version_and_forgets_the_draft(call, greet):
    call("draft", {"path": greet.path, "base": greet.hash_hex, "value": value()})
    new = value("def main(): return 2", summary="Two", timeout=30, labels=["a"], envs=["A=1"])

    answer = call(
        "deploy", {"path": greet.path, "base": greet.hash_hex, "value": new, "message": "Return two"}
    )

    live = Script.objects.get(path=greet.path, archived=False)
    assert answer.json()["url"] == "/w/acme/scripts/f/shared/greet/"
    assert (live.content, live.summary, live.timeout, live.deployment_message) == (
        "def main(): return 2",
        "Two",
        30,
        "Return two",
    )
    assert live.parent_hashes == [greet.hash]
    assert not Draft.objects.exists()


def test_settings_that_the_editor_does_not_show_survive_it(call, alice):
    first = scripts.deploy_script(
        alice,
        scripts.ScriptDraft(
            path="u/alice/kept", content=CODE, language="python3", extra={"concurrent_limit": 2}
        ),
    )

    call("deploy", {"path": "u/alice/kept", "base": first.hash_hex, "value": value("def main(): 1")})

    assert Script.objects.get(path="u/alice/kept", archived=False).extra == {"concurrent_limit": 2}


def test_a_script_gets_a_concurrency_limit_and_loses_it_again(call, alice):
    body = {"path": "u/alice/limited", "base": None}
    limit = {"concurrent_limit": 2, "concurrency_time_window_s": 60, "concurrency_key": " gate-$args[x] "}
    call("deploy", {**body, "value": {**value("def main(): 1"), **limit}})
    first = Script.objects.get(path="u/alice/limited", archived=False)
    none = {**limit, "concurrent_limit": None}
    call("deploy", {**body, "base": first.hash_hex, "value": {**value("def main(): 2"), **none}})
    second = Script.objects.get(path="u/alice/limited", archived=False)

    assert (first.extra, second.extra) == ({**limit, "concurrency_key": "gate-$args[x]"}, {})


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"concurrent_limit": 0}, b"concurrent_limit is 0; expected 1 or more"),
        ({"concurrent_limit": "two"}, b"concurrent_limit should be a whole number"),
        ({"concurrent_limit": 1, "concurrency_time_window_s": -1}, b"expected 0 or more"),
    ],
)
def test_a_concurrency_limit_that_makes_no_sense_is_refused(call, wish, says):
    answer = call("deploy", {"path": "u/alice/a", "base": None, "value": {**value("def main(): 1"), **wish}})

    assert answer.status_code == 400 and says in answer.content
    assert not Script.objects.filter(path="u/alice/a").exists()


def test_a_script_gets_a_dedicated_worker_and_loses_it_again(call, alice):
    body = {"path": "u/alice/warm", "base": None}
    call("deploy", {**body, "value": {**value("def main(): 1"), "dedicated_worker": True}})
    first = Script.objects.get(path="u/alice/warm", archived=False)
    call("deploy", {**body, "base": first.hash_hex, "value": value("def main(): 2")})
    second = Script.objects.get(path="u/alice/warm", archived=False)

    assert (first.extra, second.extra) == ({"dedicated_worker": True}, {})


@pytest.mark.parametrize(("language", "wish"), [("bash", True), ("python3", "yes")])
def test_a_dedicated_worker_that_cannot_be_is_refused(call, language, wish):
    code = {**value("echo 1"), "language": language, "dedicated_worker": wish}

    answer = call("deploy", {"path": "u/alice/cold", "base": None, "value": code})

    assert answer.status_code == 400 and b"dedicated_worker" in answer.content
    assert not Script.objects.filter(path="u/alice/cold").exists()


def test_a_version_deployed_meanwhile_is_shown_before_it_is_replaced(call, alice, greet):
    theirs = scripts.deploy_script(
        alice,
        scripts.ScriptDraft(path=greet.path, content="def main(): 'theirs'", language="python3"),
        parent_hash=greet.hash,
    )
    mine = {"path": greet.path, "base": greet.hash_hex, "value": value("def main(): 'mine'")}

    refused = call("deploy", mine)
    accepted = call("deploy", mine | {"base": theirs.hash_hex})

    assert refused.status_code == 409
    assert refused.json()["content"] == "def main(): 'theirs'"
    assert refused.json()["head"]["by"] == "alice"
    assert accepted.status_code == 200
    assert Script.objects.get(path=greet.path, archived=False).parent_hashes[0] == theirs.hash


def test_a_path_that_somebody_took_meanwhile_is_a_conflict_too(call, greet):
    assert call("deploy", {"path": greet.path, "value": value()}).status_code == 409


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"path": "x", "value": {"content": "", "language": "python3"}}, "must start with u/"),
        ({"path": "u/alice/a", "value": {"content": "", "language": "cobol"}}, "cobol"),
        (
            {"path": "u/alice/a", "value": {"content": "", "language": "python3", "timeout": "9"}},
            "whole number",
        ),
        (
            {"path": "u/alice/a", "value": {"content": "", "language": "python3", "envs": ["oops"]}},
            "NAME=value",
        ),
        ({"path": "u/alice/a", "base": "zz", "value": {}}, "hash"),
        ({"path": "f/nowhere/a", "value": {"content": "", "language": "python3"}}, "nowhere does not exist"),
    ],
)
def test_what_cannot_be_deployed_is_refused_in_a_sentence(call, body, message):
    answer = call("deploy", body)

    assert answer.status_code == 400
    assert message in answer.content.decode()
    assert not Script.objects.exists()


def test_another_site_cannot_use_the_editor_in_somebodys_name(acme):
    browser = Client(enforce_csrf_checks=True)
    browser.cookies["token"] = token_for("alice@example.com")

    for word in ("draft", "discard", "test", "deploy"):
        assert browser.post(f"{EDITOR}{word}/", "{}", content_type="application/json").status_code == 403


def test_nobody_deploys_where_they_may_not_write(call, greet):
    answer = call(
        "deploy", {"path": greet.path, "base": greet.hash_hex, "value": value("def main(): 1")}, who="dave"
    )

    assert answer.status_code == 403
