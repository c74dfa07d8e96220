"""A Python script from its deployment to its result: a dependency job locks it, its run installs what it needs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import locks, runs, scripts
from jobs.models import CompletedJob, Script
from jobs.payloads import Payload
from tests.tenancy import enter, make_workspace
from tests.workers.package_index import PackageIndex, serving
from workers.pg_runtimes import PgRuntimeStore
from workers.runtimes import Limits, look_around
from workers.sandbox_runner import SandboxRunner
from workspaces.access import Caller


@pytest.fixture
def ada(transactional_db: None) -> Caller:
    return enter(make_workspace("acme", admin="ada@example.com"), "ada@example.com")


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    index = PackageIndex(user="reader:open-sesame")
    index.add_wheel("tiny", "1.0", {"tiny.py": "VERSION = '1.0'"})
    index.add_wheel("tiny", "2.0", {"tiny.py": "VERSION = '2.0'"})
    with serving(index):
        yield index


@pytest.fixture
def start(start_worker: Callable[..., Any], tmp_path: Path) -> Callable[[PackageIndex], Any]:
    def start(index: PackageIndex) -> Any:
        runner = SandboxRunner(
            folder=tmp_path / "jobs",
            cache_dir=tmp_path / "cache",
            cache_max_bytes=1 << 30,
            available=look_around(),
            store=PgRuntimeStore({"PIP_INDEX_URL": index.url}),
            hidden_paths=[],
            policy="warn",
            limits=Limits(),
            warm=2,
        )
        return start_worker(runner=runner, tags=["python3", "dependency"])

    return start


def deploy(caller: Caller, path: str, content: str) -> Script:
    draft = scripts.ScriptDraft(path=path, content=content, language="python3")
    return scripts.deploy_script(caller, draft, auto_parent=True)


def test_a_script_runs_with_the_versions_of_its_lock_and_the_scripts_it_imports(
    ada: Caller, start: Any, index: PackageIndex, wait_until: Any
) -> None:
    start(index)
    deploy(ada, "u/ada/lib", "import tiny  # pin: tiny<2\ndef version():\n    return tiny.VERSION\n")
    script = deploy(ada, "u/ada/a", "from .lib import version\ndef main():\n    return version()\n")
    wait_until(lambda: locks.state_of(scripts.get_script(ada, "u/ada/a"))[0] == "ready")
    script.refresh_from_db()

    job = runs.run_script(ada, script, Payload(args={}), runs.RunOptions())

    done = wait_until(lambda: CompletedJob.objects.filter(pk=job).first(), timeout_s=60)
    assert script.lock == "# py: 3.11\ntiny==1.0\n"
    assert (done.status, done.result) == ("success", "1.0")


def test_a_script_whose_package_does_not_exist_says_so_where_it_was_deployed(
    ada: Caller, start: Any, index: PackageIndex, wait_until: Any
) -> None:
    start(index)

    script = deploy(ada, "u/ada/a", "import tniy\ndef main(): ...\n")

    wait_until(lambda: locks.state_of(Script.objects.get(pk=script.pk))[0] == "failed")
    told = locks.state_of(Script.objects.get(pk=script.pk))[1] or ""
    assert f"There is no package tniy in the package index 127.0.0.1:{index.port}" in told
    assert "open-sesame" not in told


def test_what_a_deployed_script_needs_is_installed_before_its_first_run(
    ada: Caller, start: Any, index: PackageIndex, wait_until: Any
) -> None:
    start(index)
    script = deploy(ada, "u/ada/a", "import tiny\ndef main():\n    return tiny.VERSION\n")
    wait_until(lambda: locks.state_of(Script.objects.get(pk=script.pk))[0] == "ready")
    index.files.clear()

    job = runs.run_script(ada, Script.objects.get(pk=script.pk), Payload(args={}), runs.RunOptions())

    done = wait_until(lambda: CompletedJob.objects.filter(pk=job).first(), timeout_s=60)
    assert (done.status, done.result) == ("success", "2.0")
