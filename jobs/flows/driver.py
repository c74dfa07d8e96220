"""Driving flows: from "a step has ended" to "the next one runs", in one transaction.

The driver loads what the machine needs, answers its questions, follows an ended flow into the flow around it, and writes
everything at once. When another process was faster it begins again with what is true now. It keeps no state that matters:
what it remembers of flows is checked by their version when it writes.
"""

import json
import logging
import random
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from jobs.flows import machine
from jobs.flows.expressions import ExpressionFailed, evaluate_bool, evaluate_inputs, evaluate_transform
from jobs.flows.machine import Flow
from jobs.flows.naming import RunScope, error_of
from jobs.flows.protocol import (
    Again,
    Approvals,
    ChildEnded,
    Count,
    Counts,
    Effect,
    Ended,
    Event,
    FinishFlow,
    FinishModule,
    Inputs,
    Instant,
    IterationJob,
    NameResult,
    Park,
    Plan,
    Question,
    SetApprovers,
    SetArgs,
    Sleep,
    StartBody,
    StartFlow,
    StartStep,
    StepFailed,
    Suspend,
    Truth,
    Value,
    Wake,
)
from jobs.flows.state import Ref, State
from jobs.flows.steps import Here, StepJobs
from jobs.flows.store import Applied, FlowChanged, FlowJob, FlowStore
from jobs.flows.transaction import OpenFlow, Transaction
from jobs.flows.value import Javascript
from jobs.models import new_job_id
from jobs.queue import Claim, Completion, canceled_error
from workspaces.errors import DomainError

logger = logging.getLogger(__name__)

_REMEMBERED_FLOWS = 500
_REMEMBERED_BYTES = 64 * 1024  # of the arguments of one of them; larger ones are read again
_PAGE = 100  # iterations read at once
_TRIES = 200  # of one event, each after somebody else has advanced the flow


@dataclass(frozen=True, slots=True)
class Advanced:
    """What became of an event."""

    claim: Claim | None  # the next job, already claimed for the slot that asks
    changed: Collection[UUID]  # jobs and flows that watchers should look at
    queued: Collection[str]  # tags of jobs that other workers may take
    due_in_s: float | None  # when something becomes due that was put off
    ended: Collection[tuple[FlowJob, str]]  # flows that have ended, with their JobStatus
    forgetful_roots: Collection[UUID]  # topmost flows of started jobs that are forgotten after use


class FlowDriver:
    """Advances flows for one worker. Calls for one root flow must not overlap (workers.flows holds a lock)."""

    def __init__(self, store: FlowStore, *, worker: str, here: Here) -> None:
        self._store = store
        self._worker = worker
        self.here = here
        self._known: OrderedDict[UUID, OpenFlow] = OrderedDict()
        # Jobs that a write under way, or one that has just been answered, claims for a slot of this worker: they are
        # held, though no slot knows yet. Whoever takes the claim removes its job.
        self.taking: set[UUID] = set()

    async def flow_claimed(self, claim: Claim, *, may_take: bool) -> Advanced:
        """Look at a flow that was claimed, and let it go. Raises LeaseOver, FlowChanged (after many tries)."""

        async def begin(transaction: Transaction) -> list[tuple[UUID, Event]]:
            flow = await self._open(transaction, claim.id, fresh=True)
            if flow is None:
                return []
            flow.is_held = True
            return [(claim.id, Wake())]

        return await self._advance((claim.id, claim.attempt), begin, may_take=may_take)

    async def step_ended(self, claim: Claim, completion: Completion, *, may_take: bool) -> Advanced:
        """Record the end of a step and advance the flow around it. Raises LeaseOver (nothing was written)."""

        async def begin(transaction: Transaction) -> list[tuple[UUID, Event]]:
            transaction.end_job(
                claim.id,
                completion.status,
                text=completion.result,
                mem_peak=completion.mem_peak,
                labels=completion.labels,
                isolation=completion.isolation,
            )
            assert claim.parent_job is not None
            return [(claim.parent_job, ChildEnded(job_id=claim.id, status=completion.status))]

        return await self._advance((claim.id, claim.attempt), begin, may_take=may_take)

    async def _advance(
        self, lease: tuple[UUID, int], begin: Callable[[Transaction], Any], *, may_take: bool
    ) -> Advanced:
        for _ in range(_TRIES):
            transaction = Transaction(self._worker, lease)
            run = _Run(self._store, self, transaction, self.here, may_take=may_take)
            events = await begin(transaction)
            try:
                await run.follow(events)
                self.taking |= run.jobs.taken
                applied = await self._store.apply(transaction.document(), transaction.texts)
            except FlowChanged:
                self.taking -= run.jobs.taken
                self._forget(transaction)
                continue
            except BaseException:
                self.taking -= run.jobs.taken
                self._forget(transaction)
                raise
            advanced = run.advanced(applied)
            self._remember(transaction)
            return advanced
        raise FlowChanged(f"job {lease[0]}: others kept advancing its flow")

    # --- what is known of flows -----------------------------------------------------------------------------------

    async def _open(self, transaction: Transaction, flow_id: UUID, *, fresh: bool = False) -> OpenFlow | None:
        """The flow, opened for change in this transaction; None when it has ended."""
        if (flow := transaction.flows.get(flow_id)) is not None:
            return flow
        known = None if fresh else self._known.get(flow_id)
        if known is not None:
            state = State.from_json(known.state.to_json())
            flow = replace(known, state=state, results=dict(known.results), is_remembered=True)
        else:
            flow = await self._load(flow_id)
        if flow is not None:
            transaction.flows[flow_id] = flow
        return flow

    async def _load(self, flow_id: UUID) -> OpenFlow | None:
        job = await self._store.load(flow_id)
        if job is None:
            return None
        value = await self._store.definition(job)
        if value is None:
            return None
        modules = value.body(job.flow_body) if job.flow_body is not None else value.modules
        return OpenFlow(job=job, value=value, modules=modules, state=State.from_json(dict(job.state)))

    def _remember(self, transaction: Transaction) -> None:
        for id, flow in transaction.flows.items():
            if flow.has_ended:
                self._known.pop(id, None)
                continue
            if not flow.is_new and (flow.is_changed or flow.is_held):
                flow.job = replace(flow.job, version=flow.job.version + 1)
            flow.is_new = flow.is_held = flow.is_changed = False
            flow.wait = flow.wait_until = flow.suspend = None
            if flow.args is not None and not flow.has_small_args:
                flow.has_small_args = len(json.dumps(flow.args)) <= _REMEMBERED_BYTES
                if not flow.has_small_args:
                    flow.args = None
            self._known[id] = flow
            self._known.move_to_end(id)
        while len(self._known) > _REMEMBERED_FLOWS:
            self._known.popitem(last=False)

    def _forget(self, transaction: Transaction) -> None:
        for id in transaction.flows:
            self._known.pop(id, None)


class _Run:
    """One attempt at one event."""

    def __init__(
        self, store: FlowStore, driver: FlowDriver, transaction: Transaction, here: Here, *, may_take: bool
    ) -> None:
        self.store = store
        self.driver = driver
        self.transaction = transaction
        self.jobs = StepJobs(self, here, may_take=may_take)
        self._events: deque[tuple[UUID, Event]] = deque()
        self._ended_flows: list[tuple[FlowJob, str]] = []

    def advanced(self, applied: Applied) -> Advanced:
        transaction, moment = self.transaction, applied.moment.timestamp()
        waits = [flow.wait_until for flow in transaction.flows.values() if flow.wait_until is not None]
        due = [until - moment for until in waits] + self.jobs.delays
        changed = [*transaction.outcomes, *transaction.flows]
        changed += [flow.job.root_job for flow in transaction.flows.values() if flow.job.root_job is not None]
        return Advanced(
            claim=self.jobs.claim(applied),
            changed=dict.fromkeys(changed),
            queued=self.jobs.queued_tags,
            due_in_s=min(due) if due else None,
            ended=self._ended_flows,
            forgetful_roots={UUID(row["top_id"]) for row in transaction.forgotten_later()},
        )

    async def follow(self, events: list[tuple[UUID, Event]]) -> None:
        """Let everything happen that follows."""
        self._events.extend(events)
        while self._events:
            flow_id, event = self._events.popleft()
            flow = await self.driver._open(self.transaction, flow_id)
            if flow is None or flow.has_ended:
                continue
            await self._happen(flow, event)
            if flow.is_remembered and not flow.is_changed:
                # It did not know this child: too late, or it is we who are. Nothing was written, so nothing checks that.
                del self.transaction.flows[flow_id]
                flow = await self.driver._open(self.transaction, flow_id, fresh=True)
                if flow is not None:
                    await self._happen(flow, event)

    async def _happen(self, flow: OpenFlow, event: Event) -> None:
        effects: list[Effect] = []
        as_seen = Flow(
            id=flow.job.id,
            value=flow.value,
            modules=flow.modules,
            is_body=flow.job.flow_body is not None,
            now=self.store.now(),
            canceled=None
            if flow.job.canceled_by is None
            else canceled_error(username=flow.job.canceled_by, reason=flow.job.canceled_reason),
            new_id=new_job_id,
            random=random.random,
        )
        steps = machine.advance(as_seen, flow.state, event, effects)
        try:
            question = next(steps)
            while True:
                # What the machine wants so far counts for what it asks next: a result of a moment ago has its name.
                await self._perform_all(flow, effects)
                try:
                    answer = await self._answer(flow, question)
                except (StepFailed, LookupError) as exc:
                    question = steps.throw(exc)
                else:
                    question = steps.send(answer)
        except StopIteration:
            await self._perform_all(flow, effects)

    async def _perform_all(self, flow: OpenFlow, effects: list[Effect]) -> None:
        flow.is_changed = flow.is_changed or bool(effects)
        for effect in effects:
            await self._perform(flow, effect)
        effects.clear()

    # --- questions ----------------------------------------------------------------------------------------------------

    async def _answer(self, flow: OpenFlow, question: Question) -> Any:
        match question:
            case Inputs(module_id, transforms, names):
                scope = await RunScope.open(self, flow, names, list(transforms.values()))
                return await self._evaluated(evaluate_inputs(transforms, scope, where=f"step {module_id}"))
            case Value(transform, names, where):
                scope = await RunScope.open(self, flow, names, [transform])
                return await self._evaluated(evaluate_transform(transform, scope, where=where))
            case Truth(expr, names, where):
                scope = await RunScope.open(self, flow, names, [Javascript(expr)])
                return await self._evaluated(evaluate_bool(expr, scope, where=where))
            case Approvals(job_ids):
                return await self.store.approvals([UUID(id) for id in job_ids])
            case Ended(job_id):
                return await self._ended(UUID(job_id))
            case Count(module_id, started):
                return await self._count(flow, module_id, started)
            case IterationJob(module_id, n, job_id):
                return await self._iteration(flow, module_id, n, job_id)

    async def _evaluated(self, evaluation: Awaitable[Any]) -> Any:
        try:
            return await evaluation
        except ExpressionFailed as exc:
            raise StepFailed(exc.message, name=getattr(exc, "name", None) or "ExpressionError") from exc
        except DomainError as exc:
            raise StepFailed(exc.message) from exc

    async def _ended(self, job_id: UUID) -> ChildEnded | None:
        if (outcome := self.transaction.outcomes.get(job_id)) is not None:
            return ChildEnded(job_id=job_id, status=outcome[0])
        if any(job["id"] == str(job_id) for job in self.transaction.jobs):
            return None
        return await self.store.ended(job_id)

    async def _count(self, flow: OpenFlow, module_id: str, started: int) -> Counts:
        counts = await self.store.count(flow.job.id, module_id, started)
        # What ends in this very transaction is not in the database yet.
        for job_id, (status, _, _) in self.transaction.outcomes.items():
            n = await self._number(flow.job.id, module_id, job_id)
            if n is not None:
                failed = counts.failed if status in ("success", "skipped") else (*counts.failed, n)
                counts = replace(counts, done=counts.done + 1, failed=failed)
        return counts

    async def _iteration(
        self, flow: OpenFlow, module_id: str, n: int | None, job_id: UUID | None
    ) -> tuple[UUID, int]:
        if n is not None:
            return (await self.iteration(flow, module_id, n))[0], n
        assert job_id is not None
        found = await self._number(flow.job.id, module_id, job_id)
        if found is None:
            raise LookupError(f"job {job_id} is no iteration of {module_id}")
        return job_id, found

    async def _number(self, flow_id: UUID, module_id: str, job_id: UUID) -> int | None:
        """Which iteration of a module a job is."""
        planned = self.transaction.iteration_numbers.get((flow_id, module_id, job_id))
        return planned if planned is not None else await self.store.iteration_of(flow_id, module_id, job_id)

    async def iteration(self, flow: OpenFlow, module_id: str, n: int) -> tuple[UUID, Any]:
        """(job id, value) of an iteration."""
        flow_id = str(flow.job.id)
        # What an earlier event of this transaction has planned is not in the tables yet.
        for plan in self.transaction.iterations:
            index = n - plan["first"]
            if (plan["flow_id"], plan["step_id"]) == (flow_id, module_id) and 0 <= index < len(plan["ids"]):
                return UUID(plan["ids"][index]), None if plan["values"] is None else plan["values"][index]
        if flow.planned[0] != module_id or n not in flow.planned[1]:
            rows = await self.store.iterations(flow.job.id, module_id, n, _PAGE)
            flow.planned = (module_id, {n + i: row for i, row in enumerate(rows)})
        if n not in flow.planned[1]:
            raise LookupError(f"{module_id} has no iteration {n}")
        return flow.planned[1][n]

    # --- effects --------------------------------------------------------------------------------------------------

    async def _perform(self, flow: OpenFlow, effect: Effect) -> None:
        transaction, flow_id = self.transaction, str(flow.job.id)
        self._note_number(flow, effect)
        match effect:
            case StartStep() | StartFlow() | StartBody():
                try:
                    child = await self.jobs.start(flow, effect)
                except DomainError as exc:
                    self._could_not_start(flow, effect, exc)
                    return
                if child is not None:  # a flow that begins here and now
                    transaction.flows = {child.job.id: child, **transaction.flows}
                    self._events.append((child.job.id, Wake()))
            case Instant():
                self.jobs.instant(flow, effect)
                transaction.end_job(
                    effect.job_id, effect.status, ref=effect.result, instant_in=flow.job.workspace_id
                )
            case Plan(module_id=module_id, job_ids=job_ids, values=values, first=first):
                if first == 0:  # a retry, perhaps in the transaction of the attempt that failed at once
                    transaction.iterations = [
                        plan
                        for plan in transaction.iterations
                        if (plan["flow_id"], plan["step_id"]) != (flow_id, module_id)
                    ]
                transaction.iterations.append(
                    {
                        "flow_id": flow_id,
                        "step_id": module_id,
                        "first": first,
                        "ids": [str(id) for id in job_ids],
                        "values": values,
                    }
                )
                if flow.planned[0] == module_id:  # tried again: the jobs are others
                    flow.planned = ("", {})
                transaction.iteration_numbers |= {
                    (flow.job.id, module_id, id): first + i for i, id in enumerate(job_ids)
                }
            case FinishModule(module_id=module_id, status=status, result=result):
                transaction.steps.append(
                    {"flow_id": flow_id, "step_id": module_id, "status": status, "result": result}
                )
                flow.results[module_id] = result
                if flow.job.flow_body is not None:
                    self._name_result(flow, module_id, result)
            case NameResult(module_id=module_id, result=result):
                flow.results[module_id] = result
                self._name_result(flow, module_id, result)
            case SetApprovers(module_id=module_id, job=job, approvers=approvers):
                transaction.approvers.append(
                    {"flow_id": flow_id, "step_id": module_id, "job": job, "approvers": approvers}
                )
            case SetArgs(result):
                transaction.set_args.append({"id": flow_id, "ref": result})
                flow.args = await self.load(result)
            case Park():
                flow.wait, flow.wait_until, flow.suspend = "parked", None, None
            case Sleep(until):
                flow.wait, flow.wait_until, flow.suspend = "asleep", until, None
            case Suspend(missing, until):
                flow.wait, flow.wait_until, flow.suspend = "suspended", until, missing
            case Again():
                flow.wait, flow.wait_until = "asleep", self.store.now()
            case FinishFlow(status=status, result=result):
                self._finish(flow, status, result)

    def _note_number(self, flow: OpenFlow, effect: Effect) -> None:
        """The database does not know yet which iteration a job of this transaction is."""
        if isinstance(effect, StartBody | StartStep | Instant) and effect.n is not None:
            loop = effect.module_id if isinstance(effect, StartBody) else effect.loop
            assert loop is not None
            self.transaction.iteration_numbers[flow.job.id, loop, effect.job_id] = effect.n

    def _name_result(self, flow: OpenFlow, module_id: str, result: Ref) -> None:
        self.transaction.results.append(
            {"root_id": str(flow.job.definition_of), "step_id": module_id, "result": result}
        )

    def _finish(self, flow: OpenFlow, status: str, result: Ref) -> None:
        flow.has_ended = True
        self._ended_flows.append((flow.job, status))
        self.transaction.end_job(flow.job.id, status, ref=result)
        if flow.job.flow_step_id is not None and flow.job.parent_job is not None:
            event = ChildEnded(job_id=flow.job.id, status=status, stopped=flow.state.stopped)
            self._events.append((flow.job.parent_job, event))

    def _could_not_start(
        self, flow: OpenFlow, effect: StartStep | StartFlow | StartBody, problem: DomainError
    ) -> None:
        """What a step names is not there: its job has failed at once, and the flow goes on from that."""
        module_id = effect.module.id if not isinstance(effect, StartBody) else effect.module_id
        error = {
            "error": {
                "name": getattr(problem, "name", None) or type(problem).__name__,
                "message": problem.message,
                "step_id": module_id,
            }
        }
        instant = Instant(
            job_id=effect.job_id, module_id=module_id, result={"value": error}, status="failure", n=effect.n
        )
        self.jobs.instant(flow, instant)
        self.transaction.end_job(
            effect.job_id, "failure", ref=instant.result, instant_in=flow.job.workspace_id
        )
        self._events.append((flow.job.id, ChildEnded(job_id=effect.job_id, status="failure")))

    # --- values ---------------------------------------------------------------------------------------------------

    async def args(self, flow: OpenFlow) -> dict[str, Any]:
        """flow_input of a flow."""
        if flow.args is None:
            flow.args = (await self.store.args(flow.job.id)) or {}
        return flow.args

    async def load(self, ref: Ref) -> Any:
        """The result that a Ref names, whether it is in the database or about to be."""
        transaction = self.transaction
        if "value" in ref:
            return ref["value"]
        if "error" in ref:
            return error_of(await self.load(ref["error"]))
        if "with_result" in ref:
            parts = ref["with_result"]
            return {"error": parts["error"]["error"] | {"result": await self.load(parts["of"])}}
        if "args" in ref:
            flow = transaction.flows.get(UUID(ref["args"]))
            return await self.args(flow) if flow is not None else await self.store.args(UUID(ref["args"]))
        if "job" in ref:
            outcome = transaction.outcomes.get(UUID(ref["job"]))
            if outcome is None:
                return await self.store.value(ref)
            _, text, where = outcome
            return json.loads(text) if text is not None else await self.load(where or {"value": None})
        flow_id, module_id, count = ref["list"]
        values = await self.store.value(ref)
        values += [None] * (count - len(values))
        for job_id in transaction.outcomes:  # not in the database yet
            n = await self._number(UUID(flow_id), module_id, job_id)
            if n is not None and n < count:
                values[n] = await self.load({"job": str(job_id)})
        return values

    async def find_result(self, flow: OpenFlow, step_id: str) -> Ref | None:
        """`results.<step_id>` as this flow sees it: its own modules, then those of the flows around it."""
        transaction = self.transaction
        inner: OpenFlow | None = flow
        while inner is not None:
            if step_id in inner.results:
                return inner.results[step_id]
            if not inner.is_new:
                break
            outer = inner.job.parent_job
            inner = transaction.flows.get(outer) if outer is not None else None
        for named in reversed(transaction.results):
            if named["step_id"] == step_id and named["root_id"] == str(flow.job.definition_of):
                return named["result"]
        return await self.store.find_result(inner.job.id if inner is not None else flow.job.id, step_id)
