"""Approvals and the states of flows over REST, as the clients and links call them."""

import base64
import json
import uuid
from typing import Any
from urllib.parse import urlsplit

import pytest

from jobs.models import CompletedJob, FlowUserState, FlowVersion, Job, QueuedJob
from tests.api.conftest import World
from tests.jobs.flows.suspended import Waiting, make_waiting
from tests.tenancy import token_for

MEMBERS = {"user_auth_required": True, "user_groups_required": [], "self_approval_disabled": False}


@pytest.fixture
def run(world: World) -> Waiting:
    """A run of alice's that waits for one approval."""
    return make_waiting("acme", args={"customer": 7}, result={"description": "Pay?"})


def urls(world: World, run: Waiting, resume_id: int = 1, query: str = "") -> dict[str, str]:
    """approvalPage, resume, cancel, as paths below /api/ (the page: below /)."""
    answer = world.get("alice", f"w/acme/jobs/resume_urls/{run.step}/{resume_id}{query}")
    assert answer.status_code == 200, answer.content
    found = {}
    for name, url in answer.json().items():
        parts = urlsplit(url)
        found[name] = parts.path.removeprefix("/api/") + (f"?{parts.query}" if parts.query else "")
    return found


def with_query(url: str, query: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{query}"


def test_the_links_of_a_step_approve_and_deny_signed_out(world: World, run: Waiting) -> None:
    links = urls(world, run, 1_000_000_000, "?approver=zoe")

    answer = world.post(None, links["resume"], {"amount": 3})

    assert answer.status_code == 201
    assert answer["Content-Type"].startswith("text/plain")
    assert run.events == [("zoe", True, {"amount": 3})] and run.is_awake
    again = world.post(None, links["cancel"])
    assert again.status_code == 400
    assert b"resume request already sent" in again.content


def test_an_empty_approver_is_none(world: World, run: Waiting) -> None:
    links = urls(world, run, 1, "?approver=&flow_level=")

    assert "approver" not in links["resume"]
    assert world.post(None, with_query(links["resume"], "approver=")).status_code == 201


@pytest.mark.parametrize("name", ["resume", "cancel"])
def test_a_link_works_by_get_with_a_payload_in_the_query(world: World, run: Waiting, name: str) -> None:
    payload = base64.b64encode(json.dumps({"amount": 3}).encode()).decode()

    answer = world.get(None, with_query(urls(world, run)[name], f"payload={payload}"))

    assert answer.status_code == 201
    assert run.events == [(None, name == "resume", {"amount": 3})]


@pytest.mark.parametrize("name", ["resume", "cancel"])
def test_to_look_whether_a_link_works_is_not_to_answer(world: World, run: Waiting, name: str) -> None:
    link = urls(world, run)[name]

    assert world.call(None, "HEAD", link).status_code == 200
    assert world.call(None, "HEAD", link.replace("/1/", "/2/")).status_code == 403
    assert world.call(None, "OPTIONS", link).status_code == 204
    assert run.events == []


def test_without_a_payload_it_is_an_empty_object(world: World, run: Waiting) -> None:
    world.get(None, urls(world, run)["resume"])

    assert run.events == [(None, True, {})]


@pytest.mark.parametrize("value", [None, 3, "yes", [1, {"a": None}]])
def test_any_json_is_a_payload(world: World, run: Waiting, value: Any) -> None:
    body = json.dumps(value).encode()

    assert world.post(None, urls(world, run)["resume"], body).status_code == 201
    assert run.events == [(None, True, value)]


@pytest.mark.parametrize("body", [b"{", b'{"a": NaN}', b'"\\u0000"', b"\xff"])
def test_a_payload_that_is_no_json_is_refused(world: World, run: Waiting, body: bytes) -> None:
    assert world.post(None, urls(world, run)["resume"], body).status_code == 400
    assert world.get(None, with_query(urls(world, run)["resume"], "payload=!!")).status_code == 400
    assert run.events == []


def test_a_changed_link_opens_nothing(world: World, run: Waiting) -> None:
    link = urls(world, run)["resume"]
    signature = link.rsplit("/", 1)[1]

    for changed in (
        link.replace("/1/", "/2/"),
        link[:-1] + ("0" if link[-1] != "0" else "1"),
        with_query(link, "approver=bob"),
        link.replace(str(run.step), str(uuid.uuid4())),
        link.replace("w/acme", "w/other"),
        link.replace("w/acme", "w/nowhere"),
        f"w/acme/jobs_u/get_flow/{run.step}/2/{signature}",
    ):
        answer = world.get(None, changed)
        assert answer.status_code == 403, changed
        assert b"Invalid signature" in answer.content
    assert world.get(None, link.replace("/1/", "/x/")).status_code == 400
    assert world.get(None, link.replace("/1/", "/99999999999/")).status_code == 400
    assert run.events == []


def test_the_signature_can_be_asked_for_alone(world: World, run: Waiting) -> None:
    answer = world.get("alice", f"w/acme/jobs/job_signature/{run.step}/1")

    assert answer.content.decode() == urls(world, run)["resume"].rsplit("/", 1)[1]


def test_a_step_gets_its_links_with_its_own_token(world: World, run: Waiting, running_job: Any) -> None:
    token = running_job("alice")

    answer = world.client.get(
        f"/api/w/acme/jobs/resume_urls/{run.step}/5", headers={"authorization": f"Bearer {token}"}
    )

    assert answer.status_code == 200


def test_others_get_no_links(world: World, run: Waiting) -> None:
    for who, status in (("dave", 404), ("oscar", 404), ("olga", 404), (None, 401), ("scoped alice", 403)):
        assert world.get(who, f"w/acme/jobs/resume_urls/{run.step}/1").status_code == status


def test_a_link_shows_the_flow_and_who_approved(world: World, run: Waiting) -> None:
    links = urls(world, run, 1, "?approver=zoe")
    flow = links["resume"].replace("/resume/", "/get_flow/")
    world.post(None, links["resume"])

    answer = world.get(None, flow).json()

    assert answer["approvers"] == [{"resume_id": 1, "approver": "zoe"}]
    assert answer["job"]["id"] == str(run.id) and answer["job"]["args"] == {"customer": 7}
    assert answer["job"]["flow_status"]["modules"][1]["type"] == "WaitingForEvents"


def test_a_link_shows_no_passwords_no_result_and_nothing_to_the_wrong_people(world: World) -> None:
    run = make_waiting(
        "acme",
        args={"customer": 7, "pin": "1234"},
        conditions=MEMBERS,
        suspend={"user_auth_required": True},
    )
    version = Job.objects.get(pk=run.id).runnable_id
    schema = {"type": "object", "properties": {"pin": {"type": "string", "password": True}}}
    FlowVersion.objects.filter(pk=version or 0).update(schema=schema)
    world.post("alice", state(run), "private")
    flow = urls(world, run)["resume"].replace("/resume/", "/get_flow/")

    assert world.get(None, flow).status_code == 401
    assert world.get("oscar", flow).json()["job"]["args"] == {"customer": 7, "pin": "••••••"}
    run.end(result={"secret": "of the flow"})
    assert world.get(None, flow).status_code == 401
    after = world.get("oscar", flow)
    assert (
        after.status_code == 200 and b"of the flow" not in after.content and b"private" not in after.content
    )


def test_a_flow_level_link_is_for_the_flow(world: World, run: Waiting) -> None:
    link = urls(world, run, 1, "?flow_level=true")["resume"]

    assert str(run.id) in link
    assert world.post(None, link).status_code == 201
    assert run.is_awake


def test_when_nothing_waits_any_more_the_link_says_so(world: World, run: Waiting) -> None:
    link = urls(world, run)["resume"]
    run.end()

    answer = world.post(None, link)

    assert answer.status_code == 400
    assert answer.content == (
        b"Bad request: the flow has ended, or is being canceled; it does not wait for an approval any more"
    )


# --- who is signed in ---


def test_an_approval_for_members_takes_who_is_signed_in(world: World) -> None:
    run = make_waiting("acme", conditions=MEMBERS, suspend={"required_events": 2})
    link = urls(world, run)["resume"]

    assert world.post(None, link).status_code == 401
    for who in ("olga", "scoped alice", "read-only alice", "alice confined to other"):
        assert world.post(who, link).status_code == 401, who
    assert world.post("oscar", link).status_code == 201
    assert run.events == [("oscar", True, {})]


def test_another_sites_page_does_not_approve_with_the_readers_cookie(world: World) -> None:
    run = make_waiting("acme", conditions=MEMBERS)
    link = urls(world, run)["resume"]
    world.client.cookies["token"] = token_for("dave@example.com")

    by_get = world.get(None, link, **{"sec-fetch-site": "cross-site"})
    by_post = world.post(None, link, **{"sec-fetch-site": "cross-site"})

    assert by_get.status_code == 401
    assert b"use the approval page http" in by_get.content
    assert by_post.status_code == 403
    assert run.events == []
    assert world.get(None, link, **{"sec-fetch-site": "none"}).status_code == 201


def test_the_owner_of_the_flow_resumes_it_without_a_link(world: World, run: Waiting) -> None:
    assert world.post("dave", f"w/acme/jobs/flow/resume/{run.id}", {}).status_code == 404
    assert world.post("alice", f"w/acme/jobs/flow/resume/{run.id}", {"amount": 3}).status_code == 201

    assert run.events == [("alice", True, {"amount": 3})]
    assert world.post("alice", f"w/acme/jobs/flow/resume/{run.id}", {}).status_code == 400


def test_resume_suspended_denies_too(world: World, run: Waiting) -> None:
    answer = world.post(
        "alice", f"w/acme/jobs_u/flow/resume_suspended/{run.id}", {"approved": False, "payload": "no"}
    )

    assert answer.status_code == 201
    assert run.events == [("alice", False, "no")]


def test_resume_suspended_takes_the_end_of_a_link(world: World, run: Waiting) -> None:
    token = urls(world, run, 4, "?approver=zoe%20b")["approvalPage"].removeprefix("/approve/acme/")
    other = make_waiting("acme")

    for job, wrong in ((run.id, token[:-20]), (run.id, "nonsense"), (other.id, token), (uuid.uuid4(), token)):
        answer = world.post(None, f"w/acme/jobs_u/flow/resume_suspended/{job}", {"approval_token": wrong})
        assert answer.status_code == 403, wrong
    answer = world.post(None, f"w/acme/jobs_u/flow/resume_suspended/{run.id}", {"approval_token": token})

    assert answer.status_code == 201
    assert run.events == [("zoe b", True, {})]


def test_approval_info_tells_what_is_asked_and_whether_one_may_answer(world: World) -> None:
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    run = make_waiting(
        "acme",
        suspend={"resume_form": {"schema": schema}, "hide_cancel": True},
        conditions=MEMBERS | {"self_approval_disabled": True},
        result={"description": "Pay?", "default_args": {"amount": 3}},
    )
    token = urls(world, run)["approvalPage"].removeprefix("/approve/acme/")

    info = world.get("alice", f"w/acme/jobs_u/flow/approval_info/{run.id}").json()
    signed_out = world.get(None, f"w/acme/jobs_u/flow/approval_info/{run.id}?approval_token={token}").json()

    assert info == {
        "flow_id": str(run.id),
        "form_schema": {"type": "object", "properties": {"amount": {"type": "integer", "default": 3}}},
        "description": "Pay?",
        "approval_conditions": MEMBERS | {"self_approval_disabled": True},
        "can_approve": True,
        "user_auth_required": True,
        "hide_cancel": True,
        "skin": "detailed",
        "step_summary": "Ask finance",
        "flow_summary": "Refund a customer",
        "approvers": [],
    }
    assert signed_out == {
        name: value for name, value in info.items() if name not in ("form_schema", "description")
    } | {"can_approve": False}
    assert world.get(None, f"w/acme/jobs_u/flow/approval_info/{run.id}").status_code == 401
    assert world.get("olga", f"w/acme/jobs_u/flow/approval_info/{run.id}").status_code == 404


@pytest.mark.parametrize(
    ("route", "words"),
    [
        ("slack_approval/{}", b"send the links of resume_urls"),
        ("teams_approval/{}", b"send the links of resume_urls"),
        ("wac_approval_urls/{}/approval", b"not a workflow as code"),
    ],
)
def test_what_there_is_not_says_what_to_do_instead(
    world: World, run: Waiting, route: str, words: bytes
) -> None:
    answer = world.get("alice", f"w/acme/jobs/{route.format(run.step)}")

    assert answer.status_code == 400
    assert words in answer.content
    assert world.get("dave", f"w/acme/jobs/{route.format(run.step)}").status_code == 404


# --- states that steps share ---


def state(run: Waiting, key: str = "cart", job: Any = None) -> str:
    return f"w/acme/jobs/flow/user_states/{job or run.id}/{key}"


@pytest.mark.parametrize("value", [{"items": [1, 2]}, "text", 0, False, None, []])
def test_a_state_comes_back_as_it_was_set(world: World, run: Waiting, value: Any) -> None:
    assert world.get("alice", state(run)).status_code == 404

    answer = world.post("alice", state(run), json.dumps(value).encode())

    assert answer.status_code == 200
    assert world.get("alice", state(run)).json() == value


def test_a_state_belongs_to_the_topmost_flow_whichever_job_names_it(world: World, run: Waiting) -> None:
    inner = make_waiting("acme", top=run.id)
    world.post("alice", state(run, job=inner.step), 1)
    world.post("alice", state(run), 2)

    assert world.get("alice", state(run, job=inner.id)).json() == 2
    assert list(FlowUserState.objects.values_list("flow_id", "key")) == [(run.id, "cart")]


def test_states_are_for_those_who_see_the_run_and_steer_it(world: World, run: Waiting) -> None:
    world.post("alice", state(run), 1)
    for who, status in (("dave", 404), ("olga", 404), (None, 401), ("read-only alice", 403)):
        assert world.post(who, state(run), 2).status_code == status
    for who, status in (("dave", 404), ("olga", 404), (None, 401), ("scoped alice", 403)):
        assert world.get(who, state(run)).status_code == status

    assert world.get("alice", state(run)).json() == 1


def test_a_job_without_a_flow_and_a_flow_that_ended_take_no_states(world: World, run: Waiting) -> None:
    alone = Job.objects.exclude(pk__in=[run.id, run.step]).first()
    assert alone is not None
    world.post("alice", state(run), 1)
    QueuedJob.objects.filter(pk=run.id).delete()
    CompletedJob.objects.create(id=run.id, workspace_id="acme", status="success", duration_ms=1)

    assert world.post("alice", state(run, job=alone.id), 1).status_code == 404
    assert world.get("alice", state(run, job=alone.id)).status_code == 404
    ended = world.post("alice", state(run), 2)
    assert ended.status_code == 400 and b"has ended" in ended.content
    assert world.get("alice", state(run)).json() == 1


def test_states_have_limits(world: World, run: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs.flows import user_states

    monkeypatch.setattr(user_states, "MAX_KEYS", 2)
    monkeypatch.setattr(user_states, "MAX_VALUE", 100)

    assert world.post("alice", state(run, "k" * 256), 1).status_code == 400
    assert world.post("alice", state(run, "k" * 255), "x" * 101).status_code == 400
    assert world.post("alice", state(run), b"").status_code == 400
    assert world.post("alice", state(run), b"{").status_code == 400
    assert [world.post("alice", state(run, key), 1).status_code for key in "abca"] == [200, 200, 400, 200]
