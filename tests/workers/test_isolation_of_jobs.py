"""A job says which isolation it ran in, for as long as its result is kept."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from jobs import canceling, listings
from jobs.flows.state import initial_state
from jobs.flows.value import parse_flow_value
from jobs.models import FLOW_KINDS, CompletedJob, Job, QueuedJob, WorkerPing
from jobs.shapes import job_json
from tests.workers.conftest import RunningWorker, ScriptedRunner
from workers.job_limits import RUN_BY_WORKER

pytestmark = pytest.mark.django_db(transaction=True)
Start = Callable[..., RunningWorker]
Make = Callable[..., UUID]


class IsolatingRunner(ScriptedRunner):
    """Says that it isolates jobs by user namespaces, and that it runs SQL."""

    languages = ("python3", "bash", "postgresql")  # type: ignore[assignment]
    isolation = ("user-namespaces", "scripted")


@pytest.fixture
def start(start_worker: Start) -> Start:
    """Start a worker that takes everything that this suite queues."""
    return lambda **given: start_worker(
        **{"runner": IsolatingRunner(), "tags": ["python3", "flow", "dependency"], **given}
    )


@pytest.fixture
def isolation(wait_until: Any) -> Callable[[UUID], str | None]:
    """Wait for the end of a job; answers what it ran in."""

    def isolation(job: UUID) -> str | None:
        done: CompletedJob = wait_until(lambda: CompletedJob.objects.filter(pk=job).first())
        return done.isolation

    return isolation


def flow_of(make_job: Make, *code: str) -> UUID:
    modules = [
        {"id": id, "value": {"type": "rawscript", "language": "python3", "content": text, "lock": ""}}
        for id, text in zip("abc", code, strict=False)
    ]
    raw = {"modules": modules}
    state = initial_state(parse_flow_value(raw))
    return make_job(
        kind="flowpreview", tag="flow", raw_flow=raw, flow_state=state, raw_code=None, language=None
    )


def shown(job: UUID) -> str | None:
    """What a reader of this job is told."""
    row = listings.read_job(workspace_id="test", job_id=job)
    assert row is not None
    assert (b'"isolation"' in job_json(row)) == (row.isolation is not None)
    return row.isolation


@pytest.mark.parametrize("code", ["return 1", "fail no", 'return {"wm_labels": ["blue"]}'])
def test_whatever_comes_of_it_a_job_says_what_it_ran_in(
    start: Start, make_job: Make, isolation: Any, code: str
) -> None:
    start()

    job = make_job(raw_code=code)

    assert isolation(job) == shown(job) == "user-namespaces"


def test_without_isolation_it_says_none(start: Start, make_job: Make, isolation: Any) -> None:
    start(runner=ScriptedRunner())

    assert isolation(make_job(raw_code="return 1")) == "none"


def test_while_it_runs_the_worker_speaks_for_it(
    start: Start, make_job: Make, isolation: Any, wait_until: Any
) -> None:
    worker = start()
    job = make_job(raw_code="wait")
    wait_until(lambda: worker.runner.requests and WorkerPing.objects.exists())

    during = shown(job)
    worker.runner.let_go()

    assert during == "user-namespaces" == isolation(job)


def test_it_stays_true_when_the_worker_is_gone(start: Start, make_job: Make, isolation: Any) -> None:
    worker = start()
    job = make_job(raw_code="return 1")
    isolation(job)

    worker.stop()

    assert not WorkerPing.objects.exists()
    assert shown(job) == "user-namespaces"


def test_the_steps_of_a_flow_say_it_and_the_flow_does_not(
    start: Start, make_job: Make, isolation: Any
) -> None:
    start()

    flow = flow_of(make_job, "return 1", "fail no")

    assert isolation(flow) is None
    steps = Job.objects.filter(parent_job=flow).values_list("pk", flat=True)
    assert [isolation(step) for step in steps] == ["user-namespaces", "user-namespaces"]


def test_a_flow_that_waits_for_its_step_says_nothing(start: Start, make_job: Make, wait_until: Any) -> None:
    worker = start()
    flow = flow_of(make_job, "wait")
    wait_until(lambda: worker.runner.requests)

    assert shown(flow) is None
    assert shown(worker.runner.requests[0].claim.id) == "user-namespaces"


def test_a_job_that_was_stopped_while_it_ran_says_it(
    start: Start, make_job: Make, isolation: Any, wait_until: Any
) -> None:
    worker = start()
    job = make_job(raw_code="wait")
    wait_until(lambda: worker.runner.requests)

    canceling.cancel_job(job_id=job, workspace_id="test", username="alice", reason=None)

    assert isolation(job) == "user-namespaces"


def test_what_had_no_process_says_nothing(start: Start, make_job: Make, isolation: Any) -> None:
    in_queue = make_job(scheduled_in_s=3600)
    canceling.cancel_job(job_id=in_queue, workspace_id="test", username="alice", reason=None)
    start()
    sql = make_job(language="postgresql", raw_code="return 1")
    first = make_job(
        raw_code="return 1", kind="script", runnable_path="u/alice/a", runnable_id=1, cache_ttl_s=60
    )
    isolation(first)
    cached = make_job(
        raw_code="return 1", kind="script", runnable_path="u/alice/a", runnable_id=1, cache_ttl_s=60
    )

    assert [isolation(job) for job in (in_queue, sql, first, cached)] == [None, None, "user-namespaces", None]


def test_a_dependency_job_says_it(start: Start, make_job: Make, isolation: Any) -> None:
    start()

    job = make_job(kind="dependencies", tag="dependency", raw_code="import requests")

    assert isolation(job) == "user-namespaces"


def test_scripts_that_look_after_the_host_are_not_isolated(start: Start, wait_until: Any) -> None:
    start(init_script="echo ready")

    done = wait_until(lambda: CompletedJob.objects.first())

    assert done.isolation == "none"


def test_what_runs_now_is_judged_as_what_has_ended(make_job: Make) -> None:
    WorkerPing.objects.create(
        worker="w", worker_instance="h", worker_group="default", slots=1, job_isolation="namespaces"
    )
    given: list[tuple[dict[str, Any], str | None]] = [({}, "namespaces")]
    given += [({"language": language}, None) for language in RUN_BY_WORKER]
    given += [({"kind": kind}, None) for kind in [*FLOW_KINDS, "aiagent"]]
    given += [({"tag": tag}, "none") for tag in ("init_script", "periodic_bash_script")]
    jobs = {make_job(**what): expected for what, expected in given}
    started = Job.objects.get(pk=next(iter(jobs))).created_at
    QueuedJob.objects.update(running=True, worker="w", started_at=started, last_ping=started)

    assert {job: shown(job) for job in jobs} == jobs
