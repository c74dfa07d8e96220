"""What jobs ask of their worker: places, cached results, shared folders, flow_env, being forgotten."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs import canceling, queue
from jobs.concurrency import Limit
from jobs.flows.state import initial_state
from jobs.flows.value import parse_flow_value
from jobs.models import CachedResult, CompletedJob, Flow, FlowVersion, Job, JobCleanup, QueuedJob
from tests.workers.conftest import RunningWorker, ScriptedRunner
from workers.pg_queue import PgJobQueue
from workers.pg_runtimes import PgRuntimeStore
from workers.runtimes import Limits, look_around
from workers.sandbox_runner import SandboxRunner
from workspaces import secrets
from workspaces.models import Account, Member, Variable, Workspace

pytestmark = pytest.mark.django_db(transaction=True)
Start = Callable[..., RunningWorker]
Make = Callable[..., UUID]


class RememberingRunner(ScriptedRunner):
    """Also knows which shared folders were dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[str] = []

    def drop_share(self, name: str, *, is_missed: bool = False) -> None:
        self.dropped.append(f"{name} too early" if is_missed else name)

    @property
    def ran(self) -> list[str]:
        """The code of all jobs that ran, in their order."""
        return [request.claim.code or "" for request in self.requests]


@pytest.fixture
def runner() -> RememberingRunner:
    return RememberingRunner()


@pytest.fixture
def start(start_worker: Start, runner: RememberingRunner) -> Start:
    """Start a worker that takes flows too."""

    def start_one(**given: Any) -> RunningWorker:
        return start_worker(**{"runner": runner, "tags": ["python3", "bash", "flow"], **given})

    return start_one


@pytest.fixture
def ended(wait_until: Any) -> Callable[..., CompletedJob]:
    """Wait for the end of a job."""

    def wait(job: UUID) -> CompletedJob:
        return wait_until(lambda: CompletedJob.objects.filter(pk=job).first())  # type: ignore[no-any-return]

    return wait


def step(id: str, code: str, **options: Any) -> dict[str, Any]:
    """A module that runs inline code."""
    value = {"type": "rawscript", "content": code, "language": "python3", "input_transforms": {}}
    return {"id": id, "value": {**value, **options.pop("value", {})}, **options}


@pytest.fixture
def make_flow(make_job: Make) -> Make:
    """Queue a flow of these modules; `options` are those of the flow, further keywords those of JobRequest."""

    def make(*modules: dict[str, Any], options: dict[str, Any] | None = None, **given: Any) -> UUID:
        raw = {"modules": list(modules), **(options or {})}
        value = parse_flow_value(raw)
        fields = {
            "kind": "flowpreview",
            "tag": "flow",
            "raw_flow": raw,
            "flow_state": initial_state(value),
            "raw_code": None,
            "language": None,
            "same_worker": value.same_worker,
            "cache_ttl_s": value.cache_ttl,
        }
        return make_job(**{**fields, **given})

    return make


def log_of(job: UUID) -> str:
    return queue.read_logs(job)[0]


def steps_of(flow: UUID) -> dict[str, Job]:
    return {job.flow_step_id or "": job for job in Job.objects.filter(parent_job=flow)}


# --- cached results ---


def test_a_cached_result_makes_running_again_unnecessary(
    start: Start, make_job: Make, ended: Any, runner: RememberingRunner
) -> None:
    start()
    first = make_job(raw_code='return {"b": 1, "a": 2}', args={"n": 1}, cache_ttl_s=60)
    ended(first)

    second = make_job(raw_code='return {"b": 1, "a": 2}', args={"n": 1}, cache_ttl_s=60)

    done = ended(second)
    assert (done.status, list(done.result.items())) == ("success", [("b", 1), ("a", 2)])
    assert log_of(second) == f"Result from cache of job {first}\n"
    assert len(runner.ran) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"args": {"n": 2}},
        {"raw_code": "return 2"},
        {"workspace_id": "other"},
        {"permissioned_as": "u/bob"},
        {"runnable_path": "u/alice/elsewhere"},
        {"entrypoint": "other"},
        {"cache_ttl_s": None},
    ],
)
def test_what_differs_runs(
    start: Start, make_job: Make, ended: Any, runner: RememberingRunner, other: dict[str, Any]
) -> None:
    start()
    same: dict[str, Any] = {"raw_code": "return 1", "args": {"n": 1}, "cache_ttl_s": 60}
    ended(make_job(**same))

    ended(make_job(**{**same, **other}))

    assert len(runner.ran) == 2


def test_a_deployed_script_shares_its_results_except_where_the_caller_names_what_is_read(
    start: Start, make_job: Make, ended: Any, runner: RememberingRunner
) -> None:
    start()
    workspace = Workspace.objects.create(id="test", name="Test", owner="alice@example.com")
    for name in ("alice", "bob"):
        Account.objects.create(email=f"{name}@example.com")
        Member.objects.create(workspace=workspace, username=name, email=f"{name}@example.com")
    Variable.objects.create(workspace=workspace, path="u/alice/key", value="v", is_secret=False)
    script: dict[str, Any] = {
        "kind": "script",
        "runnable_id": 7,
        "runnable_path": "f/all/script",
        "raw_code": "return 1",
        "cache_ttl_s": 60,
    }
    bob = {"permissioned_as": "u/bob", "permissioned_as_email": "bob@example.com"}

    ended(make_job(**script, args={"n": 1}))
    assert ended(make_job(**script, args={"n": 1}, **bob)).result == 1
    assert len(runner.ran) == 1

    ended(make_job(**script, args={"n": "$var:u/alice/key"}))
    assert ended(make_job(**script, args={"n": "$var:u/alice/key"}, **bob)).status == "failure"


def test_what_a_step_has_cached_is_for_those_with_the_same_rights(
    start: Start, make_flow: Make, ended: Any, runner: RememberingRunner
) -> None:
    start()
    ended(make_flow(step("a", "return 1", cache_ttl=60)))

    ended(make_flow(step("a", "return 1", cache_ttl=60), permissioned_as="u/bob"))

    assert len(runner.ran) == 2


def test_failures_are_not_cached(start: Start, make_job: Make, ended: Any, runner: RememberingRunner) -> None:
    start()
    for _ in range(2):
        ended(make_job(raw_code="fail no", cache_ttl_s=60))

    assert len(runner.ran) == 2 and not CachedResult.objects.exists()


def test_an_expired_result_is_computed_again(
    start: Start, make_job: Make, ended: Any, runner: RememberingRunner
) -> None:
    start()
    ended(make_job(raw_code="return 1", cache_ttl_s=60))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE job_cache SET expires_at = expires_at - interval '61 s'")

    again = make_job(raw_code="return 1", cache_ttl_s=60)
    ended(again)

    assert len(runner.ran) == 2
    assert CachedResult.objects.get().job_id == again


def test_a_result_that_is_too_large_is_not_cached_and_the_log_says_so(
    start: Start, make_job: Make, ended: Any
) -> None:
    start(max_result_size_mb=20)
    job = make_job(raw_code=f'return "{"x" * 10_000_001}"', cache_ttl_s=60)
    ended(job)

    assert log_of(job) == "The result is not cached: it has more than 10 MB\n"
    assert not CachedResult.objects.exists()


def test_a_step_may_be_cached(start: Start, make_flow: Make, ended: Any, runner: RememberingRunner) -> None:
    start()
    modules = [step("a", "return [1]", cache_ttl=60), step("b", "return 2")]
    ended(make_flow(*modules))

    flow = make_flow(*modules)
    ended(flow)

    assert runner.ran == ["return [1]", "return 2", "return 2"]
    assert CompletedJob.objects.get(pk=steps_of(flow)["a"].id).result == [1]


def test_a_flow_may_be_cached(
    start: Start, make_flow: Make, ended: Any, runner: RememberingRunner, wait_until: Any
) -> None:
    start()
    first = make_flow(step("a", 'return {"z": 1, "a": 2}'), options={"cache_ttl": 60}, args={"n": 1})
    ended(first)
    wait_until(CachedResult.objects.exists)

    second = make_flow(step("a", 'return {"z": 1, "a": 2}'), options={"cache_ttl": 60}, args={"n": 1})

    done = ended(second)
    assert (done.status, list(done.result)) == ("success", ["z", "a"])
    assert log_of(second) == f"Result from cache of job {first}\n"
    assert len(runner.ran) == 1 and not steps_of(second)
    other = make_flow(step("a", 'return {"z": 1, "a": 2}'), options={"cache_ttl": 60}, args={"n": 2})
    ended(other)
    assert len(runner.ran) == 2


# --- concurrency limits ---


def test_jobs_with_a_limit_run_one_after_the_other_without_a_pause(
    start: Start, make_job: Make, ended: Any, wait_until: Any, runner: RememberingRunner
) -> None:
    limit = Limit(key="test/script/f/x", places=1)
    start(slots=4)
    jobs = [make_job(raw_code="wait\nreturn 1", **limit.request_fields()) for _ in range(5)]
    free = make_job(raw_code="return 2")
    ended(free)
    wait_until(lambda: QueuedJob.objects.filter(was_due_at__isnull=False).count() == 4)
    assert len(runner.requests) == 2  # one of the five, and the one without a limit

    runner.let_go()

    for job in jobs:  # all within the patience of `ended`, though each was put off by ten seconds or more
        assert ended(job).result == 1
    begun = [(done.started_at, done.completed_at) for done in map(ended, jobs)]
    assert all(
        later[0] >= earlier[1] for earlier, later in zip(sorted(begun), sorted(begun)[1:], strict=False)
    )


def test_the_limit_can_be_switched_off(
    start: Start, make_job: Make, wait_until: Any, runner: RememberingRunner, settings: Any
) -> None:
    settings.DISABLE_CONCURRENCY_LIMIT = True
    start()
    for _ in range(2):
        make_job(raw_code="wait", **Limit(key="k", places=1).request_fields())

    wait_until(lambda: len(runner.requests) == 2)
    runner.let_go()


def test_flows_with_a_limit_wait_for_each_other(
    start: Start, make_flow: Make, ended: Any, wait_until: Any, runner: RememberingRunner
) -> None:
    start()
    limit = Limit(key="test/flow/f/x", places=1)
    first = make_flow(step("a", "wait"), step("b", "return 2"), **limit.request_fields())
    wait_until(lambda: len(runner.requests) == 1)
    second = make_flow(step("a", "wait"), step("b", "return 3"), **limit.request_fields())
    wait_until(lambda: "Re-scheduled job" in log_of(second))
    assert len(runner.requests) == 1

    runner.let_go()

    assert ended(first).result == 2 and ended(second).result == 3
    assert ended(second).started_at >= ended(first).completed_at


def test_steps_with_a_limit_wait_too(
    start: Start, make_flow: Make, ended: Any, wait_until: Any, runner: RememberingRunner
) -> None:
    start()
    limited = {"concurrent_limit": 1, "custom_concurrency_key": "gate"}
    first = make_flow(step("a", "wait", value=limited), step("b", "return 2"))
    wait_until(lambda: len(runner.requests) == 1)
    second = make_flow(step("a", "wait", value=limited), step("b", "return 3"))
    wait_until(lambda: steps_of(second) and "Re-scheduled job" in log_of(steps_of(second)["a"].id))

    runner.let_go()

    assert ended(first).result == 2 and ended(second).result == 3


def test_a_job_that_is_canceled_while_it_runs_leaves_its_place(
    start: Start, make_job: Make, ended: Any, wait_until: Any, runner: RememberingRunner
) -> None:
    start()
    limit = Limit(key="test/script/f/x", places=1).request_fields()
    stuck = make_job(raw_code="wait", **limit)
    wait_until(lambda: len(runner.requests) == 1)
    waiting = make_job(raw_code="return 1", **limit)
    wait_until(lambda: "Re-scheduled job" in log_of(waiting))

    canceling.cancel_job(job_id=stuck, workspace_id="test", username="alice", reason=None)

    assert ended(waiting).result == 1


# --- forgetting ---


def test_a_job_is_forgotten_at_once(start: Start, make_job: Make, ended: Any, wait_until: Any) -> None:
    start()
    job = make_job(raw_code="print secret\nreturn 1", args={"secret": 1}, delete_after_s=0)

    wait_until(lambda: (done := ended(job)) and done.deleted)

    assert (ended(job).result, Job.objects.get(pk=job).args, log_of(job)) == ({}, {}, "##DELETED##")


def test_a_step_is_forgotten_once_the_flow_has_ended(
    start: Start, make_flow: Make, ended: Any, wait_until: Any, runner: RememberingRunner
) -> None:
    start()
    read = {"input_transforms": {"x": {"type": "javascript", "expr": "results.a.secret"}}}
    flow = make_flow(
        step("a", 'return {"secret": 5}', delete_after_use=True), step("b", "wait\nreturn 6", value=read)
    )
    wait_until(lambda: len(runner.requests) == 2)
    assert runner.requests[1].args == {"x": 5}
    a, b = (steps_of(flow)[id].id for id in "ab")
    assert CompletedJob.objects.get(pk=a).result == {"secret": 5}
    assert JobCleanup.objects.get().top_id == flow

    runner.let_go()

    wait_until(lambda: CompletedJob.objects.get(pk=a).deleted)
    assert ended(flow).result == 6 and CompletedJob.objects.get(pk=b).result == 6
    assert CompletedJob.objects.get(pk=a).result == {}


def test_a_step_of_a_flow_that_failed_is_forgotten_too(
    start: Start, make_flow: Make, ended: Any, wait_until: Any
) -> None:
    start()
    flow = make_flow(step("a", "return 1", delete_after_secs=0), step("b", "fail no"))

    ended(flow)

    a = steps_of(flow)["a"].id
    wait_until(lambda: CompletedJob.objects.get(pk=a).deleted)


# --- shared folders ---


def test_the_steps_of_a_same_worker_flow_share_a_folder_until_its_end(
    start: Start, make_flow: Make, ended: Any, wait_until: Any, runner: RememberingRunner
) -> None:
    start()
    loop = {
        "id": "l",
        "value": {
            "type": "forloopflow",
            "iterator": {"type": "static", "value": [1, 2]},
            "skip_failures": False,
            "modules": [step("c", "return 1"), step("d", "return 1")],
        },
    }
    flow = make_flow(step("a", "return 1"), loop, options={"same_worker": True})
    ended(flow)
    ended(make_flow(step("a", "return 1")))

    assert [request.share for request in runner.requests] == [str(flow)] * 5 + [None]
    wait_until(lambda: runner.dropped == [str(flow)])


def test_what_a_step_leaves_in_the_shared_folder_the_next_one_finds(
    start: Start, make_flow: Make, ended: Any, tmp_path: Path
) -> None:
    start(
        runner=SandboxRunner(
            folder=tmp_path / "jobs",
            cache_dir=tmp_path / "cache",
            cache_max_bytes=1 << 30,
            available=look_around(),
            store=PgRuntimeStore(),
            hidden_paths=[],
            policy="warn",
            limits=Limits(),
            warm=2,
        )
    )
    write = "def main():\n    open('shared/x', 'w').write('from a')\n    open('shared/x').close()"
    read = {"language": "bash", "content": "cat shared/x"}
    modules = [step("a", write), step("b", "", value=read)]

    together = make_flow(*modules, options={"same_worker": True})
    alone = make_flow(*modules)

    assert ended(together).result == "from a"
    assert ended(alone).status == "failure"


def test_a_step_with_a_shared_folder_does_not_begin_again_elsewhere(
    start: Start, make_flow: Make, ended: Any, wait_until: Any, runner: RememberingRunner
) -> None:
    worker = start()
    flow = make_flow(step("a", "wait"), options={"same_worker": True})
    wait_until(lambda: len(runner.requests) == 1)

    worker.stop()

    done = ended(flow)
    assert done.status == "failure"
    assert (done.result["error"]["name"], done.result["error"]["step_id"]) == ("SharedFolderLost", "a")


def test_the_limit_of_a_step_that_is_bound_to_its_worker_does_not_count(
    start: Start, make_flow: Make, wait_until: Any, runner: RememberingRunner
) -> None:
    start()
    limited = {"concurrent_limit": 1, "custom_concurrency_key": "gate"}
    for _ in range(2):
        make_flow(step("a", "wait", value=limited), options={"same_worker": True})

    wait_until(lambda: len(runner.requests) == 2)
    runner.let_go()


def test_only_so_many_flows_have_a_folder_at_once(
    start: Start, make_flow: Make, ended: Any, wait_until: Any, runner: RememberingRunner, monkeypatch: Any
) -> None:
    monkeypatch.setattr("workers.options.MAX_SHARES", 1)
    start()
    waits = make_flow(step("a", "wait"), options={"same_worker": True})
    wait_until(lambda: len(runner.requests) == 1)

    other = make_flow(step("a", "return 1"), options={"same_worker": True})
    ended(other)
    runner.let_go()
    ended(waits)

    wait_until(lambda: len(runner.dropped) == 3)
    assert runner.dropped == [f"{waits} too early", str(other), str(waits)]


def test_the_folder_of_a_flow_that_ended_elsewhere_is_dropped_too(
    start: Start, make_flow: Make, wait_until: Any, runner: RememberingRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.worker.PING_S", 0.05)
    start()
    flow = make_flow(step("a", "wait"), options={"same_worker": True})
    wait_until(lambda: len(runner.requests) == 1)

    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM queue WHERE id = %s", [flow])

    wait_until(lambda: runner.dropped == [str(flow)])
    runner.let_go()


# --- the environment of steps ---


def test_steps_know_the_flow_around_them(
    start: Start, make_flow: Make, ended: Any, runner: RememberingRunner
) -> None:
    workspace = Workspace.objects.create(id="test", name="Test", owner="alice@example.com")
    Account.objects.create(email="alice@example.com")
    Member.objects.create(workspace=workspace, username="alice", email="alice@example.com")
    Variable.objects.create(
        workspace=workspace, path="u/alice/key", value=secrets.encrypt("test", "hush hush"), is_secret=True
    )
    inner_value = {"modules": [step("x", "return 1")], "flow_env": {"COLOUR": "blue"}}
    version = FlowVersion.objects.create(
        workspace=workspace, path="u/alice/inner", value=inner_value, created_by="alice"
    )

    Flow.objects.create(workspace=workspace, path="u/alice/inner", version_id=version.pk, edited_by="alice")
    env = {
        "COLOUR": "red",
        "NUMBERS": [1, {"a": None}],
        "KEY": "$var:u/alice/key",
        "not a name": "x",
        "WM_JOB_ID": "forged",
    }
    start()
    flow = make_flow(
        step("a", "print hush hush\nreturn 1"),
        {"id": "sub", "value": {"type": "flow", "path": "u/alice/inner", "input_transforms": {}}},
        options={"flow_env": env},
        runnable_path="u/alice/outer",
    )
    assert ended(flow).status == "success"

    outer, inner = (request.environment for request in runner.requests)
    steps = steps_of(flow)
    assert {name: outer.get(name) for name in (*env, "WM_FLOW_PATH", "WM_FLOW_STEP_ID")} == {
        "COLOUR": "red",
        "NUMBERS": json.dumps([1, {"a": None}]),
        "KEY": "hush hush",
        "not a name": None,
        "WM_JOB_ID": str(steps["a"].id),
        "WM_FLOW_PATH": "u/alice/outer",
        "WM_FLOW_STEP_ID": "a",
    }
    assert outer["WM_FLOW_JOB_ID"] == outer["WM_ROOT_FLOW_JOB_ID"] == str(flow)
    assert outer["WM_STATE_PATH"] == "u/alice/outer/a_user"
    assert log_of(steps["a"].id) == "****\n" or "hush" not in log_of(steps["a"].id)
    assert inner["COLOUR"] == "blue" and "NUMBERS" not in inner
    assert inner["WM_FLOW_PATH"] == "u/alice/outer"
    assert (inner["WM_FLOW_JOB_ID"], inner["WM_ROOT_FLOW_JOB_ID"]) == (str(steps["sub"].id), str(flow))
    assert inner["WM_FLOW_STEP_ID"] == "x"


# --- what it costs ---


def test_jobs_and_flows_without_options_ask_for_nothing(
    start: Start, make_job: Make, make_flow: Make, ended: Any
) -> None:
    asked: list[str] = []

    class NoOptions:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            raise AssertionError(name)

    class Queue(PgJobQueue):
        def __init__(self, *, worker: str) -> None:
            super().__init__(worker=worker)
            self.option_store = NoOptions()  # type: ignore[assignment]

    start(queue_class=Queue)

    assert ended(make_job(raw_code="return 1")).result == 1
    assert ended(make_flow(step("a", "return 1"), step("b", "return 2"))).result == 2

    assert asked == []
