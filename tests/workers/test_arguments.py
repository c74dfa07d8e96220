"""Arguments that name variables and resources get their values, and secrets among them stay out of the log."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from jobs import queue
from jobs.models import CompletedJob
from tests.workers.conftest import RunningWorker, ScriptedRunner
from workspaces import secrets
from workspaces.models import Account, Member, Resource, Variable, Workspace

pytestmark = pytest.mark.django_db(transaction=True)
Start = Callable[..., RunningWorker]
Make = Callable[..., UUID]


class SqlRunner(ScriptedRunner):
    languages = ("postgresql", "mysql", "duckdb")  # type: ignore[assignment]


@pytest.fixture
def workspace() -> Workspace:
    """Workspace `test` with alice, her secret and a resource that names it."""
    row = Workspace.objects.create(id="test", name="Test", owner="alice@example.com")
    Account.objects.create(email="alice@example.com")
    Member.objects.create(workspace=row, username="alice", email="alice@example.com")
    Member.objects.create(workspace=row, username="bob", email="bob@example.com")
    Account.objects.create(email="bob@example.com")
    Variable.objects.create(
        workspace=row, path="u/alice/key", value=secrets.encrypt("test", "correct horse"), is_secret=True
    )
    Resource.objects.create(
        workspace=row,
        path="u/alice/db",
        value={"host": "h", "password": "$var:u/alice/key"},
        resource_type="postgresql",
    )
    return row


def test_values_are_put_in_and_secrets_masked(
    workspace: Workspace, start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    runner = start_worker().runner

    job = make_job(raw_code="print the key is correct horse!", args={"db": "$res:u/alice/db", "n": 1})

    wait_until(lambda: CompletedJob.objects.filter(pk=job).exists())
    assert runner.requests[0].args == {"db": {"host": "h", "password": "correct horse"}, "n": 1}
    assert queue.read_logs(job)[0] == "the key is *****!\n"


def test_a_job_cannot_name_what_its_user_may_not_read(
    workspace: Workspace, start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    runner = start_worker().runner

    job = make_job(
        raw_code="return 1",
        args={"key": "$var:u/alice/key"},
        created_by="bob",
        permissioned_as="u/bob",
        permissioned_as_email="bob@example.com",
    )

    done = wait_until(lambda: CompletedJob.objects.filter(pk=job).first())
    assert done.result["error"]["name"] == "BadArguments"
    assert "correct horse" not in str(done.result)
    assert runner.requests == []


@pytest.mark.parametrize("line", ["-- database u/alice/db", "-- database $res:u/alice/db"])
def test_a_database_that_sql_pins_is_its_argument_and_its_password_a_secret(
    workspace: Workspace, start_worker: Start, make_job: Make, wait_until: Any, line: str
) -> None:
    runner = start_worker(tags=["postgresql"], runner=SqlRunner()).runner

    job = make_job(
        language="postgresql", tag="postgresql", raw_code=f"{line}\nprint it is correct horse", args={"n": 1}
    )

    wait_until(lambda: CompletedJob.objects.filter(pk=job).exists())
    assert runner.requests[0].args == {"n": 1, "database": {"host": "h", "password": "correct horse"}}


def test_a_resource_that_duckdb_attaches_comes_with_its_arguments(
    workspace: Workspace, start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    runner = start_worker(tags=["duckdb"], runner=SqlRunner()).runner

    job = make_job(language="duckdb", tag="duckdb", raw_code="ATTACH '$res:u/alice/db' AS db (TYPE postgres)")

    wait_until(lambda: CompletedJob.objects.filter(pk=job).exists())
    assert runner.requests[0].args == {"$res:u/alice/db": {"host": "h", "password": "correct horse"}}


def test_a_job_cannot_pin_what_its_user_may_not_read(
    workspace: Workspace, start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    runner = start_worker(tags=["mysql"], runner=SqlRunner()).runner

    job = make_job(
        language="mysql",
        tag="mysql",
        raw_code="-- database u/alice/db\nSELECT 1",
        created_by="bob",
        permissioned_as="u/bob",
        permissioned_as_email="bob@example.com",
    )

    done = wait_until(lambda: CompletedJob.objects.filter(pk=job).first())
    assert done.result["error"]["name"] == "BadArguments"
    assert "u/alice/db" in done.result["error"]["message"]
    assert runner.requests == []
