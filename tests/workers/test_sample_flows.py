"""The sample flows on a real worker: its process, its sandboxes, its database."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from jobs.flow_runs import FlowPreview, run_flow_preview
from jobs.flows import deployed
from jobs.flows.deployed import FlowDraft
from jobs.models import CompletedJob
from jobs.runs import RunOptions
from tests import tenancy
from tests.jobs.flows.samples import SAMPLES, greet
from workspaces.access import Caller

pytestmark = pytest.mark.django_db(transaction=True)

# The first branch of the inner module ends in the transaction in which the module starts.
BRANCHES_THAT_END_AT_ONCE = {
    "modules": [
        {
            "id": "a",
            "value": {
                "type": "branchone",
                "branches": [],
                "default": [
                    {"id": "b", "value": {"type": "rawscript", "language": "bash", "content": "echo b"}},
                    {
                        "id": "c",
                        "value": {
                            "type": "branchall",
                            "parallel": False,
                            "branches": [
                                {"modules": [{"id": "d", "value": {"type": "identity"}}]},
                                {"modules": []},
                            ],
                        },
                    },
                ],
            },
        }
    ]
}


# Both attempts of the module fail in the transaction in which it starts.
RETRY_AT_ONCE = {
    "modules": [
        {
            "id": "a",
            "value": {
                "type": "forloopflow",
                "iterator": {"type": "static", "value": [1]},
                "skip_failures": False,
                "modules": [
                    {
                        "id": "b",
                        "value": {
                            "type": "forloopflow",
                            "iterator": {"type": "static", "value": [1]},
                            "skip_failures": False,
                            "modules": [
                                {"id": "c", "value": {"type": "identity"}},
                                {
                                    "id": "d",
                                    "value": {
                                        "type": "forloopflow",
                                        "iterator": {"type": "javascript", "expr": "'no list'"},
                                        "skip_failures": False,
                                        "modules": [],
                                    },
                                },
                            ],
                        },
                        "retry": {"constant": {"attempts": 2, "seconds": 0}},
                    },
                    {"id": "e", "value": {"type": "identity"}},
                ],
            },
        }
    ]
}


@pytest.fixture
def worker(database_url: str, tmp_path: Path) -> Iterator[Path]:
    """A worker with three slots; answers the file of its log."""
    log = tmp_path / "worker.log"
    process = subprocess.Popen(
        [sys.executable, "manage.py", "runworker", "--slots", "3"],
        env={
            "PATH": os.environ["PATH"],
            "DATABASE_URL": database_url,
            "SECRET_KEY": "sample-flows-test",
            "WORKER_DIR": str(tmp_path / "jobs"),
            "DATA_DIR": str(tmp_path / "data"),
        },
        stderr=log.open("wb"),
    )
    yield log
    process.kill()
    process.wait()


@pytest.fixture
def ann() -> Caller:
    return tenancy.enter(tenancy.make_workspace("samples", admin="ann@example.com"), "ann@example.com")


@pytest.fixture
def url() -> Iterator[str]:
    """Answers 503 twice, then "ok"."""
    answers = iter([503, 503])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(next(answers, 200))
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *args: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_every_sample_ends_as_it_promises(worker: Path, ann: Caller, url: str, wait_until: Any):
    deployed.create_flow(ann, FlowDraft(path="u/ann/greet", **greet()))
    flows = {name: (sample.make(), sample.args) for name, sample in SAMPLES.items() if sample.needs is None}
    flows["call_another_flow"] = (
        SAMPLES["call_another_flow"].make("u/ann/greet"),
        SAMPLES["call_another_flow"].args,
    )
    flows["retry_with_backoff"] = (SAMPLES["retry_with_backoff"].make(1), {"url": url})

    jobs = {
        run_flow_preview(ann, FlowPreview(value=made["value"], args=args), RunOptions()): name
        for name, (made, args) in flows.items()
    }

    ended = wait_for(jobs, wait_until)
    found = {
        jobs[job.pk]: (job.status, job.result)
        for job in ended
        if not SAMPLES[jobs[job.pk]].is_result(job.result)
    }
    assert found == {}
    assert {jobs[job.pk]: job.status for job in ended} == {name: expected_status(name) for name in flows}
    assert " ERROR " not in worker.read_text()


def test_branches_that_end_at_once_are_followed_by_the_next_ones(worker: Path, ann: Caller, wait_until: Any):
    job = run_flow_preview(ann, FlowPreview(value=BRANCHES_THAT_END_AT_ONCE, args={}), RunOptions())

    [ended] = wait_for({job: "flow"}, wait_until)
    assert (ended.status, ended.result) == ("success", ["b", "b"])


def test_a_loop_that_is_tried_again_at_once_fails_with_its_own_error(
    worker: Path, ann: Caller, wait_until: Any
):
    job = run_flow_preview(ann, FlowPreview(value=RETRY_AT_ONCE, args={}), RunOptions())

    [ended] = wait_for({job: "flow"}, wait_until)
    assert ended.status == "failure"
    assert "Expected an array value" in str(ended.result)


def wait_for(jobs: dict[UUID, str], wait_until: Any) -> list[CompletedJob]:
    def all_ended() -> list[CompletedJob] | None:
        ended = list(CompletedJob.objects.filter(pk__in=jobs))
        return ended if len(ended) == len(jobs) else None

    return wait_until(all_ended, timeout_s=60)


def expected_status(name: str) -> str:
    sample = SAMPLES[name]
    return "skipped" if sample.is_skipped else "success" if sample.is_success else "failure"
