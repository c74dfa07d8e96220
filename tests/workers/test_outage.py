"""The database goes away under load and comes back: nothing is lost, nothing happens twice."""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from jobs import sql
from jobs.flows.state import initial_state
from jobs.flows.value import parse_flow_value
from jobs.queue import JobRequest, push_parameters
from tests.workers.conftest import RunningWorker, ScriptedRunner
from windmill_site.data_folder import DataFolder
from windmill_site.embedded_postgres import EmbeddedPostgres
from workers.pg_queue import PgJobQueue
from workers.runner import RunOutcome, RunRequest

Start = Callable[..., RunningWorker]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL of these tests' own, with our tables."""
    postgres = EmbeddedPostgres(DataFolder(tmp_path_factory.mktemp("outage")), durable=True)
    postgres.start(dies_with_us=True)
    try:
        environment = {**os.environ, "DATABASE_URL": postgres.dsn(), "SECRET_KEY": "test-secret-key"}
        command = [sys.executable, "manage.py", "migrate", "-v0"]
        subprocess.run(command, env=environment, check=True, timeout=60)
        yield postgres
    finally:
        postgres.stop(even_if_used=True, immediately=True)


@pytest.fixture
def server(cluster: EmbeddedPostgres) -> EmbeddedPostgres:
    """The cluster, running and without jobs, for a test to stop and start."""
    if not cluster.is_running():
        cluster.start(dies_with_us=True)
    with connect(cluster.dsn()) as connection:
        connection.execute(
            "TRUNCATE queue, job, completed_job, job_logs, worker_ping,"
            " flow_status, flow_step, flow_iteration, flow_result"
        )
    return cluster


def push(connection: psycopg.Connection[Any], code: str, **fields: Any) -> UUID:
    request: dict[str, Any] = {
        "workspace_id": "test",
        "kind": "preview",
        "tag": "python3",
        "created_by": "a",
        "permissioned_as": "u/a",
        "permissioned_as_email": "a@example.com",
        "args": {},
        "raw_code": code,
        "language": "python3",
    }
    parameters = push_parameters(JobRequest(**{**request, **fields}))
    connection.execute(sql.load("push"), parameters)
    return parameters["id"]


def restart(server: EmbeddedPostgres, *, immediately: bool) -> None:
    server.stop(even_if_used=True, immediately=immediately)
    server.start(dies_with_us=True)


class SlowRunner(ScriptedRunner):
    """Each job prints, takes some milliseconds, prints again."""

    async def run(self, request: RunRequest) -> RunOutcome:
        self.requests.append(request)
        request.log.write("begin\n")
        await asyncio.sleep(random.uniform(0.001, 0.02))
        request.log.write("end\n")
        return RunOutcome(True, json.dumps(request.claim.args))


def connect(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)


@pytest.mark.parametrize("immediately", [False, True])
def test_a_restart_under_load_loses_nothing_and_repeats_nothing(
    server: EmbeddedPostgres, run_worker: Start, wait_until: Any, immediately: bool
) -> None:
    count = 400
    with connect(server.dsn()) as connection:
        ids = [push(connection, "") for _ in range(count)]
    worker = run_worker(server.dsn(), runner=SlowRunner(), slots=8)
    wait_until(lambda: worker.worker.jobs_executed > count // 4)

    restart(server, immediately=immediately)

    with connect(server.dsn()) as connection:
        wait_until(lambda: is_empty(connection), timeout_s=60)
        done = connection.execute("SELECT id, status FROM completed_job").fetchall()
        texts = connection.execute(
            "SELECT string_agg(logs, '' ORDER BY log_offset) FROM job_logs GROUP BY job_id"
        ).fetchall()
        restarts = connection.execute("SELECT sum(restarts) FROM completed_job").fetchone()
    assert sorted(row[0] for row in done) == sorted(ids)
    assert {row[1] for row in done} == {"success"}
    # A job whose claim was answered by the falling server runs once; one that ran twice would say so twice.
    assert {row[0] for row in texts} == {"begin\nend\n"}
    assert restarts == (0,)


def push_flow(connection: psycopg.Connection[Any], value: dict[str, Any]) -> UUID:
    return push(
        connection,
        "",
        kind="flowpreview",
        tag="outage",  # its steps inherit it
        raw_code=None,
        language=None,
        raw_flow=value,
        flow_state=initial_state(parse_flow_value(value)),
    )


def script(id: str, **inputs: str) -> dict[str, Any]:
    """A step; what it is given is its result. `inputs` are expressions."""
    transforms = {name: {"type": "javascript", "expr": expr} for name, expr in inputs.items()}
    value = {"type": "rawscript", "language": "python3", "content": "", "input_transforms": transforms}
    return {"id": id, "value": value}


@pytest.mark.parametrize("immediately", [False, True])
def test_a_flow_goes_on_after_every_restart_and_runs_each_step_once(
    server: EmbeddedPostgres, run_worker: Start, wait_until: Any, immediately: bool
) -> None:
    loop = {
        "type": "forloopflow",
        "iterator": {"type": "static", "value": list(range(60))},
        "skip_failures": False,
        "parallel": True,
        "modules": [script("item", n="flow_input.iter.value"), script("copy", n="previous_result.n")],
    }
    sequence = [script(f"step_{n}", after="previous_result") for n in range(20)]
    flow = {"modules": [*sequence, {"id": "loop", "value": loop}, script("end", all="results.loop")]}
    with connect(server.dsn()) as connection:
        id = push_flow(connection, flow)
    worker = run_worker(server.dsn(), runner=SlowRunner(), slots=8, tags=["outage"])

    for steps in (10, 40, 100):
        wait_until(lambda steps=steps: len(worker.runner.requests) > steps, timeout_s=60)
        restart(server, immediately=immediately)

    with connect(server.dsn()) as connection:
        wait_until(lambda: is_empty(connection), timeout_s=60)
        done = connection.execute("SELECT status, result FROM completed_job WHERE id = %s", [id]).fetchone()
        places = connection.execute(
            "SELECT count(*), count(DISTINCT (parent_job, flow_step_id, flow_n)), count(completed_job.id)"
            "  FROM job LEFT JOIN completed_job USING (id) WHERE root_job = %s",
            [id],
        ).fetchone()
        statuses = connection.execute("SELECT DISTINCT status, restarts FROM completed_job").fetchall()
    assert done == ("success", {"all": [{"n": n} for n in range(60)]})
    assert places == (20 + 60 * 3 + 1,) * 3
    assert statuses == [("success", 0)]
    ran = [request.claim.id for request in worker.runner.requests]
    assert len(ran) == len(set(ran)) == 20 + 60 * 2 + 1


class AnswersLate(PgJobQueue):
    """The next step has been claimed, and before the worker hears of it, it puts back what it does not know."""

    def __init__(self, *, worker: str) -> None:
        super().__init__(worker=worker)
        self.put_back = 0
        self._apply = self.flow_store.apply
        self.flow_store.apply = self._apply_and_wait  # type: ignore[method-assign]

    async def _apply_and_wait(self, document: Any, texts: Any) -> Any:
        applied = await self._apply(document, texts)
        before = self.put_back
        self.flow_store.lost_answers += 1
        self._wake(None)
        while self.put_back == before:
            await asyncio.sleep(0.005)
        return applied

    def on_work(self, callback: Any) -> Any:
        self._wake = callback
        return super().on_work(callback)

    async def release_all_but(self, held: Any, **given: Any) -> int:
        released = await super().release_all_but(held, **given)
        self.put_back += 1
        return released


def test_a_step_that_is_on_its_way_to_its_slot_is_not_put_back(
    server: EmbeddedPostgres, run_worker: Start, wait_until: Any
) -> None:
    flow = {"modules": [script("a"), script("b"), script("c")]}
    worker = run_worker(server.dsn(), queue_class=AnswersLate, runner=SlowRunner(), tags=["outage"])
    with connect(server.dsn()) as connection:
        push_flow(connection, flow)

        wait_until(lambda: is_empty(connection), timeout_s=60)

    assert len(worker.runner.requests) == 3


def test_a_job_that_finished_while_the_database_was_away_is_recorded_when_it_is_back(
    server: EmbeddedPostgres, run_worker: Start, wait_until: Any
) -> None:
    with connect(server.dsn()) as connection:
        push(connection, "wait\nprint late\nreturn 7")
    worker = run_worker(server.dsn())
    wait_until(lambda: worker.runner.requests)

    server.stop(even_if_used=True, immediately=True)
    worker.runner.let_go()
    wait_until(lambda: not worker.queue.hears_wakeups)
    server.start(dies_with_us=True)

    with connect(server.dsn()) as connection:
        wait_until(lambda: is_empty(connection), timeout_s=30)
        done = connection.execute("SELECT status, result::text FROM completed_job").fetchall()
        logs = connection.execute("SELECT logs FROM job_logs").fetchall()
    assert done == [("success", "7")]
    assert logs == [("late\n",)]


def test_a_worker_that_starts_before_its_database_waits_for_it(
    server: EmbeddedPostgres, run_worker: Start, wait_until: Any
) -> None:
    with connect(server.dsn()) as connection:
        push(connection, "return 1")
    address = server.dsn()
    server.stop(even_if_used=True)

    worker = run_worker(address)
    wait_until(lambda: worker.queue is not None)
    server.start(dies_with_us=True)

    with connect(server.dsn()) as connection:
        wait_until(lambda: is_empty(connection), timeout_s=30)


def is_empty(connection: psycopg.Connection[Any]) -> bool:
    return connection.execute("SELECT NOT EXISTS (SELECT FROM queue)").fetchone() == (True,)
