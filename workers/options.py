"""What jobs may ask of the worker that runs them: a place among their like, a cached result, a folder in common with the
other steps of their flow, being forgotten. Jobs that ask for nothing cost no statement here."""

import logging
from collections.abc import Collection, Mapping
from typing import Any, Protocol
from uuid import UUID

from django.conf import settings

from jobs import cache
from jobs.cache import CachedFlow, Hit
from jobs.flows.driver import Advanced
from jobs.models import FLOW_KINDS, JobStatus
from jobs.queue import Claim
from workers.job_queue import Lease, QueueAway
from workers.logs import JobLog
from workers.results import Recorded
from workers.runner import Runner

logger = logging.getLogger(__name__)

MAX_SHARES = 100  # flows with a shared folder on one worker, those that wait for something included


class OptionStore(Protocol):
    """What it needs of the database. Only `in_queue` raises QueueAway."""

    async def take_place(self, lease: Lease) -> bool:
        """Take a place for this claim. False: the claim is over, the job waits in the queue (or was lost before)."""

    async def offer_place(self, key: str, window_s: int) -> None:
        """A job of this key has left its place: let the next in line have it."""

    async def find_result(self, key: str, *, workspace_id: str) -> Hit | None:
        """The cached result of this key, if it is still good."""

    async def keep_result(
        self, key: str, *, workspace_id: str, job_id: UUID, result: str, ttl_s: int
    ) -> None:
        """Cache a result (JSON text)."""

    async def cached_flow(self, flow_id: UUID) -> CachedFlow | None:
        """A flow job as the cache sees it; None when it is gone."""

    async def keep_flow_result(self, key: str, *, flow_id: UUID, ttl_s: int) -> None:
        """Cache the result of a flow that has ended, if it succeeded."""

    async def forget(self, top_id: UUID) -> None:
        """Empty what is to be forgotten as soon as this job or flow has ended."""

    async def in_queue(self, job_ids: Collection[UUID]) -> set[UUID]:
        """Those of these jobs that have not ended."""


class JobOptions:
    """The options of one worker's jobs."""

    def __init__(self, store: OptionStore, runner: Runner) -> None:
        self._store = store
        self._runner = runner
        # Topmost flows whose jobs have a shared folder on this worker, the one used last at the end.
        self._shares: dict[UUID, None] = {}
        self._missed: set[UUID] = set()  # those whose folder had to go before their end
        self._forgetful_roots: set[UUID] = set()  # topmost flows with jobs that are forgotten after use

    # --- places ---------------------------------------------------------------------------------------------------

    async def may_begin(self, claim: Claim) -> bool:
        """Whether the job may run now. False: it is back in the queue, the claim is over."""
        if not _is_limited(claim):
            return True
        return await self._store.take_place((claim.id, claim.attempt))

    async def left(self, claim: Claim) -> None:
        """This worker is done with a job, whatever came of it: its place is free, and it may ask to be forgotten."""
        if _is_limited(claim):
            await self._store.offer_place(claim.concurrency_key or "", claim.concurrency_time_window_s or 0)
        if claim.delete_after_secs == 0 and claim.flow_step_id is None:
            await self._store.forget(claim.id)

    # --- results --------------------------------------------------------------------------------------------------

    async def find_result(self, claim: Claim, flow_env: Mapping[str, Any] | None) -> Hit | None:
        """A result that makes running this job unnecessary."""
        if not claim.cache_ttl:
            return None
        key = cache.key_of_script(claim, flow_env=flow_env)
        return await self._store.find_result(key, workspace_id=claim.workspace_id)

    async def keep_result(
        self, claim: Claim, outcome: Recorded, log: JobLog, flow_env: Mapping[str, Any] | None
    ) -> None:
        """Let later jobs have the result. Called before it is recorded: whoever sees it may count on the cache."""
        if not claim.cache_ttl or outcome.status != JobStatus.SUCCESS:
            return
        if cache.too_large(outcome.result):
            log.write(cache.TOO_LARGE)
            return
        await self._store.keep_result(
            cache.key_of_script(claim, flow_env=flow_env),
            workspace_id=claim.workspace_id,
            job_id=claim.id,
            result=outcome.result,
            ttl_s=claim.cache_ttl,
        )

    async def find_flow_result(self, claim: Claim) -> Hit | None:
        """A result that makes running this flow unnecessary; None also when it has begun already."""
        if not claim.cache_ttl:
            return None
        flow = await self._store.cached_flow(claim.id)
        if flow is None or not flow.is_new:
            return None
        return await self._store.find_result(flow.key, workspace_id=claim.workspace_id)

    # --- flows ----------------------------------------------------------------------------------------------------

    def share_of(self, claim: Claim) -> str | None:
        """The name of the folder that this job has in common with the other steps of its flow (same_worker)."""
        if not is_bound(claim) or claim.root_job is None:
            return None
        self._shares.pop(claim.root_job, None)
        self._shares[claim.root_job] = None
        if len(self._shares) > MAX_SHARES:
            # Flows that wait for days have one too; each takes memory, and a user id of the few hundred there are.
            oldest = next(iter(self._shares))
            del self._shares[oldest]
            self._runner.drop_share(str(oldest), is_missed=True)
            self._missed.add(oldest)
        return str(claim.root_job)

    async def flows_advanced(self, advanced: Advanced) -> None:
        """Flows have gone on, or have ended: do for them what `keep_result` and `left` do for other jobs."""
        self._forgetful_roots |= set(advanced.forgetful_roots)
        for flow, status in advanced.ended:
            if flow.cache_ttl and status == JobStatus.SUCCESS:
                await self._keep_flow_result(flow.id)
            if flow.concurrency_key is not None:
                await self._store.offer_place(flow.concurrency_key, flow.concurrency_time_window_s or 0)
        roots = {flow.id for flow, _ in advanced.ended if flow.flow_step_id is None}
        self._drop_shares(roots)
        for root_id in roots & self._forgetful_roots:
            self._forgetful_roots.discard(root_id)
            await self._store.forget(root_id)

    async def _keep_flow_result(self, flow_id: UUID) -> None:
        flow = await self._store.cached_flow(flow_id)
        if flow is not None and flow.ttl_s:
            await self._store.keep_flow_result(flow.key, flow_id=flow_id, ttl_s=flow.ttl_s)

    async def look_after_flows(self) -> None:
        """Let go of what flows left here that ended elsewhere. Called now and then."""
        here = {*self._shares, *self._missed, *self._forgetful_roots}
        if not here:
            return
        try:
            ended = here - await self._store.in_queue(here)
        except QueueAway:
            return
        self._drop_shares(ended)
        self._forgetful_roots -= ended  # the monitor forgets them

    def _drop_shares(self, root_ids: Collection[UUID]) -> None:
        for root_id in root_ids:
            if root_id in self._shares or root_id in self._missed:
                self._shares.pop(root_id, None)
                self._missed.discard(root_id)
                self._runner.drop_share(str(root_id))


def is_bound(claim: Claim) -> bool:
    """Whether this job must run here and nowhere else: a step that shares a folder with the others of its flow."""
    return claim.same_worker and claim.flow_step_id is not None and claim.kind not in FLOW_KINDS


def _is_limited(claim: Claim) -> bool:
    # A bound step cannot go back into the queue: its flow's own limit counts, not the step's.
    is_limited = (
        claim.concurrency_key is not None and (claim.concurrent_limit or 0) > 0 and not is_bound(claim)
    )
    return is_limited and not settings.DISABLE_CONCURRENCY_LIMIT
