"""Flows run for real: the site of the browser tests (server, worker, a database of its own), without a browser.

start_flow  start_flow(value, args): run it as ada, without waiting
run_flow    run_flow(value, args): run it on the worker, to its end
http        HTTP as ada: http.get("jobs/list") asks for /api/w/<her workspace>/jobs/list
gate        doors that steps pass: a test knows who stands before one, and decides when it opens
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
import pytest

from jobs import flow_runs
from jobs.flow_runs import FlowPreview
from jobs.flows import public
from jobs.models import CompletedJob, FlowStatus, QueuedJob
from jobs.runs import RunOptions
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
from tests.flows.gate import Gate
from workspaces import tokens


@dataclass
class FlowRun:
    """A run of a flow, followed to its end."""

    id: UUID
    _done: CompletedJob | None = field(default=None, repr=False)

    def wait(self, timeout_s: float = 30) -> "FlowRun":
        """Until it has ended."""

        def ended() -> CompletedJob | None:
            return CompletedJob.objects.filter(pk=self.id).first()

        try:
            self._done = wait_until(ended, f"the end of flow {self.id}", timeout_s)
        except pytest.fail.Exception:
            state = FlowStatus.objects.filter(pk=self.id).values_list("state", flat=True).first()
            queued = list(QueuedJob.objects.values("id", "tag", "running", "suspend", "worker"))
            pytest.fail(f"flow {self.id} did not end; state {json.dumps(state)}; queue {queued}")
        return self

    @property
    def result(self) -> Any:
        """Its result, once it has ended."""
        assert self._done is not None
        return self._done.result

    @property
    def outcome(self) -> str:
        """How it ended: a JobStatus."""
        assert self._done is not None
        return self._done.status

    @property
    def status(self) -> dict[str, Any]:
        """flow_status."""
        found = public.flow_status(self.id)
        assert found is not None
        return found

    def module(self, id: str) -> dict[str, Any]:
        """The entry of one module."""
        return next(module for module in self.status["modules"] if module["id"] == id)

    def wait_until_module(self, id: str, *types: str) -> dict[str, Any]:
        """The entry of a module, once it is in one of these states."""

        def there() -> dict[str, Any] | None:
            module = self.module(id)
            return module if module["type"] in types else None

        found: dict[str, Any] = wait_until(there, f"module {id} to be {' or '.join(types)}", 30)
        return found


RunFlow = Callable[..., FlowRun]


@pytest.fixture
def start_flow(ada: Person) -> RunFlow:  # noqa: F811
    """start_flow(value, args): run it as ada, without waiting."""

    def start(value: dict[str, Any], args: dict[str, Any] | None = None, **options: Any) -> FlowRun:
        preview = FlowPreview(
            value=value, args=args or {}, path=options.pop("path", None), tag=options.pop("tag", None)
        )
        return FlowRun(flow_runs.run_flow_preview(ada.caller, preview, RunOptions(**options)))

    return start


@pytest.fixture
def run_flow(start_flow: RunFlow, worker: str) -> RunFlow:  # noqa: F811
    """run_flow(value, args): run it as ada on the worker, to its end."""
    return lambda value, args=None, **options: start_flow(value, args, **options).wait()


@pytest.fixture
def http(ada: Person) -> Iterator[httpx.Client]:  # noqa: F811
    """HTTP as ada; addresses are relative to /api/w/<her workspace>/."""
    client = httpx.Client(
        base_url=f"{ada.site.url}/api/w/{ada.workspace.id}/",
        headers={"Authorization": f"Bearer {tokens.create_session(ada.account)}"},
        timeout=120,
    )
    with client:
        yield client


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Doors that steps pass: a test knows who stands before one, and decides when it opens."""
    gate = Gate()
    yield gate
    gate.shut_down()
