"""The queue in PostgreSQL: the text of jobs/sql through asynchronous connections (DESIGN.md decisions 5 to 7).

Two lanes: `work` (claims, heartbeats, completions: they lock the same rows, so they take turns) and `side` (logs,
notifications, pings: output flows while a claim is under way). LISTEN has a connection of its own (jobs.listener).
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from uuid import UUID

import psycopg
from django.conf import settings
from psycopg.types.json import Jsonb

from jobs import pg, sql, wakeups
from jobs.dedicated import Dedicated
from jobs.listener import Listener
from jobs.models import JobStatus
from jobs.queue import (
    Claim,
    Completion,
    JobRequest,
    NarrowClaim,
    claim_parameters,
    completion_parameters,
    push_parameters,
)
from jobs.turns import Turns
from workers import failures
from workers.groups import schema
from workers.groups.schema import GroupConfig
from workers.job_queue import (
    Appended,
    CancelRequest,
    Exchange,
    Lease,
    LogPiece,
    QueueAway,
    SecretReads,
    WorkerReport,
)
from workers.pg_flows import PgFlowStore
from workers.pg_lane import Lane
from workers.pg_options import PgOptionStore
from workers.preparing import while_database_is_away
from workers.threads import in_thread
from workspaces import variables

logger = logging.getLogger(__name__)

_GROUP_CONFIG = "SELECT name, config FROM config WHERE name IN (%(config)s, %(restart)s)"
_LEAVE = "DELETE FROM worker_ping WHERE worker = %(worker)s"


class PgJobQueue:
    """`workers.job_queue.JobQueue` on PostgreSQL, for the worker of this name."""

    def __init__(self, *, worker: str) -> None:
        self._worker = worker
        pooled = pg.is_pooled()
        self._work = Lane(name="work", url=settings.DATABASE_URL, pooled=pooled)
        self._side = Lane(name="side", url=settings.DATABASE_URL, pooled=pooled)
        # Flows are read here, so that nothing waits for them and they for nothing; opened when the first one comes.
        self._flows = Lane(name="flows", url=settings.DATABASE_URL, pooled=pooled)
        # What warm processes have done and do next: many jobs a statement, and nobody else waits for it.
        self._warm = Lane(name="dedicated", url=settings.DATABASE_URL, pooled=pooled)
        self.flow_store = PgFlowStore(work=self._work, side=self._flows)
        self.option_store = PgOptionStore(work=self._work, side=self._side, wake_workers=self.wake_workers)
        self._listener = Listener(
            channels=(wakeups.QUEUE_CHANNEL, wakeups.CANCEL_CHANNEL, wakeups.GROUP_CHANNEL)
        )
        self._turns = Turns(is_on=settings.QUEUE_FAIRNESS)
        self._untold: set[UUID] = set()  # jobs that ended, whose watchers are to be told
        self._telling: asyncio.Task[None] | None = None
        self._log_ends: dict[
            UUID, int
        ] = {}  # characters in the log of each running job after our last append

    @property
    def hears_wakeups(self) -> bool:
        return self._listener.is_connected

    @property
    def statement_count(self) -> int:
        """Statements run so far, all lanes together."""
        return sum(lane.statement_count for lane in (self._work, self._side, self._flows, self._warm))

    async def open(self) -> None:
        await self._listener.start()
        await self._work.fetch("SELECT 1", {})

    async def close(self) -> None:
        await self._listener.close()
        if self._telling is not None:
            self._telling.cancel()  # hints may be lost
            await asyncio.wait([self._telling])
        await self._work.close()
        await self._side.close()
        await self._flows.close()
        await self._warm.close()

    async def claim(
        self, *, tags: Sequence[str], limit: int, ranks: Mapping[str, int] | None = None
    ) -> list[Claim]:
        parameters = claim_parameters(worker=self._worker, tags=tags, limit=limit, ranks=ranks)
        turn = self._turns.next_turn()
        if turn is None:
            claims = [Claim(*row) for row in await self._work.fetch(sql.load("claim"), parameters)]
            self._turns.took([claim.workspace_id for claim in claims], limit=limit)
            return claims
        rows = await self._work.fetch(sql.load("claim_in_turn"), parameters | {"turn": turn})
        self._turns.took_in_turn(rows, limit=limit)
        return [Claim(*row[:-2]) for row in rows]

    async def exchange(
        self,
        completions: Sequence[Completion],
        *,
        dedicated: Dedicated,
        limit: int,
        mem_peak_kb: int | None,
        isolation: str,
        held: Callable[[], Collection[UUID]],
    ) -> Exchange:
        asked = {
            "worker": self._worker,
            "tag": dedicated.tag,
            "workspace_id": dedicated.workspace_id,
            "path": dedicated.path,
            "limit": limit,
        }
        lost: set[UUID] = set()
        perhaps_sent = False
        while True:
            try:
                if perhaps_sent:
                    await self._release_unknown(self._warm, held(), tags=[dedicated.tag], is_excluding=False)
                # One job at a time is either claimed or recorded: what does only that is done sooner.
                if not limit:
                    count = await self._record_warm(completions, mem_peak_kb) if completions else 0
                    claims, default_timeout_s = [], None
                else:
                    name, ended = "claim_dedicated", {}
                    if completions:
                        name = "complete_and_claim"
                        ended = _ended(completions) | {"mem_peak": mem_peak_kb, "isolation": isolation}
                    *claims, last = await self._warm.fetch(sql.load(name), asked | ended)
                    count, default_timeout_s = last[1], last[13]
            except QueueAway as exc:
                perhaps_sent = perhaps_sent or exc.outcome_unknown
                continue
            except psycopg.Error:
                if not completions:
                    raise
                # One of them cannot be stored: this way it does not take the others, and the next jobs, with it.
                lost = {completion.id for completion in completions} - await self.complete(completions)
                completions = ()
                continue
            if count < len(completions):
                lost = await self._not_recorded([completion.id for completion in completions])
            for completion in completions:
                self._log_ends.pop(completion.id, None)
            return Exchange([NarrowClaim._make(row) for row in claims], lost, default_timeout_s)

    async def _record_warm(self, completions: Sequence[Completion], mem_peak_kb: int | None) -> int:
        mem_peaks = [mem_peak_kb] * len(completions)
        parameters = completion_parameters(completions) | {"mem_peaks": mem_peaks}
        return len(await self._warm.fetch(sql.load("complete"), parameters))

    async def _not_recorded(self, job_ids: Sequence[UUID]) -> set[UUID]:
        """Those of these jobs that have no result in our name. The answer that told of the others was lost on the way."""
        while True:
            with contextlib.suppress(QueueAway):
                parameters = {"ids": job_ids, "worker": self._worker}
                rows = await self._warm.fetch(sql.load("find_completed"), parameters)
                return set(job_ids) - {row[0] for row in rows}

    async def whole(self, leases: Sequence[Lease]) -> list[Claim]:
        parameters = {"ids": [lease[0] for lease in leases], "attempts": [lease[1] for lease in leases]}
        while True:
            with contextlib.suppress(QueueAway):
                rows = await self._warm.fetch(sql.load("held_claims"), parameters)
                return [Claim(*row) for row in rows]

    async def head_of(self, dedicated: Dedicated) -> Claim | None:
        parameters = {"workspace_id": dedicated.workspace_id, "path": dedicated.path}
        while True:
            with contextlib.suppress(QueueAway):
                rows = await self._warm.fetch(sql.load("dedicated_script"), parameters)
                return Claim(*rows[0]) if rows else None

    async def push(self, request: JobRequest) -> UUID:
        parameters = push_parameters(request)
        await self._work.fetch(sql.load("push"), parameters)
        await self.wake_workers([request.tag])
        job_id: UUID = parameters["id"]
        return job_id

    async def start_own(self, request: JobRequest) -> Claim:
        parameters = push_parameters(request)
        await self._work.fetch(sql.load("push"), parameters)
        rows = await self._work.fetch(sql.load("start_job"), {"id": parameters["id"], "worker": self._worker})
        return Claim(*rows[0])

    async def heartbeat(self, held: Sequence[tuple[Lease, int | None]]) -> dict[Lease, CancelRequest | None]:
        rows = await self._work.fetch(
            sql.load("heartbeat"),
            {
                "ids": [lease[0] for lease, _ in held],
                "attempts": [lease[1] for lease, _ in held],
                "mem_peaks": [mem_peak for _, mem_peak in held],
            },
        )
        return {
            (row[0], row[1]): CancelRequest(row[2], row[3]) if row[2] is not None else None for row in rows
        }

    async def append_logs(self, pieces: Sequence[LogPiece]) -> Appended:
        waiting = {piece.lease: piece for piece in pieces}
        appended: set[Lease] = set()
        perhaps_sent = False
        while waiting:
            try:
                if perhaps_sent:
                    found = await self._find_logs(waiting.values())
                    appended.update(found)
                    waiting = {lease: piece for lease, piece in waiting.items() if lease not in found}
                    perhaps_sent = False
                    continue
                ends = await self._append_logs(waiting.values())
            except QueueAway as exc:
                perhaps_sent = perhaps_sent or exc.outcome_unknown
            except psycopg.errors.UniqueViolation:
                continue  # the system wrote a line of its own at the same end; ours comes after it
            else:
                self._log_ends.update(ends)
                appended.update(lease for lease in waiting if lease[0] in ends)
                break
        await self.tell_watchers(lease[0] for lease in appended)
        unmasked = {}
        for piece in pieces:
            if piece.lease not in appended and piece.secret_reads is not None:  # lost, most likely
                reads = await _secret_reads(piece.lease[0])
                if reads.count != piece.secret_reads:
                    unmasked[piece.lease] = reads
        return Appended(frozenset(appended), unmasked)

    async def _append_logs(self, pieces: Iterable[LogPiece]) -> dict[UUID, int]:
        pieces = list(pieces)
        rows = await self._side.fetch(
            sql.load("append_logs"),
            {
                "ids": [piece.lease[0] for piece in pieces],
                "attempts": [piece.lease[1] for piece in pieces],
                "logs": [piece.text for piece in pieces],
                "secret_reads": [piece.secret_reads for piece in pieces],
            },
        )
        return {row[0]: row[1] for row in rows}

    async def _find_logs(self, pieces: Iterable[LogPiece]) -> set[Lease]:
        pieces = list(pieces)
        rows = await self._side.fetch(
            sql.load("find_logs"),
            {
                "ids": [piece.lease[0] for piece in pieces],
                "offsets": [self._log_ends.get(piece.lease[0], 0) for piece in pieces],
                "logs": [piece.text for piece in pieces],
            },
        )
        found = {row[0] for row in rows}
        return {piece.lease for piece in pieces if piece.lease[0] in found}

    async def complete(self, completions: Sequence[Completion]) -> set[UUID]:
        for completion in completions:
            self._log_ends.pop(completion.id, None)
        try:
            recorded = await self._complete(completions)
        except psycopg.Error as exc:
            if len(completions) > 1:  # one that cannot be stored must not take the others with it
                recorded = set()
                for completion in completions:
                    recorded |= await self.complete([completion])
                return recorded
            logger.warning("result of job=%s cannot be stored: %s", completions[0].id, type(exc).__name__)
            message = f"The result cannot be stored: {str(exc).splitlines()[0]}"
            result = failures.as_result("ResultNotStorable", message)
            failure = replace(completions[0], status=JobStatus.FAILURE, result=result, labels=None)
            recorded = await self._complete([failure])
        self._tell_soon(recorded)
        return recorded

    async def complete_step(self, completion: Completion, *, flow_id: UUID) -> bool:
        recorded = completion.id in await self._complete([completion])
        await self.wake_flow(flow_id)
        await self.tell_watchers([completion.id])
        return recorded

    async def wake_flow(self, flow_id: UUID) -> None:
        while True:
            with contextlib.suppress(QueueAway):  # twice does no harm
                rows = await self._work.fetch(sql.load("wake_flow"), {"ids": [flow_id]})
                await self.wake_workers({row[1] for row in rows})
                return

    async def was_recorded(self, job_id: UUID) -> bool:
        while True:
            with contextlib.suppress(QueueAway):
                parameters = {"ids": [job_id], "worker": self._worker}
                return bool(await self._work.fetch(sql.load("find_completed"), parameters))

    async def _complete(self, completions: Sequence[Completion]) -> set[UUID]:
        recorded: set[UUID] = set()
        perhaps_sent = False
        while True:
            try:
                rows = await self._work.fetch(sql.load("complete"), completion_parameters(completions))
                recorded |= {row[0] for row in rows}
                if perhaps_sent and len(recorded) < len(completions):
                    # The first answer was lost on the way; what is recorded in our name was recorded then.
                    ids = [completion.id for completion in completions]
                    rows = await self._work.fetch(
                        sql.load("find_completed"), {"ids": ids, "worker": self._worker}
                    )
                    recorded |= {row[0] for row in rows}
                return recorded
            except QueueAway as exc:
                perhaps_sent = perhaps_sent or exc.outcome_unknown

    async def set_preprocessed(self, lease: Lease, args: str) -> None:
        while True:
            with contextlib.suppress(QueueAway):  # twice does no harm
                parameters = {"id": lease[0], "attempt": lease[1], "args": args}
                await self._work.fetch(sql.load("set_preprocessed"), parameters)
                return

    async def release(self, lease: Lease, *, count_restart: bool) -> bool:
        self._log_ends.pop(lease[0], None)
        rows = await self._work.fetch(
            sql.load("release"), {"id": lease[0], "attempt": lease[1], "count_restart": count_restart}
        )
        await self.wake_workers({row[1] for row in rows})
        return bool(rows)

    async def release_all_but(self, held: Sequence[Lease], *, but_tags: Sequence[str] = ()) -> int:
        return await self._release_unknown(
            self._work, [lease[0] for lease in held], tags=but_tags, is_excluding=True
        )

    async def _release_unknown(
        self, lane: Lane, held: Iterable[UUID], *, tags: Sequence[str], is_excluding: bool
    ) -> int:
        parameters = {
            "worker": self._worker,
            "ids": list(held),
            "tags": list(tags),
            "is_excluding": is_excluding,
        }
        rows = await lane.fetch(sql.load("release_unknown"), parameters)
        await self.wake_workers({row[1] for row in rows})
        return len(rows)

    def on_work(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        return self._listener.on_queue(callback)

    def on_cancel(self, callback: Callable[[UUID | None], None]) -> Callable[[], None]:
        return self._listener.on_cancel(callback)

    def on_group(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        return self._listener.on_group(callback)

    async def group_config(self, group: str) -> GroupConfig:
        names = {"config": schema.CONFIG_PREFIX + group, "restart": schema.RESTART_PREFIX + group}
        rows = dict(await self._side.fetch(_GROUP_CONFIG, names))
        config = schema.read(rows[names["config"]]) if names["config"] in rows else GroupConfig()
        return replace(config, restart_asked_at=str(rows.get(names["restart"], "")))

    async def ping(self, report: WorkerReport) -> None:
        await self._side.fetch(sql.load("ping_worker"), asdict(report) | {"runtimes": Jsonb(report.runtimes)})

    async def leave(self) -> None:
        if self._telling is not None:
            await self._telling
        await self._side.fetch(_LEAVE, {"worker": self._worker})

    async def tell_watchers(self, job_ids: Iterable[UUID]) -> None:
        for payload in wakeups.id_payloads(job_ids):
            await self._hint(wakeups.JOB_CHANNEL, payload)

    def _tell_soon(self, job_ids: Iterable[UUID]) -> None:
        """Tell the watchers of these jobs without waiting for it: the slots of the jobs are free already."""
        self._untold.update(job_ids)
        if self._untold and self._telling is None:
            self._telling = asyncio.create_task(self._tell_all(), name="hints")

    async def _tell_all(self) -> None:
        try:
            while self._untold:
                job_ids, self._untold = self._untold, set()
                await self.tell_watchers(job_ids)
        finally:
            self._telling = None

    async def wake_workers(self, tags: Iterable[str]) -> None:
        for tag in tags:
            await self._hint(wakeups.QUEUE_CHANNEL, tag)

    async def _hint(self, channel: str, payload: str) -> None:
        try:
            await self._side.fetch(pg.NOTIFY, {"channel": channel, "payload": payload})
        except (QueueAway, psycopg.Error) as exc:
            logger.debug("a hint was lost, watchers poll: %s", exc)


def _ended(completions: Sequence[Completion]) -> dict[str, Any]:
    """The parameters of complete_and_claim.sql that say what has ended."""
    return {
        "ids": [completion.id for completion in completions],
        "attempts": [completion.attempt for completion in completions],
        "statuses": [completion.status for completion in completions],
        "results": [completion.result for completion in completions],
    }


async def _secret_reads(job_id: UUID) -> SecretReads:
    count, secrets = await while_database_is_away(lambda: in_thread(variables.secrets_read_by, job_id))
    return SecretReads(count, frozenset(secrets))
