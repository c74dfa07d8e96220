"""States that the steps of a flow share by name (wmill's set_flow_user_state). They belong to the topmost flow."""

import json
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import listings, runs
from jobs.errors import JobNotFound
from jobs.models import FLOW_KINDS, FlowUserState, Job, QueuedJob
from workspaces.access import Caller
from workspaces.errors import BadRequest, NotFound
from workspaces.jsontext import check_storable

MAX_KEY = 255  # characters
MAX_VALUE = 1_000_000  # characters of JSON
MAX_KEYS = 1_000  # of one flow


def set_user_state(caller: Caller, job_id: UUID, key: str, value: Any) -> None:
    """Set a state of this job's run. Raises JobNotFound (also: not part of a flow), BadRequest, PermissionDenied."""
    flow_id = _flow(caller, job_id, change=True)
    if not key or len(key) > MAX_KEY:
        raise BadRequest(f"the name of a state has 1 to {MAX_KEY} characters, not {len(key)}")
    check_storable([key, value])
    if (size := len(json.dumps(value))) > MAX_VALUE:
        raise BadRequest(f"state {key[:60]} has {size} characters of JSON; at most {MAX_VALUE} fit")
    with transaction.atomic():
        # Held until the end, so that the flow does not end meanwhile and two new states cannot both be the last one.
        if not QueuedJob.objects.select_for_update().filter(pk=flow_id).exists():
            raise BadRequest(f"flow {flow_id} has ended; its states cannot be changed any more")
        if FlowUserState.objects.filter(flow_id=flow_id, key=key).update(value=value):
            return
        if FlowUserState.objects.filter(flow_id=flow_id).count() >= MAX_KEYS:
            raise BadRequest(f"flow {flow_id} has {MAX_KEYS} states already; reuse or combine some")
        FlowUserState.objects.create(flow_id=flow_id, key=key, workspace_id=caller.workspace_id, value=value)


def get_user_state(caller: Caller, job_id: UUID, key: str) -> Any:
    """The value of a state of the run that this job belongs to. Raises JobNotFound, NotFound (never set)."""
    flow_id = _flow(caller, job_id, change=False)
    found = FlowUserState.objects.filter(flow_id=flow_id, key=key).values_list("value").first()
    if found is None:
        raise NotFound(f"flow {flow_id} has no state {key[:60]!r}")
    return found[0]


def _flow(caller: Caller, job_id: UUID, *, change: bool) -> UUID:
    """The topmost flow of a job that the caller may see (or steer)."""
    row = listings.get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
    if change:
        runs.require_change(caller, row)
    top = row.root_job or row.id
    if not Job.objects.filter(pk=top, workspace_id=caller.workspace_id, kind__in=FLOW_KINDS).exists():
        raise JobNotFound(f"job {job_id} is not part of a flow, so it has no states")
    return top
