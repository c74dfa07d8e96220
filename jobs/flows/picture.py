"""How a flow run looks: the state of every step, for the picture on its page. Reads only; no arguments, no results.

A flow job knows its own modules; what is inside of loops and branches belongs to jobs of their own, one for each
iteration. The picture shows one iteration of every loop: the one that was chosen, else the first that failed, else one
that runs, else the last. So it costs a few queries for each level of nesting, whatever the number of iterations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import connection

from jobs import sql
from jobs.flows.public import definition
from jobs.flows.state import NO_JOB, State
from jobs.models import JobKind
from jobs.shapes import iso
from workspaces.errors import NotFound

SHOWN = 12  # iterations drawn under a loop
MAX_DEPTH = 30  # levels of loops and branches; deeper ones stay without states

RawModule = dict[str, Any]
StepState = dict[str, Any]  # see `step_states`


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun:
    """A flow job with what it does. Of a body (an iteration, a branch): the modules of that body alone."""

    job_id: UUID
    value: dict[str, Any]  # FlowValue, as it was written

    @property
    def modules(self) -> list[RawModule]:
        found = _modules(self.value.get("modules"))
        for name in ("preprocessor_module", "failure_module"):
            if isinstance(self.value.get(name), dict):
                found.append(self.value[name])
        return found

    def every_module(self) -> Iterator[RawModule]:
        """Depth first."""
        return _walk(self.modules)

    def module(self, step_id: str) -> RawModule:
        """Raises NotFound."""
        for module in self.every_module():
            if module.get("id") == step_id:
                return module
        raise NotFound(f"run {self.job_id} has no step {step_id!r}")

    def around(self, step_id: str) -> list[str]:
        """Ids of the modules around a step, outermost first."""

        def find(modules: Sequence[RawModule], above: list[str]) -> list[str] | None:
            for module in modules:
                if module.get("id") == step_id:
                    return above
                for _, inside in bodies(module):
                    found = find(inside, [*above, str(module.get("id"))])
                    if found is not None:
                        return found
            return None

        return find(self.modules, []) or []


def bodies(module: RawModule) -> list[tuple[str, list[RawModule]]]:
    """(BodyRef, modules) of a loop or branch; [] for other modules."""
    value, id = module.get("value"), module.get("id")
    if not isinstance(value, dict):
        return []
    kind = value.get("type")
    if kind in ("forloopflow", "whileloopflow"):
        return [(str(id), _modules(value.get("modules")))]
    if kind not in ("branchone", "branchall"):
        return []
    branches = value.get("branches")
    found = [
        (f"{id}/{n}", _modules(branch.get("modules") if isinstance(branch, dict) else None))
        for n, branch in enumerate(branches if isinstance(branches, list) else [])
    ]
    return found if kind == "branchall" else [*found, (f"{id}/default", _modules(value.get("default")))]


def _modules(given: Any) -> list[RawModule]:
    return [module for module in given if isinstance(module, dict)] if isinstance(given, list) else []


def _walk(modules: Iterable[RawModule]) -> Iterator[RawModule]:
    for module in modules:
        yield module
        for _, inside in bodies(module):
            yield from _walk(inside)


def read_run(job_id: UUID) -> FlowRun:
    """The flow job, whose id is known to be one that the reader may see. Raises NotFound when its definition is gone."""
    value = definition(job_id)
    if value is None:
        raise NotFound(f"what run {job_id} ran is gone, so it cannot be drawn")
    return FlowRun(job_id=job_id, value=value)


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a flow a job is: the run of the flow around it, the step, and the iterations of the loops around that."""

    flow_id: UUID
    step_id: str
    chosen: dict[str, int]


def place_of(job_id: UUID) -> Place | None:
    """Where this job is in the flow that started it; None for a job that no flow started."""
    rows = read_rows("flow_place", {"id": job_id})
    here, top = rows[0], rows[-1]
    if here["flow_step_id"] is None or len(rows) < 2:
        return None
    chosen = {
        row["flow_step_id"]: row["flow_n"]
        for row in rows[:-1]
        if row["flow_n"] is not None and row["flow_body"]
    }
    if here["flow_n"] is not None and not here["flow_body"]:
        # The only step of a loop runs without a body of its own, so the loop is known by the definition alone.
        value = definition(top["id"])
        around = (
            FlowRun(job_id=top["id"], value=value).around(here["flow_step_id"]) if value is not None else []
        )
        if around:
            chosen[around[-1]] = here["flow_n"]
    return Place(top["id"], here["flow_step_id"], chosen)


# --- the states ---


@dataclass(slots=True)
class _Level:
    """Flow jobs of the same depth, each with the modules that it runs."""

    modules: dict[UUID, list[RawModule]] = field(default_factory=dict)
    chain: dict[UUID, dict[str, int]] = field(default_factory=dict)  # loop id -> n, for all loops around


def step_states(run: FlowRun, chosen: Mapping[str, int]) -> dict[str, StepState]:
    """The state of every step that has one, by step id; steps that have not started have none.

    `chosen`: the iteration to show of a loop, by its id. A state, as static/js/elements/flow-graph.js reads it:
        status        success, failure, canceled, skipped, running, queued, scheduled, suspended
        job, kind     of the job that ran it last; no job for empty loops
        flow          the flow job whose module it is
        started_at, duration_ms (whatever is known), worker
        retries, failed_jobs   failed attempts
        branch        the index of the branch that was chosen, or "default"
        iterations    {total, done, failed, running, at, shown: [{n, status}]}; `total` null while nobody knows
        until         when it goes on by itself: a retry, the end of a sleep, the deadline of an approval
        path          of a flow that runs as a step
    """
    states: dict[str, StepState] = {}
    level = _Level({run.job_id: run.modules}, {run.job_id: {}})
    for _ in range(MAX_DEPTH):
        if not level.modules:
            break
        level = _read_level(level, states, chosen)
    return states


def _read_level(level: _Level, states: dict[str, StepState], chosen: Mapping[str, int]) -> _Level:
    """Fill in the states of these flow jobs' modules; answers the jobs of the bodies inside."""
    found = {row["id"]: row for row in read_rows("picture_flows", {"ids": list(level.modules)})}
    has_loops = any(
        bodies(module) and _kind(module) != "branchone"
        for modules in level.modules.values()
        for module in modules
    )
    loops = (
        {
            (row["flow_id"], row["step_id"]): row
            for row in read_rows("picture_loops", {"ids": list(level.modules)})
        }
        if has_loops
        else {}
    )
    current: list[tuple[UUID, RawModule, StepState]] = []
    for flow_id, modules in level.modules.items():
        row = found.get(flow_id)
        if row is None:
            continue
        state, ended = State.from_json(row["state"]), row["steps"] or {}
        for index, module in enumerate(modules):
            shown = _of_module(module, index, state, ended.get(module.get("id")))
            if shown is not None:
                shown["flow"] = str(flow_id)
                states[str(module.get("id"))] = shown
                current.append((flow_id, module, shown))
    iterations = _choose(current, loops, chosen)
    jobs = _jobs(current, iterations)
    return _next_level(level, current, loops, iterations, jobs, states)


def _of_module(module: RawModule, index: int, state: State, ended: Any) -> StepState | None:
    """What the flow job itself knows about one of its modules; None when its turn has not come."""
    progress = state.module
    id = module.get("id")
    if progress is not None and progress.id == id:
        failed = progress.failed_jobs
        shown: StepState = {"status": "running", "job": progress.job}
        if progress.type == "WaitingForEvents":
            shown = {
                "status": "suspended",
                "job": None,
                "until": _moment(progress.wake_at),
                "approvals": progress.count,
            }
        elif progress.type == "WaitingForPriorSteps":
            shown |= {"status": "scheduled", "until": _moment(progress.wake_at)}
        if progress.branch is not None:
            shown["branch"] = progress.branch
        if failed:
            shown |= {"retries": len(failed), "failed_jobs": failed}
        if isinstance(ended, dict) and ended.get("type") == "Failure":
            shown["status"] = "failure"
        return shown
    if isinstance(ended, dict):
        shown = {
            "status": "success" if ended.get("type") == "Success" else "failure",
            "job": ended.get("job"),
        }
        if ended.get("skipped"):
            shown["status"] = "skipped"
        branch = ended.get("branch_chosen")
        if isinstance(branch, dict):
            shown["branch"] = "default" if branch.get("type") == "default" else branch.get("branch")
        if ended.get("failed_retries"):
            shown |= {"retries": len(ended["failed_retries"]), "failed_jobs": ended["failed_retries"]}
        if ended.get("approvers"):
            shown["approvers"] = ended["approvers"]
        return shown
    if state.asleep_until is not None and index == state.step and progress is None:
        return {"status": "scheduled", "job": None, "until": _moment(state.asleep_until)}
    return None


def _choose(
    current: Sequence[tuple[UUID, RawModule, StepState]],
    loops: Mapping[tuple[UUID, str], dict[str, Any]],
    chosen: Mapping[str, int],
) -> dict[tuple[UUID, str], list[dict[str, Any]]]:
    """The iterations to draw of every loop, and all branches of every branchall."""
    flows, steps, firsts = [], [], []
    for flow_id, module, shown in current:
        id = str(module.get("id"))
        row = loops.get((flow_id, id))
        if row is None:
            if shown["status"] in ("success", "failure") and _kind(module) in (
                "forloopflow",
                "whileloopflow",
            ):
                shown["iterations"] = {
                    "total": 0,
                    "done": 0,
                    "failed": 0,
                    "running": 0,
                    "at": None,
                    "shown": [],
                }
            continue
        shown |= _times(row, shown)
        first = 0
        if _kind(module) != "branchall":
            wish = chosen.get(id)
            order = ("first_running", "first_failed", "last_known")
            if shown["status"] not in ("running", "suspended", "scheduled"):
                order = ("first_failed", "first_running", "last_known")
            usual = next((row[name] for name in order if row[name] is not None), 0)
            at = wish if wish is not None and 0 <= wish < row["total"] else usual
            first = max(0, min(at - SHOWN // 2, row["total"] - SHOWN))
            shown["iterations"] = {name: row[name] for name in ("total", "done", "failed", "running")} | {
                "at": at
            }
        flows.append(flow_id)
        steps.append(id)
        firsts.append(first)
    if not flows:
        return {}
    answer: dict[tuple[UUID, str], list[dict[str, Any]]] = {}
    branches = max((len(bodies(module)) for _, module, _ in current), default=0)
    rows = read_rows(
        "picture_iterations",
        {"flows": flows, "steps": steps, "firsts": firsts, "count": max(SHOWN, branches)},
    )
    for row in rows:
        answer.setdefault((row["flow_id"], row["step_id"]), []).append(row)
    return answer


def _times(row: dict[str, Any], shown: StepState) -> StepState:
    """When a loop began, and once it is over how long it took."""
    if row["started_at"] is None:
        return {}
    times: StepState = {"started_at": iso(row["started_at"])}
    if shown["status"] != "running" and row["completed_at"] is not None:
        times["duration_ms"] = max(0, round((row["completed_at"] - row["started_at"]).total_seconds() * 1000))
    return times


def _jobs(
    current: Sequence[tuple[UUID, RawModule, StepState]],
    iterations: Mapping[tuple[UUID, str], list[dict[str, Any]]],
) -> dict[str, dict[str, Any]]:
    ids = {shown["job"] for _, _, shown in current if shown.get("job")}
    for flow_id, module, shown in current:
        rows = iterations.get((flow_id, str(module.get("id"))), [])
        at = shown.get("iterations", {}).get("at")
        ids |= {str(row["job_id"]) for row in rows if at is None or row["n"] == at}
    ids.discard(str(NO_JOB))
    if not ids:
        return {}
    return {str(row["id"]): row for row in read_rows("picture_jobs", {"ids": list(ids)})}


def _next_level(
    level: _Level,
    current: Sequence[tuple[UUID, RawModule, StepState]],
    loops: Mapping[tuple[UUID, str], dict[str, Any]],
    iterations: Mapping[tuple[UUID, str], list[dict[str, Any]]],
    jobs: Mapping[str, dict[str, Any]],
    states: dict[str, StepState],
) -> _Level:
    below = _Level()

    def enter(job_id: str | None, inside: list[RawModule], chain: dict[str, int], flow_id: UUID) -> None:
        """A body has a flow job of its own, unless its only step is plain: then the job is that step's."""
        job = jobs.get(job_id or "")
        if job is None or not inside:
            return
        if job["kind"] == JobKind.FLOW_BODY:
            below.modules[job["id"]], below.chain[job["id"]] = inside, chain
        elif len(inside) == 1:
            direct: StepState = {"status": job["status"], "job": job_id, "flow": str(flow_id)}
            states[str(inside[0].get("id"))] = direct | _of_job(job) | ({"at": chain} if chain else {})

    for flow_id, module, shown in current:
        id, chain = str(module.get("id")), level.chain[flow_id]
        if chain:
            shown["at"] = chain
        job = jobs.get(shown.get("job") or "")
        inside = bodies(module)
        if not inside:
            if job is not None:
                known = _of_job(job)
                if shown["status"] not in ("running", "failure") or (
                    shown["status"] == "failure" and job["status"] != "canceled"
                ):  # the flow says more than its job
                    known.pop("status")
                shown |= known
        elif _kind(module) == "branchone":
            if job is not None:
                shown |= {
                    key: value for key, value in _of_job(job).items() if key not in ("status", "kind", "path")
                }
            taken = f"{id}/{shown.get('branch')}"
            for ref, modules in inside:
                if ref == taken:
                    enter(shown.get("job"), modules, chain, flow_id)
                elif shown.get("branch") is not None:
                    for left_out in _walk(modules):
                        states[str(left_out.get("id"))] = {"status": "skipped", "job": None, "off": True}
        elif _kind(module) == "branchall":
            for row in iterations.get((flow_id, id), []):
                if row["n"] < len(inside):
                    enter(str(row["job_id"]), inside[row["n"]][1], chain, flow_id)
        else:
            drawn = iterations.get((flow_id, id), [])
            if "iterations" in shown and drawn:
                shown["iterations"]["shown"] = [{"n": row["n"], "status": row["status"]} for row in drawn]
                at = shown["iterations"]["at"]
                job_id = next((str(row["job_id"]) for row in drawn if row["n"] == at), None)
                shown["iterations"]["job"] = job_id
                enter(job_id, inside[0][1], {**chain, id: at}, flow_id)
            if _kind(module) == "whileloopflow" and shown["status"] == "running" and "iterations" in shown:
                shown["iterations"]["open"] = True  # nobody knows how many there will be
            shown.pop("job", None)
    return below


def _of_job(job: dict[str, Any]) -> StepState:
    shown: StepState = {"status": job["status"], "kind": job["kind"]}
    if job["started_at"] is not None:
        shown["started_at"] = iso(job["started_at"])
    if job["duration_ms"] is not None:
        shown["duration_ms"] = job["duration_ms"]
    if job["status"] == "scheduled":
        shown["until"] = iso(job["scheduled_for"])
    if job["suspend_until"] is not None:
        shown["status"], shown["until"] = "suspended", iso(job["suspend_until"])
    if job["kind"] == JobKind.FLOW:
        shown["path"] = job["runnable_path"]
    return shown


def flows_of(run: FlowRun, states: Mapping[str, StepState]) -> set[UUID]:
    """The jobs whose changes can change the picture: flows that are drawn, and the steps that are not over."""
    ids = {run.job_id}
    for shown in states.values():
        if shown.get("flow"):
            ids.add(UUID(shown["flow"]))
        if shown.get("job") and shown["status"] in ("running", "queued", "scheduled", "suspended"):
            ids.add(UUID(shown["job"]))
    return ids


_CALLING = (("suspended",), ("running", "queued", "scheduled"))
FAILED = ("failure", "canceled")


def what_matters(run: FlowRun, states: Mapping[str, StepState], *, is_over: bool) -> str | None:
    """The step to look at first: the innermost that waits or runs; of a flow that is over the one that failed, else the
    last one. A failure that the flow went on after does not count: what is around it has not failed."""
    for wanted in (FAILED,) if is_over else (*_CALLING, FAILED):
        around = ("running", "suspended") if wanted is not FAILED else FAILED
        if (found := _innermost(run.modules, states, wanted, around)) is not None:
            return found
    top = [str(module.get("id")) for module in run.modules]
    ended = [
        id for id in top if states.get(id, {}).get("status") in ("success", "skipped") and id != "failure"
    ]
    return ended[-1] if ended else (top[0] if top else None)


def _innermost(
    modules: Sequence[RawModule],
    states: Mapping[str, StepState],
    wanted: Sequence[str],
    around: Sequence[str],
) -> str | None:
    for module in modules:
        id, status = str(module.get("id")), states.get(str(module.get("id")), {}).get("status")
        if id == "failure" or status is None:
            continue
        if status in wanted or status in around:
            for _, inside in bodies(module):
                found = _innermost(inside, states, wanted, around)
                if found is not None:
                    return found
        if status in wanted:
            return id
    return None


# --- pages of iterations ---

PAGE = 100


def list_iterations(
    flow_id: UUID, step_id: str, *, status: str = "", after: int = -1, limit: int = PAGE
) -> list[dict[str, Any]]:
    """Iterations in their order: [{n, job, status, started_at, duration_ms}]; `status` limits them, `after` pages."""
    rows = read_rows(
        "list_iterations",
        {"flow_id": flow_id, "step_id": step_id, "status": status or None, "after": after, "limit": limit},
    )
    return [
        {
            "n": row["n"],
            "job": str(row["job_id"]),
            "status": row["status"],
            "started_at": iso(row["started_at"]),
            "duration_ms": row["duration_ms"],
        }
        for row in rows
    ]


def _kind(module: RawModule) -> str:
    value = module.get("value")
    return str(value.get("type")) if isinstance(value, dict) else ""


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else iso(datetime.fromtimestamp(seconds, UTC))


def read_rows(name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the statement jobs/sql/<name>.sql by column."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load(name), parameters)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
