"""The page of an approval link, as whoever got the link sees it: signed out, on a phone, without JavaScript."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from jobs.flow_runs import FlowPreview, run_flow_preview
from jobs.flows import approvals
from jobs.flows.approvals import Link
from jobs.models import CompletedJob, Job, QueuedJob
from jobs.runs import RunOptions
from tests.browser.site import PASSWORD, Person, wait_until
from tests.jobs.flows.suspended import Waiting, make_waiting

SCHEMA = {
    "type": "object",
    "order": ["amount", "account", "reasons", "urgent", "due", "details"],
    "required": ["amount", "account"],
    "properties": {
        "amount": {"type": "number", "minimum": 1, "description": "In euro, with tax", "default": 120.5},
        "account": {"type": "string", "enum": ["Main account", "Reserve"]},
        "reasons": {"type": "array", "items": {"type": "string", "enum": ["Damaged", "Late", "Goodwill"]}},
        "urgent": {"type": "boolean", "description": "Pay today"},
        "due": {"type": "string", "format": "date"},
        "details": {"type": "object"},
    },
}
DESCRIPTION = "Customer **ACME Ltd** asks for a refund.\n\n* Order 4711\n* Delivered on Monday"
MEMBERS = {"user_auth_required": True, "user_groups_required": [], "self_approval_disabled": False}


def start(ada: Person, **given: Any) -> Waiting:
    """A run that waits, in ada's workspace."""
    return make_waiting(
        ada.workspace.id,
        created_by="ada",
        **{
            "suspend": {"required_events": 3, "resume_form": {"schema": SCHEMA}},
            "args": {"customer": "ACME Ltd", "order": 4711, "lines": [{"sku": "A-1", "count": 2}] * 30},
            "result": {"description": DESCRIPTION},
            **given,
        },
    )


def link(run: Waiting, resume_id: int = 1, approver: str | None = None) -> Link:
    return Link(workspace_id=run.workspace_id, job_id=run.step, resume_id=resume_id, approver=approver)


def url(run: Waiting, resume_id: int = 1, approver: str | None = None) -> str:
    page = approvals.urls(link(run, resume_id, approver)).approval_page
    return page[page.index("/approve/") :]


@pytest.fixture
def plain_page(browser: Browser, ada: Person) -> Iterator[Page]:
    """A tab without JavaScript in which nobody is signed in."""
    context = browser.new_context(java_script_enabled=False, base_url=ada.site.url)
    page = context.new_page()
    page.set_default_timeout(10_000)
    yield page
    context.close()


def test_an_approver_fills_the_form_without_javascript(ada: Person, plain_page: Page) -> None:
    run = start(ada)
    plain_page.goto(url(run, approver="zoe"))
    main = plain_page.get_by_role("main")

    expect(main.get_by_role("heading", level=1)).to_have_text("Refund a customer")
    expect(main).to_contain_text("Order 4711")
    main.get_by_label("amount").fill("80")
    main.get_by_label("account").select_option("Reserve")
    main.get_by_label("Late").check()
    main.get_by_label("details").fill("{broken")
    main.get_by_label("Comment").fill("Called them")
    main.get_by_role("button", name="Approve").click()

    expect(main.get_by_text("Should be JSON")).to_be_visible()
    expect(main.get_by_label("amount")).to_have_value("80")
    expect(main.get_by_label("Late")).to_be_checked()
    main.get_by_label("details").fill('{"invoice": 9}')
    main.get_by_role("button", name="Approve").click()

    expect(main.get_by_text("Your answer was recorded")).to_be_visible()
    expect(main.get_by_role("button")).to_have_count(0)
    value = {
        "amount": 80,
        "account": "Reserve",
        "reasons": ["Late"],
        "urgent": False,
        "details": {"invoice": 9},
        "comment": "Called them",
    }
    assert run.events == [("zoe", True, value)]


def test_an_approver_denies_without_filling_the_form(ada: Person, plain_page: Page) -> None:
    run = start(ada)
    plain_page.goto(url(run))
    main = plain_page.get_by_role("main")

    main.get_by_label("Comment").fill("Not ours")
    main.get_by_role("button", name="Deny").click()

    expect(main.get_by_text("Denied", exact=True)).to_be_visible()
    assert run.events == [(None, False, {"reason": "Not ours"})] and run.is_awake


def test_signing_in_leads_back_to_the_approval(
    ada: Person, member: Callable[..., Person], page: Page
) -> None:
    bob = member("bob")
    run = start(ada, conditions=MEMBERS, suspend={"required_events": 1})
    page.goto(url(run))

    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Email").fill(bob.account.email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Approve").click()

    expect(page.get_by_text("Your answer was recorded")).to_be_visible()
    assert run.events == [("bob", True, {})]


ASK = """import json, os, urllib.request

def call(path, body=None):
    request = urllib.request.Request(
        f"{os.environ['BASE_INTERNAL_URL']}/api/w/{os.environ['WM_WORKSPACE']}/jobs/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": "Bearer " + os.environ["WM_TOKEN"]},
    )
    with urllib.request.urlopen(request) as answer:
        return answer.read()

def main():
    call(f"flow/user_states/{os.environ['WM_ROOT_FLOW_JOB_ID']}/order", {"number": 4711})
    links = json.loads(call(f"resume_urls/{os.environ['WM_JOB_ID']}/77?approver=zoe"))
    return {**links, "description": "Pay **now**?", "default_args": {"amount": 12}}
"""
PAY = "def main(amount, order, approvers):\n    return [amount, order, approvers]\n"


def test_a_step_sends_its_link_and_the_flow_goes_on_with_the_answer(
    ada: Person, worker: str, plain_page: Page
) -> None:
    def code(content: str, **inputs: str) -> dict[str, Any]:
        transforms = {name: {"type": "javascript", "expr": expr} for name, expr in inputs.items()}
        return {
            "type": "rawscript",
            "language": "python3",
            "content": content,
            "input_transforms": transforms,
        }

    form = {"schema": {"type": "object", "properties": {"amount": {"type": "integer"}}}}
    pay = code(PAY, amount="resume.amount", order="flow_user_state('order').number", approvers="approvers")
    value = {
        "modules": [
            {"id": "ask", "value": code(ASK), "suspend": {"required_events": 1, "resume_form": form}},
            {"id": "pay", "value": pay},
        ]
    }
    job = run_flow_preview(ada.caller, FlowPreview(value=value), RunOptions())
    wait_until(
        lambda: QueuedJob.objects.filter(pk=job, suspend=1).exists() or CompletedJob.objects.filter(pk=job),
        "the flow",
    )
    sent = CompletedJob.objects.get(
        pk__in=Job.objects.filter(parent_job=job, flow_step_id="ask").values("pk")
    )

    plain_page.goto(sent.result["approvalPage"])
    expect(plain_page.get_by_role("main")).to_contain_text("Pay now?")
    expect(plain_page.get_by_label("amount")).to_have_value("12")
    plain_page.get_by_label("amount").fill("15")
    plain_page.get_by_role("button", name="Approve").click()
    expect(plain_page.get_by_text("Your answer was recorded")).to_be_visible()

    done = wait_until(lambda: CompletedJob.objects.filter(pk=job).first(), "the end of the flow")
    assert (done.status, done.result) == ("success", [15, 4711, ["zoe"]])


def states(ada: Person) -> dict[str, str]:
    """Each look of the page: its address."""
    waits, early = start(ada), start(ada, reached=False)
    approvals.answer_link(link(waits, 7, "zoe"), caller=None, approved=True, value={})
    used, denied, late, over = start(ada), start(ada), start(ada), start(ada)
    approvals.answer_link(link(used), caller=None, approved=True, value={})
    approvals.answer_link(link(denied, 7, "zoe"), caller=None, approved=False, value={})
    denied.end(status="failure")
    late.overdue()
    over.end(status="canceled")
    text = start(ada, result={"description": {"total": "12" * 200}}, suspend={"hide_cancel": True})
    return {
        "waits": url(waits, approver="bob"),
        "early": url(early),
        "used": url(used),
        "denied": url(denied),
        "late": url(late),
        "over": url(over),
        "description as JSON": url(text),
        "sign in": url(start(ada, conditions=MEMBERS)),
        "wrong link": url(waits, approver="bob")[:-3] + "eve",
    }


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_the_page_is_accessible_in_every_state(
    ada: Person, page: Page, assert_accessible: Callable[[], None], width: str
) -> None:
    findings = {}
    for name, address in states(ada).items():
        page.goto(address)
        try:
            assert_accessible()
        except AssertionError as exc:
            findings[name] = str(exc).splitlines()[0]
        if name == "waits":
            page.get_by_label("amount").fill("0")
            page.get_by_label("details").fill("x")
            page.locator("main form").evaluate("form => form.noValidate = true")
            page.get_by_role("button", name="Approve").click()
            expect(page.get_by_text("Should be at least 1.")).to_be_visible()
            assert_accessible()

    assert not findings
