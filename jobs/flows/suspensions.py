"""Where a flow stands with its approvals: which flow waits, for whom, and who may answer. Reads only.

What is read here, and so must stay as it is (jobs.flows.state):

    flow_status.state.module             {"type": "WaitingForEvents", "id", "count", "job"} while the flow waits; `job` is
                                         of the module that carries `suspend`, `id` the module that comes next
    flow_status.state.previous_job       the job of the module that ended last
    flow_status.state.approval_conditions   {user_auth_required, user_groups_required: [...], self_approval_disabled}
    queue.suspend, queue.suspend_until   approvals still missing, and the deadline
"""

import enum
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from jobs import sql
from jobs.flows.state import NO_JOB, State
from jobs.flows.value import BadFlow, FlowModule, FlowValue, Suspend, UnknownModule, parse_flow_value
from jobs.models import (
    FLOW_KINDS,
    Flow,
    FlowStatus,
    FlowVersion,
    Job,
    JobKind,
    QueuedJob,
    ResumeEvent,
)
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, DomainError, NotFound, NotSignedIn, PermissionDenied

MOST_WAITING = 100  # flows of one run that wait at the same time, as far as they are listed
_MOST_LEVELS = 100  # a job below a job below ...


class Standing(enum.Enum):
    """What an answer would do now."""

    AHEAD = "ahead"  # the flow has not come to the approval yet: the answer is kept until then
    WAITING = "waiting"
    EXPIRED = "expired"  # the deadline is over
    PASSED = "passed"  # the flow has gone on
    ENDED = "ended"  # the flow is over, or being canceled


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Who may answer."""

    user_auth_required: bool = False
    user_groups_required: tuple[str, ...] = ()  # any of them; none: every member
    self_approval_disabled: bool = False

    @property
    def ask_who(self) -> bool:
        """Must we know who answers?"""
        return self.user_auth_required or bool(self.user_groups_required) or self.self_approval_disabled

    def to_json(self) -> dict[str, Any]:
        return {
            "user_auth_required": self.user_auth_required,
            "user_groups_required": list(self.user_groups_required),
            "self_approval_disabled": self.self_approval_disabled,
        }


@dataclass(frozen=True, kw_only=True)
class Suspension:
    """A flow job and the approval that it waits for, or will."""

    job: Job  # what was asked about: a job of the flow, or the flow job itself
    flow: Job  # the flow job that waits: a flow, or the body of a loop or branch
    root: Job  # the flow (not body) around it: its definition has the modules
    top: Job  # the topmost job: who started that one is "the runner"
    standing: Standing
    step_job: UUID | None  # of the module that carries `suspend`; None while it is not known
    step_id: str | None
    next_id: str | None = None  # the module that comes after the approval, while the flow waits for it
    missing: int = 0  # approvals; 0 unless WAITING
    required: int = 1
    deadline: datetime | None = None
    conditions: Conditions = Conditions()

    @property
    def is_flow_level(self) -> bool:
        """Was asked about the flow job itself: good for any of its approvals."""
        return self.job.id == self.flow.id

    @cached_property
    def definition(self) -> FlowValue | None:
        """What the flow does; None when it is gone."""
        raw: Any = self.root.raw_flow
        if raw is None and self.root.runnable_id is not None:
            raw = FlowVersion.objects.filter(pk=self.root.runnable_id).values_list("value", flat=True).first()
        try:
            return parse_flow_value(raw) if raw is not None else None
        except BadFlow:
            return None

    @cached_property
    def step(self) -> FlowModule | None:
        """The module that carries `suspend`."""
        if self.definition is None:
            return None
        try:
            if self.step_id is not None:
                return self.definition.module(self.step_id)
            return self._before(self.definition, self.next_id) if self.next_id is not None else None
        except UnknownModule:
            return None

    @staticmethod
    def _before(definition: FlowValue, id: str) -> FlowModule | None:
        """The module before this one, for those that needed no job (an empty loop): they cannot be found by it."""
        body = definition.locate(id).body
        modules = definition.modules if body is None else definition.body(body)
        position = next((n for n, module in enumerate(modules) if module.id == id), 0)
        return modules[position - 1] if position else None

    @property
    def settings(self) -> Suspend | None:
        """What the module says about its approval; None when it has none."""
        return self.step.suspend if self.step is not None else None

    @cached_property
    def flow_summary(self) -> str:
        """The words that name the flow: its summary, or its path."""
        path = self.root.runnable_path or ""
        live = Flow.objects.filter(workspace_id=self.root.workspace_id, path=path)
        return live.values_list("summary", flat=True).first() or path

    @cached_property
    def events(self) -> list[ResumeEvent]:
        """What was answered so far for this approval, oldest first."""
        ids = {self.flow.id, self.job.id, *([self.step_job] if self.step_job else [])}
        return list(ResumeEvent.objects.filter(job_id__in=ids).order_by("created_at", "id"))

    @cached_property
    def step_result(self) -> dict[str, Any]:
        """What the step returned for us: `description`, `default_args`, `enums`, those that there are."""
        if self.step_job is None:
            return {}
        with connection.cursor() as cursor:
            # The rest of the result may be huge.
            cursor.execute(
                "SELECT result->'description', result->'default_args', result->'enums' FROM completed_job"
                " WHERE id = %s AND json_typeof(result) = 'object'",
                [self.step_job],
            )
            row = cursor.fetchone() or (None, None, None)
        found = zip(("description", "default_args", "enums"), row, strict=True)
        return {name: value for name, value in found if value is not None}

    @cached_property
    def secret_inputs(self) -> frozenset[str]:
        """Names of the flow's inputs that its schema calls passwords: approvers are not shown them."""
        versions = FlowVersion.objects.filter(pk=self.root.runnable_id or 0)
        schema = versions.values_list("schema", flat=True).first()
        properties = schema.get("properties") if isinstance(schema, dict) else None
        if not isinstance(properties, dict):
            return frozenset()
        return frozenset(
            name
            for name, field in properties.items()
            if isinstance(field, dict) and field.get("password") is True
        )

    def is_runner(self, caller: Caller) -> bool:
        """Did this caller start the run, or is it a part of the run itself?"""
        if caller.username == self.top.created_by:
            return True
        own = caller.identity.job_id
        if own is None:
            return False
        return own == self.top.id or Job.objects.filter(pk=own, root_job=self.top.id).exists()


def find_suspension(*, workspace_id: str, job_id: UUID, lock: bool = False) -> Suspension:
    """The approval that this job stands for: a step's own, or with the id of a flow job whichever that one waits for.

    `lock` (in a transaction) keeps workers from advancing the flow until its end. Raises NotFound, BadRequest (a job
    that is no part of a flow).
    """
    job = _job(job_id, workspace_id)
    flow = _flow_of(job)
    status = FlowStatus.objects.select_for_update() if lock else FlowStatus.objects.all()
    row = status.filter(pk=flow.id).first()
    state = State.from_json(row.state) if row is not None else State()
    overdue = ExpressionWrapper(Q(suspend_until__lte=Now()), output_field=BooleanField())
    queued = QueuedJob.objects.filter(pk=flow.id).annotate(is_overdue=overdue).first()
    waits = state.module is not None and state.module.type == "WaitingForEvents"
    waited = _uuid(state.module.job if waits and state.module else None)
    step_job, step_id = _step(job, flow, waited)
    standing = _standing(
        job, flow, state, queued, matches=waits and (job.id == flow.id or step_job == waited)
    )
    is_waiting = standing is Standing.WAITING and queued is not None
    root = flow
    if flow.kind == JobKind.FLOW_BODY and flow.flow_innermost_root_job:
        root = _job(flow.flow_innermost_root_job, workspace_id)
    return Suspension(
        job=job,
        flow=flow,
        root=root,
        top=_job(flow.root_job, workspace_id) if flow.root_job else flow,
        standing=standing,
        step_job=step_job,
        step_id=step_id,
        next_id=state.module.id if is_waiting and state.module else None,
        missing=queued.suspend if is_waiting and queued else 0,
        required=(state.module.count or 1) if is_waiting and state.module else 1,
        deadline=queued.suspend_until if is_waiting and queued else None,
        conditions=_conditions(state.approval_conditions if is_waiting else None),
    )


def _job(job_id: UUID, workspace_id: str) -> Job:
    row = Job.objects.filter(pk=job_id, workspace_id=workspace_id).defer("args", "raw_code").first()
    if row is None:
        raise NotFound(f"job {job_id} does not exist in workspace {workspace_id}")
    return row


def _flow_of(job: Job) -> Job:
    """The flow job that a link of `job` is about."""
    # A flow that is itself a step: while it runs, its own approvals are meant; then the one of the step that it was.
    if job.kind in FLOW_KINDS:
        is_over = not QueuedJob.objects.filter(pk=job.id).exists()
        if job.parent_job is None or job.flow_step_id is None or not is_over:
            return job
    above = job
    for _ in range(_MOST_LEVELS):
        if above.parent_job is None:
            break
        above = _job(above.parent_job, job.workspace_id)
        if above.kind in FLOW_KINDS:
            return above
    raise BadRequest(f"job {job.id} is not part of a flow, so nothing waits for an approval of it")


def _step(job: Job, flow: Job, waited: UUID | None) -> tuple[UUID | None, str | None]:
    """(job, id) of the module that carries `suspend`."""
    if waited is None:
        return (None, None) if job.id == flow.id else (job.id, job.flow_step_id)
    if waited == job.id:
        return waited, job.flow_step_id
    waited_id = Job.objects.filter(pk=waited).values_list("flow_step_id", flat=True).first()
    # Another job of the same module (an earlier iteration, a retried attempt) stands for it as well.
    if job.id == flow.id or (waited_id is not None and waited_id == job.flow_step_id):
        return waited, waited_id
    return job.id, job.flow_step_id


def _standing(job: Job, flow: Job, state: State, queued: Any, *, matches: bool) -> Standing:
    if queued is None or queued.canceled_by is not None:
        return Standing.ENDED
    if matches:
        return Standing.EXPIRED if queued.is_overdue else Standing.WAITING
    if job.id == flow.id or QueuedJob.objects.filter(pk=job.id).exists():
        return Standing.AHEAD
    between_modules = state.module is None and state.previous_job == str(job.id)
    return Standing.AHEAD if between_modules else Standing.PASSED


def _conditions(given: dict[str, Any] | None) -> Conditions:
    given = given or {}
    return Conditions(
        user_auth_required=bool(given.get("user_auth_required")),
        user_groups_required=tuple(map(str, given.get("user_groups_required") or ())),
        self_approval_disabled=bool(given.get("self_approval_disabled")),
    )


def _uuid(text: str | None) -> UUID | None:
    found = UUID(text) if text else NO_JOB
    return None if found == NO_JOB else found


# --- who may ---


def why_not(suspension: Suspension, caller: Caller | None) -> DomainError | None:
    """Why this caller (None: nobody we know) may not answer, whatever link they have; None when they may.

    Admins of the workspace are above conditions. NotSignedIn says that signing in might help.
    """
    if caller is not None and caller.is_admin:
        return None
    if suspension.standing is Standing.AHEAD and _will_ask_who(suspension):
        return BadRequest(
            "this approval depends on who gives it, which can be checked only once the flow waits for it; "
            "answer again then"
        )
    conditions = suspension.conditions
    if not conditions.ask_who:
        return None
    if caller is None:
        return NotSignedIn("this approval needs somebody who is signed in: sign in first, or send a token")
    if conditions.self_approval_disabled and suspension.is_runner(caller):
        return PermissionDenied("you started this run, and somebody else must approve it")
    groups = conditions.user_groups_required
    if groups and caller.groups.isdisjoint(groups):
        return PermissionDenied(f"this approval is for members of {' or '.join(groups)}; ask one of them")
    return None


def may_look(suspension: Suspension, caller: Caller | None) -> bool:
    """Whether a link shows this caller (None: nobody we know) what the flow was started with.

    Not when the approval asks who gives it and they may not; before and after that it is shown to members.
    """
    if suspension.standing is Standing.WAITING:
        return not isinstance(why_not(suspension, caller), NotSignedIn | PermissionDenied)
    return caller is not None or not _will_ask_who(suspension)


def _will_ask_who(suspension: Suspension) -> bool:
    """Does the approval, or any that a flow-level answer would count for, have conditions?"""
    if suspension.definition is None:
        return False
    if suspension.is_flow_level:
        modules = [module for _, module in suspension.definition.every_module()]
    else:
        modules = [suspension.step] if suspension.step is not None else []
    settings = [module.suspend for module in modules if module.suspend is not None]
    return any(
        one.user_auth_required or one.self_approval_disabled or one.user_groups_required is not None
        for one in settings
    )


def why_not_without_link(suspension: Suspension, caller: Caller) -> DomainError | None:
    """Why this caller, who may see the run, may not answer without a signed link; None when they may.

    Without a link it takes the right to write the flow, or membership in a group that the approval is for. Whoever
    runs a flow that they may not write needs a link, as everybody else.
    """
    if (problem := why_not(suspension, caller)) is not None or caller.is_admin:
        return problem
    if suspension.conditions.user_groups_required:
        return None
    return why_no_owner(suspension.root, caller)


def why_no_owner(root: Job, caller: Caller) -> PermissionDenied | None:
    """Why this caller does not own the run of a flow: has no right to write it, and did not write it as a preview."""
    path = root.runnable_path
    if root.kind == JobKind.FLOW_PREVIEW and root.created_by == caller.username:
        return None
    if path:
        rules = Flow.objects.filter(workspace_id=root.workspace_id, path=path).values_list(
            "extra_perms", flat=True
        )
        if caller.right_on(path, rules.first()) >= Right.WRITE:
            return None
    return PermissionDenied(
        f"without an approval link you need the right to write {path or 'this flow'}; "
        "use the link that the step sent, or ask an owner of the flow"
    )


# --- what waits in a run ---


def waiting_in(job: Job) -> list[Suspension]:
    """The approvals that a run waits for, in the flow job `job` and below it, oldest first; at most MOST_WAITING."""
    top = job if job.root_job is None else _job(job.root_job, job.workspace_id)
    with connection.cursor() as cursor:
        cursor.execute(
            sql.load("waiting_flows"),
            {
                "workspace_id": job.workspace_id,
                "root": top.id,
                "since": top.created_at,
                "limit": MOST_WAITING,
            },
        )
        ids = [row[0] for row in cursor.fetchall()]
    found = [find_suspension(workspace_id=job.workspace_id, job_id=id) for id in ids if _is_below(id, job)]
    return [one for one in found if one.standing is Standing.WAITING]


def _is_below(job_id: UUID, ancestor: Job) -> bool:
    if ancestor.root_job is None:
        return True
    current: UUID | None = job_id
    for _ in range(_MOST_LEVELS):
        if current is None or current == ancestor.id:
            break
        current = Job.objects.filter(pk=current).values_list("parent_job", flat=True).first()
    return current == ancestor.id
