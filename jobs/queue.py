"""The queue: push, claim, heartbeat, logs, completion, requeue, retention. The only writer of its tables.

Canceling, which concerns whole trees of jobs, is in jobs.canceling; flows are written by workers (workers.pg_flows).

Every function is one statement or one short transaction over jobs/sql/. The worker drives the same statements through an
asynchronous connection (workers/pg_queue.py); here are the synchronous callers: server, monitor, commands, tests.

A claim is a lease with a fencing pair (id, attempt). It lasts while heartbeats arrive (ZOMBIE_JOB_TIMEOUT) and ends when
the job is completed, canceled by force or given to another worker; writes that name an ended claim match nothing.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.json import Json, Jsonb

from jobs import pg, sql, wakeups
from jobs.errors import JobIdTaken, JobNotFound, LeaseLost
from jobs.flows import waking
from jobs.models import JobStatus, new_job_id
from jobs.turns import Turns
from workspaces.errors import BadRequest
from workspaces.models import InstanceSetting

logger = logging.getLogger(__name__)

MAX_PRIORITY = 100
_LOG_TRIES = 10


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """What to run, as whom, when. Built by `jobs.runs` after all checks; pushed as it is."""

    workspace_id: str
    kind: str
    tag: str
    created_by: str  # username
    permissioned_as: str  # u/<username> or g/<group>
    permissioned_as_email: str
    args: dict[str, Any]
    runnable_id: int | None = None  # script hash
    runnable_path: str | None = None
    raw_code: str | None = None
    raw_lock: str | None = None  # of raw_code; None: not known
    raw_flow: dict[str, Any] | None = None  # FlowValue of a preview
    flow_state: dict[str, Any] | None = None  # flows: where they begin (jobs.flows.state)
    language: str | None = None
    entrypoint: str | None = None
    job_id: UUID | None = None  # chosen by the caller; must be new
    parent_job: UUID | None = None
    root_job: UUID | None = None
    flow_step_id: str | None = None
    trigger_kind: str | None = None
    trigger: str | None = None
    timeout_s: int | None = None
    priority: int = 0
    visible_to_owner: bool = True
    preprocessed: bool | None = None  # False: `args` is the event for the script's preprocessor
    cache_ttl_s: int | None = None
    delete_after_s: int | None = None
    concurrency_key: str | None = None
    concurrent_limit: int | None = None
    concurrency_window_s: int | None = None
    same_worker: bool = False
    scheduled_for: datetime | None = None
    scheduled_in_s: float | None = None
    audit: dict[str, Any] | None = (
        None  # the entry of the audit log to write with it (workspaces.audit.columns)
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """A job handed to a worker. `id` and `attempt` together are the lease; the rest is all that running it needs."""

    id: UUID
    attempt: int
    scheduled_for: datetime
    started_at: datetime
    created_at: datetime
    restarts: int
    workspace_id: str
    kind: str
    runnable_path: str | None
    tag: str
    args: dict[str, Any] | None
    created_by: str
    permissioned_as: str
    permissioned_as_email: str
    parent_job: UUID | None
    root_job: UUID | None
    flow_step_id: str | None
    trigger_kind: str | None
    trigger: str | None
    timeout: int | None  # seconds
    script_entrypoint_override: str | None
    language: str | None
    code: str | None
    envs: list[str] | None
    has_preprocessor: bool | None  # run the script's preprocessor on the args first
    flow_innermost_root_job: UUID | None
    same_worker: bool
    cache_ttl: int | None  # seconds
    concurrency_key: str | None
    concurrent_limit: int | None
    concurrency_time_window_s: int | None
    runnable_id: int | None = None  # script hash, or flow version
    delete_after_secs: int | None = None
    lock: str | None = None  # the dependencies of `code`, pinned; None: not known


class NarrowClaim(NamedTuple):
    """A job handed to a warm process of its script: what differs between runs of one script. A lease like any claim."""

    id: UUID
    attempt: int
    scheduled_for: datetime
    restarts: int
    runnable_id: int | None  # script hash
    args: str | None  # JSON text of an object
    created_by: str
    permissioned_as: str
    permissioned_as_email: str
    parent_job: UUID | None
    root_job: UUID | None
    trigger_kind: str | None
    trigger: str | None
    timeout: int | None  # seconds
    is_plain: bool  # there is nothing else to know of it; others are read whole


@dataclass(frozen=True, slots=True)
class Completion:
    """The outcome of one claim. `result` is JSON text (its key order is kept)."""

    id: UUID
    attempt: int
    status: str  # JobStatus
    result: str
    mem_peak: int | None = None  # kB
    labels: list[str] | None = None
    isolation: str | None = None  # what its processes ran in (CompletedJob.isolation)


def push_parameters(request: JobRequest) -> dict[str, Any]:
    """The parameters of push.sql; the id is chosen here so that it is known before the statement runs."""
    return {
        "id": request.job_id or new_job_id(),
        "workspace_id": request.workspace_id,
        "kind": request.kind,
        "runnable_id": request.runnable_id,
        "runnable_path": request.runnable_path,
        "raw_code": request.raw_code,
        "raw_lock": request.raw_lock,
        "script_lang": request.language,
        "entrypoint": request.entrypoint,
        "args": Jsonb(request.args),
        "tag": request.tag,
        "created_by": request.created_by,
        "permissioned_as": request.permissioned_as,
        "permissioned_as_email": request.permissioned_as_email,
        "parent_job": request.parent_job,
        "root_job": request.root_job,
        "flow_step_id": request.flow_step_id,
        "trigger_kind": request.trigger_kind,
        "trigger": request.trigger,
        "timeout": request.timeout_s,
        "priority": request.priority,
        "visible_to_owner": request.visible_to_owner,
        "preprocessed": request.preprocessed,
        "raw_flow": Json(request.raw_flow) if request.raw_flow is not None else None,
        "flow_state": Json(request.flow_state) if request.flow_state is not None else None,
        "cache_ttl": request.cache_ttl_s,
        "delete_after_secs": request.delete_after_s,
        "concurrency_key": request.concurrency_key,
        "concurrent_limit": request.concurrent_limit,
        "concurrency_time_window_s": request.concurrency_window_s,
        "same_worker": request.same_worker,
        "scheduled_for": request.scheduled_for,
        "scheduled_in_s": request.scheduled_in_s,
        "audit": Jsonb(request.audit) if request.audit is not None else None,
    }


def push_job(request: JobRequest) -> UUID:
    """Queue a job and wake a worker for it. Raises JobIdTaken, BadRequest.

    Inside a transaction of the caller the wake-up waits for its commit.
    """
    if not 0 <= request.priority <= MAX_PRIORITY:
        raise BadRequest(f"priority is {request.priority}; expected 0 to {MAX_PRIORITY}")
    parameters = push_parameters(request)
    is_due = request.scheduled_for is None and not request.scheduled_in_s
    if is_due and pg.can_notify_at_once() and wakeups.may_send(request.tag):
        channel, payload = wakeups.QUEUE_CHANNEL, request.tag
        count = pg.execute_and_notify(sql.load("push"), parameters, channel=channel, payload=payload)
        is_due = False  # as far as hints go
    else:
        count = pg.execute_prepared(sql.load("push"), parameters)
    if count == 0:
        raise JobIdTaken(f"job id {parameters['id']} is taken; choose another or leave it out")
    if is_due:
        wakeups.job_queued(request.tag)
    job_id: UUID = parameters["id"]
    logger.info(
        "queued job=%s workspace=%s tag=%s path=%s",
        job_id,
        request.workspace_id,
        request.tag,
        request.runnable_path,
    )
    return job_id


def claim_parameters(
    *, worker: str, tags: Sequence[str], limit: int, ranks: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The parameters of claim.sql. `ranks`: tags whose jobs come before those of tags with a lower rank; none: 0."""
    return {
        "worker": worker,
        "tags": _array(tuple(tags)),
        "ranks": _array(tuple(ranks.get(tag, 0) for tag in tags)) if ranks else "{}",
        "limit": limit,
    }


@lru_cache(maxsize=256)
def _array(values: tuple[str, ...] | tuple[int, ...]) -> str:
    """`values` as PostgreSQL writes an array. psycopg would look at each of them again for every claim."""
    array = list(values)
    return bytes(Transformer().get_dumper(array, PyFormat.TEXT).dump(array) or b"").decode()


def claim_jobs(
    *,
    worker: str,
    tags: Sequence[str],
    limit: int = 1,
    ranks: Mapping[str, int] | None = None,
    turns: Turns | None = None,
) -> list[Claim]:
    """Take the most urgent due jobs for `tags`, at most `limit`; an empty list when there is nothing for this worker.

    The jobs come back running and leased: send `heartbeat` before ZOMBIE_JOB_TIMEOUT runs out or they are restarted
    elsewhere. Safe to call from any number of workers at once. `turns`: what this worker remembers of its claims, for
    workspaces to take turns while jobs pile up.
    """
    parameters = claim_parameters(worker=worker, tags=tags, limit=limit, ranks=ranks)
    turn = turns.next_turn() if turns else None
    with connection.cursor() as cursor:
        if turns is None or turn is None:
            cursor.execute(sql.load("claim"), parameters)
            claims = [_claim_from_row(row) for row in cursor.fetchall()]
            if turns is not None:
                turns.took([claim.workspace_id for claim in claims], limit=limit)
            return claims
        cursor.execute(sql.load("claim_in_turn"), parameters | {"turn": turn})
        rows = cursor.fetchall()
    turns.took_in_turn(rows, limit=limit)
    return [_claim_from_row(row[:-2]) for row in rows]


def _claim_from_row(row: tuple[Any, ...]) -> Claim:
    claim = list(row)
    if isinstance(claim[_ARGS], str):  # Django's cursor leaves jsonb as text
        claim[_ARGS] = json.loads(claim[_ARGS])
    return Claim(*claim)


_ARGS = list(Claim.__dataclass_fields__).index("args")


def heartbeat(
    claims: Sequence[tuple[UUID, int]], mem_peaks: Sequence[int | None] | None = None
) -> dict[UUID, str | None]:
    """Extend these leases. Answers {id: who asked to cancel it, or None} for those still held; the others are lost."""
    with connection.cursor() as cursor:
        cursor.execute(
            sql.load("heartbeat"),
            {
                "ids": [id for id, _ in claims],
                "attempts": [attempt for _, attempt in claims],
                "mem_peaks": list(mem_peaks) if mem_peaks is not None else [None] * len(claims),
            },
        )
        return {row[0]: row[2] for row in cursor.fetchall()}


def append_log(claim: tuple[UUID, int], text: str) -> None:
    """Append output of a running job. Raises LeaseLost, and writes nothing, when the claim is over."""
    if not text:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            sql.load("append_logs"),
            {
                "ids": [claim[0]],
                "attempts": [claim[1]],
                "logs": [text.replace("\x00", "")],
                "secret_reads": [None],
            },
        )
        if cursor.rowcount == 0:
            raise LeaseLost(f"claim {claim[1]} of job {claim[0]} is over; its output was dropped")
    wakeups.jobs_changed([claim[0]])


def append_system_log(*, job_id: UUID, workspace_id: str, text: str) -> None:
    """Append a line of the system's own (cancel, restart) to a job's log.

    The worker may be writing at the same end. The line is said about what is done already, so when it loses that race
    again and again it is left out instead of failing its caller.
    """
    parameters: dict[str, Any] = {"id": job_id, "workspace_id": workspace_id, "logs": text}
    for _ in range(_LOG_TRIES):
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(sql.load("append_system_log"), parameters)
        except IntegrityError:
            continue
        return
    logger.warning("left out a line of the log of job=%s: others kept writing it", job_id)


def complete_jobs(completions: Sequence[Completion]) -> set[UUID]:
    """Record outcomes, each exactly once. Answers the ids recorded; the claims of the others were over."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("complete"), completion_parameters(completions))
        recorded = {row[0] for row in cursor.fetchall()}
    wakeups.jobs_changed(recorded)
    return recorded


def completion_parameters(completions: Sequence[Completion]) -> dict[str, Any]:
    """The parameters of complete.sql."""
    return {
        "ids": [c.id for c in completions],
        "attempts": [c.attempt for c in completions],
        "statuses": [c.status for c in completions],
        "results": [c.result for c in completions],
        "mem_peaks": [c.mem_peak for c in completions],
        "labels": [json.dumps(c.labels) if c.labels else None for c in completions],
        "isolations": [c.isolation for c in completions],
    }


def complete_job(claim: tuple[UUID, int], *, result: Any, status: str = JobStatus.SUCCESS) -> None:
    """Record one outcome. Raises LeaseLost, and writes nothing, when the claim is over."""
    if not complete_jobs([Completion(claim[0], claim[1], status, json.dumps(result))]):
        raise LeaseLost(f"claim {claim[1]} of job {claim[0]} is over; its result was dropped")


def release_job(claim: tuple[UUID, int], *, count_restart: bool = False) -> None:
    """Put a claimed job back into the queue. Raises LeaseLost when the claim is over."""
    with connection.cursor() as cursor:
        cursor.execute(
            sql.load("release"), {"id": claim[0], "attempt": claim[1], "count_restart": count_restart}
        )
        if cursor.rowcount == 0:
            raise LeaseLost(f"claim {claim[1]} of job {claim[0]} is over; it was not put back")


def canceled_error(*, username: str, reason: str | None) -> dict[str, Any]:
    """The error object of a canceled job (reference/queue.md section 8)."""
    return {
        "name": "Canceled",
        "message": f"Job canceled: {reason or 'no reason given'} by {username}",
        "reason": reason,
        "canceler": username,
    }


def run_now(*, job_id: UUID, workspace_id: str) -> None:
    """Make a job that is scheduled for later due at once. Raises JobNotFound."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE queue SET scheduled_for = statement_timestamp()"
            " WHERE id = %s AND workspace_id = %s AND NOT running RETURNING tag",
            [job_id, workspace_id],
        )
        row = cursor.fetchone()
    if row is None:
        raise JobNotFound(f"job {job_id} is not waiting in the queue of workspace {workspace_id}")
    wakeups.job_queued(row[0])


def requeue_job(*, job_id: UUID, workspace_id: str) -> None:
    """Take a running job from its worker and queue it again, whatever the worker does. Raises JobNotFound."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("requeue"), {"id": job_id, "workspace_id": workspace_id})
        row = cursor.fetchone()
    if row is None:
        raise JobNotFound(f"job {job_id} is not running in workspace {workspace_id}")
    wakeups.cancel_requested(job_id)  # its worker notices at once that the lease is lost
    wakeups.job_queued(row[0])


def recover_lost_jobs() -> tuple[int, int]:
    """Restart jobs whose worker fell silent, fail those out of restarts. Answers (restarted, failed)."""
    parameters = {
        "timeout_s": settings.ZOMBIE_JOB_TIMEOUT,
        "restart": settings.RESTART_ZOMBIE_JOBS,
        "limit": settings.RESTART_LIMIT,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql.load("requeue_lost"), parameters)
        restarted = cursor.fetchall()
        cursor.execute(sql.load("fail_lost"), parameters)
        failed = cursor.fetchall()
        waking.wake_parents(row[0] for row in failed)
    for job_id, workspace_id, tag, worker, restarts in restarted:
        logger.warning(
            "restarted job=%s: worker=%s sent no heartbeat (%s/%s)",
            job_id,
            worker,
            restarts,
            settings.RESTART_LIMIT,
        )
        append_system_log(
            job_id=job_id,
            workspace_id=workspace_id,
            text=f"\nRestarted job after not receiving job's ping for too long from worker {worker} "
            f"({restarts}/{settings.RESTART_LIMIT} attempts)\n",
        )
        wakeups.job_queued(tag)
    for job_id, _, worker, _ in failed:
        logger.warning("failed job=%s: worker=%s sent no heartbeat and no restart is left", job_id, worker)
    if flows := [row[0] for row in failed if row[3]]:
        from jobs.canceling import cancel_below  # which ends jobs by way of this module

        cancel_below(flows, username="monitor", reason="the flow around it failed")
    wakeups.jobs_changed([row[0] for row in restarted + failed])
    return len(restarted), len(failed)


def delete_jobs(job_ids: Sequence[UUID]) -> None:
    """Forget these jobs, whatever their state: no trace is left. A flow that waits for one of them looks again.

    In the caller's transaction.
    """
    flows = waking.parents_of(job_ids)
    with connection.cursor() as cursor:
        cursor.execute(sql.load("delete_jobs"), {"ids": list(job_ids)})
    waking.wake(flows)


def delete_expired_jobs() -> int:
    """Forget jobs that ended too long ago: one short batch. Answers how many.

    The instance setting retention_period_secs says how long they are kept (0: for ever), JOB_RETENTION_SECONDS while it
    is not set. As many as JOB_CLEANUP_BATCH_SIZE means that there may be more.
    """
    retention_s = (
        InstanceSetting.objects.filter(pk="retention_period_secs").values_list("value", flat=True).first()
    )
    if not isinstance(retention_s, int):
        retention_s = settings.JOB_RETENTION_SECONDS
    if retention_s <= 0:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            sql.load("delete_expired"),
            {"retention_s": retention_s, "batch": settings.JOB_CLEANUP_BATCH_SIZE},
        )
        return cursor.rowcount


def cancel_stale_jobs() -> int:
    """Cancel jobs that have waited in the queue for more than STALE_JOB_THRESHOLD_MINUTES since they were due.

    Answers how many. Nothing happens while the setting is off.
    """
    minutes = settings.STALE_JOB_THRESHOLD_MINUTES
    if not minutes:
        return 0
    parameters = {
        "threshold_s": minutes * 60,
        "canceled_by": "monitor",
        "reason": f"no worker took it within STALE_JOB_THRESHOLD_MINUTES ({minutes})",
    }
    error = canceled_error(username=parameters["canceled_by"], reason=parameters["reason"])
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql.load("cancel_stale"), {**parameters, "result": json.dumps({"error": error})})
        canceled = [row[0] for row in cursor.fetchall()]
        waking.wake_parents(canceled)
    for job_id in canceled:
        logger.warning("canceled job=%s: %s", job_id, parameters["reason"])
    wakeups.jobs_changed(canceled)
    return len(canceled)


def read_logs(job_id: UUID, *, offset: int = 0, max_chars: int = 1 << 60) -> tuple[str, int]:
    """The log from character `offset` on, at most `max_chars` of it, and the offset after it."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("read_logs"), {"id": job_id, "offset": offset, "max_chars": max_chars})
        text, _ = join_chunks(cursor.fetchall(), offset)
    text = text[:max_chars]
    return text, offset + len(text)


def join_chunks(chunks: Sequence[tuple[int, str]], offset: int) -> tuple[str, int]:
    """Put rows of read_logs.sql together from `offset` on: (text, offset after it)."""
    if not chunks:
        return "", offset
    text = "".join(chunk for _, chunk in chunks)
    first = chunks[0][0]
    return text[max(0, offset - first) :], max(offset, first + len(text))
