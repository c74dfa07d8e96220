"""Who may steer a run, and what the token of one is good for."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from jobs import queue, runs
from jobs.models import QueuedJob
from tests.tenancy import enter, token_for
from workspaces import job_tokens
from workspaces.access import Caller
from workspaces.errors import PermissionDenied
from workspaces.models import Account, Member, Workspace


@pytest.fixture
def oscar(acme: Workspace) -> Caller:
    return enter(acme, "oscar@example.com")


def test_an_operator_cancels_what_they_started_and_nothing_else(
    acme: Workspace, oscar: Caller, start: Callable[..., UUID]
) -> None:
    of_alice, own = start(), start(oscar)

    for force in (False, True):
        with pytest.raises(PermissionDenied, match="started by alice"):
            runs.cancel(oscar, workspace_id="acme", job_id=of_alice, reason=None, force=force)
    with pytest.raises(PermissionDenied):
        runs.set_progress(oscar, of_alice, 50)

    assert runs.cancel_selection(oscar, [of_alice, own], force=False) == [own]
    assert list(QueuedJob.objects.values_list("pk", flat=True)) == [of_alice]


def test_the_api_says_so(acme: Workspace, start: Callable[..., UUID]) -> None:
    headers = {"authorization": f"Bearer {token_for('oscar@example.com')}"}

    answer = Client().post(
        f"/api/w/acme/jobs_u/queue/force_cancel/{start()}", b"{}", "application/json", headers=headers
    )

    assert answer.status_code == 403


def token_of(claim: queue.Claim) -> str:
    return job_tokens.issue(
        workspace_id=claim.workspace_id,
        email=claim.permissioned_as_email,
        username="alice",
        permissioned_as=claim.permissioned_as,
        job_id=claim.id,
        attempt=claim.attempt,
        expires_in_s=60,
    )


def status(token: str, method: str = "GET", path: str = "w/acme/users/whoami") -> int:
    headers = {"authorization": f"Bearer {token}"}
    body: Any = b'{"id": "mine", "name": "Mine", "password": "a long enough one"}'
    return Client().generic(method, f"/api/{path}", body, "application/json", headers=headers).status_code


@pytest.fixture
def claim(start: Callable[..., UUID]) -> queue.Claim:
    start()
    (claim,) = queue.claim_jobs(worker="w", tags=["python3"])
    return claim


def test_the_token_of_a_job_that_was_given_to_another_worker_is_over(claim: queue.Claim) -> None:
    token = token_of(claim)
    assert status(token) == 200

    queue.requeue_job(job_id=claim.id, workspace_id="acme")
    assert status(token) == 401
    (again,) = queue.claim_jobs(worker="another", tags=["python3"])

    assert status(token) == 401
    assert status(token_of(again)) == 200


def test_a_running_job_has_no_more_rights_than_its_person_has_now(claim: queue.Claim) -> None:
    token = token_of(claim)

    Workspace.objects.filter(pk="acme").update(deleted=True)
    assert status(token) == 404
    Workspace.objects.filter(pk="acme").update(deleted=False)
    Member.objects.filter(email="alice@example.com").delete()
    assert status(token) == 404
    Account.objects.filter(pk="alice@example.com").update(disabled=True)
    assert status(token) == 401


@pytest.mark.parametrize("path", ["users/tokens/create", "users/setpassword", "workspaces/create"])
def test_a_job_makes_nothing_that_outlives_it(path: str, claim: queue.Claim) -> None:
    assert status(token_of(claim), "POST", path) == 403
