"""A workspace with a script, people of every role, and browsers that are signed in as them."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from jobs import queue, runs, scripts
from jobs.models import JobStatus, Script
from jobs.payloads import Payload
from tests.tenancy import enter, join, make_workspace, token_for
from workspaces import folders
from workspaces.access import Caller
from workspaces.models import Workspace

CODE = 'def main(name: str, times: int = 1):\n    return f"hello {name}"\n'


@pytest.fixture
def acme(db: None) -> Workspace:
    """Admin alice, developer dave (who reads and writes nothing of hers), operator oscar."""
    workspace = make_workspace("acme", admin="alice@example.com")
    join(workspace, "dave@example.com")
    join(workspace, "oscar@example.com", operator=True)
    return workspace


@pytest.fixture
def alice(acme: Workspace) -> Caller:
    return enter(acme, "alice@example.com")


@pytest.fixture
def dave(acme: Workspace) -> Caller:
    return enter(acme, "dave@example.com")


@pytest.fixture
def browser_of(acme: Workspace) -> Callable[[str], Client]:
    """A browser signed in as one of the people."""

    def sign_in(name: str) -> Client:
        client = Client(raise_request_exception=False)
        client.cookies["token"] = token_for(f"{name}@example.com")
        return client

    return sign_in


@pytest.fixture
def greet(alice: Caller) -> Script:
    """A script in a folder that everybody may read and dave may not write."""
    folders.create_folder(alice, name="shared", extra_perms={"g/all": False})
    draft = scripts.ScriptDraft(
        path="f/shared/greet", content=CODE, language="python3", summary="Greet somebody"
    )
    return scripts.deploy_script(alice, draft, deployment_message="First version")


@pytest.fixture
def start(alice: Caller, greet: Script) -> Callable[..., UUID]:
    """Queue a run of greet (by alice, with an argument) and answer its id."""

    def start(caller: Caller = alice, *, args: dict[str, Any] | None = None, **options: Any) -> UUID:
        return runs.run_script(
            caller, greet, Payload(args=args or {"name": "ada"}), runs.RunOptions(**options)
        )

    return start


@pytest.fixture
def finish(start: Callable[..., UUID]) -> Callable[..., UUID]:
    """Queue a run, and end it as a worker would: with this result (a value, or `text` of JSON) and log."""

    def finish(
        *,
        result: Any = "hello",
        text: str | None = None,
        status: str = JobStatus.SUCCESS,
        log: str = "",
        isolation: str | None = "namespaces",
        **given: Any,
    ) -> UUID:
        job_id = start(**given)
        tag = given.get("tag") or "python3"
        (claim,) = [
            claim for claim in queue.claim_jobs(worker="w1", tags=[tag], limit=50) if claim.id == job_id
        ]
        queue.append_log((claim.id, claim.attempt), log)
        completion = queue.Completion(
            claim.id,
            claim.attempt,
            status,
            json.dumps(result) if text is None else text,
            isolation=isolation,
        )
        assert queue.complete_jobs([completion]) == {job_id}
        return job_id

    return finish
