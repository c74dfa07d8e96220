"""Running jobs again with their arguments: one job, or a selection of the runs page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from jobs import flow_runs, runs, scripts
from jobs.flow_runs import FlowPreview
from jobs.flows import deployed
from jobs.listings import get_job
from jobs.models import Job, JobKind
from jobs.payloads import Payload
from jobs.runs import MAX_BATCH, Preview, RunOptions
from workspaces.access import Caller
from workspaces.errors import BadRequest, DomainError

# Kinds of jobs that can run again by themselves; others are part of something.
KINDS = frozenset(
    {
        JobKind.SCRIPT,
        JobKind.PREVIEW,
        JobKind.FLOW,
        JobKind.FLOW_PREVIEW,
        JobKind.FLOW_SCRIPT,
        JobKind.SINGLE_STEP_FLOW,
    }
)

# By path: {use_latest_version: bool, input_transforms: {name: {type: "static", value}}}
Wishes = Mapping[str, Any]
_NONE: Wishes = MappingProxyType({})


def rerun_jobs(
    caller: Caller,
    job_ids: Sequence[UUID],
    *,
    script_options: Wishes = _NONE,
    flow_options: Wishes = _NONE,
    options: RunOptions,
) -> list[str]:
    """Run finished or queued jobs again: one line for each, its new id or `Error: ...`.

    Scripts, flows and previews of both run as the version that they ran as, unless the options of their path say
    use_latest_version.
    """
    if len(job_ids) > MAX_BATCH:
        raise BadRequest(f"{len(job_ids)} jobs at once; at most {MAX_BATCH}")
    return [_line(caller, job_id, script_options, flow_options, options) for job_id in job_ids]


def _line(
    caller: Caller, job_id: UUID, script_options: Wishes, flow_options: Wishes, options: RunOptions
) -> str:
    try:
        get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
        job = Job.objects.get(pk=job_id)
        if job.args is None:
            raise BadRequest(f"job {job_id} cannot run again: its arguments were deleted")
        is_flow = job.kind in (JobKind.FLOW, JobKind.FLOW_PREVIEW)
        wishes = (flow_options if is_flow else script_options).get(job.runnable_path or "") or {}
        args = dict(job.args) | _static_inputs(wishes.get("input_transforms") or {})
        return str(_rerun(caller, job, args, bool(wishes.get("use_latest_version")), options))
    except DomainError as exc:
        return f"Error: {exc.message}"


def _rerun(caller: Caller, job: Job, args: dict[str, Any], latest: bool, options: RunOptions) -> UUID:
    path = job.runnable_path
    payload = Payload(args=args, event=args.get("event") if job.preprocessed is not None else None)
    if job.kind == JobKind.PREVIEW:
        preview = _preview(job, args, tag=job.tag)
        return runs.run_preview(caller, preview, options)
    if job.kind == JobKind.FLOW_SCRIPT:  # by itself, with what the flow gave it
        preview = _preview(job, args)
        return runs.run_preview(caller, preview, options)
    if job.kind == JobKind.FLOW_PREVIEW:
        return flow_runs.run_flow_preview(
            caller, FlowPreview(value=job.raw_flow or {}, path=path, args=args, tag=job.tag), options
        )
    if job.kind == JobKind.FLOW:
        flow, version = (
            deployed.get_to_run(caller, path=path)
            if latest
            else deployed.get_to_run(caller, version=job.runnable_id)
        )
        return flow_runs.run_flow(caller, flow, version, payload, options)
    if job.kind == JobKind.SINGLE_STEP_FLOW:
        options = replace(options, retry=(job.raw_flow or {})["modules"][0].get("retry"))
    if job.kind in (JobKind.SCRIPT, JobKind.SINGLE_STEP_FLOW):
        script = (
            scripts.get_to_run(caller, path=path)
            if latest
            else scripts.get_to_run(caller, hash=job.runnable_id)
        )
        return runs.run_script(caller, script, payload, options)
    raise BadRequest(f"job {job.pk} ({job.kind}) is part of something else and cannot run again by itself")


def _preview(job: Job, args: dict[str, Any], *, tag: str | None = None) -> Preview:
    return Preview(
        content=job.raw_code,
        lock=job.raw_lock,
        language=job.script_lang,
        path=job.runnable_path,
        args=args,
        tag=tag,
    )


def _static_inputs(transforms: dict[str, Any]) -> dict[str, Any]:
    values = {}
    for name, transform in transforms.items():
        if not isinstance(transform, dict) or transform.get("type") != "static":
            raise BadRequest(
                f"input_transforms.{name}: only static values can replace an argument of a rerun"
            )
        values[name] = transform.get("value")
    return values
