"""Deploying flows: two at once, what a failed deployment leaves, locks."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from jobs.flows import deployed, locking
from jobs.flows.deployed import FlowDraft
from jobs.models import CompletedJob, DependencyEdge, Flow, FlowVersion, Job, JobKind, QueuedJob
from tests.tenancy import enter, make_workspace
from workspaces.access import Caller
from workspaces.errors import BadRequest, Conflict, DomainError

PATH = "u/alice/report"


def inline(content: str, **fields: Any) -> dict[str, Any]:
    return {"type": "rawscript", "language": "python3", "content": content, "input_transforms": {}, **fields}


@pytest.fixture
def alice(db: None) -> Caller:
    return enter(make_workspace("acme", admin="alice@example.com"), "alice@example.com")


def draft(path: str = PATH, *modules: dict[str, Any], **fields: Any) -> FlowDraft:
    return FlowDraft(path=path, value={"modules": list(modules)}, **fields)


def at_once(count: int, deploy: Any) -> list[Any]:
    """The outcomes of `deploy(0)`, `deploy(1)`, ... on threads of their own."""

    def one(number: int) -> Any:
        try:
            return deploy(number)
        except DomainError as exc:
            return exc
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.django_db(transaction=True)
def test_of_those_who_create_a_flow_at_once_one_succeeds(alice):
    outcomes = at_once(4, lambda n: deployed.create_flow(alice, draft(summary=str(n))))

    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 3
    assert FlowVersion.objects.count() == Flow.objects.count() == 1
    assert QueuedJob.objects.count() == 1, "those that failed queued nothing"


@pytest.mark.django_db(transaction=True)
def test_of_those_who_change_the_same_version_at_once_one_succeeds(alice):
    first = deployed.create_flow(alice, draft())

    outcomes = at_once(
        4, lambda n: deployed.update_flow(alice, PATH, draft(summary=str(n)), base_version=first.pk)
    )

    (winner,) = (outcome for outcome in outcomes if isinstance(outcome, FlowVersion))
    assert Flow.objects.get().version_id == winner.pk and FlowVersion.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_without_a_base_all_of_them_are_versions(alice):
    deployed.create_flow(alice, draft())

    outcomes = at_once(4, lambda n: deployed.update_flow(alice, PATH, draft(summary=str(n))))

    assert all(isinstance(outcome, FlowVersion) for outcome in outcomes)
    assert Flow.objects.get().version_id == max(outcome.pk for outcome in outcomes)


@pytest.mark.django_db(transaction=True)
def test_of_those_who_move_flows_to_one_path_at_once_one_succeeds(alice):
    for n in range(3):
        deployed.create_flow(alice, draft(f"u/alice/old{n}"))

    outcomes = at_once(3, lambda n: deployed.update_flow(alice, f"u/alice/old{n}", draft("u/alice/new")))

    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 2
    assert Flow.objects.filter(path="u/alice/new").count() == 1 and Flow.objects.count() == 3


def test_the_order_of_keys_is_the_authors(alice):
    module = {"id": "z", "value": {"zeta": 1, **inline("import json")}, "summary": "last"}

    version = deployed.create_flow(alice, draft(PATH, module))

    stored = FlowVersion.objects.get(pk=version.pk).value["modules"][0]
    assert list(stored) == ["id", "value", "summary"] and next(iter(stored["value"])) == "zeta"


def test_a_problem_of_the_flow_is_named_with_its_place(alice):
    with pytest.raises(BadRequest, match=r"modules\[1\]"):
        deployed.create_flow(alice, draft(PATH, {"id": "a", "value": {"type": "identity"}}, {"id": "b"}))


# --- locks ---


VALUE = {
    "preprocessor_module": {"id": "preprocessor", "value": inline("import p")},
    "modules": [
        {"id": "a", "value": inline("import a")},
        {"id": "kept", "value": inline("import a", lock="mine")},
        {"id": "none", "value": inline("import json")},
        {"id": "script", "value": {"type": "script", "path": "u/alice/x"}},
        {
            "id": "loop",
            "value": {
                "type": "forloopflow",
                "modules": [
                    {
                        "id": "one",
                        "value": {
                            "type": "branchone",
                            "branches": [{"modules": [{"id": "in", "value": inline("import in_")}]}],
                            "default": [{"id": "else_", "value": inline("import else_")}],
                        },
                    }
                ],
            },
        },
        {
            "id": "agent",
            "value": {"type": "aiagent", "tools": [{"id": "tool", "value": inline("import tool")}]},
        },
    ],
    "failure_module": {"id": "failure", "value": inline("import f1")},
}


def begun(value):
    job = Job.objects.create(
        workspace_id="acme", kind=JobKind.FLOW_DEPENDENCIES, raw_flow=value, args={}, tag="dependency"
    )
    return locking.begin(job.pk, "acme")


def test_every_inline_script_with_dependencies_and_no_lock_is_to_be_locked(alice):
    scripts = begun(VALUE).scripts

    assert sorted(script.id for script in scripts) == ["a", "else_", "failure", "in", "preprocessor", "tool"]


def test_locks_are_written_where_they_belong():
    value, changed = locking.with_locks(VALUE, {"a": "lock of a", "in": "lock of in", "none": ""})

    assert sorted(changed) == ["a", "in"]
    scripts = {module["id"]: module["value"] for module in value["modules"]}
    assert scripts["a"]["lock"] == "lock of a" and scripts["kept"]["lock"] == "mine"
    assert "lock" not in scripts["none"] and "lock" not in scripts["script"]
    assert "lock" not in VALUE["modules"][0]["value"], "what was given stays as it was"


def test_the_dependency_job_leaves_a_flow_without_dependencies_as_it_was_pushed(alice):
    version = deployed.create_flow(alice, draft(PATH, {"id": "a", "value": inline("import json")}))
    before = FlowVersion.objects.get(pk=version.pk).value

    job = locking.begin(version.dependency_job, "acme")
    result = locking.finish(job, {})

    assert job.scripts == [] and result["status"] == locking.STATUS
    version.refresh_from_db()
    assert version.value == before and version.lock_error_logs is None


def test_the_dependency_job_of_a_deployed_flow_writes_its_locks_and_what_it_imports(alice):
    code = "import requests\nfrom f.ops.lib import x"
    version = deployed.create_flow(alice, draft(PATH, {"id": "a", "value": inline(code)}))

    job = locking.begin(version.dependency_job, "acme")
    locking.finish(job, {"a": "requests==2"})

    version.refresh_from_db()
    assert version.value["modules"][0]["value"]["lock"] == "requests==2"
    edge = DependencyEdge.objects.get(imported_path__startswith="f/")
    assert (edge.importer_kind, edge.importer_path, edge.importer_node) == ("flow", PATH, "a")
    assert edge.imported_path == "f/ops/lib"


def test_modules_whose_imports_changed_are_locked_again_although_they_have_a_lock(alice):
    value = {
        "modules": [
            {"id": "a", "value": inline("import x", lock="old")},
            {"id": "b", "value": inline("import y", lock="b")},
        ]
    }
    job = Job.objects.create(
        workspace_id="acme",
        kind=JobKind.FLOW_DEPENDENCIES,
        raw_flow=value,
        args={"nodes": ["a"]},
        tag="dependency",
    )

    assert [script.id for script in locking.begin(job.pk, "acme").scripts] == ["a"]


def test_two_jobs_that_lock_one_version_at_once_both_leave_their_locks(alice):
    value = [{"id": id, "value": inline(f"import {id}")} for id in ("a", "b")]
    version = deployed.create_flow(alice, draft(PATH, *value))
    first = locking.begin(version.dependency_job, "acme")
    second = locking.begin(version.dependency_job, "acme")

    locking.finish(first, {"a": "lock of a"})
    locking.finish(second, {"b": "lock of b"})

    version.refresh_from_db()
    assert [module["value"]["lock"] for module in version.value["modules"]] == ["lock of a", "lock of b"]


def again(version, *nodes):
    """Ask for these modules of a version to be locked again, as a change of what they import does."""
    return Job.objects.create(
        workspace_id="acme",
        kind=JobKind.FLOW_DEPENDENCIES,
        runnable_id=version.pk,
        args={"nodes": list(nodes)},
        tag="dependency",
    )


def test_of_each_script_the_job_that_was_asked_for_last_has_a_say_whoever_ends_last(alice):
    value = [{"id": id, "value": inline(f"import {id}")} for id in ("a", "b")]
    version = deployed.create_flow(alice, draft(PATH, *value))
    slow = locking.begin(version.dependency_job, "acme")
    locking.finish(locking.begin(again(version, "a").pk, "acme"), {"a": "new lock of a"})

    answer = locking.finish(slow, {"a": "old lock of a", "b": "lock of b"})

    version.refresh_from_db()
    assert answer["modified_ids"] == ["b"]
    assert [module["value"]["lock"] for module in version.value["modules"]] == ["new lock of a", "lock of b"]


def test_a_failure_of_yesterday_is_not_told_of_what_was_locked_since(alice):
    version = deployed.create_flow(alice, draft(PATH, {"id": "a", "value": inline("import a")}))
    slow = locking.begin(version.dependency_job, "acme")
    locking.finish(locking.begin(again(version, "a").pk, "acme"), {"a": "lock"})

    locking.fail(slow, "a", "no such package")

    version.refresh_from_db()
    assert version.lock_error_logs is None


def test_a_success_of_yesterday_does_not_hide_that_it_fails_now(alice):
    version = deployed.create_flow(alice, draft(PATH, {"id": "a", "value": inline("import a")}))
    slow = locking.begin(version.dependency_job, "acme")
    locking.fail(locking.begin(again(version, "a").pk, "acme"), "a", "no such package any more")

    locking.finish(slow, {"a": "lock"})

    version.refresh_from_db()
    assert version.lock_error_logs == "step a: no such package any more"


def test_a_job_that_was_canceled_leaves_the_say_to_the_one_before_it(alice):
    version = deployed.create_flow(alice, draft(PATH, {"id": "a", "value": inline("import a")}))
    slow = locking.begin(version.dependency_job, "acme")
    later = again(version, "a")
    CompletedJob.objects.create(id=later.pk, workspace_id="acme", status="canceled", duration_ms=0)

    locking.finish(slow, {"a": "lock"})

    version.refresh_from_db()
    assert version.value["modules"][0]["value"]["lock"] == "lock"


def test_an_old_version_that_is_locked_late_does_not_say_what_the_live_one_imports(alice):
    old = deployed.create_flow(alice, draft(PATH, {"id": "a", "value": inline("from f.ops.old import x")}))
    late = locking.begin(old.dependency_job, "acme")
    new = deployed.update_flow(
        alice, PATH, draft(PATH, {"id": "a", "value": inline("from f.ops.new import x")})
    )
    locking.finish(locking.begin(new.dependency_job, "acme"), {"a": ""})

    locking.finish(late, {"a": ""})

    edges = DependencyEdge.objects.filter(imported_path__startswith="f/")
    assert [edge.imported_path for edge in edges] == ["f/ops/new"]


def test_a_flow_whose_dependencies_cannot_be_resolved_says_why(alice):
    version = deployed.create_flow(alice, draft(PATH, {"id": "a", "value": inline("import nonesuch")}))

    locking.fail(locking.begin(version.dependency_job, "acme"), "a", "no nonesuch")

    version.refresh_from_db()
    assert version.lock_error_logs == "step a: no nonesuch"


def test_the_dependency_job_of_a_flow_that_is_not_deployed_answers_it(alice):
    value = {"modules": [{"id": "a", "value": inline("x")}]}

    assert locking.finish(begun(value), {})["updated_flow_value"] == value


def test_the_dependency_job_of_a_deleted_version_says_so(alice):
    version = deployed.create_flow(alice, draft())
    deployed.delete_flow(alice, PATH)

    with pytest.raises(DomainError, match="was deleted"):
        locking.begin(version.dependency_job, "acme")
