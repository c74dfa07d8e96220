"""Restarting a flow from a step (reference/flows.md chapter 9): what a new run takes over from an old one.

The new run has the finished modules and iterations of the old one as its own: the same jobs, under its own id. The
step and everything after it begin anew. Inside of a loop or branch the way leads on (`nested_path`), a flow job for each
body; these are queued with the new run and go on from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jobs import wakeups
from jobs.flows.public import result_ref
from jobs.flows.state import Children, Progress, Ref, State
from jobs.flows.value import BranchAll, BranchOne, FlowModule, FlowValue, ForLoop, WhileLoop
from jobs.models import (
    CompletedJob,
    FlowIteration,
    FlowResult,
    FlowStatus,
    FlowStep,
    Job,
    JobKind,
    QueuedJob,
    new_job_id,
)
from workspaces.errors import BadRequest

_BODIES = ForLoop | WhileLoop | BranchAll | BranchOne


@dataclass(frozen=True, slots=True)
class Place:
    """Where to begin: a step, and of a loop or branchall which iteration or branch (from 0)."""

    step_id: str
    n: int | None = None


@dataclass(slots=True)
class Plan:
    """What a new flow job takes over. `state` goes into its JobRequest, `carry_over` writes the rest."""

    old_id: UUID
    state: State
    step_ids: list[str]  # finished modules
    result_ids: list[str] = field(default_factory=list)  # steps inside of them
    loop: str | None = None  # the module that goes on in its middle
    kept: int = 0  # its iterations that are done
    kept_if_successful: bool = False
    length: int | None = None
    inner: "Plan | None" = None  # of the body that goes on in its middle
    inner_id: UUID = field(default_factory=new_job_id)

    def carry_over(self, new_id: UUID, *, root_id: UUID | None = None) -> None:
        """Write it, in the transaction that queues the new job. `root_id`: the flow around it, when it is a body."""
        for step in FlowStep.objects.filter(flow_id=self.old_id, step_id__in=self.step_ids):
            FlowStep.objects.create(
                flow_id=new_id, step_id=step.step_id, status=step.status, result=step.result
            )
        if root_id is None:
            found = FlowResult.objects.filter(root_id=self.old_id, step_id__in=self.result_ids)
            FlowResult.objects.bulk_create(
                FlowResult(root_id=new_id, step_id=row.step_id, result=row.result) for row in found
            )
        if self.loop is not None:
            self._carry_iterations(new_id, self.loop)
        if self.inner is not None:
            self._queue_inner(self.inner, new_id, root_id or new_id)

    def _carry_iterations(self, new_id: UUID, loop: str) -> None:
        rows = FlowIteration.objects.filter(flow_id=self.old_id, step_id=loop).order_by("n")
        done = set(
            FlowIteration.objects.filter(flow_id=self.old_id, step_id=loop)
            .filter(job_id__in=CompletedJob.objects.filter(status__in=["success", "skipped"]).values("id"))
            .values_list("n", flat=True)
            if self.kept_if_successful
            else []
        )
        copies = []
        for row in rows:
            is_kept = row.n in done if self.kept_if_successful else row.n < self.kept
            if not is_kept and self.length is None:
                break  # of a while loop only what is done is known
            job_id = row.job_id if is_kept else new_job_id()
            if self.inner is not None and row.n == self.kept:
                job_id = self.inner_id
            copies.append(
                FlowIteration(flow_id=new_id, step_id=loop, n=row.n, job_id=job_id, value=row.value)
            )
        FlowIteration.objects.bulk_create(copies, batch_size=1000)

    def _queue_inner(self, inner: "Plan", new_id: UUID, root_id: UUID) -> None:
        old = Job.objects.get(pk=inner.old_id)
        outer = Job.objects.get(pk=new_id)
        values = {
            name: getattr(old, name)
            for name in (
                "workspace_id",
                "kind",
                "runnable_path",
                "args",
                "flow_step_id",
                "flow_body",
                "flow_n",
            )
        }
        Job.objects.create(
            id=self.inner_id,
            **values,
            parent_job=new_id,
            root_job=outer.root_job or outer.id,
            flow_innermost_root_job=root_id,
            tag=outer.tag,
            priority=outer.priority,
            created_by=outer.created_by,
            permissioned_as=outer.permissioned_as,
            permissioned_as_email=outer.permissioned_as_email,
            visible_to_owner=outer.visible_to_owner,
            same_worker=outer.same_worker,
        )
        FlowStatus.objects.create(
            id=self.inner_id, workspace_id=old.workspace_id, state=inner.state.to_json()
        )
        QueuedJob.objects.create(
            id=self.inner_id,
            workspace_id=old.workspace_id,
            script_path=old.runnable_path,
            tag=outer.tag,
            priority=outer.priority,
        )
        wakeups.job_queued(outer.tag)
        inner.carry_over(self.inner_id, root_id=root_id)


def plan(
    value: FlowValue,
    *,
    old_id: UUID,
    place: Place,
    nested: Sequence[Place] = (),
    failed_only: bool = False,
    origin: dict[str, Any] | None = None,
) -> Plan:
    """What a run of `value` takes over from the run `old_id` of it, to begin at `place` (in it, at `nested`).

    `failed_only`: of a loop or branchall only what did not succeed. Raises BadRequest naming what cannot be had.
    """
    made = _plan(value.modules, old_id=old_id, places=[place, *nested], failed_only=failed_only)
    made.state.restarted_from = origin
    return made


def _plan(modules: Sequence[FlowModule], *, old_id: UUID, places: Sequence[Place], failed_only: bool) -> Plan:
    place, inner_places = places[0], places[1:]
    index = next((i for i, module in enumerate(modules) if module.id == place.step_id), None)
    if index is None:
        known = ", ".join(module.id for module in modules[:20])
        raise BadRequest(f"step {place.step_id[:60]} is not there to restart from; expected one of {known}")
    module = modules[index]
    before = [earlier.id for earlier in modules[:index]]
    state = State(step=index)
    if before:
        state.previous, state.previous_job = _finished(old_id, before, place.step_id)
    made = Plan(
        old_id=old_id,
        state=state,
        step_ids=before,
        result_ids=[inner.id for earlier in modules[:index] for inner in _all_inside(earlier)],
    )
    if place.n is None and not inner_places and not failed_only:
        return made
    if not isinstance(module.value, _BODIES):
        raise BadRequest(f"step {module.id} has no iterations or branches to restart from")
    if isinstance(module.value, BranchOne):
        _into_branch(made, module, old_id, inner_places)
    else:
        _into_iterations(made, module, old_id, place.n, inner_places, failed_only=failed_only)
    return made


def _into_iterations(
    made: Plan,
    module: FlowModule,
    old_id: UUID,
    n: int | None,
    inner_places: Sequence[Place],
    *,
    failed_only: bool,
) -> None:
    value = module.value
    is_parallel = isinstance(value, ForLoop | BranchAll) and value.parallel
    if is_parallel and not failed_only:
        raise BadRequest(
            f"step {module.id} ran its iterations side by side; it can be restarted as a whole, or where it failed"
        )
    rows = list(
        FlowIteration.objects.filter(flow_id=old_id, step_id=module.id)
        .order_by("n")
        .values_list("n", "job_id")
    )
    kept = n or 0
    if not 0 <= kept < len(rows):
        raise BadRequest(f"step {module.id} had {len(rows)} iterations; there is none with number {kept}")
    children = Children(
        length=None if isinstance(value, WhileLoop) else len(rows),
        started=0 if failed_only else kept,
        done=0 if failed_only else kept,
        parallel=is_parallel,
    )
    made.state.module = Progress(id=module.id, children=children)
    made.loop, made.kept, made.length = module.id, kept, children.length
    made.kept_if_successful = failed_only
    if failed_only:
        made.state.keeps_successes = True
    if inner_places:
        assert isinstance(value, BranchAll | ForLoop | WhileLoop)
        modules = value.branches[kept].modules if isinstance(value, BranchAll) else value.modules
        made.inner = _inner(modules, rows[kept][1], inner_places)
        children.started = kept + 1
        made.state.module.job = str(made.inner_id)


def _into_branch(made: Plan, module: FlowModule, old_id: UUID, inner_places: Sequence[Place]) -> None:
    value = module.value
    assert isinstance(value, BranchOne)
    step = FlowStep.objects.filter(flow_id=old_id, step_id=module.id).first()
    chosen = (step.status.get("branch_chosen") if step is not None else None) or {}
    if step is None or not inner_places:
        raise BadRequest(f"step {module.id} has not chosen a branch in that run; restart from it as a whole")
    branch: int | str = "default" if chosen.get("type") == "default" else int(chosen.get("branch", 0))
    modules = value.default if branch == "default" else value.branches[int(branch)].modules
    made.inner = _inner(modules, UUID(step.status["job"]), inner_places)
    made.state.module = Progress(id=module.id, branch=branch, job=str(made.inner_id))


def _inner(modules: Sequence[FlowModule], old_id: UUID, places: Sequence[Place]) -> Plan:
    if not Job.objects.filter(pk=old_id, kind=JobKind.FLOW_BODY).exists():
        raise BadRequest(
            f"{places[0].step_id[:60]} was the only step there and ran without a flow around it; "
            "restart from its iteration or branch"
        )
    return _plan(modules, old_id=old_id, places=places, failed_only=False)


def _finished(old_id: UUID, before: Sequence[str], step_id: str) -> tuple[Ref, str | None]:
    """(result, job) of the module before the one to restart from."""
    found = dict(FlowStep.objects.filter(flow_id=old_id, step_id__in=before).values_list("step_id", "status"))
    missing = [id for id in before if id not in found]
    if missing:
        raise BadRequest(
            f"step {step_id[:60]} cannot be restarted from: step {missing[0]} before it was never finished"
        )
    ref = result_ref(old_id, before[-1])
    assert ref is not None
    status = found[before[-1]]
    return ref, None if status.get("skipped") else status.get("job")


def _all_inside(module: FlowModule) -> list[FlowModule]:
    inside: list[FlowModule] = []
    value = module.value
    bodies: list[Sequence[FlowModule]] = []
    if isinstance(value, ForLoop | WhileLoop):
        bodies = [value.modules]
    elif isinstance(value, BranchAll):
        bodies = [branch.modules for branch in value.branches]
    elif isinstance(value, BranchOne):
        bodies = [value.default, *(branch.modules for branch in value.branches)]
    for body in bodies:
        for inner in body:
            inside += [inner, *_all_inside(inner)]
    return inside
