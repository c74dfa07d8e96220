"""The jobs of steps: from what the machine wants started to rows of `job` and `queue`, one of them for this very slot."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from jobs import concurrency, dedicated
from jobs.dedicated import Dedicated
from jobs.flows.naming import with_iteration
from jobs.flows.protocol import Instant, StartBody, StartFlow, StartStep
from jobs.flows.state import State
from jobs.flows.store import Applied, FlowJob, Runnable
from jobs.flows.transaction import OpenFlow
from jobs.flows.value import AiAgent, RawScript, ScriptRef, SubFlow
from jobs.models import JobKind
from jobs.queue import Claim
from workspaces.errors import BadRequest
from workspaces.jsontext import check_storable

if TYPE_CHECKING:
    from jobs.flows.driver import _Run

FLOW_TAG = "flow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What the calling slot can run."""

    tags: Collection[str]
    languages: Collection[str]


class StepJobs:
    """The jobs that one transaction starts."""

    def __init__(self, run: "_Run", here: Here, *, may_take: bool) -> None:
        self._run = run
        self._transaction = run.transaction
        self._here = here
        self._may_take = may_take
        self._taken: tuple[dict[str, Any], Runnable | None] | None = None
        self.queued_tags: set[str] = set()
        self.delays: list[float] = []

    async def start(self, flow: OpenFlow, effect: StartStep | StartFlow | StartBody) -> OpenFlow | None:
        """Add the job; answers the flow that begins in this transaction, if it is one. Raises DomainError."""
        if isinstance(effect, StartBody):
            return await self._start_body(flow, effect)
        if isinstance(effect, StartFlow):
            return await self._start_flow(flow, effect)
        await self._start_step(flow, effect)
        return None

    def instant(self, flow: OpenFlow, effect: Instant) -> None:
        """Add a job that has ended already."""
        row = self._row(flow, effect.job_id, kind=JobKind.IDENTITY, step_id=effect.module_id, n=effect.n)
        row |= {"tag": FLOW_TAG, "args": {}, "place": None}
        self._transaction.jobs.append(row)

    @property
    def taken(self) -> set[UUID]:
        """The id of the job for the calling slot, if there is one."""
        return set() if self._taken is None else {UUID(self._taken[0]["id"])}

    def claim(self, applied: Applied) -> Claim | None:
        """The job for the calling slot, as if it had claimed it."""
        if self._taken is None:
            return None
        row, script = self._taken
        return _claim(row, script, applied)

    # --- the three sorts ----------------------------------------------------------------------------------------------

    async def _start_step(self, flow: OpenFlow, effect: StartStep) -> None:
        module, job = effect.module, flow.job
        row = self._row(flow, effect.job_id, kind=JobKind.FLOW_SCRIPT, step_id=module.id, n=effect.n)
        args = await self._args(effect.args, effect.args_of)
        script: Runnable | None = None
        value = module.value
        asked: str | None = None
        language = FLOW_TAG
        if isinstance(value, RawScript):
            asked, language = value.tag, value.language
            row |= {"args": args, "raw_code": value.content, "raw_lock": value.lock, "script_lang": language}
            row |= _limit(row, value.concurrent_limit, value.concurrency_key, value.concurrency_time_window_s)
        elif isinstance(value, ScriptRef):
            script = await self._run.store.script(job, path=value.path, hash=value.hash)
            assert script.language is not None
            asked, language = value.tag_override or script.tag, script.language
            row |= {
                "args": args,
                "kind": JobKind.SCRIPT,
                "runnable_id": script.id,
                "runnable_path": script.path,
                "script_lang": language,
            }
            row |= _limit(
                row, script.concurrent_limit, script.concurrency_key, script.concurrency_time_window_s
            )
            if script.permissioned_as is not None:
                row["permissioned_as"] = script.permissioned_as
                row["permissioned_as_email"] = script.permissioned_as_email
        elif isinstance(value, AiAgent):
            row["kind"] = JobKind.AI_AGENT
        row |= {
            "args": args,
            "tag": await self._tag(flow, asked, language, args, script),
            "timeout": effect.timeout_s or (script.timeout if script is not None else None),
            "priority": module.priority or job.priority or (script and script.priority) or 0,
            "script_entrypoint_override": "preprocessor" if effect.is_preprocessor else None,
            "cache_ttl": _first(module.cache_ttl, script and script.cache_ttl),
            "delete_after_secs": _first(module.delete_after_secs, script and script.delete_after_secs),
            "same_worker": flow.job.same_worker,
        }
        self._place(row, effect.delay_s, script, language=row.get("script_lang"), is_bound=job.same_worker)

    async def _start_flow(self, flow: OpenFlow, effect: StartFlow) -> OpenFlow | None:
        module, job = effect.module, flow.job
        assert isinstance(module.value, SubFlow)
        runnable = await self._run.store.flow(job, path=module.value.path)
        value = runnable.value
        assert value is not None
        args = await self._args(effect.args, effect.args_of)
        row = self._row(flow, effect.job_id, kind=JobKind.FLOW, step_id=module.id, n=effect.n)
        row |= {
            "runnable_id": runnable.id,
            "runnable_path": runnable.path,
            "flow_innermost_root_job": None,
            "args": args,
            "tag": await self._tag(flow, runnable.tag, FLOW_TAG, args, runnable),
            "timeout": runnable.timeout,
            "priority": module.priority or job.priority or runnable.priority or 0,
            "cache_ttl": _first(module.cache_ttl, runnable.cache_ttl),
            "delete_after_secs": module.delete_after_secs,
            "same_worker": value.same_worker,
        }
        row |= _limit(
            row, runnable.concurrent_limit, runnable.concurrency_key, runnable.concurrency_time_window_s
        )
        if runnable.permissioned_as is not None:
            row["permissioned_as"] = runnable.permissioned_as
            row["permissioned_as_email"] = runnable.permissioned_as_email
        opened = OpenFlow(job=_flow_job(row), value=value, modules=value.modules, state=State(), is_new=True)
        # Limits and caches are looked at when a job is claimed.
        waits = effect.delay_s > 0 or row["concurrency_key"] is not None or row["cache_ttl"] is not None
        return self._place_flow(row, opened, args, effect.delay_s, waits=waits)

    async def _start_body(self, flow: OpenFlow, effect: StartBody) -> OpenFlow | None:
        args = await self._run.args(flow)
        if effect.is_iteration:
            assert effect.n is not None
            _, value = await self._run.iteration(flow, effect.module_id, effect.n)
            args = with_iteration(args, {"index": effect.n, "value": value})
        row = self._row(flow, effect.job_id, kind=JobKind.FLOW_BODY, step_id=effect.module_id, n=effect.n)
        row |= {
            "flow_body": effect.body,
            "args": args,
            "tag": flow.job.tag,
            "priority": flow.job.priority,
            "same_worker": flow.job.same_worker,
        }
        opened = OpenFlow(
            job=_flow_job(row),
            value=flow.value,
            modules=flow.value.body(effect.body),
            state=State(previous=effect.previous),
            is_new=True,
        )
        # Side by side: the first one goes on here, the others wherever there is room.
        waits = effect.side_by_side and (self._taken is not None or not self._may_take)
        return self._place_flow(row, opened, args, 0.0, waits=waits)

    # --- parts ----------------------------------------------------------------------------------------------------

    def _row(self, flow: OpenFlow, job_id: UUID, *, kind: str, step_id: str, n: int | None) -> dict[str, Any]:
        job = flow.job
        return {
            "id": str(job_id),
            "workspace_id": job.workspace_id,
            "kind": kind,
            "runnable_id": None,
            "runnable_path": None if job.runnable_path is None else f"{job.runnable_path}/{step_id}"[:255],
            "created_by": job.created_by,
            "permissioned_as": job.permissioned_as,
            "permissioned_as_email": job.permissioned_as_email,
            "parent_job": str(job.id),
            "root_job": str(job.root_job or job.id),
            "flow_step_id": step_id,
            "flow_innermost_root_job": str(job.definition_of),
            "flow_n": n,
            "priority": 0,
            "visible_to_owner": job.visible_to_owner,
            "same_worker": False,
            "cache_ttl": None,
            "concurrency_key": None,
        }

    async def _args(self, args: dict[str, Any] | None, args_of: str | None) -> dict[str, Any]:
        if args_of is not None:
            args = await self._run.load({"args": args_of})
        found = args or {}
        check_storable(found)
        return found

    async def _tag(
        self,
        flow: OpenFlow,
        asked: str | None,
        language: str,
        args: dict[str, Any],
        runnable: Runnable | None = None,
    ) -> str:
        """Reference queue.md chapter 4: the steps of a flow with a tag of its own have that tag.

        What has dedicated workers of its own goes there, unless the flow around it has some: they run all of it.
        """
        tag = flow.job.tag
        if dedicated.is_of_flow(tag, flow.job.workspace_id):
            return tag
        if runnable is not None and runnable.is_dedicated:
            return Dedicated(flow.job.workspace_id, runnable.path, is_flow=runnable.value is not None).tag
        is_own = tag != FLOW_TAG and tag != f"{FLOW_TAG}-{flow.job.workspace_id}"
        if is_own and not flow.value.preserve_step_tags:
            return tag
        return await self._run.store.choose_tag(
            workspace_id=flow.job.workspace_id, asked=asked, language=language, args=args
        )

    def _place(
        self,
        row: dict[str, Any],
        delay_s: float,
        script: Runnable | None,
        *,
        language: str | None,
        is_bound: bool,
    ) -> None:
        """In the calling slot if it can, else in the queue. `is_bound`: it must be this worker."""
        can_run = language is None or language in self._here.languages
        if is_bound and not can_run:
            raise BadRequest(
                f"all steps of this flow run on one worker (same_worker), which has no runtime for {language}"
            )
        fits = can_run and delay_s == 0 and self._taken is None
        if fits and (is_bound or (self._may_take and row["tag"] in self._here.tags)):
            row["place"] = "here"
            self._taken = (row, script)
        else:
            self._queue(row, delay_s)
        self._transaction.jobs.append(row)

    def _place_flow(
        self, row: dict[str, Any], opened: OpenFlow, args: dict[str, Any], delay_s: float, *, waits: bool
    ) -> OpenFlow | None:
        self._transaction.jobs.append(row)
        if waits:
            row["flow_state"] = opened.state.to_json()
            self._queue(row, delay_s)
            return None
        row["place"] = "parked"
        opened.args = args
        return opened

    def _queue(self, row: dict[str, Any], delay_s: float) -> None:
        row["place"] = "queue"
        if delay_s > 0:
            row["delay_s"] = delay_s
            self.delays.append(delay_s)
        else:
            self.queued_tags.add(row["tag"])


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _limit(row: dict[str, Any], places: int | None, key: str | None, window_s: int | None) -> dict[str, Any]:
    """The columns of a concurrency limit."""
    limit = concurrency.limit_of(
        workspace_id=row["workspace_id"],
        kind="flow" if row["kind"] == JobKind.FLOW else "script",
        path=row["runnable_path"],
        args=row["args"],
        places=places,
        window_s=window_s,
        key=key,
    )
    if limit is None:
        return {}
    return {
        "concurrency_key": limit.key,
        "concurrent_limit": limit.places,
        "concurrency_time_window_s": limit.window_s,
    }


def _flow_job(row: dict[str, Any]) -> FlowJob:
    """A flow job that does not exist yet."""

    def id(name: str) -> UUID | None:
        return None if row.get(name) is None else UUID(row[name])

    return FlowJob(
        id=UUID(row["id"]),
        workspace_id=row["workspace_id"],
        kind=row["kind"],
        runnable_id=row["runnable_id"],
        runnable_path=row["runnable_path"],
        parent_job=id("parent_job"),
        root_job=id("root_job"),
        flow_step_id=row["flow_step_id"],
        flow_innermost_root_job=id("flow_innermost_root_job"),
        flow_body=row.get("flow_body"),
        flow_n=row["flow_n"],
        tag=row["tag"],
        priority=row["priority"],
        created_by=row["created_by"],
        permissioned_as=row["permissioned_as"],
        permissioned_as_email=row["permissioned_as_email"],
        trigger_kind=None,
        trigger=None,
        visible_to_owner=row["visible_to_owner"],
        preprocessed=None,
        same_worker=row["same_worker"],
        cache_ttl=row["cache_ttl"],
        concurrency_key=row["concurrency_key"],
        concurrency_time_window_s=row.get("concurrency_time_window_s"),
        canceled_by=None,
        canceled_reason=None,
        version=0,
        state={},
    )


def _claim(row: dict[str, Any], script: Runnable | None, applied: Applied) -> Claim:
    moment: datetime = applied.moment
    return Claim(
        id=UUID(row["id"]),
        attempt=1,
        scheduled_for=moment,
        started_at=moment,
        created_at=moment,
        restarts=0,
        workspace_id=row["workspace_id"],
        kind=row["kind"],
        runnable_path=row["runnable_path"],
        tag=row["tag"],
        args=row["args"],
        created_by=row["created_by"],
        permissioned_as=row["permissioned_as"],
        permissioned_as_email=row["permissioned_as_email"],
        parent_job=UUID(row["parent_job"]),
        root_job=UUID(row["root_job"]),
        flow_step_id=row["flow_step_id"],
        trigger_kind=None,
        trigger=None,
        timeout=row.get("timeout") or applied.default_timeout_s,
        script_entrypoint_override=row.get("script_entrypoint_override"),
        language=row.get("script_lang"),
        code=script.code if script is not None else row.get("raw_code"),
        envs=script.envs if script is not None else None,
        has_preprocessor=False,
        flow_innermost_root_job=UUID(row["flow_innermost_root_job"]),
        same_worker=row["same_worker"],
        cache_ttl=row.get("cache_ttl"),
        concurrency_key=row.get("concurrency_key"),
        concurrent_limit=row.get("concurrent_limit"),
        concurrency_time_window_s=row.get("concurrency_time_window_s"),
        runnable_id=row["runnable_id"],
        delete_after_secs=row.get("delete_after_secs"),
        lock=script.lock if script is not None else row.get("raw_lock"),
    )
