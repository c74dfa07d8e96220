"""The approval page of a signed link, /approve/W/<job>/<resume_id>/<signature>, and the answers from a run's page.

The page works signed out and without JavaScript. It shows to whoever holds the link what the flow was started with and
what its step says about the approval, unless the approval asks who gives it: then only to those who may.

The page of a run shows what it waits for (`approval_info.waiting_info`); its forms post to /w/W/runs/<job>/answer/.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods, require_POST

from jobs import listings
from jobs.flows import approval_info, approvals, suspensions
from jobs.flows.approvals import BadSignature, Link
from jobs.flows.suspensions import Standing, Suspension
from jobs.models import FlowVersion, ResumeEvent
from jobs.signatures import validate_args
from jobs.views.schema_fields import Posted, fields_of, read_form
from workspaces import access, middleware, pages
from workspaces.access import Caller
from workspaces.errors import BadRequest, DomainError, NotSignedIn, PermissionDenied
from workspaces.jsontext import check_storable, parse_json

MOST_SHOWN = 300  # characters of a value that the flow was started with
MOST_INPUTS = 64 * 1024  # bytes of inputs; more are not shown
MAX_COMMENT = 2_000  # characters


@dataclass(frozen=True, kw_only=True)
class Notice:
    """What is said in place of the form, or above it."""

    level: str  # info, ok, warn, fail
    title: str
    text: str = ""
    sign_in: str = ""  # address of the sign-in page


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that somebody gave, with their comment or reason."""

    approved: bool
    approver: str | None
    created_at: datetime
    words: str


@dataclass(frozen=True, slots=True)
class Shown:
    """One thing that the flow was started with."""

    name: str
    text: str


@require_http_methods(["GET", "HEAD", "POST"])
def approve(
    request: HttpRequest, workspace: str, job_id: UUID, resume_id: str, signature: str
) -> HttpResponse:
    """GET: the page. POST: `action` approve or deny, `comment`, and the fields of the form."""
    try:
        link = _link(request, workspace, job_id, resume_id)
        approvals.verify(link, signature)
    except (BadSignature, BadRequest):
        return _private(render(request, "approval/wrong_link.html", status=403))
    caller = _member(request, workspace)
    posted: Posted | None = None
    problem = ""
    if request.method == "POST":
        try:
            posted = _answer(request, link, caller)
            if posted is None:
                return HttpResponseRedirect(request.get_full_path())
            problem = posted.problem
        except DomainError as exc:
            problem = pages.sentence(exc.message)
    try:
        found = suspensions.find_suspension(workspace_id=workspace, job_id=link.job_id)
    except BadRequest as exc:  # a link made by a script that runs outside of a flow
        context = {"message": pages.sentence(exc.message)}
        return _private(render(request, "approval/wrong_link.html", context, status=400))
    context = _context(request, found, link, caller, posted) | {"problem": problem}
    failed = request.method == "POST"
    return _private(render(request, "approval/approve.html", context, status=422 if failed else 200))


def _link(request: HttpRequest, workspace: str, job_id: UUID, resume_id: str) -> Link:
    if not (resume_id.isascii() and resume_id.isdigit() and len(resume_id) <= 10):
        raise BadRequest("resume_id should be a number")
    return Link(
        workspace_id=workspace,
        job_id=job_id,
        resume_id=int(resume_id),
        approver=request.GET.get("approver") or None,
    )


def _member(request: HttpRequest, workspace: str) -> Caller | None:
    """The member who is signed in; None for everybody else, whom the link must suffice."""
    try:
        return access.enter_workspace(pages.signed_in(request), workspace)
    except DomainError:
        return None


def _private(response: HttpResponse) -> HttpResponse:
    patch_vary_headers(response, ["Cookie"])
    response.headers["Cache-Control"] = "private, no-store"
    response.headers["X-Robots-Tag"] = "noindex"
    return response


def _answer(request: HttpRequest, link: Link, caller: Caller | None) -> Posted | None:
    """Carry out the form. None when it was; otherwise the form with its errors. Raises DomainError."""
    found = suspensions.find_suspension(workspace_id=link.workspace_id, job_id=link.job_id)
    approved, value, posted = _read(request, found)
    if posted is not None and posted.has_errors:
        # What is wrong with the form is of interest only to somebody who may answer.
        approvals.require_open(found)
        if (refusal := suspensions.why_not(found, caller)) is not None:
            raise refusal
        return posted
    approvals.answer_link(link, caller=caller, approved=approved, value=value)
    return None


def _read(request: HttpRequest, found: Suspension) -> tuple[bool, Any, Posted | None]:
    """(approved, payload, the form when it counts). Raises BadRequest."""
    action = request.POST.get("action")
    if action not in ("approve", "deny"):
        raise BadRequest("say whether to approve or to deny")
    for _, texts in request.POST.lists():
        check_storable(list(texts))
    comment = _comment(request)
    if action == "deny":
        return False, {"reason": comment} if comment else {}, None
    posted = read_form(approval_info.form_schema(found), request)
    value = dict(posted.values)
    if comment:
        value.setdefault("comment", comment)
    return True, value, posted


def _comment(request: HttpRequest) -> str:
    comment = request.POST.get("comment", "").strip().replace("\r\n", "\n")
    if len(comment) > MAX_COMMENT:
        raise BadRequest(f"the comment has {len(comment)} characters; at most {MAX_COMMENT} fit")
    return comment


# --- what the page shows ----------------------------------------------------------------------------------------------


def _context(
    request: HttpRequest, found: Suspension, link: Link, caller: Caller | None, posted: Posted | None
) -> dict[str, Any]:
    used = approvals.used(link)
    form = approval_info.form_schema(found)
    refusal = suspensions.why_not(found, caller)
    is_open = used is None and found.standing in (Standing.WAITING, Standing.AHEAD)
    notice = _said(used) if used is not None else _notice(request, found, caller, refusal)
    may_look = suspensions.may_look(found, caller)
    return {
        "flow_summary": found.flow_summary or "A flow",
        "flow_path": found.root.runnable_path or "",
        "step_summary": (found.step.summary or "") if found.step is not None else "",
        "started_by": found.top.created_by,
        "started_at": found.top.created_at,
        "notice": notice,
        "may_look": may_look,
        "may_answer": is_open and refusal is None,
        "is_ahead": is_open and found.standing is Standing.AHEAD,
        **(approval_info.described(found) if may_look else {}),
        "inputs": _inputs(found) if may_look else [],
        "events": [_given(event) for event in found.events] if may_look else [],
        "required": _required(found),
        "received": sum(event.approved for event in found.events),
        "deadline": found.deadline,
        "fields": posted.fields if posted is not None else fields_of(form),
        "comment": request.POST.get("comment", ""),
        "asks_for_comment": "comment" in ((form or {}).get("properties") or {}),
        "hide_cancel": found.settings.hide_cancel if found.settings is not None else False,
        "approver": link.approver,
        "caller": caller,
        "run_url": f"/w/{link.workspace_id}/runs/{found.top.id}/" if _may_open(found, caller) else "",
    }


def _given(event: ResumeEvent) -> Answer:
    words = (
        event.value.get("comment" if event.approved else "reason") if isinstance(event.value, dict) else None
    )
    text = words[:MAX_COMMENT] if isinstance(words, str) else ""
    return Answer(event.approved, event.approver, event.created_at, text)


def _required(found: Suspension) -> int:
    if found.standing is Standing.WAITING:
        return found.required
    return found.settings.required_events if found.settings is not None else 1


def _may_open(found: Suspension, caller: Caller | None) -> bool:
    if caller is None:
        return False
    row = listings.read_job(workspace_id=caller.workspace_id, job_id=found.top.id)
    return row is not None and listings.may_see(caller, row)


def _said(used: ResumeEvent) -> Notice:
    if used.approved:
        return Notice(
            level="ok", title="Approved", text="Your answer was recorded. There is nothing more to do here."
        )
    return Notice(
        level="fail", title="Denied", text="Your answer was recorded. There is nothing more to do here."
    )


def _notice(
    request: HttpRequest, found: Suspension, caller: Caller | None, refusal: DomainError | None
) -> Notice | None:
    if found.standing not in (Standing.WAITING, Standing.AHEAD):
        return _closed(found)
    if isinstance(refusal, NotSignedIn):
        stranger = middleware.identify(request)
        text = (
            "This approval asks who gives it. Sign in as a member of the workspace, and you come back here."
        )
        if stranger is not None:
            text = f"You are signed in as {stranger.email}, who is not a member of this workspace. {text}"
        return Notice(
            level="info",
            title="Sign in to answer",
            text=text,
            sign_in=f"{reverse('login')}?{urlencode({'next': request.get_full_path()})}",
        )
    if isinstance(refusal, PermissionDenied):
        return Notice(level="warn", title="You cannot answer this", text=pages.sentence(refusal.message))
    if refusal is not None:
        return Notice(level="info", title="Not yet", text=pages.sentence(refusal.message))
    if found.standing is Standing.AHEAD:
        text = "The flow has not come to this approval yet. Your answer is kept until it does."
        return Notice(level="info", title="Early", text=text)
    return None


def _closed(found: Suspension) -> Notice:
    """Why no answer counts any more."""
    denied = next((event for event in found.events if not event.approved), None)
    if denied is not None:
        text = f"By {denied.approver or 'somebody without a name'}. No further answers are needed."
        return Notice(level="fail", title="This was denied", text=text)
    if found.standing is Standing.EXPIRED or _timed_out(found):
        text = "The time for this approval is over, so the flow does not wait for it any more."
        return Notice(level="warn", title="Too late", text=text)
    if sum(event.approved for event in found.events) >= _required(found):
        return Notice(level="ok", title="Approved already", text="No further approvals are needed.")
    if found.standing is Standing.ENDED:
        text = "The run is over, or was canceled. It does not wait for an approval."
        return Notice(level="info", title="The run has ended", text=text)
    text = "The flow has gone on and does not wait for this approval any more."
    return Notice(level="info", title="No answer needed", text=text)


def _timed_out(found: Suspension) -> bool:
    """Did the flow end because nobody answered?"""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT result->'error'->>'name' FROM completed_job"
            " WHERE id = %s AND status = 'failure' AND json_typeof(result) = 'object'",
            [found.flow.id],
        )
        row = cursor.fetchone()
    return row is not None and row[0] == "SuspendedTimedOut"


def _inputs(found: Suspension) -> list[Shown]:
    """What the flow was started with, without what its schema calls a password."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT CASE WHEN octet_length(args::text) <= %s THEN args::text END FROM job WHERE id = %s",
            [MOST_INPUTS, found.root.id],
        )
        row = cursor.fetchone()
    args = json.loads(row[0]) if row and row[0] else {}
    versions = FlowVersion.objects.filter(pk=found.root.runnable_id or 0)
    schema = versions.values_list("schema", flat=True).first()
    order = schema.get("order") if isinstance(schema, dict) else None
    names = (
        [name for name in order if isinstance(name, str) and name in args] if isinstance(order, list) else []
    )
    return [
        Shown(name, _value(args[name], name in found.secret_inputs))
        for name in dict.fromkeys([*names, *args])
    ]


def _value(value: Any, is_secret: bool) -> str:
    if is_secret:
        return approval_info.HIDDEN
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


# --- on the page of a run ---------------------------------------------------------------------------------------------


@require_POST
@pages.workspace_page(operators=True)
def answer(request: HttpRequest, caller: Caller, job_id: UUID) -> HttpResponse:
    """Answer as the member who is signed in: `approved` 1 or 0, `payload` (JSON text), `comment`.

    Asked by htmx it answers with a toast and the event `wm-answered` {approved}; otherwise it leads to the page of the
    run. Raises what `approvals.answer_as_member` raises, and BadRequest for a payload that does not fit the form.
    """
    found = approvals.suspension_in(caller, job_id)
    approved = request.POST.get("approved") == "1"
    comment = _comment(request)
    if approved:
        value = _payload(request.POST.get("payload", ""), found)
        if comment and isinstance(value, dict):
            value.setdefault("comment", comment)
    else:
        value = {"reason": comment} if comment else {}
    approvals.answer_as_member(caller, job_id, approved=approved, value=value)
    if not pages.is_fragment(request):
        return HttpResponseRedirect(f"/w/{caller.workspace_id}/runs/{found.top.id}/")
    response = pages.trigger(HttpResponse(status=204), "wm-answered", {"approved": approved})
    return pages.toast(response, "Approved" if approved else "Denied")


def _payload(text: str, found: Suspension) -> Any:
    """The payload that a form sent. Raises BadRequest, naming the fields that are wrong."""
    value = parse_json(text) if text.strip() else {}
    schema = approval_info.form_schema(found)
    problems = validate_args(schema, value) if schema is not None else []
    if problems:
        sentences = [f"{'.'.join(map(str, one.path)) or 'the form'}: {one.message}" for one in problems[:10]]
        raise BadRequest(" ".join(sentences))
    return value
