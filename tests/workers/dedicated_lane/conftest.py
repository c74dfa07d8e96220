"""A dedicated script, and workers with real sandboxes that are dedicated to it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from jobs import runs, scripts
from jobs.dedicated import Dedicated
from jobs.models import CompletedJob, Script
from jobs.payloads import Payload
from jobs.runs import RunOptions
from tests.tenancy import enter, make_workspace
from workers.pg_runtimes import PgRuntimeStore
from workers.runtimes import Available, Limits, look_around
from workers.sandbox_runner import SandboxRunner
from workspaces.access import Caller

PATH = "u/ada/fast"
TAG = f"acme:{PATH}"


@pytest.fixture
def ada(transactional_db: None) -> Caller:
    return enter(make_workspace("acme", admin="ada@example.com"), "ada@example.com")


@pytest.fixture
def deploy(ada: Caller) -> Callable[..., Script]:
    """Deploy a version of the dedicated script: its code, and further fields of ScriptDraft."""

    def deploy(
        content: str, *, path: str = PATH, extra: dict[str, Any] | None = None, **given: Any
    ) -> Script:
        draft = scripts.ScriptDraft(
            path=path,
            content=content,
            lock="",
            extra={"dedicated_worker": True, **(extra or {})},
            **{"language": "python3", **given},
        )
        return scripts.deploy_script(ada, draft, auto_parent=True)

    return deploy


@pytest.fixture
def run(ada: Caller) -> Callable[..., UUID]:
    """Queue a run of a version; keyword arguments are those of the script. `options` are those of RunOptions."""

    def run(script: Script, *, options: dict[str, Any] | None = None, **args: Any) -> UUID:
        return runs.run_script(ada, script, Payload(args=args), RunOptions(**(options or {})))

    return run


@pytest.fixture
def outcomes(wait_until: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Wait for these jobs to end; answers their results, or those of failures as {"error": ...}, in order."""

    def outcomes(jobs: Sequence[UUID]) -> list[Any]:
        wait_until(lambda: CompletedJob.objects.filter(pk__in=jobs).count() == len(jobs), timeout_s=60)
        found = CompletedJob.objects.in_bulk(jobs)
        return [found[job].result for job in jobs]

    return outcomes


@pytest.fixture(scope="session")
def available() -> Available:
    return look_around()


@pytest.fixture
def start(
    start_worker: Callable[..., Any], tmp_path: Path, available: Available
) -> Iterator[Callable[..., Any]]:
    """Start a worker that is dedicated to `entries`; keyword arguments are those of WorkerOptions."""
    count = 0

    def start(*entries: str, slots: int = 1, **given: Any) -> Any:
        nonlocal count
        count += 1
        runner = SandboxRunner(
            folder=tmp_path / f"jobs-{count}",
            cache_dir=tmp_path / "cache",
            cache_max_bytes=1 << 30,
            available=available,
            store=PgRuntimeStore({}),
            hidden_paths=[],
            policy="warn",
            limits=Limits(),
            warm=1,
            dedicated_each=slots,
        )
        from jobs import dedicated

        chosen = entries or (TAG,)
        options: dict[str, Any] = {
            "tags": [dedicated.parse(entry).tag for entry in chosen],
            "dedicated": list(chosen),
            "slots": slots,
            **given,
        }
        return start_worker(runner=runner, **options)

    yield start


def entry_of(path: str) -> str:
    """How a group's configuration names a script of the workspace."""
    return str(Dedicated("acme", path))
