"""Jobs of AI agents: a conversation in the worker itself, whose tools are jobs of their own."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from jobs import canceling
from jobs.errors import JobNotFound
from jobs.queue import JobRequest
from workers import failures, job_limits
from workers.ai_agents.tools import run_agent
from workers.job_queue import JobQueue
from workers.networks import BlockedNetworks
from workers.runner import RunOutcome, RunRequest
from workers.threads import in_thread

logger = logging.getLogger(__name__)

_FIRST_LOOK_S, _LONGEST_PAUSE_S = 0.02, 0.25  # for the result of a tool; a model takes seconds


class AgentJobs:
    """Runs agents. While one waits for a tool its slot is lent to others, so that the tool itself always finds one."""

    def __init__(
        self,
        queue: JobQueue,
        *,
        lend_slot: Callable[[], AbstractContextManager[None]],
        blocked: BlockedNetworks,
    ) -> None:
        self._queue = queue
        self._blocked = blocked
        self._lend_slot = lend_slot

    async def run(self, request: RunRequest) -> RunOutcome:
        """See workers.runner.Runner.run. Cancelling this call cancels the tools that still run."""
        if request.group.network == "none":
            message = job_limits.nothing_without_network("an AI agent")
            return RunOutcome(False, failures.as_result("NoNetwork", message))
        waits_for: set[UUID] = set()

        async def push_tool(tool: JobRequest) -> UUID:
            job_id = await self._queue.push(tool)
            waits_for.add(job_id)
            return job_id

        async def wait_result(job_id: UUID) -> tuple[bool, Any]:
            with self._lend_slot():
                answer = await self._result_of(job_id)
            waits_for.discard(job_id)
            return answer

        try:
            async with asyncio.timeout(request.timeout_s):
                return await run_agent(
                    request,
                    store=self._queue.flow_store,
                    push_tool=push_tool,
                    wait_result=wait_result,
                    blocked=self._blocked,
                )
        except TimeoutError:
            message = f"Job timed out after (>{request.timeout_s:g}s)"
            return RunOutcome(False, failures.as_result("ExecutionErr", message))
        finally:
            for job_id in waits_for:
                await self._cancel(job_id, request)

    async def _result_of(self, job_id: UUID) -> tuple[bool, Any]:
        store = self._queue.flow_store
        pause_s = _FIRST_LOOK_S
        while (ended := await store.ended(job_id)) is None:
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.5)
        return ended.is_success, await store.value({"job": str(job_id)})

    async def _cancel(self, job_id: UUID, request: RunRequest) -> None:
        with contextlib.suppress(JobNotFound):  # it has just ended
            await in_thread(
                canceling.cancel_job,
                job_id=job_id,
                workspace_id=request.claim.workspace_id,
                username=request.claim.created_by,
                reason=f"the AI agent {request.claim.id} that called it was stopped",
            )
