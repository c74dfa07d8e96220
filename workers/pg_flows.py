"""`jobs.flows.store.FlowStore` in PostgreSQL, for one worker."""

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar
from uuid import UUID

import psycopg

from jobs import cleanup, scripts, sql, tags
from jobs.dedicated import is_dedicated
from jobs.flows import deployed
from jobs.flows.protocol import ApprovalEvent, ApprovalEvents, ChildEnded, Counts
from jobs.flows.state import Ref
from jobs.flows.store import Applied, FlowChanged, FlowJob, LeaseOver, Runnable
from jobs.flows.value import FlowValue, parse_flow_value
from jobs.models import JobKind
from jobs.queue import Claim
from jobs.runs import runs_as
from workers.environment import Surroundings
from workers.job_queue import QueueAway
from workers.pg_lane import Lane
from workers.preparing import while_database_is_away
from workers.threads import in_thread
from workspaces.access import Caller, caller_for_job
from workspaces.references import has_references, interpolate

logger = logging.getLogger(__name__)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

RIGHTS_AGE_S = 10.0  # how long a right to run a script counts after it was looked up
_LEASE_OVER, _FLOW_CHANGED = "WM001", "WM002"
_DEADLOCK, _SERIALIZATION = "40P01", "40001"
_REMEMBERED_CHARS = 256 * 1024  # of a result that is kept
_USER_STATE = "SELECT value FROM flow_user_state WHERE flow_id = %(id)s AND key = %(key)s"
_PATH = "SELECT runnable_path FROM job WHERE id = %(id)s"
_ARGS = "SELECT args FROM job WHERE id = %(id)s"
_RESULT = "SELECT result::text FROM completed_job WHERE id = %(id)s"
_REF = "SELECT flow_result_value(%(ref)s::json)::text"
_SCRIPT_HEAD = (
    "SELECT hash FROM script"
    " WHERE workspace_id = %(workspace_id)s AND path = %(path)s AND NOT archived AND NOT deleted"
)


class _Remembered(OrderedDict[K, V], Generic[K, V]):
    """The values used last, at most `size` of them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def keep(self, key: K, value: V) -> V:
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._size:
            self.popitem(last=False)
        return value


@dataclass(frozen=True, slots=True)
class _Allowed:
    """A script that a flow may run, and when that was looked up (monotonic time)."""

    runnable: Runnable
    at: float


class PgFlowStore:
    """Reads on `side`, so that they pass by a claim under way; writes on `work`, in turn with it."""

    def __init__(self, *, work: Lane, side: Lane) -> None:
        self._work = work
        self._side = side
        self._clock = (0.0, 0.0)  # (the database's time, monotonic time)
        self._definitions: _Remembered[tuple[str, Any], FlowValue] = _Remembered(200)
        self._definition_keys: _Remembered[UUID, tuple[str, Any]] = _Remembered(2000)
        self._paths: _Remembered[UUID, str | None] = _Remembered(2000)  # of topmost flows
        self._results: _Remembered[UUID, Any] = _Remembered(200)
        self._scripts: _Remembered[tuple[Any, ...], _Allowed] = _Remembered(500)
        self.lost_answers = 0  # writes whose outcome is unknown: jobs may be claimed in our name

    # --- flows --------------------------------------------------------------------------------------------------------

    def now(self) -> float:
        at, mark = self._clock
        return at + time.monotonic() - mark if at else time.time()

    async def load(self, flow_id: UUID) -> FlowJob | None:
        rows = await self._read(sql.load("load_flow"), {"id": flow_id})
        if not rows:
            return None
        *columns, now = rows[0]
        self._clock = (now, time.monotonic())
        flow_job = FlowJob(**dict(zip(_LOADED, columns, strict=True)))
        if flow_job.root_job is None:
            self._paths.keep(flow_id, flow_job.runnable_path)
        return flow_job

    async def surroundings(self, claim: Claim) -> Surroundings | None:
        """The flow around a step; None for jobs that are none."""
        if claim.flow_step_id is None or claim.flow_innermost_root_job is None or claim.root_job is None:
            return None
        value = await self.definition_of(claim.flow_innermost_root_job)
        if claim.root_job not in self._paths:
            rows = await self._read(_PATH, {"id": claim.root_job})
            self._paths.keep(claim.root_job, rows[0][0] if rows else None)
        return Surroundings(
            path=self._paths[claim.root_job] or "", env=value.flow_env if value is not None else {}
        )

    async def definition(self, flow_job: FlowJob) -> FlowValue | None:
        return await self.definition_of(flow_job.definition_of)

    async def definition_of(self, job_id: UUID) -> FlowValue | None:
        """The FlowValue that a flow (no body) runs."""
        key = self._definition_keys.get(job_id)
        if key is not None and key in self._definitions:
            return self._definitions[key]
        rows = await self._read(sql.load("flow_definition"), {"id": job_id})
        if not rows or rows[0][2] is None:
            return None
        kind, version_id, value = rows[0]
        key = ("version", version_id) if kind == JobKind.FLOW else ("job", job_id)
        self._definition_keys.keep(job_id, key)
        if key in self._definitions:
            return self._definitions[key]
        return self._definitions.keep(key, parse_flow_value(value))

    async def args(self, job_id: UUID) -> dict[str, Any] | None:
        rows = await self._read(_ARGS, {"id": job_id})
        return rows[0][0] if rows else None

    async def value(self, ref: Ref) -> Any:
        if "job" not in ref:
            rows = await self._read(_REF, {"ref": json.dumps(ref)})
            return json.loads(rows[0][0])
        job_id = UUID(ref["job"])
        if job_id in self._results:
            return self._results[job_id]
        rows = await self._read(_RESULT, {"id": job_id})
        if not rows or rows[0][0] is None:
            return None
        value = json.loads(rows[0][0])
        if len(rows[0][0]) <= _REMEMBERED_CHARS:
            self._results.keep(job_id, value)
        return value

    async def ended(self, job_id: UUID) -> ChildEnded | None:
        rows = await self._read(sql.load("ended_child"), {"id": job_id})
        if not rows:
            raise LookupError(f"job {job_id} does not exist")
        _, status, stopped, is_queued = rows[0]
        if status is None:
            if not is_queued:
                raise LookupError(f"job {job_id} is neither queued nor completed")
            return None
        return ChildEnded(job_id=job_id, status=status, stopped=stopped)

    async def count(self, flow_id: UUID, module_id: str, started: int) -> Counts:
        parameters = {"flow_id": flow_id, "step_id": module_id, "started": started}
        rows = await self._read(sql.load("count_iterations"), parameters)
        return Counts(done=rows[0][0], failed=tuple(rows[0][1]))

    async def iterations(
        self, flow_id: UUID, module_id: str, first: int, limit: int
    ) -> list[tuple[UUID, Any]]:
        parameters = {"flow_id": flow_id, "step_id": module_id, "first": first, "limit": limit}
        return [(row[0], row[1]) for row in await self._read(sql.load("read_iterations"), parameters)]

    async def iteration_of(self, flow_id: UUID, module_id: str, job_id: UUID) -> int | None:
        parameters = {"flow_id": flow_id, "step_id": module_id, "id": job_id}
        rows = await self._read(sql.load("number_of_iteration"), parameters)
        return rows[0][0] if rows else None

    async def find_result(self, flow_id: UUID, step_id: str) -> Ref | None:
        parameters = {"flow_id": flow_id, "step_id": step_id}
        rows = await self._read(sql.load("find_flow_result"), parameters)
        return rows[0][0] if rows else None

    async def approvals(self, job_ids: Sequence[UUID]) -> ApprovalEvents:
        rows = await self._read(sql.load("read_approvals"), {"ids": list(job_ids)})
        return ApprovalEvents(
            tuple(
                ApprovalEvent(resume_id=row[0], approver=row[1], approved=row[2], value=row[3])
                for row in rows
            )
        )

    async def user_state(self, root_id: UUID, key: str) -> Any:
        rows = await self._read(_USER_STATE, {"id": root_id, "key": key})
        return rows[0][0] if rows else None

    async def apply(self, document: Mapping[str, Any], texts: Sequence[str]) -> Applied:
        parameters = {
            # Not orjson: whole numbers of more than 64 bits are numbers too.
            "document": json.dumps(document, default=str, ensure_ascii=False),
            "texts": list(texts),
        }
        while True:
            try:
                rows = await self._work.fetch(sql.load("advance_flows"), parameters)
            except QueueAway as exc:
                if not exc.outcome_unknown:
                    continue
                self.lost_answers += 1
                raise FlowChanged("the answer to a write was lost") from exc
            except psycopg.DatabaseError as exc:
                if exc.sqlstate == _LEASE_OVER:
                    raise LeaseOver(str(exc)) from exc
                if exc.sqlstate in (_FLOW_CHANGED, _DEADLOCK, _SERIALIZATION):
                    raise FlowChanged(str(exc)) from exc
                raise
            moment, default_timeout_s = rows[0]
            self._clock = (moment.timestamp(), time.monotonic())
            return Applied(moment, default_timeout_s)

    # --- with the rights of the flow ------------------------------------------------------------------------------------

    async def script(self, flow_job: FlowJob, *, path: str, hash: int | None) -> Runnable:
        key = (flow_job.workspace_id, flow_job.permissioned_as, flow_job.permissioned_as_email, path, hash)
        known = self._scripts.get(key)
        if known is not None and time.monotonic() - known.at < RIGHTS_AGE_S:
            if hash is not None:
                return known.runnable
            rows = await self._read(_SCRIPT_HEAD, {"workspace_id": flow_job.workspace_id, "path": path})
            if rows and rows[0][0] == known.runnable.id:
                return known.runnable
        found = await _in_thread(lambda: _find_script(_caller(flow_job), path, hash))
        self._scripts.keep(key, _Allowed(found, time.monotonic()))
        return found

    async def flow(self, flow_job: FlowJob, *, path: str) -> Runnable:
        return await _in_thread(lambda: _find_flow(_caller(flow_job), path))

    async def variable(self, flow_job: FlowJob, path: str) -> Any:
        return await self.interpolated(flow_job, f"$var:{path}")

    async def resource(self, flow_job: FlowJob, path: str) -> Any:
        return await self.interpolated(flow_job, f"$res:{path}")

    async def interpolated(self, flow_job: FlowJob, value: Any) -> Any:
        if not has_references(value):
            return value
        return await _in_thread(lambda: interpolate(value, caller=_caller(flow_job))[0])

    async def choose_tag(
        self, *, workspace_id: str, asked: str | None, language: str, args: dict[str, Any]
    ) -> str:
        def choose() -> str:
            return tags.choose_tag(workspace_id=workspace_id, asked=asked, language=language, args=args)

        return choose() if tags.settings_are_known() else await _in_thread(choose)

    async def _read(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        while True:
            try:
                return await self._side.fetch(statement, parameters)
            except QueueAway:
                continue  # the lane waits between attempts


# The columns of load_flow.sql, without the clock at their end.
_LOADED = [field.name for field in fields(FlowJob)]


async def _in_thread(work: Callable[[], T]) -> T:
    return await while_database_is_away(lambda: in_thread(work))


def _caller(flow_job: FlowJob) -> Caller:
    kind, _, name = flow_job.permissioned_as.partition("/")
    return caller_for_job(
        workspace_id=flow_job.workspace_id,
        email=flow_job.permissioned_as_email,
        username=name if kind == "u" else flow_job.created_by,
        permissioned_as=flow_job.permissioned_as,
        job_id=flow_job.id,
    )


def _find_script(caller: Caller, path: str, hash: int | None) -> Runnable:
    script = scripts.get_to_run(caller, path=path if hash is None else None, hash=hash)
    permissioned_as, email = runs_as(caller, script.on_behalf_of_email, path=script.path)
    is_self = permissioned_as == caller.permissioned_as
    extra = script.extra
    return Runnable(
        id=script.hash,
        path=script.path,
        tag=script.tag,
        language=script.language,
        code=script.content,
        lock=script.lock,
        envs=script.envs,
        timeout=script.timeout,
        priority=script.priority,
        cache_ttl=extra.get("cache_ttl"),
        delete_after_secs=cleanup.delay_of_extra(extra),
        concurrent_limit=extra.get("concurrent_limit"),
        concurrency_key=extra.get("concurrency_key"),
        concurrency_time_window_s=extra.get("concurrency_time_window_s"),
        permissioned_as=None if is_self else permissioned_as,
        permissioned_as_email=None if is_self else email,
        is_dedicated=is_dedicated(extra),
    )


def _find_flow(caller: Caller, path: str) -> Runnable:
    flow, version = deployed.get_to_run(caller, path=path)
    value = parse_flow_value(version.value)
    permissioned_as, email = runs_as(caller, flow.on_behalf_of_email, path=flow.path)
    is_self = permissioned_as == caller.permissioned_as
    return Runnable(
        id=version.pk,
        path=flow.path,
        tag=flow.tag,
        timeout=flow.timeout,
        priority=value.priority or flow.priority,
        cache_ttl=value.cache_ttl,
        concurrent_limit=value.concurrent_limit,
        concurrency_key=value.concurrency_key,
        concurrency_time_window_s=value.concurrency_time_window_s,
        permissioned_as=None if is_self else permissioned_as,
        permissioned_as_email=None if is_self else email,
        value=value,
        is_dedicated=is_dedicated(flow.extra),
    )
