"""When a script is locked, what runs meanwhile, and what is locked again when something it imports changes."""

from dataclasses import replace
from typing import Any

import pytest

from jobs import locks, queue, scripts
from jobs.flows import deployed
from jobs.flows.deployed import FlowDraft
from jobs.models import DependencyEdge, Job, JobKind, QueuedJob, Script, WorkspaceDependencies
from tests.tenancy import enter, join, make_workspace
from workspaces import folders
from workspaces.access import Caller
from workspaces.errors import Conflict, NotFound, PermissionDenied
from workspaces.models import Workspace

NEEDY = "import requests\n\ndef main(): ...\n"


@pytest.fixture
def acme(db: None) -> Workspace:
    workspace = make_workspace("acme", admin="ada@example.com")
    join(workspace, "alice@example.com")
    for name in ("ops", "other", "new"):
        folders.create_folder(enter(workspace, "ada@example.com"), name=name)
    return workspace


@pytest.fixture
def ada(acme: Workspace) -> Caller:
    return enter(acme, "ada@example.com")


def deploy(caller: Caller, path: str, content: str, **options: Any) -> Script:
    fields = {name: options.pop(name) for name in ("lock", "language") if name in options}
    draft = scripts.ScriptDraft(path=path, content=content, **{"language": "python3", **fields})
    return scripts.deploy_script(caller, draft, auto_parent=True, **options)


def dependency_jobs(path: str | None = None) -> list[Job]:
    jobs = Job.objects.filter(kind=JobKind.DEPENDENCIES).order_by("created_at")
    return list(jobs if path is None else jobs.filter(runnable_path=path))


def lock(script: Script, text: str) -> None:
    """End the dependency job of a version as a worker does."""
    script.refresh_from_db()
    assert script.lock_job is not None
    author = locks.Author("ada", "u/ada", "ada@example.com")
    locks.record(script.hash, job_id=script.lock_job, lock=text, author=author)
    QueuedJob.objects.filter(pk=script.lock_job).delete()
    script.refresh_from_db()


def test_a_script_that_depends_on_nothing_is_ready_at_once(ada: Caller) -> None:
    script = deploy(ada, "f/ops/a", "import json\n\ndef main(): ...\n")

    assert script.lock == "" and dependency_jobs() == []
    assert scripts.get_to_run(ada, path="f/ops/a").hash == script.hash


def test_a_script_with_dependencies_waits_for_its_dependency_job(ada: Caller) -> None:
    script = deploy(ada, "f/ops/a", NEEDY)

    [job] = dependency_jobs()
    assert (job.tag, job.runnable_id, job.script_lang) == ("dependency", script.hash, "python3")
    assert script.lock is None and script.lock_job == job.pk
    with pytest.raises(NotFound, match=rf"deployment of f/ops/a is in progress: job {job.pk}"):
        scripts.get_to_run(ada, path="f/ops/a")

    lock(script, "requests==2")

    assert scripts.get_to_run(ada, path="f/ops/a").lock == "requests==2"
    assert locks.state_of(script) == ("ready", None)


@pytest.mark.parametrize("given", ["", "requests==1"])
def test_a_lock_that_comes_with_the_script_is_taken_as_it_is(ada: Caller, given: str) -> None:
    script = deploy(ada, "f/ops/a", NEEDY, lock=given)

    assert script.lock == given and dependency_jobs() == []


def test_a_default_dependency_file_is_for_scripts_that_import_nothing_too(
    ada: Caller, acme: Workspace
) -> None:
    WorkspaceDependencies.objects.create(
        workspace=acme, language="python3", content="requests", created_by="ada"
    )

    assert deploy(ada, "f/ops/a", "def main(): ...\n").lock is None


@pytest.mark.parametrize(
    ("language", "content", "needs"),
    [
        ("bun", 'import _ from "lodash";\nexport function main() {}', True),
        ("bun", "export function main() {}", False),
        ("bun", 'const x = await import(\n  "lodash"\n);', True),
        ("bun", "// package_json: web\nexport function main() {}", True),
        ("bun", 'export const from = "import";', False),
        ("deno", 'const x = await import("npm:ms");', True),
        ("go", 'package inner\n\nimport "fmt"\n\nfunc main() {}', False),
        ("go", 'package inner\n\nimport "github.com/x/y"\n', True),
        ("bash", "import requests", False),
        ("postgresql", "SELECT 1 -- import x from y", False),
        ("php", "<?php\n// require:\n// a/b\n", True),
    ],
)
def test_what_needs_a_dependency_job_is_told_from_its_text(
    ada: Caller, language: str, content: str, needs: bool
) -> None:
    script = deploy(ada, "f/ops/a", content, language=language)

    assert (script.lock is None) == needs


def test_until_the_new_version_is_locked_the_one_before_it_runs(ada: Caller) -> None:
    first = deploy(ada, "f/ops/a", "def main(): ...\n")
    second = deploy(ada, "f/ops/a", NEEDY)

    assert scripts.get_to_run(ada, path="f/ops/a").hash == first.hash
    with pytest.raises(NotFound, match="in progress"):
        scripts.get_to_run(ada, hash=second.hash)

    lock(second, "requests==2")

    assert scripts.get_to_run(ada, path="f/ops/a").hash == second.hash


def test_a_version_that_cannot_be_locked_says_why_and_does_not_run(ada: Caller) -> None:
    script = deploy(ada, "f/ops/a", NEEDY)
    assert script.lock_job is not None

    locks.record_failure(script.hash, job_id=script.lock_job, message="there is no package requests")

    script.refresh_from_db()
    assert locks.state_of(script) == ("failed", "there is no package requests")
    with pytest.raises(NotFound, match=r"deployment of f/ops/a failed.*no package requests"):
        scripts.get_to_run(ada, path="f/ops/a")


def test_a_version_whose_dependency_job_was_canceled_is_not_locking_for_ever(ada: Caller) -> None:
    script = deploy(ada, "f/ops/a", NEEDY)
    [claim] = queue.claim_jobs(worker="w", tags=["dependency"])
    queue.complete_job((claim.id, claim.attempt), status="canceled", result=None)

    state, why = locks.state_of(script)

    assert state == "failed" and why is not None and "start it again" in why


def test_only_the_dependency_job_asked_for_last_has_a_say(ada: Caller) -> None:
    script = deploy(ada, "f/ops/a", NEEDY)
    first = script.lock_job
    assert first is not None
    second = locks.relock(ada, script)

    locks.record(script.hash, job_id=first, lock="old", author=locks.Author.of(ada))
    locks.record_failure(script.hash, job_id=first, message="old")
    script.refresh_from_db()
    assert script.lock is None and script.lock_error_logs is None

    locks.record(script.hash, job_id=second, lock="new", author=locks.Author.of(ada))
    script.refresh_from_db()
    assert script.lock == "new"


def test_deploying_what_is_there_already_is_nothing_whoever_made_the_lock(ada: Caller) -> None:
    script = deploy(ada, "f/ops/a", NEEDY)
    lock(script, "requests==2")

    assert deploy(ada, "f/ops/a", NEEDY, skip_if_noop=True).hash == script.hash


def test_whoever_may_not_write_a_script_cannot_lock_it_again(ada: Caller, acme: Workspace) -> None:
    script = deploy(ada, "f/ops/a", NEEDY)

    with pytest.raises((PermissionDenied, NotFound)):
        locks.relock(enter(acme, "alice@example.com"), script)


def test_an_old_version_is_not_locked_again(ada: Caller) -> None:
    old = deploy(ada, "f/ops/a", NEEDY)
    deploy(ada, "f/ops/a", NEEDY + "# changed\n")
    old.refresh_from_db()

    with pytest.raises(Conflict, match="is not the live one"):
        locks.relock(ada, old)


# --- imports ---


def importer(path: str, content: str, ada: Caller) -> Script:
    script = deploy(ada, path, content)
    lock(script, "before")
    return script


def test_whatever_imports_a_script_at_any_distance_is_locked_again_when_it_changes(ada: Caller) -> None:
    deploy(ada, "f/ops/lib", "def main(): ...\n")
    near = importer("f/ops/near", "from f.ops.lib import main\n", ada)
    far = importer("f/other/far", "from f.ops.near import main\n", ada)
    importer("f/other/unrelated", NEEDY, ada)

    deploy(ada, "f/ops/lib", "import math\n\ndef main(): ...\n")

    near.refresh_from_db(), far.refresh_from_db()
    assert [len(dependency_jobs(path)) for path in ("f/ops/near", "f/other/far", "f/other/unrelated")] == [
        2,
        2,
        1,
    ]
    assert near.lock == far.lock == "before", "they go on running"
    lock(near, "after")
    assert near.lock == "after"


def test_dependents_wait_until_the_changed_script_has_its_own_lock(ada: Caller) -> None:
    lib = deploy(ada, "f/ops/lib", "def main(): ...\n")
    importer("f/ops/near", "from .lib import main\n", ada)
    lib = deploy(ada, "f/ops/lib", NEEDY)
    assert len(dependency_jobs("f/ops/near")) == 1

    lock(lib, "requests==2")

    assert len(dependency_jobs("f/ops/near")) == 2


def test_scripts_that_import_each_other_are_locked_once_each(ada: Caller) -> None:
    deploy(ada, "f/ops/a", "def main(): ...\n")
    importer("f/ops/b", "from .a import main\n", ada)
    a = deploy(ada, "f/ops/a", "from .b import main\n")

    lock(a, "")

    assert len(dependency_jobs("f/ops/a")) == 1 and len(dependency_jobs("f/ops/b")) == 2


def test_a_dependent_is_locked_with_the_rights_of_its_own_author(ada: Caller, acme: Workspace) -> None:
    alice = enter(acme, "alice@example.com")
    deploy(ada, "f/ops/lib", "def main(): ...\n")
    importer("u/alice/mine", "from f.ops.lib import main\n", alice)

    deploy(ada, "f/ops/lib", "import math\n\ndef main(): ...\n")

    assert dependency_jobs("u/alice/mine")[-1].permissioned_as == "u/alice"


def test_flows_whose_inline_scripts_import_it_are_locked_again(ada: Caller) -> None:
    from jobs.flows import locking

    deploy(ada, "f/ops/lib", "def main(): ...\n")
    code = {
        "type": "rawscript",
        "language": "python3",
        "content": "from f.ops.lib import main\n",
        "input_transforms": {},
    }
    version = deployed.create_flow(
        ada, FlowDraft(path="f/ops/flow", value={"modules": [{"id": "a", "value": code}]})
    )
    assert version.dependency_job is not None
    locking.finish(locking.begin(version.dependency_job, "acme"), {"a": ""})

    deploy(ada, "f/ops/lib", "import math\n\ndef main(): ...\n")

    job = Job.objects.filter(kind=JobKind.FLOW_DEPENDENCIES).latest("created_at")
    assert (job.runnable_id, job.args) == (version.pk, {"nodes": ["a"]})


def test_a_moved_script_leaves_no_imports_behind_and_its_importers_are_locked_again(ada: Caller) -> None:
    lib = deploy(ada, "f/ops/lib", "from .deep import x\n", lock="")
    importer("f/ops/near", "from .lib import main\n", ada)

    draft = scripts.ScriptDraft(path="f/new/lib", content=lib.content, language="python3", lock="")
    scripts.deploy_script(ada, draft, parent_hash=lib.hash)

    edges = DependencyEdge.objects.filter(importer_path__endswith="/lib", imported_path__startswith="f/")
    assert [(edge.importer_path, edge.imported_path) for edge in edges] == [("f/new/lib", "f/new/deep")]
    assert not DependencyEdge.objects.filter(importer_path="f/ops/lib").exists()
    assert len(dependency_jobs("f/ops/near")) == 2


@pytest.mark.parametrize("end", [scripts.archive_path, scripts.delete_path])
def test_a_script_that_is_gone_imports_nothing(ada: Caller, end: Any) -> None:
    deploy(ada, "f/ops/a", "from .lib import x\n")

    end(ada, "f/ops/a")

    assert not DependencyEdge.objects.exists()


def test_a_deployment_that_fails_leaves_no_dependency_job(ada: Caller) -> None:
    deploy(ada, "f/ops/a", NEEDY)
    draft = scripts.ScriptDraft(path="f/ops/a", content=NEEDY, language="python3")

    with pytest.raises(Conflict):
        scripts.deploy_script(ada, replace(draft, summary="x"))

    assert len(dependency_jobs()) == 1
