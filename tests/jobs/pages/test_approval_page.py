"""The page of an approval link, and the answers from the page of a run."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from jobs.flows import approvals
from jobs.flows.approvals import Link
from jobs.models import FlowVersion, Job, QueuedJob
from jobs.views.schema_fields import fields_of
from tests.jobs.flows.suspended import SCHEMA, Waiting, make_waiting
from tests.tenancy import join, make_account, token_for
from workspaces import groups, variables
from workspaces.access import Caller
from workspaces.models import Workspace

MEMBERS = {"user_auth_required": True, "user_groups_required": [], "self_approval_disabled": False}
FORM = {"resume_form": {"schema": SCHEMA}}


def url(run: Waiting, resume_id: int = 1, *, approver: str | None = None, flow_level: bool = False) -> str:
    link = Link(
        workspace_id="acme",
        job_id=run.id if flow_level else run.step,
        resume_id=resume_id,
        approver=approver,
    )
    page = approvals.urls(link).approval_page
    return page[page.index("/approve/") :]


def text_of(answer: Any) -> str:
    """What the page says, without markup."""
    main = answer.content.decode().split("<main", 1)[1].split("</main>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", main).split())


@pytest.fixture
def run(acme: Workspace) -> Waiting:
    return make_waiting("acme")


@pytest.fixture
def anybody() -> Client:
    """A browser that nobody is signed in at."""
    return Client(raise_request_exception=False)


# --- looking ---


def test_signed_out_people_see_what_waits(acme: Workspace, anybody: Client) -> None:
    run = make_waiting(
        "acme",
        suspend={"required_events": 2},
        args={"customer": "ada@example.com", "amount": 42, "key": "hunter2", "long": "x" * 1000},
        result={"description": "Please **check** <script>alert(1)</script>"},
    )
    version = Job.objects.get(pk=run.id).runnable_id
    FlowVersion.objects.filter(pk=version).update(
        schema={
            "type": "object",
            "order": ["customer", "amount"],
            "properties": {"key": {"type": "string", "password": True}},
        }
    )
    approvals.answer_link(
        Link(workspace_id="acme", job_id=run.step, resume_id=9, approver="zoe"),
        caller=None,
        approved=True,
        value={"comment": "Looks <right>", "pin": "4321"},
    )

    answer = anybody.get(url(run, approver="bob"))

    assert answer.status_code == 200
    page = text_of(answer)
    assert "Refund a customer" in page and "Ask finance" in page and "started by alice" in page
    assert "customer ada@example.com amount 42" in page
    assert "hunter2" not in page and "x" * 301 not in page
    assert "1 of 2 approvals needed" in page and "Approved by zoe Looks &lt;right&gt;" in page
    assert "4321" not in page
    assert "You answer as bob." in page
    assert b"<strong>check</strong>" in answer.content and b"<script>alert" not in answer.content
    assert answer["Cache-Control"] == "private, no-store"
    assert answer["X-Robots-Tag"] == "noindex"
    assert len(run.events) == 1, "looking is not answering"


def test_a_description_that_is_no_text_is_shown_as_json(acme: Workspace, anybody: Client) -> None:
    run = make_waiting("acme", result={"description": {"total": 3, "html": "<b>x</b>"}})

    assert b"&quot;html&quot;: &quot;&lt;b&gt;x&lt;/b&gt;&quot;" in anybody.get(url(run)).content


def test_a_wrong_link_says_nothing_of_the_run(run: Waiting, anybody: Client) -> None:
    good = url(run, approver="bob")

    for wrong in (
        good.replace("approver=bob", "approver=eve"),
        good.split("?")[0],
        good.replace("/1/", "/2/"),
        good.replace("/1/", "/x/"),
        good.replace("/acme/", "/nowhere/"),
        good.replace(str(run.step), str(run.id)),
    ):
        for method in (anybody.get, anybody.post):
            answer = method(wrong)
            assert answer.status_code == 403
            assert "This link does not work" in text_of(answer)
            assert "Refund" not in text_of(answer) and "alice" not in text_of(answer)
    assert run.events == []


def test_a_link_of_a_job_outside_of_flows_says_so(
    acme: Workspace, anybody: Client, make_job: Callable[..., Any]
) -> None:
    job_id = make_job(workspace_id="acme")
    page = approvals.urls(Link(workspace_id="acme", job_id=job_id, resume_id=1)).approval_page

    answer = anybody.get(page[page.index("/approve/") :])

    assert answer.status_code == 400
    assert "is not part of a flow" in text_of(answer)


# --- answering ---


def test_approving_shows_that_it_is_done(run: Waiting, anybody: Client) -> None:
    address = url(run, approver="bob")

    answer = anybody.post(address, {"action": "approve", "comment": " fine\r\nby me "}, follow=True)

    assert answer.redirect_chain == [(address, 302)]
    assert "Approved Your answer was recorded" in text_of(answer)
    assert b"<form" not in answer.content.split(b"<main")[1]
    assert run.events == [("bob", True, {"comment": "fine\nby me"})] and run.is_awake
    again = anybody.post(address, {"action": "deny"})
    assert again.status_code == 422 and len(run.events) == 1


def test_denying_takes_a_reason_and_no_form(acme: Workspace, anybody: Client) -> None:
    run = make_waiting("acme", suspend=FORM)

    answer = anybody.post(url(run), {"action": "deny", "comment": "too much"}, follow=True)

    assert "Denied Your answer was recorded" in text_of(answer)
    assert run.events == [(None, False, {"reason": "too much"})] and run.is_awake


def test_hide_cancel_hides_deny(acme: Workspace, anybody: Client) -> None:
    shown, hidden = make_waiting("acme"), make_waiting("acme", suspend={"hide_cancel": True})

    assert b'value="deny"' in anybody.get(url(shown)).content
    assert b'value="deny"' not in anybody.get(url(hidden)).content


@pytest.mark.parametrize("data", [{}, {"action": "x"}, {"action": "approve", "comment": "x" * 2001}])
def test_an_answer_that_makes_no_sense_is_refused(
    run: Waiting, anybody: Client, data: dict[str, str]
) -> None:
    assert anybody.post(url(run), data).status_code == 422
    assert run.events == []


def test_a_form_with_a_nul_is_refused(run: Waiting, anybody: Client) -> None:
    assert anybody.post(url(run), {"action": "approve", "comment": "a\x00b"}).status_code == 422
    assert run.events == []


def test_forms_need_the_token_against_forgery(run: Waiting) -> None:
    assert Client(enforce_csrf_checks=True).post(url(run), {"action": "approve"}).status_code == 403
    assert run.events == []


# --- the form ---

EVERY_KIND = {
    "type": "object",
    "order": ["note", "amount"],
    "required": ["amount", "size"],
    "properties": {
        "amount": {"type": "number", "minimum": 1, "description": "In euro", "title": "Amount"},
        "count": {"type": "integer", "default": 2},
        "note": {"type": "string", "format": "textarea"},
        "size": {"type": "string", "enum": ["small", "large"], "enumLabels": {"small": "Small one"}},
        "level": {"type": "integer", "enum": [1, 2]},
        "urgent": {"type": "boolean", "default": True},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "mail": {"type": "string", "format": "email"},
        "pin": {"type": "string", "password": True},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
        "lines": {"type": "array", "items": {"type": "string"}},
        "data": {"type": "object", "default": {"a": 1}},
        "file": {"type": "string", "contentEncoding": "base64"},
        "maybe": {"type": ["string", "null"]},
        "odd": "not a schema",
    },
}


def posted(**fields: Any) -> dict[str, Any]:
    return {"action": "approve", **{f"arg:{name}": value for name, value in fields.items()}}


def test_every_kind_of_field_becomes_its_value(acme: Workspace, anybody: Client) -> None:
    run = make_waiting("acme", suspend={"resume_form": {"schema": EVERY_KIND}})
    form = posted(
        amount="3.5",
        count="7",
        note="one\r\ntwo",
        size="1",
        level="0",
        day="2030-01-31",
        at="2030-01-31T08:30",
        mail="a@b.c",
        pin="1234",
        tags=["0", "2"],
        lines="x\r\n\r\n y ",
        data='{"b": [1]}',
        maybe="",
        odd="[true]",
    )

    answer = anybody.post(url(run), form | {"arg:file": SimpleUploadedFile("f.bin", b"\x00\x01")})

    assert answer.status_code == 302, text_of(answer)
    ((_, _, value),) = run.events
    assert value == {
        "note": "one\ntwo",
        "amount": 3.5,
        "count": 7,
        "size": "large",
        "level": 1,
        "urgent": False,
        "day": "2030-01-31",
        "at": "2030-01-31T08:30Z",
        "mail": "a@b.c",
        "pin": "1234",
        "tags": ["a", "c"],
        "lines": ["x", "y"],
        "data": {"b": [1]},
        "file": "AAE=",
        "odd": [True],
    }


def test_fields_are_drawn_in_their_order_with_labels_defaults_and_help() -> None:
    fields = {field.name: field for field in fields_of(EVERY_KIND)}

    assert list(fields)[:3] == ["note", "amount", "count"]
    assert {name: field.kind for name, field in fields.items()} == {
        "note": "textarea",
        "amount": "number",
        "count": "number",
        "size": "select",
        "level": "select",
        "urgent": "checkbox",
        "day": "date",
        "at": "datetime-local",
        "mail": "email",
        "pin": "password",
        "tags": "choices",
        "lines": "list",
        "data": "json",
        "file": "file",
        "maybe": "text",
        "odd": "json",
    }
    amount = fields["amount"]
    assert (amount.label, amount.help, amount.minimum, amount.required) == ("Amount", "In euro", "1", True)
    assert fields["count"].value == "2" and fields["urgent"].checked
    assert json.loads(fields["data"].value) == {"a": 1}
    assert [option.label for option in fields["size"].options] == ["Small one", "large"]


def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_stays(
    acme: Workspace, anybody: Client
) -> None:
    run = make_waiting("acme", suspend={"resume_form": {"schema": EVERY_KIND}})
    form = posted(amount="0.5", count="many", note="kept", data="{", mail="nobody", tags=["1", "77", "x"])

    answer = anybody.post(url(run), form)

    assert answer.status_code == 422
    page = answer.content.decode()
    for id, words in (
        ("field-1", "Should be at least 1."),
        ("field-2", "Should be a number."),
        ("field-3", "This field is required."),
        ("field-8", "Should be an e-mail address."),
        ("field-12", "Should be JSON"),
    ):
        assert re.search(rf'<p class="err" id="{id}-error">{re.escape(words)}', page), (id, words)
        assert f'{id}-error"' in page
    assert ">\nkept</textarea>" in page and 'value="many"' in page
    assert re.search(r'value="1" checked>b', page)
    assert run.events == []


def test_choices_and_defaults_may_come_from_the_step(acme: Workspace, anybody: Client) -> None:
    run = make_waiting(
        "acme", suspend=FORM, result={"enums": {"note": ["now", "later"]}, "default_args": {"amount": 12}}
    )

    page = anybody.get(url(run)).content.decode()

    assert 'value="12"' in page and ">later</option>" in page
    assert anybody.post(url(run), posted(amount="12", **{"note": "1"})).status_code == 302
    assert run.events == [(None, True, {"amount": 12, "note": "later"})]


def test_a_form_that_has_a_comment_of_its_own_is_asked_for_one_only(acme: Workspace, anybody: Client) -> None:
    form = {"schema": {"type": "object", "properties": {"comment": {"type": "string"}}}}
    run = make_waiting("acme", suspend={"resume_form": form, "required_events": 2})

    assert "Reason, when you deny" in text_of(anybody.get(url(run)))
    anybody.post(url(run), posted(comment="mine") | {"comment": "not this"})

    assert run.events == [(None, True, {"comment": "mine"})]
    hidden = make_waiting("acme", suspend={"resume_form": form, "hide_cancel": True})
    assert b'name="comment"' not in anybody.get(url(hidden)).content


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"properties": []},
        {"properties": {"a": 3}, "required": 5, "order": "x"},
        {"properties": {"a": {"type": "string", "enum": [None, {}, []], "enumLabels": 3, "default": {}}}},
        {"properties": {"a": {"type": ["null"], "minRows": "x", "format": []}}},
        {"properties": {"a": {"type": "number", "minimum": "x", "default": "y", "maximum": True}}},
        {"properties": {"<b>'\"&": {"type": "string", "title": 5, "description": ["x"]}}},
    ],
)
def test_a_hostile_schema_still_makes_a_page(acme: Workspace, anybody: Client, schema: Any) -> None:
    run = make_waiting("acme")
    version = FlowVersion.objects.get(pk=Job.objects.get(pk=run.id).runnable_id)
    version.value["modules"][0]["suspend"]["resume_form"] = {"schema": schema}
    FlowVersion.objects.filter(pk=version.pk).update(value=version.value)

    assert anybody.get(url(run)).status_code == 200
    assert b"<b>'" not in anybody.get(url(run)).content
    assert anybody.post(url(run), posted(a="x")).status_code in (302, 422)


def test_references_need_somebody_who_may_read_them(
    acme: Workspace, alice: Caller, anybody: Client, browser_of: Callable[[str], Client]
) -> None:
    variables.create_variable(alice, path="u/alice/key", value="sk", is_secret=True)
    run = make_waiting("acme", suspend=FORM)
    form = posted(amount="1", note="$var:u/alice/key")

    for client in (anybody, browser_of("dave")):
        answer = client.post(url(run), form)
        assert answer.status_code == 422
        assert b"sk" not in re.findall(rb'role="alert">.*?</div></div>', answer.content)[0]
    assert run.events == []


# --- when nothing waits ---


def test_each_end_of_an_approval_is_said(acme: Workspace, anybody: Client) -> None:
    def seen(end: Callable[[Waiting], Any], resume_id: int = 1) -> str:
        run = make_waiting("acme", suspend={"required_events": 1}, args={"who": "lovelace"})
        end(run)
        answer = anybody.get(url(run, resume_id))
        assert answer.status_code == 200 and b"<form" not in answer.content.split(b"<main")[1]
        refused = anybody.post(url(run, resume_id), {"action": "approve"})
        assert refused.status_code == 422
        return text_of(answer)

    def answered(run: Waiting, *, approved: bool) -> None:
        link = Link(workspace_id="acme", job_id=run.step, resume_id=5, approver="zoe")
        approvals.answer_link(link, caller=None, approved=approved, value={})
        run.go_on() if approved else run.end(status="failure")

    assert "Too late" in seen(lambda run: run.overdue())
    assert "Too late" in seen(
        lambda run: run.end(status="failure", result={"error": {"name": "SuspendedTimedOut"}})
    )
    assert "This was denied By zoe" in seen(lambda run: answered(run, approved=False))
    assert "Approved already" in seen(lambda run: answered(run, approved=True))
    assert "The run has ended" in seen(lambda run: run.end(status="canceled"))
    assert "No answer needed" in seen(lambda run: run.go_on())
    assert "Denied Your answer was recorded" in seen(lambda run: answered(run, approved=False), 5)


def test_an_early_answer_is_taken_and_kept(acme: Workspace, anybody: Client) -> None:
    run = make_waiting("acme", reached=False)

    assert "has not come to this approval yet" in text_of(anybody.get(url(run)))
    anybody.post(url(run), {"action": "approve"})

    assert run.events == [(None, True, {})]


# --- who answers ---


def test_an_approval_for_members_leads_to_the_sign_in_page_and_shows_nothing_before(
    acme: Workspace, anybody: Client
) -> None:
    run = make_waiting("acme", conditions=MEMBERS, args={"who": "lovelace"}, suspend=FORM)

    answer = anybody.get(url(run, approver="bob"))

    assert "Sign in to answer" in text_of(answer)
    assert "lovelace" not in text_of(answer) and b"arg:amount" not in answer.content
    (target,) = re.findall(r'href="(/login/\?next=[^"]+)"', answer.content.decode())
    assert Client().get(target.replace("&amp;", "&")).status_code == 200
    assert "%3Fapprover%3Dbob" in target
    assert anybody.post(url(run, approver="bob"), posted(amount="1")).status_code == 422
    assert run.events == []


def test_before_and_after_it_waits_an_approval_for_members_shows_strangers_nothing_either(
    acme: Workspace, anybody: Client, browser_of: Callable[[str], Client]
) -> None:
    suspend = {"user_auth_required": True}
    early = make_waiting("acme", suspend=suspend, reached=False, args={"who": "lovelace"})
    over = make_waiting("acme", suspend=suspend, conditions=MEMBERS, args={"who": "lovelace"})
    over.end()

    for run in (early, over):
        assert "lovelace" not in text_of(anybody.get(url(run)))
        assert "lovelace" in text_of(browser_of("oscar").get(url(run)))
    assert "Not yet" in text_of(anybody.get(url(early)))


def test_somebody_from_elsewhere_is_told_who_they_are(acme: Workspace) -> None:
    make_account("eve@example.com")
    client = Client()
    client.cookies["token"] = token_for("eve@example.com")
    run = make_waiting("acme", conditions=MEMBERS, args={"who": "lovelace"})

    page = text_of(client.get(url(run)))

    assert "signed in as eve@example.com, who is not a member" in page and "lovelace" not in page


def test_a_member_answers_under_their_own_name(acme: Workspace, browser_of: Callable[[str], Client]) -> None:
    run = make_waiting("acme", conditions=MEMBERS)

    answer = browser_of("oscar").post(url(run), {"action": "approve"}, follow=True)

    assert "Approved Your answer was recorded" in text_of(answer)
    assert run.events == [("oscar", True, {})]


def test_others_than_the_group_and_the_runner_are_told_why_not(
    acme: Workspace, alice: Caller, browser_of: Callable[[str], Client]
) -> None:
    join(acme, "bob@example.com")
    groups.create_group(alice, name="finance")
    groups.add_to_group(alice, "finance", username="bob")
    groups.add_to_group(alice, "finance", username="oscar")
    conditions = MEMBERS | {"user_groups_required": ["finance"], "self_approval_disabled": True}
    run = make_waiting("acme", conditions=conditions, created_by="bob", args={"who": "lovelace"})

    outside = text_of(browser_of("dave").get(url(run)))
    runner = text_of(browser_of("bob").get(url(run)))

    assert "for members of finance" in outside and "lovelace" not in outside
    assert "You started this run, and somebody else must approve it" in runner
    assert browser_of("dave").post(url(run), {"action": "approve"}).status_code == 422
    assert browser_of("bob").post(url(run), {"action": "deny"}).status_code == 422
    assert run.events == []
    assert browser_of("oscar").post(url(run), {"action": "approve"}).status_code == 302


def test_who_may_open_the_run_finds_the_way_to_it(
    acme: Workspace, anybody: Client, browser_of: Callable[[str], Client]
) -> None:
    run = make_waiting("acme")

    assert f"/w/acme/runs/{run.id}/".encode() in browser_of("alice").get(url(run)).content
    for client in (anybody, browser_of("dave")):
        assert f"/w/acme/runs/{run.id}/".encode() not in client.get(url(run)).content


# --- from the page of a run ---


def test_the_owner_answers_from_the_page_of_the_run(
    acme: Workspace, browser_of: Callable[[str], Client]
) -> None:
    run = make_waiting("acme", suspend=FORM)
    address = f"/w/acme/runs/{run.step}/answer/"
    htmx = {"HX-Request": "true"}

    wrong = browser_of("alice").post(address, {"approved": "1", "payload": "{}"}, headers=htmx)
    right = browser_of("alice").post(
        address, {"approved": "1", "payload": '{"amount": 3}', "comment": "ok"}, headers=htmx
    )

    assert wrong.status_code == 400 and "amount: This field is required." in wrong["HX-Trigger"]
    assert right.status_code == 204
    assert json.loads(right["HX-Trigger"])["wm-answered"] == {"approved": True}
    assert run.events == [("alice", True, {"amount": 3, "comment": "ok"})]


def test_without_htmx_the_answer_leads_back_to_the_run(
    acme: Workspace, browser_of: Callable[[str], Client]
) -> None:
    run = make_waiting("acme")

    answer = browser_of("alice").post(
        f"/w/acme/runs/{run.id}/answer/", {"approved": "0", "comment": "no budget"}
    )

    assert answer["Location"] == f"/w/acme/runs/{run.id}/"
    assert run.events == [("alice", False, {"reason": "no budget"})]


def test_others_cannot_answer_from_there(acme: Workspace, browser_of: Callable[[str], Client]) -> None:
    mine = make_waiting("acme", created_by="dave")
    hers = make_waiting("acme")

    assert browser_of("dave").post(f"/w/acme/runs/{hers.id}/answer/", {"approved": "1"}).status_code == 404
    assert browser_of("dave").post(f"/w/acme/runs/{mine.id}/answer/", {"approved": "1"}).status_code == 403
    assert QueuedJob.objects.filter(suspend=1).count() == 2
