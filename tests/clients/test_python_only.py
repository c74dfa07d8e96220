"""What only `wmill` has, in Python jobs."""

import httpx
import pytest

from jobs.models import JobStatus, QueuedJob
from tests.browser.site import wait_until
from tests.clients.conftest import Clients, end_of
from tests.clients.test_clients import preview_flow

pytestmark = pytest.mark.parametrize("clients", ["python3"], indirect=True)


def test_a_script_cancels_its_other_runs(clients: Clients, http: httpx.Client) -> None:
    path = clients.path("only_one")
    body = {"language": "bash", "content": "sleep 600", "path": path, "args": {}}
    other = http.post("jobs/run/preview", json=body).text
    wait_until(lambda: QueuedJob.objects.filter(pk=other, running=True).exists(), "the other run", 60)

    canceled = clients.run("cancel_running", at=path).result

    assert canceled == [other]
    assert end_of(other).status == JobStatus.CANCELED


def test_a_job_learns_that_its_worker_stays(clients: Clients) -> None:
    assert clients.run("draining").result is False


def test_steps_on_one_worker_share_files(clients: Clients, http: httpx.Client) -> None:
    modules = [clients.step("a", "write_shared"), clients.step("b", "read_shared")]

    assert end_of(preview_flow(http, modules, same_worker=True)).result == {"rows": [1, 2]}


def test_a_jobs_token_makes_no_other_tokens(clients: Clients) -> None:
    ended = clients.run("make_token", fails=True)

    assert "403" in ended.result["error"]["message"]
