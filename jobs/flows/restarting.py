"""Running a flow again from a step, with the rights of whoever asks."""

from collections.abc import Sequence
from uuid import UUID

from jobs import flow_runs, listings
from jobs.flows import deployed
from jobs.flows.restart_plan import Place
from jobs.models import Job, JobKind
from jobs.payloads import Payload
from jobs.runs import RunOptions
from workspaces.access import Caller
from workspaces.errors import BadRequest


def restart(
    caller: Caller,
    job_id: UUID,
    *,
    step_id: str,
    branch_or_iteration_n: int | None = None,
    flow_version: int | None = None,
    nested_path: Sequence[Place] = (),
    failed_only: bool = False,
    options: RunOptions,
) -> UUID:
    """Queue a new run that takes over what the run `job_id` did before `step_id`; answers its id.

    `flow_version`: of the same flow; None: the version that ran. `failed_only`: of a loop or branchall run again only
    what failed. Raises JobNotFound, BadRequest (not a flow, not ended, a step that cannot be restarted from),
    PermissionDenied.
    """
    row = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
    if row.kind not in (JobKind.FLOW, JobKind.FLOW_PREVIEW):
        raise BadRequest(f"job {job_id} is no flow; only runs of flows can be restarted from a step")
    if not row.is_completed:
        raise BadRequest(f"flow {job_id} still runs; cancel it, or wait until it has ended")
    job = Job.objects.get(pk=job_id)
    if job.args is None:
        raise BadRequest(f"flow {job_id} cannot be restarted: its arguments were deleted")
    wish = flow_runs.RestartWish(
        flow_job_id=job_id,
        place=Place(step_id, branch_or_iteration_n),
        nested=tuple(nested_path),
        failed_only=failed_only,
    )
    if job.kind == JobKind.FLOW_PREVIEW:
        preview = flow_runs.FlowPreview(
            value=job.raw_flow, path=job.runnable_path, args=job.args, tag=job.tag, restart=wish
        )
        return flow_runs.run_flow_preview(caller, preview, options)
    flow, version = deployed.get_to_run(caller, version=flow_version or job.runnable_id)
    if flow.path != job.runnable_path and flow_version is not None:
        raise BadRequest(
            f"version {flow_version} is of flow {flow.path}; expected one of {job.runnable_path}"
        )
    return flow_runs.run_flow(caller, flow, version, Payload(args=job.args), options, restart=wish)
