"""Fixtures that every test may use: the smallest real rows, and waiting for a condition instead of sleeping."""

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import hypothesis
import pytest

from jobs import queue
from tests import databases

# A machine that does other things as well makes no example wrong. The rest is as usual: in CI always the same examples.
hypothesis.settings.register_profile("untimed", hypothesis.settings(), deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture
def make_job(db: None) -> Callable[..., UUID]:
    """Queue a job; keyword arguments are those of JobRequest."""

    def make(**given: Any) -> UUID:
        request: dict[str, Any] = {
            "workspace_id": "test",
            "kind": "preview",
            "tag": "python3",
            "created_by": "alice",
            "permissioned_as": "u/alice",
            "permissioned_as_email": "alice@example.com",
            "args": {},
            "raw_code": "",
            "language": "python3",
        }
        return queue.push_job(queue.JobRequest(**{**request, **given}))

    return make


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """The address of this test's database, for a process or connection of its own."""
    return databases.address()


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    """Ask again and again until the answer is true; answers it, or fails after `timeout_s`."""

    def wait(ask: Callable[[], Any], *, timeout_s: float = 15.0) -> Any:
        deadline = time.monotonic() + timeout_s
        while not (answer := ask()):
            assert time.monotonic() < deadline, f"did not come true within {timeout_s} s"
            time.sleep(0.01)
        return answer

    return wait
