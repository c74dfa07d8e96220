"""WM_TOKEN: what is signed here is what the library reads, and would have written."""

import time
from uuid import UUID

import jwt
import pytest

from workspaces import job_tokens
from workspaces.errors import NotSignedIn

JOB = UUID("0197c0de-0000-7000-8000-000000000001")


def issue(**given: object) -> str:
    values = {
        "workspace_id": "acme",
        "email": "jürgen@example.com",
        "username": "jürgen",
        "permissioned_as": "u/jürgen",
        "job_id": JOB,
        "attempt": 2,
        "expires_in_s": 60,
    }
    return job_tokens.issue(**{**values, **given})  # type: ignore[arg-type]


def test_a_token_is_a_standard_jwt() -> None:
    token = issue()

    claims = job_tokens.read(token)

    assert (claims["job_id"], claims["attempt"], claims["username"]) == (str(JOB), 2, "jürgen")
    header = jwt.get_unverified_header(token.removeprefix("jwt_"))
    assert header == {"alg": "HS256", "typ": "JWT"}


@pytest.mark.parametrize("at", [0, 1, 2])
def test_no_part_of_it_can_be_changed(at: int) -> None:
    parts = issue().removeprefix("jwt_").split(".")
    other = issue(attempt=3).removeprefix("jwt_").split(".")
    parts[at] = other[at] if at else "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0"

    with pytest.raises(NotSignedIn, match="not a valid job token"):
        job_tokens.read("jwt_" + ".".join(parts))


def test_another_secret_makes_another_signature(settings: object) -> None:
    token = issue()
    settings.SECRET_KEY = "another-secret-key-0123456789abcdef0123456789"  # type: ignore[attr-defined]

    with pytest.raises(NotSignedIn):
        job_tokens.read(token)


def test_a_worker_whose_clock_is_ahead_makes_tokens_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = time.time() + 50
    with monkeypatch.context() as clock:
        clock.setattr(time, "time", lambda: ahead)
        token = issue()

    assert job_tokens.read(token)["job_id"] == str(JOB)
