"""Approvals: signed links, and the answers that resume or end a flow that waits. The only writer of `resume_job`.

A link names a job, a number (`resume_id`, good for one answer) and sometimes the approver, all three signed with the
key of the workspace; who holds it may answer, signed in or not, as far as the approval's conditions allow. Members who
may write the flow can answer without a link.

An answer is a row; the flow is woken to look at it. Approvals may come before the flow waits: they count when it does.
What the rows mean to a flow (how many are needed, what a denial does) is the machine's business.
"""

import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from jobs import listings, wakeups
from jobs.flows import suspensions
from jobs.flows.suspensions import Standing, Suspension
from jobs.flows.waking import wake
from jobs.models import FLOW_KINDS, Job, ResumeEvent
from jobs.shapes import JobRow
from workspaces import audit, secrets
from workspaces.access import Caller
from workspaces.errors import BadRequest, Conflict, PermissionDenied
from workspaces.jsontext import check_storable
from workspaces.models import ActionKind, AuditEntry, Workspace
from workspaces.references import has_references, interpolate

MAX_RESUME_ID = 2**32 - 1
MAX_APPROVER = 255  # characters
MAX_PAYLOAD = 5_000_000  # characters of JSON


class BadSignature(PermissionDenied):
    """The link was not made by this workspace, or was changed."""

    code = "bad_signature"


class AlreadyAnswered(Conflict):
    """The link was used before, or this member has answered."""

    code = "already_answered"


class NothingWaits(BadRequest):
    """The flow does not wait for this answer, and will not."""

    code = "nothing_waits"


# --- links ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What a signature is about."""

    workspace_id: str
    job_id: UUID  # a step's job, or (flow-level) the flow job
    resume_id: int
    approver: str | None = None


@dataclass(frozen=True, slots=True)
class LinkUrls:
    """The addresses of a link: the page for people, and what programs call."""

    approval_page: str
    resume: str
    cancel: str


def make_link(
    caller: Caller, job_id: UUID, *, resume_id: int, approver: str | None = None, flow_level: bool = False
) -> Link:
    """A link for a job that the caller owns. `flow_level`: for the flow around it, good for any of its approvals.

    A link is the power to approve, so it is for jobs of the flow themselves, for who started it, and for those who may
    write the flow. Raises BadRequest, JobNotFound, PermissionDenied.
    """
    check_resume_id(resume_id)
    approver = _approver(approver)
    row = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
    _require_owner(caller, row)
    if flow_level and row.kind not in FLOW_KINDS:
        job_id = suspensions.find_suspension(workspace_id=caller.workspace_id, job_id=job_id).flow.id
    return Link(workspace_id=caller.workspace_id, job_id=job_id, resume_id=resume_id, approver=approver)


def _require_owner(caller: Caller, row: JobRow) -> None:
    """Raises PermissionDenied unless the caller started the job, runs as it does, or may write what it is a part of."""
    if caller.is_admin or row.created_by == caller.username or row.permissioned_as == caller.permissioned_as:
        return
    try:
        root = suspensions.find_suspension(workspace_id=caller.workspace_id, job_id=row.id).root
    except BadRequest:  # not part of a flow: a link would do nothing
        root = Job.objects.only("kind", "runnable_path", "created_by", "workspace_id").get(pk=row.id)
    if suspensions.why_no_owner(root, caller) is not None:
        raise PermissionDenied(
            f"a link approves without asking who uses it: making one for job {row.id} needs the right to write its "
            "flow, or to have started it"
        )


def check_resume_id(resume_id: int) -> None:
    """Raises BadRequest."""
    if not 0 <= resume_id <= MAX_RESUME_ID:
        raise BadRequest(f"resume_id is {resume_id}; expected a whole number from 0 to {MAX_RESUME_ID}")


def _approver(approver: str | None) -> str | None:
    if not approver:
        return None
    if len(approver) > MAX_APPROVER:
        raise BadRequest(f"approver has {len(approver)} characters; at most {MAX_APPROVER} fit")
    check_storable(approver)
    return approver


def sign(link: Link) -> str:
    """HMAC-SHA256 with the workspace's key of job id (16 bytes), resume_id (4 bytes, big-endian), approver (UTF-8)."""
    message = link.job_id.bytes + link.resume_id.to_bytes(4, "big") + (link.approver or "").encode()
    return secrets.sign(link.workspace_id, message)


def verify(link: Link, signature: str) -> None:
    """Raises BadSignature, also for jobs and workspaces that do not exist: a guess must not tell them apart."""
    invalid = BadSignature("Invalid signature: this approval link is not complete, or was changed on its way")
    try:
        check_resume_id(link.resume_id)
        _approver(link.approver)
    except BadRequest:
        raise invalid from None
    if not Job.objects.filter(pk=link.job_id, workspace_id=link.workspace_id).exists():
        raise invalid
    if not Workspace.objects.filter(pk=link.workspace_id, deleted=False).exists():
        raise invalid
    if not hmac.compare_digest(sign(link).encode(), signature.lower().encode(errors="replace")):
        raise invalid


def urls(link: Link) -> LinkUrls:
    """The absolute addresses of a link."""
    tail = f"{link.job_id}/{link.resume_id}/{sign(link)}"
    if link.approver:
        tail += "?" + urlencode({"approver": link.approver})
    api = f"{settings.BASE_URL}/api/w/{link.workspace_id}/jobs_u"
    return LinkUrls(
        approval_page=f"{settings.BASE_URL}/approve/{link.workspace_id}/{tail}",
        resume=f"{api}/resume/{tail}",
        cancel=f"{api}/cancel/{tail}",
    )


# --- answers ---


def answer_link(link: Link, *, caller: Caller | None, approved: bool, value: Any) -> Suspension:
    """Approve or deny with a link that `verify` let pass; `caller` is who is signed in, None when nobody is.

    `value` is the payload (JSON) that the next step sees as `resume`. Raises AlreadyAnswered, NothingWaits, NotSignedIn
    and PermissionDenied (conditions), BadRequest (payload). Answers where the flow stood.
    """
    return _answer(
        link.workspace_id,
        link.job_id,
        resume_id=link.resume_id,
        approver=link.approver,
        caller=caller,
        approved=approved,
        value=value,
        by_link=True,
    )


def answer_as_member(caller: Caller, job_id: UUID, *, approved: bool, value: Any) -> Suspension:
    """Approve or deny without a link what a run waits for: `job_id` is a flow job or any job of it. Once a member.

    Raises like `answer_link`; JobNotFound; NothingWaits also when several approvals wait below the job: name one of
    their jobs then.
    """
    target = suspension_in(caller, job_id)
    return _answer(
        caller.workspace_id,
        target.step_job or target.flow.id,
        # A number of their own, so that one person does not count twice.
        resume_id=_own_number(caller.email, target),
        approver=None,
        caller=caller,
        approved=approved,
        value=value,
        by_link=False,
    )


def suspension_in(caller: Caller, job_id: UUID) -> Suspension:
    """The approval that a job stands for or waits for; the caller may see the job. Raises like `answer_as_member`."""
    row = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
    return _one_waiting(Job.objects.defer("args", "raw_code").get(pk=row.id))


def require_same_run(link: Link, job_id: UUID) -> None:
    """Raises BadSignature unless the link is for a job of the same run as `job_id`."""
    roots = Job.objects.filter(pk__in=[link.job_id, job_id], workspace_id=link.workspace_id)
    tops = {root or own for own, root in roots.values_list("id", "root_job")}
    if link.job_id != job_id and (len(tops) != 1 or roots.count() != 2):
        raise BadSignature("Invalid signature: approval_token is for another run")


def _own_number(email: str, target: Suspension) -> int:
    digest = hashlib.sha256(f"{email} {target.next_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _one_waiting(job: Job) -> Suspension:
    if job.kind not in FLOW_KINDS:
        return suspensions.find_suspension(workspace_id=job.workspace_id, job_id=job.id)
    found = suspensions.waiting_in(job)
    if len(found) > 1:
        steps = ", ".join(f"{one.step_id} ({one.step_job})" for one in found[:5])
        raise NothingWaits(
            f"{len(found)} steps of this run wait for approvals; answer one of them by the id of its job: {steps}"
        )
    if found:
        return found[0]
    standing = suspensions.find_suspension(workspace_id=job.workspace_id, job_id=job.id)
    if standing.standing is Standing.AHEAD:
        raise NothingWaits(f"job {job.id} does not wait for an approval at the moment")
    return standing


def _answer(
    workspace_id: str,
    job_id: UUID,
    *,
    resume_id: int,
    approver: str | None,
    caller: Caller | None,
    approved: bool,
    value: Any,
    by_link: bool,
) -> Suspension:
    _check_payload(value, caller)
    event_id = UUID(int=job_id.int ^ resume_id)
    with transaction.atomic():
        found = suspensions.find_suspension(workspace_id=workspace_id, job_id=job_id, lock=True)
        if ResumeEvent.objects.filter(pk=event_id).exists():
            raise AlreadyAnswered(
                "resume request already sent: each link counts once"
                if by_link
                else "resume request already sent: you have answered, and each member counts once"
            )
        require_open(found)
        problem = (
            suspensions.why_not(found, caller)
            if by_link or caller is None
            else suspensions.why_not_without_link(found, caller)
        )
        if problem is not None:
            raise problem
        is_waiting = found.standing is Standing.WAITING
        if caller is not None and (approver is None or found.conditions.ask_who):
            approver = caller.username
        ResumeEvent.objects.create(
            id=event_id,
            workspace_id=workspace_id,
            # A flow-level answer is used up by the approval that waits for it; one that comes early is good for any.
            job_id=found.step_job or job_id if is_waiting else job_id,
            flow_id=found.flow.id,
            resume_id=resume_id,
            approver=approver,
            approved=approved,
            value=value,
        )
        missing = _count_down(found.flow.id) if is_waiting and approved else 0
        if missing == 0:
            # Also when nothing waits yet: a worker may be about to look for answers, and must notice this one.
            wake([found.flow.id])
        wakeups.jobs_changed({found.flow.id, found.root.id, found.top.id})
        _record(workspace_id, found, caller, approver, approved)
    return found


def _check_payload(value: Any, caller: Caller | None) -> None:
    check_storable(value)
    if len(json.dumps(value)) > MAX_PAYLOAD:
        raise BadRequest(f"the payload is larger than {MAX_PAYLOAD} characters of JSON")
    # Steps replace references in their inputs with the rights of the flow. An approver must not read more through
    # them than by themselves.
    if has_references(value):
        if caller is None:
            raise PermissionDenied(
                "the payload names variables or resources ($var:..., $res:...); sign in to use those that you may read"
            )
        interpolate(value, caller=caller)


def require_open(found: Suspension) -> None:
    """Raises NothingWaits, with the reason, unless an answer still counts."""
    match found.standing:
        case Standing.ENDED:
            raise NothingWaits(
                "the flow has ended, or is being canceled; it does not wait for an approval any more"
            )
        case Standing.EXPIRED:
            raise NothingWaits("the time for this approval is over")
        case Standing.PASSED:
            raise NothingWaits("the flow has gone on already; it does not wait for this approval any more")


def _count_down(flow_id: UUID) -> int:
    """One approval less is missing; answers how many still are, 0 when a worker is looking at the flow already."""
    with connection.cursor() as cursor:
        # Only while nobody holds the flow: its worker has this row locked and waits for the one of flow_status.
        cursor.execute(
            "UPDATE queue SET suspend = suspend - 1"
            " WHERE id = %s AND suspend > 0 AND last_ping IS NULL RETURNING suspend",
            [flow_id],
        )
        row = cursor.fetchone()
    return int(row[0]) if row else 0


def _record(
    workspace_id: str, found: Suspension, caller: Caller | None, approver: str | None, approved: bool
) -> None:
    operation = "jobs.suspend_resume" if approved else "jobs.disapproval"
    details: dict[str, Any] = {"flow": str(found.flow.id), "step": found.step_id}
    if caller is not None:
        audit.record(
            caller,
            operation,
            ActionKind.EXECUTE,
            resource=str(found.job.id),
            parameters=details | {"approver": approver},
        )
        return
    AuditEntry.objects.create(
        workspace_id=workspace_id,
        username=listings.ANONYMOUS,
        email=listings.ANONYMOUS,
        operation=operation,
        action_kind=ActionKind.EXECUTE,
        resource=str(found.job.id),
        parameters=details | {"approver": approver},
    )


def used(link: Link) -> ResumeEvent | None:
    """The answer that was given with this link."""
    return ResumeEvent.objects.filter(pk=UUID(int=link.job_id.int ^ link.resume_id)).first()
