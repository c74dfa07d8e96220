"""Routes that exist for the official client libraries and the loaders of runtimes."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs.models import Script
from tests.api.conftest import JOB_ID, SECRET, World, token_for
from workspaces.models import Token

pytestmark = pytest.mark.django_db


def raw(world: World, token: str, path: str = "f/private/script.py", workspace: str = "acme") -> Any:
    return world.get(None, f"scripts_u/tokened_raw/{workspace}/{token}/{path}")


@pytest.mark.parametrize("path", ["f/private/script", "f/private/script.py"])
def test_a_loader_reads_code_with_the_token_in_the_address(world: World, path: str) -> None:
    answer = raw(world, world.tokens["alice"], path)

    assert (answer.status_code, answer.content.decode()) == (200, Script.objects.get(hash=0xAA).content)
    assert answer["Content-Type"].startswith("text/plain")


def test_a_read_only_token_and_one_of_this_workspace_are_enough(world: World) -> None:
    here = token_for("alice@example.com", workspace_id="acme", scopes=["scripts:read"])

    assert raw(world, world.tokens["read-only alice"]).status_code == 200
    assert raw(world, here).status_code == 200


@pytest.mark.parametrize(
    ("who", "status"),
    [("dave", 404), ("oscar", 404), ("olga", 404), ("scoped alice", 403), ("alice confined to other", 403)],
)
def test_a_token_in_the_address_opens_no_more_than_one_in_a_header(
    world: World, who: str, status: int
) -> None:
    answer = raw(world, world.tokens[who])

    assert answer.status_code == status
    assert SECRET.encode() not in answer.content


@pytest.mark.parametrize("token", ["nonsense", "jwt_x", "%00", "a" * 5000])
def test_an_unknown_token_in_the_address_is_refused(world: World, token: str) -> None:
    answer = raw(world, token)

    assert answer.status_code in (400, 401)
    assert SECRET.encode() not in answer.content


def test_a_token_that_has_expired_is_refused(world: World) -> None:
    token = token_for("alice@example.com")
    Token.objects.filter(token_prefix=token[:10]).update(expiration=timezone.now() - timedelta(seconds=1))

    assert raw(world, token).status_code == 401


def test_who_is_signed_in_otherwise_does_not_matter_when_the_address_names_a_token(world: World) -> None:
    address = f"scripts_u/tokened_raw/acme/{world.tokens['dave']}/f/private/script"

    assert world.get("alice", address).status_code == 404


def test_log_lines_and_errors_cannot_repeat_the_token_of_the_address(world: World) -> None:
    token = world.tokens["alice"]

    answer = raw(world, token, "f/private/nothing")

    assert answer.status_code == 404
    assert token not in answer.content.decode()
    # What a log line about this request could quote:
    assert answer.wsgi_request.path == "/api/scripts_u/tokened_raw/acme/***/f/private/nothing"
    assert token not in answer.wsgi_request.get_full_path()


def test_the_arguments_of_a_job_are_read_alone(world: World) -> None:
    assert world.get("alice", f"w/acme/jobs_u/get_args/{JOB_ID}").json() == {"x": SECRET}
    assert world.get("dave", f"w/acme/jobs_u/get_args/{JOB_ID}").status_code == 404


def test_beginnings_are_asked_for_where_the_clients_ask(world: World) -> None:
    ids = [str(JOB_ID), "018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a11"]

    began = world.post("alice", "w/acme/jobs_u/queue/get_started_at_by_ids", ids).json()

    assert began == world.post("alice", "w/acme/jobs/queue/get_started_at_by_ids", ids).json()
    assert began[0] is not None and began[1] is None
