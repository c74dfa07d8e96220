"""Approvals: links, answers, who may give them, and when they count."""

import hashlib
import hmac
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs import listings, sql
from jobs.flows import approval_info, approvals, suspensions
from jobs.flows.approvals import AlreadyAnswered, BadSignature, Link, NothingWaits
from jobs.flows.suspensions import Standing
from jobs.models import Job, JobKind, QueuedJob
from tests.jobs.flows.suspended import SCHEMA, Waiting, make_waiting
from tests.tenancy import enter, fill, join, make_workspace
from workspaces import groups, secrets, variables
from workspaces.access import Caller
from workspaces.errors import BadRequest, NotFound, NotSignedIn, PermissionDenied
from workspaces.models import AuditEntry, Workspace

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Workspace:
    """Admin alice, developers bob and dave, operator oscar."""
    workspace = make_workspace("acme", admin="alice@example.com")
    for name in ("bob", "dave"):
        join(workspace, f"{name}@example.com")
    join(workspace, "oscar@example.com", operator=True)
    return workspace


@pytest.fixture
def who(acme: Workspace) -> Callable[[str], Caller]:
    return lambda name: enter(acme, f"{name}@example.com")


@pytest.fixture
def waiting(acme: Workspace) -> Callable[..., Waiting]:
    return lambda **given: make_waiting("acme", **given)


def link_to(
    run: Waiting, resume_id: int = 1, *, flow_level: bool = False, approver: str | None = None
) -> Link:
    return Link(
        workspace_id="acme",
        job_id=run.id if flow_level else run.step,
        resume_id=resume_id,
        approver=approver,
    )


def approve(link: Link, *, caller: Caller | None = None, value: Any = None) -> None:
    approvals.answer_link(link, caller=caller, approved=True, value=value)


def deny(link: Link, *, caller: Caller | None = None, value: Any = None) -> None:
    approvals.answer_link(link, caller=caller, approved=False, value=value)


# --- signatures ---


def test_a_signature_is_the_hmac_of_job_number_and_approver_under_the_workspaces_key(acme: Workspace) -> None:
    link = Link(workspace_id="acme", job_id=uuid.uuid4(), resume_id=258, approver="zoë")
    message = link.job_id.bytes + b"\x00\x00\x01\x02" + "zoë".encode()

    signature = approvals.sign(link)

    key = secrets._workspace_key("acme")
    assert signature == hmac.new(key, message, hashlib.sha256).hexdigest()
    assert len(signature) == 64 and signature == signature.lower()


def test_a_link_opens_with_its_signature_only(waiting: Callable[..., Waiting]) -> None:
    make_workspace("other", admin="olga@example.com")
    link = link_to(waiting(), 7, approver="bob")
    signature = approvals.sign(link)

    approvals.verify(link, signature)
    approvals.verify(link, signature.upper())

    changed = [
        replace(link, resume_id=8),
        replace(link, approver="alice"),
        replace(link, approver=None),
        replace(link, job_id=uuid.uuid4()),
        replace(link, workspace_id="other"),
        replace(link, workspace_id="nowhere"),
        replace(link, resume_id=-1),
        replace(link, resume_id=2**32),
        replace(link, approver="x" * 256),
    ]
    for other in changed:
        with pytest.raises(BadSignature, match="Invalid signature"):
            approvals.verify(other, signature)
    for text in ("", "0" * 64, signature[:-1], signature + "0", "é" * 64, "\ud800"):
        with pytest.raises(BadSignature, match="Invalid signature"):
            approvals.verify(link, text)


def test_the_addresses_of_a_link_say_where_to_look_and_what_to_call(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    run = waiting()

    link = approvals.make_link(who("alice"), run.step, resume_id=5, approver="bob & co")
    urls = approvals.urls(link)

    tail = f"{run.step}/5/{approvals.sign(link)}?approver=bob+%26+co"
    assert urls.approval_page.endswith(f"/approve/acme/{tail}")
    assert urls.resume.endswith(f"/api/w/acme/jobs_u/resume/{tail}")
    assert urls.cancel.endswith(f"/api/w/acme/jobs_u/cancel/{tail}")


def test_an_archived_workspace_opens_no_link(acme: Workspace, waiting: Callable[..., Waiting]) -> None:
    link = link_to(waiting())
    signature = approvals.sign(link)
    Workspace.objects.filter(pk="acme").update(deleted=True)

    with pytest.raises(BadSignature):
        approvals.verify(link, signature)


def test_links_are_made_for_those_who_started_the_run_or_may_write_the_flow(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    run = waiting(created_by="bob", path="u/dave/refund")
    Job.objects.filter(pk__in=[run.id, run.step]).update(runnable_path="u/dave/refund")

    for name in ("alice", "bob", "dave"):
        assert approvals.make_link(who(name), run.step, resume_id=1).job_id == run.step
    with pytest.raises(NotFound):
        approvals.make_link(who("oscar"), run.step, resume_id=1)


def test_who_may_only_read_the_flow_gets_no_link(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    fill(who("alice"), "shared", secret="s")
    variables_folder = who("alice").workspace.folder_set.get(name="shared")
    variables_folder.extra_perms = {"u/bob": False}
    variables_folder.save()
    run = waiting(path="f/shared/refund")

    with pytest.raises(PermissionDenied, match="right to write its flow"):
        approvals.make_link(who("bob"), run.step, resume_id=1)


# --- counting ---


def test_the_last_missing_approval_wakes_the_flow(waiting: Callable[..., Waiting]) -> None:
    run = waiting(suspend={"required_events": 2})

    approve(link_to(run, 1), value={"amount": 3})
    assert run.queue.suspend == 1 and not run.is_awake
    approve(link_to(run, 2))

    assert run.queue.suspend == 0 and run.is_awake and run.version == 1
    assert run.events == [(None, True, {"amount": 3}), (None, True, None)]


def test_a_denial_wakes_the_flow_at_once(waiting: Callable[..., Waiting]) -> None:
    run = waiting(suspend={"required_events": 5})

    deny(link_to(run, approver="bob"), value={"reason": "too much"})

    assert run.is_awake and run.queue.suspend == 5
    assert run.events == [("bob", False, {"reason": "too much"})]


def test_each_link_counts_once(waiting: Callable[..., Waiting]) -> None:
    run = waiting(suspend={"required_events": 3})
    approve(link_to(run, 1))

    for again in (approve, deny):
        with pytest.raises(AlreadyAnswered, match="resume request already sent"):
            again(link_to(run, 1))

    assert run.queue.suspend == 2 and len(run.events) == 1


def test_more_approvals_than_needed_never_count_below_zero(waiting: Callable[..., Waiting]) -> None:
    run = waiting()

    for number in range(3):
        approve(link_to(run, number))

    assert run.queue.suspend == 0


@pytest.mark.django_db(transaction=True)
def test_approvals_at_the_same_moment_all_count(waiting: Callable[..., Waiting]) -> None:
    run = waiting(suspend={"required_events": 8})

    def answer(number: int) -> None:
        try:
            approve(link_to(run, number))
        finally:
            connection.close()

    threads = [threading.Thread(target=answer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert run.queue.suspend == 0 and run.is_awake and len(run.events) == 8


def test_an_answer_that_comes_early_is_kept_and_noticed_by_who_advances_the_flow(
    waiting: Callable[..., Waiting],
) -> None:
    run = waiting(reached=False)

    approve(link_to(run), value="early")

    assert run.events == [(None, True, "early")]
    assert run.version == 1


def test_a_flow_that_a_worker_is_looking_at_stays_theirs(waiting: Callable[..., Waiting]) -> None:
    run = waiting()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE queue SET running = true, last_ping = statement_timestamp() WHERE id = %s", [run.id]
        )

    approve(link_to(run))

    assert run.queue.running and run.version == 1


def test_a_flow_level_link_is_good_for_the_approval_that_waits_and_used_up_by_it(
    waiting: Callable[..., Waiting],
) -> None:
    run = waiting()

    approve(link_to(run, flow_level=True))

    assert run.queue.suspend == 0
    with connection.cursor() as cursor:
        cursor.execute(sql.load("read_approvals"), {"ids": [run.step]})
        assert [row[0] for row in cursor.fetchall()] == [1]
        cursor.execute(sql.load("read_approvals"), {"ids": [run.id]})
        assert cursor.fetchall() == []


def test_a_flow_level_answer_that_comes_early_is_good_for_any_approval(
    waiting: Callable[..., Waiting],
) -> None:
    run = waiting(reached=False)

    approve(link_to(run, flow_level=True))

    with connection.cursor() as cursor:
        cursor.execute(sql.load("read_approvals"), {"ids": [run.id]})
        assert len(cursor.fetchall()) == 1


def test_a_flow_level_link_is_made_from_any_step(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    run = waiting()

    assert approvals.make_link(who("alice"), run.step, resume_id=1, flow_level=True).job_id == run.id
    assert approvals.make_link(who("alice"), run.id, resume_id=1, flow_level=True).job_id == run.id


# --- when nothing waits ---


def test_when_the_flow_has_gone_on_or_ended_the_answer_says_so(waiting: Callable[..., Waiting]) -> None:
    gone_on, ended, canceled, late = waiting(), waiting(), waiting(), waiting()
    gone_on.go_on()
    ended.end()
    QueuedJob.objects.filter(pk=canceled.id).update(canceled_by="alice")
    late.overdue()

    for run, words in (
        (gone_on, "gone on already"),
        (ended, "has ended"),
        (canceled, "being canceled"),
        (late, "time for this approval is over"),
    ):
        with pytest.raises(NothingWaits, match=words):
            approve(link_to(run))
        assert run.events == []


def test_a_link_of_an_earlier_step_does_not_answer_for_a_later_one(waiting: Callable[..., Waiting]) -> None:
    run = waiting()
    earlier = Job.objects.get(pk=run.step)
    earlier.pk, earlier.flow_step_id = uuid.uuid4(), "earlier"
    earlier.save(force_insert=True)

    with pytest.raises(NothingWaits, match="gone on already"):
        approve(Link(workspace_id="acme", job_id=earlier.pk, resume_id=1))
    assert run.queue.suspend == 1


def test_a_job_outside_of_flows_has_nothing_to_approve(
    acme: Workspace, make_job: Callable[..., UUID]
) -> None:
    job_id = make_job(workspace_id="acme")

    with pytest.raises(BadRequest, match="not part of a flow"):
        approve(Link(workspace_id="acme", job_id=job_id, resume_id=1))


def test_a_job_that_a_step_started_answers_for_the_flow_around_it(waiting: Callable[..., Waiting]) -> None:
    run = waiting(reached=False)
    child = Job.objects.get(pk=run.step)
    child.pk, child.parent_job, child.flow_step_id = uuid.uuid4(), run.step, None
    child.save(force_insert=True)
    QueuedJob.objects.create(id=child.pk, workspace_id="acme", tag="python3")

    found = suspensions.find_suspension(workspace_id="acme", job_id=child.pk)

    assert found.flow.id == run.id and found.standing is Standing.AHEAD


# --- conditions ---

MEMBERS = {"user_auth_required": True, "user_groups_required": [], "self_approval_disabled": False}


def test_an_approval_for_members_needs_one(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    run = waiting(conditions=MEMBERS)

    with pytest.raises(NotSignedIn):
        approve(link_to(run, approver="somebody"))
    approve(link_to(run, approver="somebody"), caller=who("bob"))

    # A name in the link is a claim; the account is a fact.
    assert run.events == [("bob", True, None)]


def test_an_approval_for_a_group_needs_a_member_of_it_or_an_admin(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    groups.create_group(who("alice"), name="finance")
    groups.add_to_group(who("alice"), "finance", username="oscar")
    run = waiting(
        conditions=MEMBERS | {"user_groups_required": ["finance", "board"]}, suspend={"required_events": 2}
    )

    with pytest.raises(PermissionDenied, match="members of finance or board"):
        approve(link_to(run), caller=who("bob"))
    approve(link_to(run, 1), caller=who("oscar"))
    approve(link_to(run, 2), caller=who("alice"))

    assert [name for name, _, _ in run.events] == ["oscar", "alice"]


@pytest.mark.parametrize("answer", [approve, deny])
def test_where_self_approval_is_disabled_the_runner_cannot_answer(
    answer: Callable[..., None], waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    run = waiting(created_by="bob", conditions=MEMBERS | {"self_approval_disabled": True})

    with pytest.raises(PermissionDenied, match="you started this run"):
        answer(link_to(run), caller=who("bob"))
    answer(link_to(run), caller=who("dave"))


def test_conditions_cannot_be_avoided_by_answering_early(waiting: Callable[..., Waiting]) -> None:
    for asks in ({"user_auth_required": True}, {"self_approval_disabled": True}):
        run = waiting(suspend=asks, reached=False)

        for flow_level in (False, True):
            with pytest.raises(BadRequest, match="only once the flow waits"):
                approve(link_to(run, flow_level=flow_level))


# --- members without a link ---


def test_who_may_write_the_flow_answers_without_a_link_once(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    run = waiting(path="u/dave/refund", suspend={"required_events": 2}, created_by="bob")

    approvals.answer_as_member(who("dave"), run.id, approved=True, value=1)
    with pytest.raises(AlreadyAnswered, match="each member counts once"):
        approvals.answer_as_member(who("dave"), run.id, approved=True, value=1)
    approvals.answer_as_member(who("alice"), run.step, approved=True, value=2)

    assert run.events == [("dave", True, 1), ("alice", True, 2)] and run.is_awake


def test_who_started_the_run_needs_more_than_that(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    run = waiting(path="u/dave/refund", created_by="bob")

    with pytest.raises(PermissionDenied, match="right to write u/dave/refund"):
        approvals.answer_as_member(who("bob"), run.id, approved=True, value=None)


def test_a_preview_is_approved_by_who_started_it(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    run = waiting(created_by="bob")
    raw = suspensions.find_suspension(workspace_id="acme", job_id=run.id)
    assert raw.definition is not None
    Job.objects.filter(pk=run.id).update(kind=JobKind.FLOW_PREVIEW, runnable_path=None)

    approvals.answer_as_member(who("bob"), run.id, approved=True, value=None)

    assert run.is_awake


def test_an_approval_below_the_run_is_found(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    outer = waiting(reached=False)
    inner = waiting(top=outer.id)

    approvals.answer_as_member(who("alice"), outer.id, approved=True, value=None)

    assert inner.is_awake and outer.version == 0


def test_several_approvals_at_once_must_be_told_apart(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    outer = waiting(reached=False)
    first, second = waiting(top=outer.id), waiting(top=outer.id)

    with pytest.raises(NothingWaits, match=f"2 steps of this run wait.*{first.step}"):
        approvals.answer_as_member(who("alice"), outer.id, approved=True, value=None)
    approvals.answer_as_member(who("alice"), second.step, approved=True, value=None)

    assert second.is_awake and not first.is_awake


def test_a_run_that_does_not_wait_cannot_be_answered(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    run = waiting(reached=False)

    with pytest.raises(NothingWaits, match="does not wait for an approval at the moment"):
        approvals.answer_as_member(who("alice"), run.id, approved=True, value=None)


def test_waiting_info_says_what_a_run_waits_for_and_whether_one_may_answer(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    outer = waiting(reached=False, created_by="bob", path="u/dave/outer")
    inner = waiting(
        top=outer.id,
        path="u/dave/refund",
        created_by="bob",
        suspend={"required_events": 2, "hide_cancel": True, "resume_form": {"schema": SCHEMA}},
        result={"description": "Pay **42**", "default_args": {"amount": 42}, "enums": {"note": ["x", "y"]}},
    )
    approve(link_to(inner, approver="zoe"))

    def seen_by(name: str) -> dict[str, Any]:
        row = listings.get_job(who(name), workspace_id="acme", job_id=outer.id)
        (entry,) = approval_info.waiting_info(who(name), row)
        return entry

    entry = seen_by("dave")
    assert entry["flow_id"] == str(inner.id) and entry["job_id"] == str(inner.step)
    assert (entry["step_id"], entry["step_summary"]) == ("a", "Ask finance")
    assert (entry["required"], entry["missing"], entry["hide_cancel"]) == (2, 1, True)
    assert "<strong>42</strong>" in entry["description_html"]
    assert entry["form_schema"]["properties"] == {
        "amount": {"type": "integer", "default": 42},
        "note": {"type": "string", "enum": ["x", "y"]},
    }
    assert entry["approvers"] == [{"resume_id": 1, "approver": "zoe"}]
    assert entry["can_answer"] and entry["why_not"] == ""
    assert not seen_by("bob")["can_answer"] and "right to write" in seen_by("bob")["why_not"]
    approvals.answer_as_member(who("dave"), inner.step, approved=True, value=None)
    row = listings.get_job(who("dave"), workspace_id="acme", job_id=outer.id)
    assert approval_info.waiting_info(who("dave"), row) == []


# --- payloads, audit ---


def test_a_payload_must_fit_and_be_storable(
    waiting: Callable[..., Waiting], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = waiting()
    monkeypatch.setattr(approvals, "MAX_PAYLOAD", 1000)

    for value, words in (("x" * 1001, "larger than 1000"), ({"a": "\x00"}, "NUL"), (["\ud800"], "surrogate")):
        with pytest.raises(BadRequest, match=words):
            approve(link_to(run), value=value)
    assert run.events == []


def test_an_approver_reads_no_secrets_through_the_flow(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    variables.create_variable(who("alice"), path="u/alice/key", value="sk", is_secret=True)
    run = waiting()
    value = {"deep": [{"er": "$var:u/alice/key"}]}

    with pytest.raises(PermissionDenied, match="sign in to use those"):
        approve(link_to(run), value=value)
    with pytest.raises(NotFound):
        approve(link_to(run), value=value, caller=who("bob"))
    assert run.events == []
    approve(link_to(run), value=value, caller=who("alice"))

    assert run.events == [("alice", True, value)]


def test_every_answer_is_in_the_audit_log(
    waiting: Callable[..., Waiting], who: Callable[[str], Caller]
) -> None:
    run = waiting(suspend={"required_events": 9})

    approve(link_to(run, 1, approver="zoe"))
    deny(link_to(run, 2), caller=who("bob"))

    rows = AuditEntry.objects.filter(resource=str(run.step)).order_by("id")
    assert [(row.username, row.operation, row.parameters["approver"]) for row in rows] == [
        ("anonymous", "jobs.suspend_resume", "zoe"),
        ("bob", "jobs.disapproval", "bob"),
    ]
