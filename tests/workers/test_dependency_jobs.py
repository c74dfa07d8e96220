"""Dependency jobs: the worker asks its runtimes for the lock, and what comes of it is written where people look."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jobs import dependency_runs, locks, scripts
from jobs.dependency_runs import StandIns
from jobs.flows import deployed
from jobs.flows.deployed import FlowDraft
from jobs.models import CompletedJob, FlowVersion, Job, JobKind, QueuedJob, Script
from jobs.runs import RunOptions
from tests.tenancy import enter, make_workspace
from tests.workers.conftest import ScriptedRunner
from workers.runner import RunnerLost, RunRequest
from workers.runtimes import ExecutionFailed
from workspaces.access import Caller

NEEDY = "import requests\n\ndef main(): ...\n"


class Resolving(ScriptedRunner):
    """Answers a lock that names what it was asked, once the failures given are used up."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__()
        self.failures = list(failures)

    async def lock(self, request: RunRequest) -> str:
        request.log.write("Resolved 1 package\n")
        if self.failures:
            raise self.failures.pop(0)
        return f"{request.claim.language} {request.claim.runnable_path}"


@pytest.fixture
def ada(transactional_db: None) -> Caller:
    return enter(make_workspace("acme", admin="ada@example.com"), "ada@example.com")


@pytest.fixture
def start(start_worker: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *failures: start_worker(runner=Resolving(*failures), tags=["dependency"])


def deploy(caller: Caller, content: str = NEEDY, path: str = "u/ada/a") -> Any:
    return scripts.deploy_script(
        caller, scripts.ScriptDraft(path=path, content=content, language="python3"), auto_parent=True
    )


def test_a_deployed_script_gets_its_lock(ada: Caller, start: Any, wait_until: Any) -> None:
    start()
    script = deploy(ada)

    wait_until(lambda: locks.state_of(scripts.get_script(ada, "u/ada/a"))[0] == "ready")

    script.refresh_from_db()
    assert script.lock == "python3 u/ada/a"
    job = wait_until(lambda: CompletedJob.objects.filter(pk=script.lock_job).first())
    assert job.status == "success" and job.result == {"status": locks.STATUS, "lock": script.lock}


class Taking(ScriptedRunner):
    """Answers when it is told to, job by job."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way: dict[str, asyncio.Event] = {}  # by code

    async def lock(self, request: RunRequest) -> str:
        code = request.claim.code or ""
        self.under_way[code] = asyncio.Event()
        await self.under_way[code].wait()
        return f"lock of {code}"


def test_versions_that_are_locked_at_the_same_time_have_locks_of_their_own_and_the_newest_lives(
    ada: Caller, start_worker: Any, wait_until: Any
) -> None:
    runner = Taking()
    worker = start_worker(runner=runner, tags=["dependency"], slots=3)
    dependent = deploy(ada, "from u.ada.a import x\nimport numpy\n", path="u/ada/b")
    wait_until(lambda: dependent.content in runner.under_way)
    worker.call(runner.under_way[dependent.content].set)
    old, new = deploy(ada, "import requests\n# 1"), deploy(ada, "import requests\n# 2")
    wait_until(lambda: {old.content, new.content} <= runner.under_way.keys())

    for script in (new, old):
        worker.call(runner.under_way.pop(script.content).set)
        wait_until(lambda script=script: CompletedJob.objects.filter(pk=script.lock_job).exists())

    locked = {script.pk: script.lock for script in Script.objects.filter(path="u/ada/a")}
    assert locked == {script.pk: f"lock of {script.content}" for script in (old, new)}
    assert scripts.get_to_run(ada, path="u/ada/a", hash=None).pk == new.pk
    # The newer one has whoever imports it locked again; the older one, though it ends last, does not.
    assert Job.objects.filter(kind=JobKind.DEPENDENCIES, runnable_path="u/ada/b").count() == 2


def test_a_failure_is_told_by_the_script_and_by_the_job(ada: Caller, start: Any, wait_until: Any) -> None:
    message = "requests==99 does not exist"
    start(ExecutionFailed({"name": "DependencyError", "message": message}))
    script = deploy(ada)

    job = wait_until(lambda: CompletedJob.objects.filter(pk=script.lock_job).first())

    script.refresh_from_db()
    assert locks.state_of(script) == ("failed", message)
    assert job.status == "failure" and job.result == {
        "error": {"name": "DependencyError", "message": message}
    }


def test_a_dependency_job_whose_sandbox_was_lost_starts_again(
    ada: Caller, start: Any, wait_until: Any
) -> None:
    start(RunnerLost("the fork server died"))
    script = deploy(ada)

    wait_until(lambda: CompletedJob.objects.filter(pk=script.lock_job, status="success").exists())

    script.refresh_from_db()
    assert script.lock == "python3 u/ada/a"


def test_a_language_that_the_worker_has_no_tool_for_names_the_tool(
    ada: Caller, start_worker: Any, wait_until: Any
) -> None:
    runner = Resolving()
    runner.runtimes = {"php": {"missing": "PHP", "install": "apt install php-cli"}}
    start_worker(runner=runner, tags=["dependency"])
    draft = scripts.ScriptDraft(path="u/ada/a", content="<?php\n// require:\n// a/b\n", language="php")
    script = scripts.deploy_script(ada, draft)

    wait_until(lambda: CompletedJob.objects.filter(pk=script.lock_job).exists())

    script.refresh_from_db()
    assert "PHP is not installed" in (script.lock_error_logs or "")
    assert "apt install php-cli" in (script.lock_error_logs or "")


def test_the_lock_of_what_is_not_deployed_is_the_result_of_its_job(
    ada: Caller, start: Any, wait_until: Any
) -> None:
    start()

    job_id = dependency_runs.run_dependencies(
        ada,
        code=NEEDY,
        language="python3",
        path="u/ada/local",
        stand_ins=StandIns(),
        options=RunOptions(),
    )

    job = wait_until(lambda: CompletedJob.objects.filter(pk=job_id).first())
    assert job.result == {"status": locks.STATUS, "lock": "python3 u/ada/local"}


def flow(caller: Caller, *codes: str) -> FlowVersion:
    modules = [
        {
            "id": f"s{number}",
            "value": {"type": "rawscript", "language": "python3", "content": code, "input_transforms": {}},
        }
        for number, code in enumerate(codes)
    ]
    return deployed.create_flow(caller, FlowDraft(path="u/ada/flow", value={"modules": modules}))


def test_inline_scripts_of_a_flow_are_locked_at_the_path_of_their_step(
    ada: Caller, start: Any, wait_until: Any
) -> None:
    start()
    version = flow(ada, NEEDY, "def main(): ...\n")

    wait_until(lambda: CompletedJob.objects.filter(pk=version.dependency_job).exists())

    version.refresh_from_db()
    first, second = (module["value"] for module in version.value["modules"])
    assert first["lock"] == "python3 u/ada/flow/s0" and "lock" not in second


def test_a_flow_that_cannot_be_locked_names_the_step(ada: Caller, start: Any, wait_until: Any) -> None:
    start(ExecutionFailed({"name": "DependencyError", "message": "no such package"}))
    version = flow(ada, NEEDY)

    wait_until(lambda: CompletedJob.objects.filter(pk=version.dependency_job).exists())

    version.refresh_from_db()
    assert version.lock_error_logs == "step s0: no such package"


def test_the_log_of_a_dependency_job_is_kept(ada: Caller, start: Any, wait_until: Any) -> None:
    from django.db import connection

    start()
    script = deploy(ada)
    wait_until(lambda: CompletedJob.objects.filter(pk=script.lock_job).exists())

    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(logs, '') FROM job_logs WHERE job_id = %s", [script.lock_job])
        assert "Resolved 1 package" in cursor.fetchone()[0]
    assert not QueuedJob.objects.exists() and Job.objects.get(pk=script.lock_job).kind == JobKind.DEPENDENCIES
