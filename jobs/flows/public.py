"""Flows as clients read them: flow_status (reference/flows.md chapter 8), the definition that runs, results by step.

Reads only. Whoever calls has let the caller in (jobs.listings.get_job).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection

from jobs import sql
from jobs.flows.state import NO_JOB, Ref, State
from jobs.flows.value import split_body_ref
from jobs.models import FlowStatus, FlowStep, FlowUserState, FlowVersion, Job, JobKind
from jobs.shapes import iso

_WAITING = "WaitingForPriorSteps"


def definition(job_id: UUID) -> dict[str, Any] | None:
    """The FlowValue that a flow job runs, as it was written; of a body its own modules. None for other jobs."""
    job = (
        Job.objects.filter(pk=job_id)
        .only("kind", "runnable_id", "raw_flow", "flow_body", "flow_innermost_root_job")
        .first()
    )
    if job is None:
        return None
    if job.flow_body is None:
        return _value(job)
    roots = Job.objects.filter(id=job.flow_innermost_root_job or job_id).only(
        "kind", "runnable_id", "raw_flow"
    )
    root = roots.first()
    value = None if root is None else _value(root)
    return None if value is None else {**value, "modules": _body(value, job.flow_body)} | _ONLY_AT_THE_TOP


_ONLY_AT_THE_TOP = {"failure_module": None, "preprocessor_module": None}


def _value(job: Job) -> dict[str, Any] | None:
    if job.raw_flow is not None:
        raw: dict[str, Any] = job.raw_flow
        return raw
    if job.kind != JobKind.FLOW or job.runnable_id is None:
        return None
    found: dict[str, Any] | None = (
        FlowVersion.objects.filter(pk=job.runnable_id).values_list("value", flat=True).first()
    )
    return found


def _body(value: Mapping[str, Any], body: str) -> list[dict[str, Any]]:
    module_id, branch = split_body_ref(body)
    found = _find(value.get("modules") or [], module_id)
    inner: Mapping[str, Any] = (found or {}).get("value") or {}
    if branch is None:
        modules = inner.get("modules")
    elif branch == "default":
        modules = inner.get("default")
    else:
        branches = inner.get("branches") or []
        modules = branches[int(branch)].get("modules") if int(branch) < len(branches) else []
    return list(modules or [])


def _find(modules: Sequence[Mapping[str, Any]], module_id: str) -> Mapping[str, Any] | None:
    pending = list(modules)
    while pending:
        module = pending.pop()
        if module.get("id") == module_id:
            return module
        value = module.get("value") or {}
        pending += value.get("modules") or []
        pending += value.get("default") or []
        for branch in value.get("branches") or []:
            pending += branch.get("modules") or []
    return None


def flow_status(job_id: UUID) -> dict[str, Any] | None:
    """How far a flow job is, with one entry for each of its modules from the moment it is queued. None for other jobs."""
    state_json = FlowStatus.objects.filter(pk=job_id).values_list("state", flat=True).first()
    value = definition(job_id) if state_json is not None else None
    if state_json is None or value is None:
        return None
    return _Assembly(job_id, value, State.from_json(state_json)).status()


class _Assembly:
    """Puts one flow_status together: four short queries, whatever the size of the flow."""

    def __init__(self, job_id: UUID, value: Mapping[str, Any], state: State) -> None:
        self._value = value
        self._state = state
        rows = FlowStep.objects.filter(flow_id=job_id).values_list("step_id", "status")
        self._ended: dict[str, dict[str, Any]] = dict(rows)
        self._job_id = job_id
        self._iterations: dict[str, list[tuple[Any, ...]]] = {}
        with connection.cursor() as cursor:
            cursor.execute(sql.load("flow_iterations"), {"id": job_id})
            for step_id, *rest in cursor.fetchall():
                self._iterations.setdefault(step_id, []).append(tuple(rest))

    def status(self) -> dict[str, Any]:
        state, value = self._state, self._value
        shape: dict[str, Any] = {
            "step": state.step,
            "modules": [self._module(module) for module in value.get("modules") or []],
            "failure_module": self._beside(value.get("failure_module"), "failure")
            or {"id": "failure", "type": _WAITING},
            "preprocessor_module": self._beside(value.get("preprocessor_module"), "preprocessor"),
            "cleanup_module": {},
            "retry": {"fail_count": 0, "failed_jobs": []},
        }
        if state.module is not None and state.module.fail_count:
            shape["retry"] = {"fail_count": state.module.fail_count, "failed_jobs": state.module.failed_jobs}
        if state.approval_conditions is not None:
            shape["approval_conditions"] = state.approval_conditions
        if state.restarted_from is not None:
            shape["restarted_from"] = state.restarted_from
        user_states = dict(FlowUserState.objects.filter(flow_id=self._job_id).values_list("key", "value"))
        if user_states:
            shape["user_states"] = user_states
        return shape

    def _beside(self, module: Mapping[str, Any] | None, id: str) -> dict[str, Any] | None:
        return None if module is None else self._module({**module, "id": id})

    def _module(self, module: Mapping[str, Any]) -> dict[str, Any]:
        id = str(module.get("id"))
        if self._state.module is not None and self._state.module.id == id:
            status = self._in_progress(id, module)
        elif id in self._ended:
            status = dict(self._ended[id])
        else:
            return {"type": _WAITING, "id": id}
        value = module.get("value") or {}
        if value.get("type") in ("forloopflow", "whileloopflow", "branchall") and status["type"] != _WAITING:
            status |= self._children(id, value)
        if value.get("type") == "aiagent" and (actions := _agent_actions(status.get("job"))):
            status["agent_actions"] = actions
        return status

    def _in_progress(self, id: str, module: Mapping[str, Any]) -> dict[str, Any]:
        progress = self._state.module
        assert progress is not None
        status: dict[str, Any] = {"type": progress.type, "id": id}
        if progress.type == _WAITING:
            return status
        if progress.type == "WaitingForEvents":
            return status | {"count": progress.count, "job": progress.job}
        status["job"] = progress.job or str(NO_JOB)
        if progress.children is None and progress.job is not None and not _has_started(progress.job):
            status["type"] = "WaitingForExecutor"
        if progress.failed_jobs:
            status["failed_retries"] = progress.failed_jobs
        if progress.parent_module is not None:
            status["parent_module"] = progress.parent_module
        if progress.branch is not None:
            is_default = progress.branch == "default"
            status["branch_chosen"] = (
                {"type": "default"} if is_default else {"type": "branch", "branch": progress.branch}
            )
        children = progress.children
        if children is None:
            return status
        value = module.get("value") or {}
        if value.get("type") == "branchall":
            status["branchall"] = {"branch": max(0, children.started - 1), "len": children.length}
        else:
            status["iterator"] = {"index": max(0, children.started - 1), "itered_len": children.length}
        if value.get("type") == "whileloopflow":
            status["while_loop"] = True
            del status["iterator"]["itered_len"]
        return status

    def _children(self, id: str, value: Mapping[str, Any]) -> dict[str, Any]:
        rows = self._iterations.get(id, [])
        return {
            "flow_jobs": [str(job_id) for _, job_id, *_ in rows],
            "flow_jobs_success": [
                None if status is None else status in ("success", "skipped") for _, _, status, *_ in rows
            ],
            "flow_jobs_duration": {
                "started_at": [iso(started_at) for *_, started_at in rows],
                "duration_ms": [duration for *_, duration, _ in rows],
            },
            "parallel": bool(value.get("parallel")),
        }


def _agent_actions(job_id: str | None) -> list[dict[str, Any]]:
    """What an agent did, in order: its messages and calls of tools, as its result tells them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT jsonb_path_query_array(result::jsonb, '$.messages[*].agent_action')::text"
            " FROM completed_job WHERE id = %s",
            [job_id],
        )
        row = cursor.fetchone()
    return json.loads(row[0]) if row is not None and row[0] is not None else []


def _has_started(job_id: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM queue WHERE id = %(id)s AND (running OR started_at IS NOT NULL))"
            " OR EXISTS (SELECT FROM completed_job WHERE id = %(id)s)",
            {"id": job_id},
        )
        return bool(cursor.fetchone()[0])


def result_ref(flow_job_id: UUID, step_id: str) -> Ref | None:
    """Where `results.<step_id>` of this flow job is."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("find_flow_result"), {"flow_id": flow_job_id, "step_id": step_id})
        row = cursor.fetchone()
    return None if row is None else row[0]


def result_by_id(flow_job_id: UUID, step_id: str) -> str | None:
    """The result of a step as `results.<step_id>` of this flow job names it: JSON text; None while there is none."""
    ref = result_ref(flow_job_id, step_id)
    if ref is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute("SELECT flow_result_value(%s::json)::text", [json.dumps(ref)])
        found: str = cursor.fetchone()[0]
        return found
