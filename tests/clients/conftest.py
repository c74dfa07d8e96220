"""The official client libraries inside real jobs: a served site with a worker, packages from the real registries.

Each promise of test_clients.py is a script in scripts/, once for `wmill` (.py) and once for `windmill-client` (.ts).
Both give the same result.

clients     for each language in turn: clients.run("state") runs that script as ada, to its end
http        HTTP as ada: http.get("jobs/list") asks for /api/w/<her workspace>/jobs/list
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobs.models import CompletedJob, JobStatus, LogChunk, QueuedJob
from tests.browser.conftest import (  # noqa: F401
    _running_site,
    _running_worker,
    ada,
    browser_database,
    member,
    site,
    worker,
)
from tests.browser.site import Person, wait_until
from tests.flows.conftest import http  # noqa: F401

SCRIPTS = Path(__file__).parent / "scripts"
END_TIMEOUT_S = 180  # the first job of a language installs the client
LANGUAGES = {"python3": "py", "bun": "ts", "deno": "ts"}


@dataclass(frozen=True)
class Ended:
    """A job that has ended."""

    id: str
    status: str  # JobStatus
    result: Any
    log: str


@dataclass(frozen=True)
class Clients:
    """The scripts of one language, and ada who runs them."""

    language: str
    ada: Person
    http: httpx.Client

    def code(self, name: str) -> str:
        """A script of the folder, as people write it in this language."""
        code = (SCRIPTS / f"{name}.{LANGUAGES[self.language]}").read_text()
        if self.language == "deno":
            code = code.replace('from "windmill-client"', 'from "npm:windmill-client"')
            code = 'import process from "node:process";\n' + code
        return code

    def path(self, name: str) -> str:
        """A path of ada's that no other language uses."""
        return f"u/{self.ada.username}/{self.language}_{name}"

    def run(self, name: str, *, at: str | None = None, fails: bool = False, **args: Any) -> Ended:
        """Run a script to its end as a preview of path `at`; fails the test unless it does what is expected."""
        body = {"language": self.language, "content": self.code(name), "path": at, "args": args}
        answer = self.http.post("jobs/run/preview", json=body)
        assert answer.status_code == 201, answer.text
        ended = end_of(answer.text)
        assert (ended.status == JobStatus.FAILURE) == fails, f"{ended.result}\n{ended.log}"
        return ended

    def deploy(self, name: str, code: str, language: str = "bash") -> tuple[str, str]:
        """Deploy a script that others run; its path and the hash of its version."""
        path = self.path(name)
        body = {"path": path, "language": language, "content": code, "summary": "", "lock": ""}
        answer = self.http.post("scripts/create", json=body)
        assert answer.status_code == 201, answer.text
        return path, answer.text

    def step(self, id: str, name: str, **more: Any) -> dict[str, Any]:
        """A step of a flow that runs a script of the folder."""
        value = {
            "type": "rawscript",
            "language": self.language,
            "content": self.code(name),
            "input_transforms": {},
        }
        return {"id": id, "value": value, **more}


def end_of(job_id: str) -> Ended:
    """The job, once it has ended."""

    def done() -> CompletedJob | None:
        return CompletedJob.objects.filter(pk=job_id).first()

    try:
        job: CompletedJob = wait_until(done, f"the end of job {job_id}", END_TIMEOUT_S)
    except pytest.fail.Exception:
        queue = list(QueuedJob.objects.values("id", "tag", "running", "suspend", "worker"))
        pytest.fail(f"job {job_id} did not end; its log: {log_of(job_id)}; the queue: {queue}")
    return Ended(id=job_id, status=job.status, result=job.result, log=log_of(job_id))


def log_of(job_id: str) -> str:
    """What it has written so far."""
    chunks = LogChunk.objects.filter(job_id=job_id).order_by("log_offset").values_list("logs", flat=True)
    return "".join(chunks)


@pytest.fixture(params=LANGUAGES)
def clients(
    request: pytest.FixtureRequest,
    ada: Person,  # noqa: F811
    http: httpx.Client,  # noqa: F811
    worker: str,  # noqa: F811
) -> Clients:
    """The scripts of each language in turn."""
    return Clients(language=request.param, ada=ada, http=http)
