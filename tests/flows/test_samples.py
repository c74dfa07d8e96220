"""The sample flows, run for real: what each of them says is what comes out."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from uuid import UUID

import httpx
import pytest

from jobs.flows import deployed
from jobs.flows.deployed import FlowDraft
from tests.browser.site import Person, Site
from tests.flows.conftest import FlowRun, RunFlow
from tests.jobs.flows.samples import SAMPLES, Sample, greet

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
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def no_errors(site: Site, worker: str) -> Iterator[None]:
    """The worker logs no error of its own during the test."""
    log = site.folder / "worker.log"
    before = log.stat().st_size
    yield
    assert " ERROR " not in log.read_bytes()[before:].decode(errors="replace")


def test_every_sample_ends_as_it_promises(
    no_errors: None, worker: str, ada: Person, start_flow: RunFlow, url: str
) -> None:
    path = f"u/{ada.username}/greet"
    deployed.create_flow(ada.caller, FlowDraft(path=path, **greet()))
    flows = {
        name: (sample.make(), sample.args)
        for name, sample in SAMPLES.items()
        if sample.needs in (None, "server")
    }
    flows["call_another_flow"] = (
        SAMPLES["call_another_flow"].make(path),
        SAMPLES["call_another_flow"].args,
    )
    flows["retry_with_backoff"] = (SAMPLES["retry_with_backoff"].make(1), {"url": url})

    runs = {name: start_flow(made["value"], args) for name, (made, args) in flows.items()}

    ended = {name: run.wait(90) for name, run in runs.items()}
    found = {name: run.result for name, run in ended.items() if not SAMPLES[name].is_result(run.result)}
    assert found == {}
    assert {name: run.outcome for name, run in ended.items()} == {
        name: expected_outcome(SAMPLES[name]) for name in flows
    }


def expected_outcome(sample: Sample) -> str:
    return "skipped" if sample.is_skipped else "success" if sample.is_success else "failure"


def test_the_approval_is_given_by_somebody_who_has_the_link_alone(
    no_errors: None, worker: str, start_flow: RunFlow, http: httpx.Client
) -> None:
    sample = SAMPLES["approval"]
    run = start_flow(sample.make()["value"], sample.args)
    asks = run.wait_until_module("pay", "WaitingForEvents")["job"]
    links = http.get(f"jobs/resume_urls/{asks}/7").json()

    # Nobody is signed in here.
    answer = httpx.post(links["resume"], json={"note": "go ahead"})

    assert answer.status_code == 201, answer.text
    assert (run.wait(60).outcome, run.result) == ("success", sample.result)


def test_the_preprocessor_reads_the_body_of_a_webhook(
    no_errors: None, worker: str, ada: Person, http: httpx.Client
) -> None:
    sample, path = SAMPLES["preprocessor"], f"u/{ada.username}/hook"
    assert http.post("flows/create", json={"path": path, **sample.make()}).status_code == 201

    by_webhook = http.post(f"jobs/run/f/{path}", json=sample.args).text
    by_form = http.post(
        f"jobs/run/f/{path}?skip_preprocessor=true", json={"name": "Ada", "source": "form"}
    ).text

    assert FlowRun(UUID(by_webhook)).wait(60).result == sample.result
    assert FlowRun(UUID(by_form)).wait(60).result == "form: Ada"


def test_branches_that_end_at_once_are_followed_by_the_next_ones(no_errors: None, run_flow: RunFlow) -> None:
    run = run_flow(BRANCHES_THAT_END_AT_ONCE)

    assert (run.outcome, run.result) == ("success", ["b", "b"])


def test_a_loop_that_is_tried_again_at_once_fails_with_its_own_error(
    no_errors: None, run_flow: RunFlow
) -> None:
    run = run_flow(RETRY_AT_ONCE)

    assert run.outcome == "failure"
    assert "Expected an array value" in str(run.result)
