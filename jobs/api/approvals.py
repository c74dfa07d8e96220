"""REST routes of approvals (reference/triggers-and-webhooks.md section 2) and of the states that a flow's steps share.

The `jobs_u` routes with a signature also work signed out: the signature is the right to answer. Who is signed in
matters only for approvals that ask who gives them.
"""

import re
from typing import Any
from urllib.parse import unquote_plus

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import listings
from jobs.api.job import ByIdView, json_bytes, parse_job_id
from jobs.flows import approval_info, approvals, public, suspensions, user_states
from jobs.flows.approvals import Link
from jobs.payloads import decode_payload
from jobs.shapes import job_json, with_raw
from workspaces import middleware
from workspaces.access import Caller, Identity, enter_workspace
from workspaces.api.base import WorkspaceView, flag, read_body
from workspaces.api.fields import TEXT_CREATED, TEXT_OK, Flag, Json, Text
from workspaces.api.parameters import query, switch
from workspaces.api.protocol import SAFE_METHODS, text
from workspaces.errors import BadRequest, DomainError, NotSignedIn
from workspaces.jsontext import parse_json

_APPROVER = query("approver", "Who the link is for; part of what is signed")
# job id / resume_id / signature, and perhaps the approver: the end of an approval link.
_TOKEN = re.compile(
    r"(?P<job>[0-9a-fA-F-]{36})/(?P<resume_id>\d{1,10})/(?P<signature>[0-9a-fA-F]{64})"
    r"(?:\?approver=(?P<approver>.*))?"
)


def parse_resume_id(text: str) -> int:
    """Raises BadRequest."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= approvals.MAX_RESUME_ID):
        raise BadRequest(
            f"resume_id is {text[:40]!r}; expected a whole number from 0 to {approvals.MAX_RESUME_ID}"
        )
    return int(text)


class LinkUrls(WorkspaceView):
    """The addresses that approve or deny, to be sent to an approver."""

    domain = "jobs"
    operators_may_write = True

    @extend_schema(
        operation_id="getResumeUrls",
        parameters=[_APPROVER, switch("flow_level", "For any approval of the flow, not only this step's")],
        responses={200: dict},
    )
    def get(self, request: Request, workspace: str, id: str, resume_id: str) -> Response:
        link = approvals.make_link(
            self.caller,
            parse_job_id(id),
            resume_id=parse_resume_id(resume_id),
            approver=request.query_params.get("approver"),
            flow_level=flag(request, "flow_level", default=False),
        )
        urls = approvals.urls(link)
        return Response({"approvalPage": urls.approval_page, "resume": urls.resume, "cancel": urls.cancel})


class JobSignature(WorkspaceView):
    """The signature alone, for links of one's own making."""

    domain = "jobs"

    @extend_schema(operation_id="createJobSignature", parameters=[_APPROVER], responses=TEXT_OK)
    def get(self, request: Request, workspace: str, id: str, resume_id: str) -> HttpResponse:
        link = approvals.make_link(
            self.caller,
            parse_job_id(id),
            resume_id=parse_resume_id(resume_id),
            approver=request.query_params.get("approver"),
        )
        return text(approvals.sign(link))


class SignedView(WorkspaceView):
    """A route for whoever holds a link. `link` has been verified; `caller` is None unless a member is signed in."""

    public = True
    domain = "jobs"
    link: Link
    caller: Caller | None  # type: ignore[assignment]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        APIView.initial(self, request, *args, **kwargs)
        self.link = Link(
            workspace_id=kwargs["workspace"],
            job_id=parse_job_id(kwargs["id"]),
            resume_id=parse_resume_id(kwargs["resume_id"]),
            approver=request.query_params.get("approver") or None,
        )
        approvals.verify(self.link, kwargs["signature"])
        self.caller = member_behind(request, kwargs["workspace"])


def member_behind(request: Request, workspace_id: str) -> Caller | None:
    """The member who sent this with all their rights; None for everybody else, whom a link must suffice."""
    identity = request.auth
    if not isinstance(identity, Identity):
        return None
    if middleware.is_by_cookie(request._request) and middleware.is_cross_site(request._request):
        return None  # another site's page may have sent the browser here
    try:
        caller = enter_workspace(identity, workspace_id)
        identity.require_scope("jobs", "write")
    except DomainError:
        return None
    return caller


class Resume(SignedView):
    """Approve. The payload is the body, or with GET the `payload` parameter; {} when there is none."""

    approved = True
    said = "the flow was approved"

    @extend_schema(
        operation_id="resumeSuspendedJobGet",
        parameters=[_APPROVER, query("payload", "base64 of JSON")],
        responses=TEXT_CREATED,
    )
    def get(self, request: Request, workspace: str, id: str, resume_id: str, signature: str) -> HttpResponse:
        payload = request.query_params.get("payload")
        return self._answer(request, {} if payload is None else decode_payload(payload))

    @extend_schema(
        operation_id="resumeSuspendedJobPost", parameters=[_APPROVER], request=dict, responses=TEXT_CREATED
    )
    def post(self, request: Request, workspace: str, id: str, resume_id: str, signature: str) -> HttpResponse:
        return self._answer(request, request.data)

    def head(self, request: Request, workspace: str, id: str, resume_id: str, signature: str) -> HttpResponse:
        """Whoever only looks whether the link works has not answered."""
        return text("")

    def _answer(self, request: Request, value: Any) -> HttpResponse:
        try:
            approvals.answer_link(self.link, caller=self.caller, approved=self.approved, value=value)
        except NotSignedIn as exc:
            if request.method in SAFE_METHODS and isinstance(request.auth, Identity):
                raise NotSignedIn(
                    f"{exc.message}; in a browser, use the approval page {approvals.urls(self.link).approval_page}"
                ) from exc
            raise
        return text(self.said, 201)


class Disapprove(Resume):
    """Deny: the flow fails, unless its step says that it goes on."""

    approved = False
    said = "the flow was denied"

    @extend_schema(
        operation_id="cancelSuspendedJobGet",
        parameters=[_APPROVER, query("payload", "base64 of JSON")],
        responses=TEXT_CREATED,
    )
    def get(self, request: Request, workspace: str, id: str, resume_id: str, signature: str) -> HttpResponse:
        return super().get(request, workspace, id, resume_id, signature)

    @extend_schema(
        operation_id="cancelSuspendedJobPost", parameters=[_APPROVER], request=dict, responses=TEXT_CREATED
    )
    def post(self, request: Request, workspace: str, id: str, resume_id: str, signature: str) -> HttpResponse:
        return super().post(request, workspace, id, resume_id, signature)


class SuspendedFlow(SignedView):
    """The flow job that an approval is for, and who approved so far."""

    @extend_schema(operation_id="getSuspendedJobFlow", parameters=[_APPROVER], responses={200: dict})
    def get(self, request: Request, workspace: str, id: str, resume_id: str, signature: str) -> HttpResponse:
        found = suspensions.find_suspension(workspace_id=workspace, job_id=self.link.job_id)
        row = approval_info.flow_job(found, caller=self.caller)
        status = public.flow_status(row.id) or {}
        status.pop("user_states", None)  # the flow's own business
        job = job_json(row, with_code=False, flow={"flow_status": status})
        return json_bytes(with_raw({"approvers": approval_info.approvers(found)}, {"job": job.decode()}))


class ResumeAsOwner(WorkspaceView):
    """Approve, without a link, what a run waits for. The body is the payload."""

    domain = "jobs"
    operators_may_write = True

    @extend_schema(operation_id="resumeSuspendedFlowAsOwner", request=dict, responses=TEXT_CREATED)
    def post(self, request: Request, workspace: str, id: str) -> HttpResponse:
        approvals.answer_as_member(self.caller, parse_job_id(id), approved=True, value=request.data)
        return text("the flow was approved", 201)


class SuspendedAnswer(serializers.Serializer):
    payload = Json(required=False)
    approval_token = Text(required=False, allow_null=True)
    approved = Flag(required=False, allow_null=True)


class MemberView(ByIdView):
    """A route for members, and with a token for others."""

    def member(self) -> Caller:
        """Who asks. Raises NotSignedIn, NotFound (from outside the workspace)."""
        if self.caller is None:
            raise self._refused or NotSignedIn(
                "sign in first, or send a token: Authorization: Bearer <token>"
            )
        return self.caller


class ResumeSuspended(MemberView):
    """Approve or deny what a run waits for: with the end of an approval link as `approval_token`, or as a member."""

    @extend_schema(operation_id="resumeSuspended", request=SuspendedAnswer, responses=TEXT_CREATED)
    def post(self, request: Request, workspace: str, id: str) -> HttpResponse:
        body = read_body(SuspendedAnswer, request)
        approved = body.get("approved") is not False
        value = body.get("payload", {})
        job_id = parse_job_id(id)
        if token := body.get("approval_token"):
            link = link_of_token(token, workspace_id=workspace, job_id=job_id)
            approvals.answer_link(
                link, caller=member_behind(request, workspace), approved=approved, value=value
            )
        else:
            caller = self.member()
            caller.identity.require_scope("jobs", "write")
            approvals.answer_as_member(caller, job_id, approved=approved, value=value)
        return text("the flow was approved" if approved else "the flow was denied", 201)


class ApprovalInfo(MemberView):
    """What an approval asks for: its form, its conditions, whether the caller may answer."""

    @extend_schema(
        operation_id="getApprovalInfo",
        parameters=[query("approval_token", "The end of an approval link, for somebody signed out")],
        responses={200: dict},
    )
    def get(self, request: Request, workspace: str, id: str) -> Response:
        job_id = parse_job_id(id)
        if token := request.query_params.get("approval_token"):
            link = link_of_token(token, workspace_id=workspace, job_id=job_id)
            found = suspensions.find_suspension(workspace_id=workspace, job_id=link.job_id)
            caller = member_behind(request, workspace)
            return Response(approval_info.approval_info(found, caller=caller, by_link=True))
        found = approvals.suspension_in(self.member(), job_id)
        return Response(approval_info.approval_info(found, caller=self.caller, by_link=False))


def link_of_token(token: str, *, workspace_id: str, job_id: Any) -> Link:
    """The link that an `approval_token` is the end of: job/resume_id/signature?approver=... Raises BadSignature."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        raise approvals.BadSignature(
            "Invalid signature: approval_token is the end of an approval link, <job>/<resume_id>/<signature>"
        )
    link = Link(
        workspace_id=workspace_id,
        job_id=parse_job_id(found["job"]),
        resume_id=parse_resume_id(found["resume_id"]),
        approver=unquote_plus(found["approver"] or "") or None,
    )
    approvals.verify(link, found["signature"])
    approvals.require_same_run(link, job_id)
    return link


class NoChatApproval(WorkspaceView):
    """Approvals by Slack and Teams need an application of theirs, which this instance is none of."""

    domain = "jobs"
    service = "Slack"

    def get(self, request: Request, workspace: str, id: str) -> Response:
        listings.get_job(self.caller, workspace_id=workspace, job_id=parse_job_id(id))
        raise BadRequest(
            f"interactive approvals in {self.service} are not available on this instance; "
            f"send the links of resume_urls in a message of your own to {self.service} instead"
        )


class SlackApproval(NoChatApproval):
    """Not available: says what to do instead."""

    @extend_schema(operation_id="getSlackApprovalPayload", responses=TEXT_OK)
    def get(self, request: Request, workspace: str, id: str) -> Response:
        return super().get(request, workspace, id)


class TeamsApproval(NoChatApproval):
    """Not available: says what to do instead."""

    service = "Teams"

    @extend_schema(operation_id="getTeamsApprovalPayload", responses=TEXT_OK)
    def get(self, request: Request, workspace: str, id: str) -> Response:
        return super().get(request, workspace, id)


class CodeApprovalUrls(WorkspaceView):
    """Links for an approval of a workflow that is written as code: there are none without such workflows."""

    domain = "jobs"

    @extend_schema(operation_id="getWacApprovalUrls", responses={200: dict})
    def get(self, request: Request, workspace: str, id: str, step_key: str) -> Response:
        listings.get_job(self.caller, workspace_id=workspace, job_id=parse_job_id(id))
        raise BadRequest(
            f"job {id} is not a workflow as code that waits at {step_key[:60]!r}; in a flow, use get_resume_urls in the "
            "step that has the approval"
        )


class UserState(WorkspaceView):
    """A state of the run that a job belongs to."""

    domain = "jobs"
    operators_may_write = True

    @extend_schema(operation_id="getFlowUserState", responses={200: dict})
    def get(self, request: Request, workspace: str, id: str, key: str) -> Response:
        return Response(user_states.get_user_state(self.caller, parse_job_id(id), key))

    @extend_schema(operation_id="setFlowUserState", request=dict, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, id: str, key: str) -> HttpResponse:
        raw = request._request.body
        if not raw.strip():
            raise BadRequest("the body is empty; expected the state as JSON (null to clear it)")
        user_states.set_user_state(self.caller, parse_job_id(id), key, parse_json(raw))
        return text("ok")
