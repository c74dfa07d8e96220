"""Running flows: from a caller's wish to a flow job in the queue. What scripts and flows share is in jobs.runs.

Rights are those of scripts: reading a flow is the right to run it, for operators too; previews are for developers.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import concurrency, queue, tags
from jobs.dedicated import Dedicated, is_dedicated
from jobs.dependency_runs import StandIns
from jobs.flows import deployed
from jobs.flows.restart_plan import Place, Plan, plan
from jobs.flows.state import initial_state
from jobs.flows.value import FlowValue, fill_ids, parse_flow_value
from jobs.listings import get_job
from jobs.models import Flow, FlowVersion, JobKind
from jobs.payloads import Payload
from jobs.runs import FLOW_TAG, MAX_PREVIEW_PATH, RunOptions, push, runs_as, shorter
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest
from workspaces.jsontext import check_storable


@dataclass(frozen=True, kw_only=True)
class RestartWish:
    """An ended run whose work a new one takes over, and where that begins."""

    flow_job_id: UUID
    place: Place
    nested: tuple[Place, ...] = ()
    failed_only: bool = False

    def as_json(self) -> dict[str, Any]:
        """As flow_status.restarted_from says it."""
        shape: dict[str, Any] = {"flow_job_id": str(self.flow_job_id), "step_id": self.place.step_id}
        if self.place.n is not None:
            shape["branch_or_iteration_n"] = self.place.n
        return shape

    @classmethod
    def from_json(cls, shape: dict[str, Any]) -> "RestartWish":
        """What a client sends as `restarted_from`. Raises BadRequest."""
        n = shape.get("branch_or_iteration_n")
        if not isinstance(shape.get("step_id"), str) or (n is not None and type(n) is not int):
            raise BadRequest("restarted_from: expected {flow_job_id, step_id, branch_or_iteration_n?}")
        try:
            return cls(flow_job_id=UUID(str(shape.get("flow_job_id"))), place=Place(shape["step_id"], n))
        except ValueError:
            raise BadRequest("restarted_from.flow_job_id is not a job id; expected a UUID") from None


@dataclass(frozen=True, kw_only=True)
class FlowPreview:
    """A flow to run without deploying it."""

    value: Any  # FlowValue
    path: str | None = None
    args: dict[str, Any] = field(default_factory=dict)
    tag: str | None = None
    restart: RestartWish | None = None


def run_flow(
    caller: Caller,
    flow: Flow,
    version: FlowVersion,
    payload: Payload,
    options: RunOptions,
    *,
    restart: RestartWish | None = None,
) -> UUID:
    """Queue a run of this version (found by `deployed.get_to_run`), answer the job's id.

    Raises BadRequest (options), JobIdTaken, QueueTooLong.
    """
    _refuse_retry(options)
    value = parse_flow_value(version.value)
    has_event = (
        value.preprocessor_module is not None
        and not options.skip_preprocessor
        and payload.event is not None
        and restart is None
    )
    args = {"event": payload.event} if has_event else payload.args
    permissioned_as, email = runs_as(caller, flow.on_behalf_of_email, path=flow.path)
    taken_over = None if restart is None else _taken_over(caller, value, restart)
    request = queue.JobRequest(
        workspace_id=caller.workspace_id,
        kind=JobKind.FLOW,
        runnable_id=version.pk,
        runnable_path=flow.path,
        tag=Dedicated(caller.workspace_id, flow.path, is_flow=True).tag
        if is_dedicated(flow.extra)
        else tags.choose_tag(
            workspace_id=caller.workspace_id, asked=options.tag or flow.tag, language=FLOW_TAG, args=args
        ),
        args=args,
        flow_state=initial_state(value, preprocess=has_event)
        if taken_over is None
        else taken_over.state.to_json(),
        created_by=caller.username,
        permissioned_as=permissioned_as,
        permissioned_as_email=email,
        timeout_s=shorter(options.timeout_s, flow.timeout),
        priority=value.priority or flow.priority or 0,
        visible_to_owner=options.visible_to_owner and not flow.visible_to_runner_only,
        preprocessed=False if has_event else None,
        **limits(value, workspace_id=caller.workspace_id, path=flow.path, args=args),
    )
    return _push(caller, request, options, taken_over, operation="jobs.run.flow")


def run_flow_preview(caller: Caller, preview: FlowPreview, options: RunOptions) -> UUID:
    """Queue a flow as it is written, answer the job's id. Not for operators.

    Raises BadRequest (the flow, with the place of the problem; options), NotFound, PermissionDenied.
    """
    caller.require_not_operator()
    # A flow of one's own at the path of another is not that flow: a token limited to flows runs no previews.
    caller.identity.require_scope("jobs", "run", "preview")
    _refuse_retry(options)
    path = preview.path or None
    if path is not None and len(path) > MAX_PREVIEW_PATH:
        raise BadRequest(f"path is longer than {MAX_PREVIEW_PATH} characters")
    check_storable([preview.value, preview.args])
    raw_flow = fill_ids(preview.value)
    value = parse_flow_value(raw_flow)
    taken_over = None if preview.restart is None else _taken_over(caller, value, preview.restart)
    request = queue.JobRequest(
        workspace_id=caller.workspace_id,
        kind=JobKind.FLOW_PREVIEW,
        raw_flow=raw_flow,
        runnable_path=path,
        tag=tags.choose_tag(
            workspace_id=caller.workspace_id,
            asked=options.tag or preview.tag,
            language=FLOW_TAG,
            args=preview.args,
        ),
        args=preview.args,
        flow_state=initial_state(value) if taken_over is None else taken_over.state.to_json(),
        created_by=caller.username,
        permissioned_as=caller.permissioned_as,
        permissioned_as_email=caller.email,
        timeout_s=options.timeout_s,
        priority=value.priority or 0,
        # Anybody may name any path; only at a path of one's own does the run show up in the lists of others.
        visible_to_owner=options.visible_to_owner
        and path is not None
        and caller.right_on(path) >= Right.READ,
        **limits(value, workspace_id=caller.workspace_id, path=path, args=preview.args),
    )
    return _push(caller, request, options, taken_over, operation="jobs.run.flow_preview")


def _taken_over(caller: Caller, value: FlowValue, wish: RestartWish) -> Plan:
    """What the new run takes over from the old one, which the caller must be allowed to see."""
    get_job(caller, workspace_id=caller.workspace_id, job_id=wish.flow_job_id)
    return plan(
        value,
        old_id=wish.flow_job_id,
        place=wish.place,
        nested=wish.nested,
        failed_only=wish.failed_only,
        origin=wish.as_json(),
    )


def _push(
    caller: Caller, request: queue.JobRequest, options: RunOptions, taken_over: Plan | None, *, operation: str
) -> UUID:
    if taken_over is None:
        return push(caller, request, options, operation=operation)
    with transaction.atomic():
        job_id = push(caller, request, options, operation=operation)
        taken_over.carry_over(job_id)
    return job_id


def run_dependencies(
    caller: Caller, value: Any, *, path: str | None, options: RunOptions, stand_ins: StandIns | None = None
) -> UUID:
    """Queue a job that locks the inline scripts of a flow that is not deployed, answer its id. Not for operators.

    With `stand_ins` instead of what is deployed. Its result is {updated_flow_value: ...} (jobs.flows.locking).
    Raises BadRequest, PermissionDenied.
    """
    caller.require_not_operator()
    caller.identity.require_scope("jobs", "run", "preview")
    check_storable(value)
    raw_flow = fill_ids(value)
    parse_flow_value(raw_flow)
    request = queue.JobRequest(
        workspace_id=caller.workspace_id,
        kind=JobKind.FLOW_DEPENDENCIES,
        raw_flow=raw_flow,
        runnable_path=path[:MAX_PREVIEW_PATH] if path else None,
        tag=tags.choose_tag(
            workspace_id=caller.workspace_id,
            asked=options.tag,
            language=deployed.DEPENDENCY_TAG,
            args={},
        ),
        args=stand_ins.as_args() if stand_ins is not None else {},
        created_by=caller.username,
        permissioned_as=caller.permissioned_as,
        permissioned_as_email=caller.email,
        visible_to_owner=options.visible_to_owner
        and bool(path)
        and caller.right_on(path or "") >= Right.READ,
    )
    return push(caller, request, options, operation="jobs.flow_dependencies")


def limits(value: FlowValue, *, workspace_id: str, path: str | None, args: dict[str, Any]) -> dict[str, Any]:
    """What a flow says about its runs as a whole, as fields of a JobRequest."""
    limit = concurrency.limit_of(
        workspace_id=workspace_id,
        kind="flow",
        path=path,
        args=args,
        places=value.concurrent_limit,
        window_s=value.concurrency_time_window_s,
        key=value.concurrency_key,
    )
    return {
        "same_worker": value.same_worker,
        "cache_ttl_s": value.cache_ttl,
        "delete_after_s": value.delete_after_secs,
        **(limit.request_fields() if limit is not None else {}),
    }


def _refuse_retry(options: RunOptions) -> None:
    if options.retry is not None:
        raise BadRequest(
            "query: retry is for scripts; the steps of a flow say themselves how they are retried"
        )
