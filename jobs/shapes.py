"""The JSON of scripts, jobs and workers as Windmill's clients read it (reference/governance.md section 10).

Results, arguments and logs are already JSON or large texts in the database: `JobRow` carries them as text and `job_json`
puts them into the answer as they are, so that a result of ten megabytes is never decoded here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.models import Flow, FlowVersion, Script, WorkerPing


def iso(value: datetime | None) -> str | None:
    """ISO 8601 in UTC, with Z."""
    return None if value is None else value.isoformat().replace("+00:00", "Z")


def hash_hex(hash: int | None) -> str | None:
    """A script version's name: 16 hex digits."""
    return None if hash is None else f"{hash & 0xFFFFFFFFFFFFFFFF:016x}"


# --- scripts ---

# Windmill leaves these out when they are unset, and its command line tells absent from null.
_ABSENT_WHEN_UNSET = (
    "envs",
    "labels",
    "timeout",
    "priority",
    "visible_to_runner_only",
    "on_behalf_of_email",
    "auto_kind",
)


def script_summary(script: Script, *, with_deployment_message: bool = False) -> dict[str, Any]:
    """A script in a list: no content, lock or schema."""
    shape = {
        "workspace_id": script.workspace_id,
        "hash": script.hash_hex,
        "path": script.path,
        "summary": script.summary,
        "description": script.description,
        "created_at": iso(script.created_at),
        "created_by": script.created_by,
        "archived": script.archived,
        "deleted": script.deleted,
        "is_template": script.is_template,
        "extra_perms": script.extra_perms,
        "language": script.language,
        "kind": script.kind,
        "tag": script.tag,
        "starred": False,
        "has_draft": False,
        "draft_only": False,
        "has_deploy_errors": bool(script.lock_error_logs),
        "has_preprocessor": script.has_preprocessor,
        "ws_error_handler_muted": False,
    }
    shape |= {name: value for name in _ABSENT_WHEN_UNSET if (value := getattr(script, name)) is not None}
    if script.parent_hashes:
        shape["parent_hashes"] = [hash_hex(hash) for hash in script.parent_hashes]
    if with_deployment_message:
        shape["deployment_msg"] = script.deployment_message or None
    return shape | script.extra


def script_json(script: Script) -> dict[str, Any]:
    """One version of a script, whole."""
    return script_summary(script) | {
        "content": script.content,
        "schema": script.schema,
        "lock": script.lock,
        "lock_error_logs": script.lock_error_logs,
    }


# --- flows ---

_FLOW_ABSENT_WHEN_UNSET = (
    "tag",
    "timeout",
    "priority",
    "visible_to_runner_only",
    "on_behalf_of_email",
    "labels",
)


def flow_summary(flow: Flow) -> dict[str, Any]:
    """A flow in a list: without what it does, and its schema."""
    shape = {
        "workspace_id": flow.workspace_id,
        "path": flow.path,
        "summary": flow.summary,
        "description": flow.description,
        "edited_by": flow.edited_by,
        "edited_at": iso(flow.edited_at),
        "archived": flow.archived,
        "extra_perms": flow.extra_perms,
        "starred": False,
        "has_draft": False,
        "draft_only": False,
        "ws_error_handler_muted": False,
        "version_id": flow.version_id,
    }
    shape |= {name: value for name in _FLOW_ABSENT_WHEN_UNSET if (value := getattr(flow, name)) is not None}
    return shape | flow.extra


def flow_json(flow: Flow, version: FlowVersion) -> dict[str, Any]:
    """A flow, whole, as one of its versions."""
    return flow_summary(flow) | {
        "version_id": version.pk,
        "edited_by": version.created_by,
        "edited_at": iso(version.created_at),
        "value": version.value,
        "schema": version.schema,
        "lock_error_logs": version.lock_error_logs,
    }


# --- jobs ---


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job with where it stands and what came of it, as jobs/sql/ selects it. Big columns: None unless asked for."""

    id: UUID
    workspace_id: str
    kind: str
    runnable_id: int | None  # script hash
    runnable_path: str | None
    script_lang: str | None
    tag: str
    priority: int
    created_by: str
    created_at: datetime
    permissioned_as: str
    permissioned_as_email: str
    parent_job: UUID | None
    root_job: UUID | None
    flow_step_id: str | None
    trigger_kind: str | None
    trigger: str | None
    visible_to_owner: bool
    preprocessed: bool | None
    status: str  # queued, running, success, failure, canceled, skipped
    scheduled_for: datetime | None  # while queued
    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
    worker: str | None
    mem_peak: int | None  # kB
    canceled_by: str | None
    canceled_reason: str | None
    suspend: int | None
    last_ping: datetime | None
    restarts: int
    labels: list[str] | None
    deleted: bool
    args: str | None = None  # JSON text
    result: str | None = None  # JSON text
    raw_code: str | None = None
    timeout: int | None = None  # seconds
    isolation: str | None = None  # see CompletedJob.isolation; while it runs: that of its worker

    @property
    def is_completed(self) -> bool:
        return self.completed_at is not None

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    @property
    def is_success(self) -> bool:
        """As Windmill counts: a skipped job did not fail."""
        return self.status in ("success", "skipped")

    @property
    def duration_s(self) -> float | None:
        """Seconds it ran; None before the end."""
        return None if self.duration_ms is None else self.duration_ms / 1000

    @property
    def hash_hex(self) -> str | None:
        return hash_hex(self.runnable_id)


def job_shape(row: JobRow) -> dict[str, Any]:
    """A job as `QueuedJob` or `CompletedJob`, without arguments, result, code and logs: a row of a list."""
    shape: dict[str, Any] = {
        "type": "CompletedJob" if row.is_completed else "QueuedJob",
        "workspace_id": row.workspace_id,
        "id": str(row.id),
        "parent_job": _text(row.parent_job),
        "created_by": row.created_by,
        "created_at": iso(row.created_at),
        "started_at": iso(row.started_at),
        "scheduled_for": iso(row.scheduled_for),
        "running": row.is_running,
        "script_path": row.runnable_path,
        "script_hash": row.hash_hex,
        "canceled": row.canceled_by is not None,
        "canceled_by": row.canceled_by,
        "canceled_reason": row.canceled_reason,
        "job_kind": row.kind,
        "schedule_path": row.trigger if row.trigger_kind == "schedule" else None,
        "permissioned_as": row.permissioned_as,
        "email": row.permissioned_as_email,
        "is_flow_step": row.flow_step_id is not None,
        "flow_step_id": row.flow_step_id,
        "language": row.script_lang,
        "visible_to_owner": row.visible_to_owner,
        "mem_peak": row.mem_peak,
        "tag": row.tag,
        "priority": row.priority or None,
        "labels": row.labels,
        "preprocessed": row.preprocessed,
        "trigger_kind": row.trigger_kind,
        "trigger": row.trigger,
        "worker": row.worker,
        "root_job": _text(row.root_job),
    }
    if row.is_completed:
        del shape["running"], shape["scheduled_for"]
        shape |= {
            "completed_at": iso(row.completed_at),
            "duration_ms": row.duration_ms,
            "success": row.is_success,
            "is_skipped": row.status == "skipped",
            "status": row.status,
            "deleted": row.deleted,
        }
    else:
        shape |= {"last_ping": iso(row.last_ping), "suspend": row.suspend}
    return {name: value for name, value in shape.items() if value is not None}


def job_json(
    row: JobRow,
    *,
    logs: str | None = None,
    with_code: bool = True,
    flow: Mapping[str, Any] | None = None,
) -> bytes:
    """One job, whole: its arguments and its result are the database's own text. `flow`: what flows have besides."""
    shape = job_shape(row) | dict(flow or {})
    if row.timeout is not None:
        shape["timeout"] = row.timeout
    if row.isolation is not None:
        shape["isolation"] = row.isolation
    if logs is not None:
        shape["logs"] = logs
    if with_code and row.raw_code is not None:
        shape["raw_code"] = row.raw_code
    raw = {"args": row.args}
    if row.is_completed:
        raw["result"] = row.result or "null"
    return with_raw(shape, {name: text for name, text in raw.items() if text is not None})


def with_raw(shape: Mapping[str, Any], raw: Mapping[str, str]) -> bytes:
    """The JSON object `shape` with further members whose values are JSON texts already."""
    parts = [json.dumps(shape, ensure_ascii=False)[1:-1]] if shape else []
    parts += [f"{json.dumps(name)}:{text}" for name, text in raw.items()]
    return ("{" + ",".join(parts) + "}").encode("utf-8", "replace")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


# --- workers ---


def worker_json(worker: WorkerPing, *, last_ping_s: float, reveal: bool) -> dict[str, Any]:
    """A worker. `reveal`: with its address and what it runs, which is for those who may look across workspaces."""
    return {
        "worker": worker.worker,
        "worker_instance": worker.worker_instance,
        "worker_group": worker.worker_group,
        "last_ping": max(0, round(last_ping_s)),
        "started_at": iso(worker.started_at),
        "state": worker.state,
        "state_note": worker.state_note if reveal else "",
        "ip": worker.ip if reveal else "",
        "jobs_executed": worker.jobs_executed,
        "last_job_id": _text(worker.last_job_id) if reveal else None,
        "last_job_workspace_id": worker.last_job_workspace_id if reveal else None,
        "current_job_id": _text(worker.current_job_id) if reveal else None,
        # The tags of dedicated workers name scripts of workspaces.
        "custom_tags": [tag for tag in worker.custom_tags if reveal or ":" not in tag],
        "native_mode": worker.native_mode,
        "dedicated_worker": worker.dedicated_workers[0]
        if reveal and len(worker.dedicated_workers) == 1
        else None,
        "dedicated_workers": worker.dedicated_workers if reveal else [],
        "languages": worker.languages,
        "runtimes": worker.runtimes,
        "slots": worker.slots,
        "busy_slots": worker.busy_slots,
        "wm_version": worker.wm_version,
        "occupancy_rate": worker.occupancy_rate,
        "occupancy_rate_15s": worker.occupancy_rate_15s,
        "occupancy_rate_5m": worker.occupancy_rate_5m,
        "occupancy_rate_30m": worker.occupancy_rate_30m,
        "memory": worker.memory,
        "memory_usage": worker.memory_usage,
        "wm_memory_usage": worker.wm_memory_usage,
        "vcpus": worker.vcpus,
        "job_isolation": worker.job_isolation or None,
    }
