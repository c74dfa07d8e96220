"""Workers die, freeze, leave and race in the middle of flows: the right result, and each step recorded once.

Real processes and real signals. Deaths between any two statements are in test_properties.py.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from jobs import canceling, queue
from jobs.flows import approvals, deployed, watchdog
from jobs.flows.deployed import FlowDraft
from jobs.models import CompletedJob, FlowStatus, Job, QueuedJob
from jobs.queue import Completion
from tests import databases
from tests.browser.site import Person, Site, wait_until
from tests.flows.conftest import FlowRun, RunFlow
from tests.flows.crew import SLOTS, Crew, Hand
from tests.flows.gate import Gate
from tests.jobs.flows.samples import for_loop, module, static

Start = Callable[..., FlowRun]


@pytest.fixture(scope="module")
def _crew(_running_site: Site) -> Iterator[Crew]:
    crew = Crew(_running_site)
    yield crew
    crew.dismiss()


@pytest.fixture
def crew(site: Site, _crew: Crew) -> Crew:
    """Workers of their own tag, to be killed. Who survives a test serves in the next one."""
    return _crew


@pytest.fixture
def worker(crew: Crew) -> Hand:
    """The one worker that is there when the flow of a test begins."""
    return crew.only_one()


@pytest.fixture
def start(start_flow: RunFlow, crew: Crew) -> Start:
    """start(*modules, args=…, **fields of the value): run a flow on the crew, without waiting."""

    def start(*modules: Any, args: dict[str, Any] | None = None, **fields: Any) -> FlowRun:
        return start_flow({"modules": list(modules), **fields}, args, tag=crew.tag)

    return start


def loop(count: int, *modules: Any, **options: Any) -> dict[str, Any]:
    return for_loop("", *modules, **options) | {"iterator": static(list(range(count)))}


def tree(run: FlowRun) -> list[Job]:
    """All jobs of a run, the flow included."""
    return [*Job.objects.filter(pk=run.id), *Job.objects.filter(root_job=run.id)]


def assert_each_step_once(run: FlowRun) -> None:
    """Every step of every flow in this run has one job, which has ended; nothing is left in the queue."""
    jobs = tree(run)
    ids = [job.pk for job in jobs]
    assert not QueuedJob.objects.filter(pk__in=ids).exists()
    assert CompletedJob.objects.filter(pk__in=ids).count() == len(ids)
    places = Counter((job.parent_job, job.flow_step_id, job.flow_n) for job in jobs)
    assert [place for place, count in places.items() if count > 1] == []


def restarts(run: FlowRun) -> dict[str | None, int]:
    """Restarts by step, of those that were restarted."""
    steps = {job.pk: job.flow_step_id for job in tree(run)}
    restarted = CompletedJob.objects.filter(pk__in=steps, restarts__gt=0)
    return {steps[done.pk]: done.restarts for done in restarted}


def step_of(run: FlowRun, step_id: str) -> UUID:
    """The job of a step of the flow."""
    return Job.objects.values_list("pk", flat=True).get(parent_job=run.id, flow_step_id=step_id)


# --- death ----------------------------------------------------------------------------------------------------------


def test_a_step_whose_worker_was_killed_runs_again_and_the_flow_goes_on_behind_it(
    start: Start, worker: Hand, gate: Gate, crew: Crew
) -> None:
    gate.close("b")
    run = start(gate.step("a"), gate.step("b"), gate.step("c"))
    gate.wait_for("b")

    worker.lose()
    gate.open()
    crew.hire()

    assert (run.wait(60).outcome, run.result) == ("success", "c 1")
    assert_each_step_once(run)
    assert restarts(run) == {"b": 1}
    assert gate.visits == {"a": 1, "b": 2, "c": 1}


def test_only_what_ran_on_the_killed_worker_runs_again_in_a_parallel_loop(
    start: Start, worker: Hand, gate: Gate, crew: Crew
) -> None:
    gate.close("y-0", "y-1")
    body = [gate.step("x", n="flow_input.iter.index"), gate.step("y", n="flow_input.iter.index")]
    run = start(module("all", loop(6, *body, parallel=True)))
    gate.wait_for("y-0", "y-1")

    worker.lose()
    gate.open()
    crew.hire()

    assert run.wait(60).outcome == "success"
    assert run.result == [f"y-{n} {2 if n < 2 else 1}" for n in range(6)]
    assert_each_step_once(run)
    assert all(gate.visits[f"x-{n}"] == 1 for n in range(6))


def test_a_suspended_flow_misses_no_worker(
    start: Start, worker: Hand, gate: Gate, crew: Crew, ada: Person
) -> None:
    run = start(gate.step("a", suspend={"required_events": 1, "timeout": 3600}), gate.step("b"))
    run.wait_until_module("b", "WaitingForEvents")

    worker.kill()
    approvals.answer_as_member(ada.caller, run.id, approved=True, value={})
    crew.hire()

    assert (run.wait(60).outcome, run.result) == ("success", "b 1")
    assert_each_step_once(run)
    assert restarts(run) == {}


def test_a_sleeping_flow_wakes_up_without_the_worker_that_put_it_to_sleep(
    start: Start, worker: Hand, gate: Gate, crew: Crew
) -> None:
    run = start(gate.step("a", sleep=static(3600)), gate.step("b"))
    wait_until(lambda: "asleep_until" in FlowStatus.objects.get(pk=run.id).state, "the flow to be asleep")

    worker.kill()
    an_hour_passes(run)
    crew.hire()

    assert (run.wait(60).outcome, run.result) == ("success", "b 1")
    assert_each_step_once(run)
    assert restarts(run) == {}


def an_hour_passes(run: FlowRun) -> None:
    status = FlowStatus.objects.get(pk=run.id)
    asleep_until = status.state["asleep_until"] - 3600
    FlowStatus.objects.filter(pk=run.id).update(state=status.state | {"asleep_until": asleep_until})
    queued = QueuedJob.objects.get(pk=run.id)
    assert not queued.running
    queue.run_now(job_id=run.id, workspace_id=queued.workspace_id)


def test_a_flow_in_a_flow_goes_on_where_it_was(
    start: Start, worker: Hand, gate: Gate, crew: Crew, ada: Person
) -> None:
    path = f"u/{ada.username}/inner"
    deployed.create_flow(
        ada.caller, FlowDraft(path=path, value={"modules": [gate.step("i"), gate.step("j")]})
    )
    gate.close("j")
    call = module("call", {"type": "flow", "path": path, "input_transforms": {}})
    run = start(gate.step("a"), call, gate.step("c"))
    gate.wait_for("j")

    worker.lose()
    gate.open()
    crew.hire()

    assert (run.wait(60).outcome, run.result) == ("success", "c 1")
    assert_each_step_once(run)
    assert gate.visits == {"a": 1, "i": 1, "j": 2, "c": 1}


def test_the_failure_module_runs_again_and_no_step_does(
    start: Start, worker: Hand, gate: Gate, crew: Crew
) -> None:
    gate.close("failure")
    fails = {"type": "rawscript", "language": "bash", "content": "exit 1", "input_transforms": {}}
    run = start(gate.step("a"), module("b", fails), gate.step("c"), failure_module=gate.step("failure"))
    gate.wait_for("failure")

    worker.lose()
    gate.open()
    crew.hire()

    assert (run.wait(60).outcome, run.result) == ("failure", "failure 2")
    assert_each_step_once(run)
    assert restarts(run) == {"failure": 1}
    assert gate.visits == {"a": 1, "failure": 2}


def test_a_step_runs_again_when_its_worker_was_killed_while_it_computed_what_comes_next(
    start: Start, worker: Hand, gate: Gate, crew: Crew, site: Site
) -> None:
    with psycopg.connect(databases.address()) as other:
        other.execute("LOCK TABLE variable IN ACCESS EXCLUSIVE MODE")  # whoever asks for a variable waits
        run = start(
            gate.step("a"),
            gate.step("b", n='variable("u/nobody/nothing")'),
            failure_module=gate.step("failure"),
        )
        wait_until(lambda: waits_for_lock(other), "the worker to ask for the variable")

        worker.lose()
    crew.hire()

    assert (run.wait(60).outcome, run.result) == ("failure", "failure 1")
    assert_each_step_once(run)
    # A step's result is recorded together with what follows from it, so step a was not over yet.
    assert gate.visits == {"a": 2, "failure": 1}


def waits_for_lock(connection: "psycopg.Connection[Any]") -> bool:
    [waiting] = connection.execute(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'variable'::regclass"
    ).fetchone() or [0]
    return bool(waiting)


def test_a_step_that_was_recorded_by_a_worker_that_could_do_no_more_is_followed_by_the_next_one(
    start: Start, worker: Hand, gate: Gate, crew: Crew
) -> None:
    gate.close("b")
    run = start(gate.step("a"), gate.step("b"), gate.step("c"))
    gate.wait_for("b")
    b = QueuedJob.objects.get(pk=step_of(run, "b"))
    worker.kill()

    # When advancing fails, a worker records the result and then wakes the flow. This one dies in between.
    assert queue.complete_jobs([Completion(b.pk, b.attempt, "success", '"by hand"')]) == {b.pk}
    watchdog.wake_stuck()
    crew.hire()

    assert (run.wait(60).outcome, run.result) == ("success", "c 1")
    assert CompletedJob.objects.get(pk=b.pk).result == "by hand"
    assert_each_step_once(run)
    assert gate.visits == {"a": 1, "b": 1, "c": 1}


def test_steps_that_share_a_folder_do_not_outlive_their_worker(
    start: Start, worker: Hand, gate: Gate, crew: Crew
) -> None:
    gate.close("b")
    run = start(gate.step("a"), gate.step("b"), gate.step("c"), same_worker=True)
    gate.wait_for("b")

    worker.lose()
    gate.open()
    crew.hire()

    assert run.wait(60).outcome == "failure"
    assert "SameWorker" in run.result["error"]["message"]
    assert_each_step_once(run)
    assert gate.visits == {"a": 1, "b": 1}


# --- coming back ------------------------------------------------------------------------------------------------------


def test_a_worker_that_comes_back_from_the_dead_is_not_heard(
    start: Start, worker: Hand, gate: Gate, crew: Crew
) -> None:
    gate.close("b", "c")
    run = start(gate.step("a"), gate.step("b"), gate.step("c"))
    gate.wait_for("b")
    worker.freeze()
    worker.declare_dead()
    other = crew.hire()
    gate.wait_for("b", visits=2)
    gate.open("b")
    gate.wait_for("c")

    worker.thaw()
    worker.wait_for_log(f"lost the lease of job={step_of(run, 'b')}")
    before = len(tree(run))
    gate.open("c")

    assert (run.wait(60).outcome, run.result) == ("success", "c 1")
    b = CompletedJob.objects.get(pk=step_of(run, "b"))
    assert (b.result, b.worker, b.restarts) == ("b 2", other.name, 1)
    assert len(tree(run)) == before
    assert_each_step_once(run)
    assert gate.visits == {"a": 1, "b": 2, "c": 1}


# --- leaving, racing, canceling ---------------------------------------------------------------------------------------


def test_a_worker_that_leaves_finishes_its_step_and_another_one_takes_over(
    start: Start, worker: Hand, gate: Gate, crew: Crew
) -> None:
    gate.close("b")
    run = start(gate.step("a"), gate.step("b"), gate.step("c"))
    gate.wait_for("b")

    worker.drain()
    worker.wait_for_log("draining worker=")
    gate.open()
    assert worker.process.wait(60) == 0
    other = crew.hire()

    assert (run.wait(60).outcome, run.result) == ("success", "c 1")
    assert CompletedJob.objects.get(pk=step_of(run, "b")).worker == worker.name
    assert CompletedJob.objects.get(pk=step_of(run, "c")).worker == other.name
    assert restarts(run) == {}
    assert gate.visits == {"a": 1, "b": 1, "c": 1}
    assert_each_step_once(run)


def test_a_worker_that_leaves_at_once_puts_its_step_back(
    start: Start, worker: Hand, gate: Gate, crew: Crew
) -> None:
    gate.close("b")
    run = start(gate.step("a"), gate.step("b"), gate.step("c"))
    gate.wait_for("b")

    worker.stop()
    gate.open()
    crew.hire()

    assert (run.wait(60).outcome, run.result) == ("success", "c 1")
    assert restarts(run) == {}
    assert gate.visits == {"a": 1, "b": 2, "c": 1}
    assert_each_step_once(run)


def test_a_worker_that_leaves_at_once_ends_steps_that_share_a_folder(
    start: Start, worker: Hand, gate: Gate, crew: Crew
) -> None:
    gate.close("b")
    run = start(gate.step("a"), gate.step("b"), gate.step("c"), same_worker=True)
    gate.wait_for("b")

    worker.stop()

    assert run.wait(60).outcome == "failure"
    assert run.result["error"]["name"] == "SharedFolderLost"
    assert gate.visits == {"a": 1, "b": 1}
    assert_each_step_once(run)


def test_two_workers_on_one_loop_count_every_iteration_once(
    start: Start, worker: Hand, gate: Gate, crew: Crew
) -> None:
    other = crew.hire()
    both = [f"x-{n}" for n in range(2 * SLOTS)]
    gate.close(*both)
    run = start(
        module("all", loop(60, gate.step("x", n="flow_input.iter.index"), parallel=True)), gate.step("end")
    )
    gate.wait_for(*both)
    gate.open()

    assert (run.wait(90).outcome, run.result) == ("success", "end 1")
    ran = Job.objects.filter(parent_job=run.id, flow_step_id="x").values_list("pk", flat=True)
    assert len(ran) == 60
    assert set(CompletedJob.objects.filter(pk__in=ran).values_list("worker", flat=True)) == {
        worker.name,
        other.name,
    }
    assert_each_step_once(run)
    assert set(gate.visits.values()) == {1}


@pytest.mark.parametrize("is_worker_dead", [False, True])
def test_canceling_a_nested_parallel_flow_leaves_nothing_behind(
    start: Start, worker: Hand, gate: Gate, crew: Crew, ada: Person, is_worker_dead: bool
) -> None:
    doors = [f"x-{n}" for n in range(3)]
    gate.close(*doors)
    inner = loop(3, gate.step("x", n="flow_input.iter.index"), gate.step("y"), parallel=True)
    run = start(module("outer", loop(3, module("inner", inner), parallel=True)), gate.step("end"))
    wait_until(lambda: gate.visits.total() >= SLOTS, "the first steps to run")
    if is_worker_dead:
        worker.kill()

    canceling.cancel_job(job_id=run.id, workspace_id=ada.workspace.id, username="ada", reason="enough")
    if is_worker_dead:
        worker.declare_dead()
        crew.hire()

    assert run.wait(60).outcome == "canceled"
    assert run.result["error"]["message"] == "Job canceled: enough by ada"
    assert_each_step_once(run)
    assert not {"y", "end"} & set(gate.visits)
