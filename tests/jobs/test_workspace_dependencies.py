"""Dependency files of a workspace: who changes them, what they may hold, and what is locked again when they change."""

import threading
from typing import Any

import pytest
from django.db import connection

from jobs import file_readers, locks, queue, scripts, workspace_dependencies
from jobs.dependencies import files
from jobs.flows import deployed, locking
from jobs.flows.deployed import FlowDraft
from jobs.models import Job, JobKind, QueuedJob, Script, WorkspaceDependencies
from tests.tenancy import enter, join, make_workspace
from workspaces import folders, groups
from workspaces.access import Caller
from workspaces.errors import BadRequest, NotFound, PermissionDenied
from workspaces.models import AuditEntry, Workspace

PLAIN = "def main(): ...\n"


@pytest.fixture
def acme(db: None) -> Workspace:
    workspace = make_workspace("acme", admin="ada@example.com")
    join(workspace, "dave@example.com")
    join(workspace, "oscar@example.com", operator=True)
    folders.create_folder(enter(workspace, "ada@example.com"), name="ops")
    return workspace


@pytest.fixture
def ada(acme: Workspace) -> Caller:
    return enter(acme, "ada@example.com")


@pytest.fixture
def dave(acme: Workspace) -> Caller:
    return enter(acme, "dave@example.com")


def write(
    caller: Caller, content: str, *, language: str = "python3", name: str = ""
) -> WorkspaceDependencies:
    return workspace_dependencies.create(caller, language=language, name=name, content=content)


def deploy(caller: Caller, path: str, content: str = PLAIN, language: str = "python3") -> Script:
    """Deploy a script and end its dependency job as a worker does."""
    draft = scripts.ScriptDraft(path=path, content=content, language=language)
    script = scripts.deploy_script(caller, draft, auto_parent=True)
    if script.lock_job is not None:
        locks.record(script.hash, job_id=script.lock_job, lock="before", author=locks.Author.of(caller))
    QueuedJob.objects.filter(pk=script.lock_job).delete()
    return script


def locked_again() -> list[str]:
    """Paths of what waits for a dependency job."""
    waiting = QueuedJob.objects.values("pk")
    return sorted(Job.objects.filter(pk__in=waiting).values_list("runnable_path", flat=True))


# --- files ---


def test_a_new_version_takes_the_place_of_the_one_before(ada: Caller) -> None:
    write(ada, "requests==1")
    newest = write(ada, "requests==2")

    assert workspace_dependencies.get_latest(ada, "python3", "") == newest
    versions = WorkspaceDependencies.objects.order_by("id").values_list("content", "archived", "created_by")
    assert list(versions) == [("requests==1", True, "ada"), ("requests==2", False, "ada")]


def test_what_is_there_already_makes_no_new_version(ada: Caller) -> None:
    deploy(ada, "f/ops/a")
    first = write(ada, "requests")
    QueuedJob.objects.all().delete()

    assert write(ada, "requests").pk == first.pk
    assert locked_again() == []


def test_a_file_is_found_by_language_and_name(ada: Caller) -> None:
    write(ada, "requests")
    write(ada, "numpy", name="ml")
    write(ada, "{}", language="bun")

    assert [(file.language, file.name) for file in workspace_dependencies.list_files(ada)] == [
        ("bun", ""),
        ("python3", ""),
        ("python3", "ml"),
    ]
    with pytest.raises(NotFound, match=r"dependencies/ml\.package\.json does not exist in workspace acme"):
        workspace_dependencies.get_latest(ada, "bun", "ml")


def test_an_archived_file_is_gone_and_comes_back_as_a_new_version(ada: Caller) -> None:
    write(ada, "requests")

    workspace_dependencies.archive(ada, "python3", "")

    with pytest.raises(NotFound):
        workspace_dependencies.get_latest(ada, "python3", "")
    with pytest.raises(NotFound):
        workspace_dependencies.archive(ada, "python3", "")
    assert write(ada, "requests").content == "requests"
    assert WorkspaceDependencies.objects.count() == 2


def test_a_deleted_file_leaves_no_version(ada: Caller) -> None:
    write(ada, "requests==1")
    write(ada, "requests==2")
    write(ada, "numpy", name="ml")

    workspace_dependencies.delete(ada, "python3", "")

    assert list(WorkspaceDependencies.objects.values_list("name", flat=True)) == ["ml"]
    with pytest.raises(NotFound):
        workspace_dependencies.delete(ada, "python3", "")


@pytest.mark.django_db(transaction=True)
def test_of_those_who_replace_a_file_at_once_all_succeed_and_one_version_is_live(
    transactional_db: None,
) -> None:
    workspace = make_workspace("acme", admin="ada@example.com")
    start = threading.Barrier(4)
    problems: list[Exception] = []

    def replace(number: int) -> None:
        try:
            caller = enter(workspace, "ada@example.com")
            start.wait(10)
            write(caller, f"requests=={number}")
        except Exception as exc:  # whatever it is, it fails the test
            problems.append(exc)
        finally:
            connection.close()

    threads = [threading.Thread(target=replace, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert problems == []
    assert WorkspaceDependencies.objects.count() == 4
    assert WorkspaceDependencies.objects.filter(archived=False).count() == 1


def test_changes_are_in_the_audit_log(ada: Caller) -> None:
    write(ada, "numpy", name="ml")
    write(ada, "numpy==2", name="ml")
    workspace_dependencies.delete(ada, "python3", "ml")

    entries = AuditEntry.objects.filter(resource="dependencies/ml.requirements.in").order_by("id")
    assert [(entry.operation, entry.action_kind) for entry in entries] == [
        ("workspace_dependencies.create", "create"),
        ("workspace_dependencies.update", "update"),
        ("workspace_dependencies.delete", "delete"),
    ]


# --- rights ---


def test_members_read_files_and_do_not_change_them(ada: Caller, dave: Caller) -> None:
    write(ada, "requests")

    assert workspace_dependencies.get_latest(dave, "python3", "").content == "requests"
    for change in (workspace_dependencies.archive, workspace_dependencies.delete):
        with pytest.raises(PermissionDenied, match="its admins and by members of the group wm_deployers"):
            change(dave, "python3", "")
    with pytest.raises(PermissionDenied):
        write(dave, "evil")


def test_deployers_change_files(ada: Caller, acme: Workspace) -> None:
    groups.add_to_group(ada, "wm_deployers", username="dave")

    assert write(enter(acme, "dave@example.com"), "requests").created_by == "dave"


# --- what is refused ---


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"language": "bash"},
            r"language 'bash' has no dependency files; expected one of python3, bun, go, php",
        ),
        ({"name": "default"}, r"name 'default' is how scripts call the file without a name"),
        ({"name": "Web"}, r"name 'Web' is not valid; expected small letters"),
        ({"name": "../x"}, r"is not valid"),
        ({"name": "x" * 61}, r"is not valid"),
        (
            {"content": "requests\nnumpy >> 2"},
            r"content is not valid: the default dependency file, line 2: 'numpy >> 2'",
        ),
        ({"content": "-e ."}, r"line 1: '-e \.' is an option of pip"),
        ({"content": "x\x00"}, r"NUL character"),
        ({"content": "#" * 500_001}, r"has 500001 characters; at most 500000 fit"),
        (
            {"language": "bun", "content": '{\n  "dependencies": {,}\n}'},
            r"content of dependencies/package\.json: it is not valid JSON: .*line 2",
        ),
        ({"language": "php", "content": "[]"}, r"content of dependencies/composer\.json is no JSON object"),
        ({"language": "bun", "content": "[" * 100_000}, r"nested more than"),
    ],
)
def test_what_no_script_could_be_locked_with_is_refused(
    ada: Caller, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        workspace_dependencies.create(
            ada, **{"language": "python3", "name": "", "content": "requests", **given}
        )

    assert not WorkspaceDependencies.objects.exists()


# --- which files a script reads ---


@pytest.mark.parametrize(
    ("language", "code", "read"),
    [
        ("python3", PLAIN, [""]),
        ("python3", "# requirements: ml, api\n" + PLAIN, ["ml", "api"]),
        ("python3", "#extra_requirements: ml\n" + PLAIN, ["ml"]),
        ("python3", "#requirements: default\n" + PLAIN, [""]),
        ("python3", "#requirements:\n#numpy\n" + PLAIN, []),
        ("python3", "#requirements:\n" + PLAIN, []),
        ("python3", "x = '#requirements: ml'\n", [""]),
        ("python3", "#requirements: !\n", []),
        ("bun", "//package_json: web\nexport function main() {}", ["web"]),
        ("bunnative", "// package_json: web, default\n", ["web", ""]),
        ("nativets", "export function main() {}", [""]),
        ("deno", "//package_json: web", []),
        ("go", "//go_mod: net\r\npackage inner", ["net"]),
        ("php", "<?php\n// composer_json: web\n", ["web"]),
        ("php", "<?php\n// extra_composer_json: web\n", ["web"]),
        ("bash", "# requirements: ml", []),
    ],
)
def test_which_files_a_script_reads_is_told_from_its_comments(
    language: str, code: str, read: list[str]
) -> None:
    assert list(files.files_read(language, code)) == read


@pytest.mark.parametrize("language", files.FILE_NAMES)
@pytest.mark.parametrize("name", ["", "ml"])
def test_a_file_is_known_by_its_path(language: str, name: str) -> None:
    assert files.parse_file_path(files.file_path(language, name)) == (language, name)


def test_other_paths_are_no_files() -> None:
    assert [files.parse_file_path(path) for path in ("requirements.in", "f/x/go.mod", "dependencies/x")] == [
        None
    ] * 3


# --- locked again ---


def test_a_changed_file_has_the_scripts_that_name_it_locked_again(ada: Caller) -> None:
    deploy(ada, "f/ops/ml", "#requirements: ml\n" + PLAIN)
    deploy(ada, "f/ops/importer", "from f.ops.ml import main\n")
    deploy(ada, "f/ops/api", "#requirements: api\n" + PLAIN)
    deploy(ada, "f/ops/plain")

    write(ada, "numpy", name="ml")

    assert locked_again() == ["f/ops/importer", "f/ops/ml"]


def test_a_changed_default_file_is_for_all_that_say_nothing_of_files(ada: Caller) -> None:
    deploy(ada, "f/ops/plain")
    deploy(ada, "f/ops/named", "#requirements: ml\n" + PLAIN)
    deploy(ada, "f/ops/own", "#requirements:\n#numpy\n" + PLAIN)
    deploy(ada, "f/ops/web", "export function main() {}", language="bun")
    deploy(ada, "f/ops/shell", "echo", language="bash")

    write(ada, "requests")

    assert locked_again() == ["f/ops/plain"]


def test_files_of_bun_are_for_the_languages_that_read_them_too(ada: Caller) -> None:
    for language in ("bun", "bunnative", "nativets", "deno"):
        deploy(ada, f"f/ops/{language}", "export function main() {}", language=language)

    write(ada, "{}", language="bun")

    assert locked_again() == ["f/ops/bun", "f/ops/bunnative", "f/ops/nativets"]
    draft = scripts.ScriptDraft(path="f/ops/new", content="export function main() {}", language="nativets")
    assert scripts.deploy_script(ada, draft).lock is None, "it needs a dependency job"


@pytest.mark.parametrize("end", [workspace_dependencies.archive, workspace_dependencies.delete])
def test_a_file_that_is_gone_has_its_readers_locked_again(ada: Caller, end: Any) -> None:
    write(ada, "requests")
    deploy(ada, "f/ops/plain")

    end(ada, "python3", "")

    assert locked_again() == ["f/ops/plain"]


def test_a_description_alone_locks_nothing_again(ada: Caller) -> None:
    deploy(ada, "f/ops/plain")
    write(ada, "requests")
    QueuedJob.objects.all().delete()

    workspace_dependencies.create(
        ada, language="python3", name="", content="requests", description="For everybody"
    )

    assert locked_again() == []
    assert workspace_dependencies.get_latest(ada, "python3", "").description == "For everybody"


def test_readers_go_on_running_with_their_lock_until_the_new_one_is_there(ada: Caller) -> None:
    deploy(ada, "f/ops/plain", "import requests\n\n" + PLAIN)

    write(ada, "requests==2")

    assert scripts.get_to_run(ada, path="f/ops/plain").lock == "before"


def test_a_reader_whose_lock_failed_for_want_of_the_file_is_locked_again(ada: Caller) -> None:
    draft = scripts.ScriptDraft(path="f/ops/ml", content="#requirements: ml\n" + PLAIN, language="python3")
    script = scripts.deploy_script(ada, draft)
    assert script.lock_job is not None
    locks.record_failure(script.hash, job_id=script.lock_job, message="no dependency file ml")
    QueuedJob.objects.all().delete()

    write(ada, "numpy", name="ml")

    script.refresh_from_db()
    assert locked_again() == ["f/ops/ml"]
    assert locks.state_of(script) == ("locking", None)


def test_a_reader_whose_job_has_not_begun_gets_no_second_one(ada: Caller) -> None:
    deploy(ada, "f/ops/plain")

    write(ada, "requests==1")
    write(ada, "requests==2")
    assert locked_again() == ["f/ops/plain"]

    queue.claim_jobs(worker="w", tags=["dependency"])
    write(ada, "requests==3")
    assert locked_again() == ["f/ops/plain", "f/ops/plain"], "the first may have read what was before"


def test_a_reader_is_locked_with_the_rights_of_its_own_author(ada: Caller, dave: Caller) -> None:
    deploy(dave, "u/dave/mine")

    write(ada, "requests")

    assert Job.objects.filter(kind=JobKind.DEPENDENCIES).latest("created_at").permissioned_as == "u/dave"


def flow_of(caller: Caller, path: str, **codes: str) -> None:
    """Deploy a flow of inline scripts by module id, and lock it as a worker does."""
    modules = [
        {
            "id": id,
            "value": {"type": "rawscript", "language": "python3", "content": code, "input_transforms": {}},
        }
        for id, code in codes.items()
    ]
    version = deployed.create_flow(caller, FlowDraft(path=path, value={"modules": modules}))
    assert version.dependency_job is not None
    locking.finish(locking.begin(version.dependency_job, "acme"), {})
    QueuedJob.objects.all().delete()


def test_steps_of_flows_that_read_a_file_are_locked_again(ada: Caller) -> None:
    flow_of(ada, "f/ops/flow", a="#requirements: ml\n" + PLAIN, b=PLAIN)

    write(ada, "numpy", name="ml")

    [job] = Job.objects.filter(pk__in=QueuedJob.objects.values("pk"))
    assert (job.kind, job.runnable_path, job.args) == (
        JobKind.FLOW_DEPENDENCIES,
        "f/ops/flow",
        {"nodes": ["a"]},
    )


def test_files_of_another_workspace_change_nothing_here(ada: Caller) -> None:
    deploy(ada, "f/ops/plain")
    other = make_workspace("other", admin="olga@example.com")

    write(enter(other, "olga@example.com"), "requests")

    assert locked_again() == []
    assert not workspace_dependencies.list_files(ada).exists()


# --- readers ---


def test_the_readers_of_a_file_are_told_with_the_state_of_their_locks(ada: Caller) -> None:
    ready, failing = deploy(ada, "f/ops/ready"), deploy(ada, "f/ops/failing")
    flow_of(ada, "f/ops/flow", a=PLAIN, b=PLAIN)
    file = write(ada, "requests")
    for script in (ready, failing):
        script.refresh_from_db()
    assert ready.lock_job is not None
    queue.claim_jobs(worker="w", tags=["dependency"], limit=10)
    queue.complete_job((ready.lock_job, 1), status="success", result=None)
    queue.complete_job((failing.lock_job, 1), status="failure", result=None)

    readers = file_readers.readers_of(ada, [file])[file.pk]

    assert [(one.kind, one.path, one.state) for one in readers.named] == [
        ("script", "f/ops/failing", "failed"),
        ("flow", "f/ops/flow", "locking"),
        ("script", "f/ops/ready", "ready"),
    ]
    assert (readers.count, readers.locking_count, readers.failed_count, readers.hidden_count) == (3, 1, 1, 0)


def test_readers_that_somebody_may_not_read_are_counted_and_not_named(ada: Caller, dave: Caller) -> None:
    deploy(ada, "f/ops/a")
    deploy(dave, "u/dave/mine")
    file = write(ada, "requests")

    readers = file_readers.readers_of(dave, [file])[file.pk]

    assert [one.path for one in readers.named] == ["u/dave/mine"]
    assert (readers.count, readers.hidden_count) == (2, 1)


def test_a_script_that_reads_a_file_no_more_is_no_reader(ada: Caller) -> None:
    deploy(ada, "f/ops/a")
    deploy(ada, "f/ops/a", "#requirements: ml\n" + PLAIN)
    scripts.archive_path(ada, deploy(ada, "f/ops/b").path)
    file = write(ada, "requests")

    assert file_readers.readers_of(ada, [file])[file.pk].count == 0
