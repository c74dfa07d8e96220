"""Routes of dependencies: files of the workspace, scripts that a client has on disk, locks of what is not deployed."""

import asyncio
import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import locks, monitor, queue, scripts, temporary_code
from jobs.models import CachedLock, Job, JobKind, TemporaryCode, WorkspaceDependencies
from tests.api.conftest import World
from tests.tenancy import enter
from workers.pg_runtimes import PgRuntimeStore
from workers.runtimes.base import ExecutionFailed
from workspaces.models import Workspace

FILES = "w/acme/workspace_dependencies"
LIB = "def lib():\n    return 'locäl'\n"
# What workers read is read on threads of their own, so it must be committed.
committed = pytest.mark.django_db(transaction=True)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def create(world: World, content: str = "requests", **fields: Any) -> Any:
    return world.post("alice", f"{FILES}/create", {"language": "python3", "content": content, **fields})


# --- dependency files ---


def test_a_file_is_created_and_read_back(world: World) -> None:
    answer = create(world, "numpy", name="ml", workspace_id="acme", description="Models")

    assert (answer.status_code, answer["Content-Type"]) == (201, "text/plain; charset=utf-8")
    file = WorkspaceDependencies.objects.get()
    assert answer.content.decode() == str(file.pk)
    shape = world.get("dave", f"{FILES}/get_latest/python3?name=ml").json()
    assert shape.pop("created_at")
    assert shape == {
        "id": file.pk,
        "workspace_id": "acme",
        "language": "python3",
        "name": "ml",
        "description": "Models",
        "content": "numpy",
        "archived": False,
        "created_by": "alice",
    }


def test_without_a_name_it_is_the_default_file(world: World) -> None:
    create(world)

    assert world.get("alice", f"{FILES}/get_latest/python3").json()["name"] is None
    assert [file["content"] for file in world.get("alice", f"{FILES}/list").json()] == ["requests"]


def test_a_file_that_is_not_there_is_a_404_that_clients_understand(world: World) -> None:
    answer = world.get("alice", f"{FILES}/get_latest/go?name=web")

    assert answer.status_code == 404 and answer.content.startswith(b"Not found: dependencies/web.go.mod")


@pytest.mark.parametrize("end", ["delete", "archive"])
def test_a_file_is_taken_away(world: World, end: str) -> None:
    create(world, name="ml")

    assert world.post("alice", f"{FILES}/{end}/python3?name=ml").status_code == 200
    assert world.get("alice", f"{FILES}/get_latest/python3?name=ml").status_code == 404


def test_a_file_meant_for_another_workspace_is_refused(world: World) -> None:
    answer = create(world, workspace_id="other")

    assert answer.status_code == 400 and b"workspace_id is 'other'" in answer.content


# --- scripts that a client has on disk ---


def store(world: World, text: str, who: str = "alice") -> Any:
    return world.post(who, "w/acme/scripts/raw_temp/store", text)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(json.dumps(LIB).encode(), "application/json"), (LIB.encode(), "text/plain")],
)
def test_a_script_is_kept_under_the_hash_of_its_text(world: World, body: bytes, content_type: str) -> None:
    answer = world.client.generic(
        "POST",
        "/api/w/acme/scripts/raw_temp/store",
        body,
        content_type=content_type,
        headers={"authorization": f"Bearer {world.tokens['alice']}"},
    )

    assert (answer.status_code, answer.content.decode()) == (200, sha(LIB))
    assert answer["Content-Type"].startswith("text/plain")
    assert temporary_code.read("acme", [sha(LIB)]) == {sha(LIB): LIB}
    assert temporary_code.read("other", [sha(LIB)]) == {}


def test_json_that_is_no_text_is_refused(world: World) -> None:
    answer = world.post("alice", "w/acme/scripts/raw_temp/store", {"content": LIB})

    assert answer.status_code == 400 and b"as a JSON string" in answer.content


def test_a_text_is_kept_once_and_for_a_day_after_it_was_last_sent(world: World) -> None:
    store(world, LIB)
    store(world, "old")
    TemporaryCode.objects.update(created_at=Now() - timedelta(hours=25))
    store(world, LIB)

    temporary_code.prune()

    assert list(TemporaryCode.objects.values_list("content", flat=True)) == [LIB]


def test_a_workspace_keeps_a_limited_amount_of_text(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_code, "MAX_KEPT", 20)
    store(world, "x" * 15)

    answer = store(world, "y" * 6)

    assert answer.status_code == 400 and b"keeps 15 characters" in answer.content
    assert store(world, "y" * 5).status_code == 200


def deploy(path: str, content: str) -> None:
    caller = enter(Workspace.objects.get(pk="acme"), "alice@example.com")
    scripts.deploy_script(
        caller, scripts.ScriptDraft(path=path, content=content, language="python3", lock="")
    )


def test_what_differs_from_what_is_deployed_is_told(world: World) -> None:
    deploy("u/alice/same", LIB)
    deploy("u/alice/other", LIB + "# changed\n")
    create(world, "numpy", name="ml")
    create(world, "{}", language="bun")

    answer = world.post(
        "alice",
        "w/acme/scripts/raw_temp/diff",
        {
            "scripts": {"u/alice/same": sha(LIB), "u/alice/other": sha(LIB), "u/alice/new": sha(LIB)},
            "workspace_deps": [
                {
                    "path": "dependencies/ml.requirements.in",
                    "language": "python3",
                    "name": "ml",
                    "hash": sha("numpy"),
                },
                {"path": "dependencies/package.json", "language": "bun", "hash": sha("{ }")},
            ],
        },
    )

    assert answer.json() == ["u/alice/other", "u/alice/new", "dependencies/package.json"]


def test_what_somebody_may_not_read_counts_as_not_deployed(world: World) -> None:
    deploy("u/alice/same", LIB)

    answer = world.post("dave", "w/acme/scripts/raw_temp/diff", {"scripts": {"u/alice/same": sha(LIB)}})

    assert answer.json() == ["u/alice/same"]


# --- locks of what is not deployed ---


def ask(world: World, *, who: str = "alice", code: str = "import requests\n", **fields: Any) -> Any:
    script = {"raw_code": code, "language": "python3", "script_path": "u/alice/local"}
    body = {"raw_scripts": [script], "entrypoint": "u/alice/local", **fields}
    return world.post(who, "w/acme/jobs/run/dependencies_async", body)


def test_a_dependency_job_is_queued_with_the_code(world: World) -> None:
    answer = ask(world, raw_workspace_dependencies=None, temp_script_refs=None)

    assert (answer.status_code, answer["Content-Type"]) == (201, "text/plain; charset=utf-8")
    job = Job.objects.get(pk=answer.content.decode())
    assert (job.kind, job.tag, job.script_lang) == (JobKind.DEPENDENCIES, "dependency", "python3")
    assert (job.raw_code, job.runnable_path, job.runnable_id) == ("import requests\n", "u/alice/local", None)
    assert job.args == {} and job.permissioned_as == "u/alice"


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("dependencies_async", {"raw_scripts": [{"raw_code": "x", "language": "python3"}]}),
        ("flow_dependencies_async", {"flow_value": {"modules": []}}),
    ],
)
def test_dependency_jobs_are_started_with_the_cookie_alone(
    world: World, address: str, body: dict[str, Any]
) -> None:
    world.client.cookies["token"] = world.tokens["alice"]

    answer = world.client.post(
        f"/api/w/acme/jobs/run/{address}", json.dumps(body), content_type="application/json"
    )

    assert answer.status_code == 201, answer.content


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"raw_scripts": []}, "raw_scripts has 0 entries"),
        ({"raw_scripts": [{"raw_code": "x", "language": "cobol"}]}, "language 'cobol' is unknown"),
        ({"raw_workspace_dependencies": {"dependencies/requirements.in": 1}}, "must be an object of texts"),
        ({"raw_workspace_dependencies": {"dependencies/requirements.in": "-e ."}}, "is an option of pip"),
        ({"temp_script_refs": ["x"]}, "temp_script_refs"),
    ],
)
def test_a_dependency_job_that_could_not_work_is_refused(
    world: World, fields: dict[str, Any], message: str
) -> None:
    answer = ask(world, **fields)

    assert answer.status_code == 400 and message in answer.content.decode()


def claimed(world: World, **fields: Any) -> queue.Claim:
    """The claim of a worker on such a job."""
    assert ask(world, **fields).status_code == 201
    [claim] = queue.claim_jobs(worker="w", tags=["dependency"])
    return claim


@committed
def test_files_that_come_with_the_job_count_before_deployed_ones(world: World) -> None:
    create(world, "deployed==1")
    create(world, "deployed==2", name="ml")
    claim = claimed(
        world,
        raw_workspace_dependencies={
            "dependencies/requirements.in": "local==1",
            "dependencies/api.requirements.in": "local==2",
            "dependencies/package.json": "{}",
        },
    )

    files = asyncio.run(PgRuntimeStore().wanted_files(claim))

    assert files.by_name == {"": "local==1", "ml": "deployed==2", "api": "local==2"}


@committed
def test_a_dependency_job_sees_a_file_that_has_just_changed(world: World) -> None:
    store_ = PgRuntimeStore()
    create(world, "requests==1")
    claim = claimed(world)
    assert asyncio.run(store_.wanted_files(claim)).by_name == {"": "requests==1"}

    create(world, "requests==2")

    assert asyncio.run(store_.wanted_files(claim)).by_name == {"": "requests==2"}


@committed
def test_scripts_that_a_job_names_count_before_deployed_ones(world: World) -> None:
    deploy("u/alice/lib", "# deployed\n")
    deploy("u/alice/other", "# deployed\n")
    hash = store(world, LIB).content.decode()
    claim = claimed(world, temp_script_refs={"u/alice/lib": hash, "f/new/lib": hash})

    paths = ["u/alice/lib", "u/alice/other", "f/new/lib"]
    imported = asyncio.run(PgRuntimeStore().imported(claim, paths))

    assert {path: one.content for path, one in imported.items()} == {
        "u/alice/lib": LIB,
        "u/alice/other": "# deployed\n",
        "f/new/lib": LIB,
    }


@committed
def test_a_named_script_that_is_not_kept_any_more_fails_the_job_with_the_reason(world: World) -> None:
    claim = claimed(world, temp_script_refs={"u/alice/lib": sha(LIB)})

    with pytest.raises(ExecutionFailed, match=r"of u/alice/lib is not kept.*Start the command again"):
        asyncio.run(PgRuntimeStore().imported(claim, ["u/alice/lib"]))


@committed
def test_a_flow_is_locked_with_what_comes_along_too(world: World) -> None:
    body = {
        "flow_value": {"modules": []},
        "path": "u/alice/flow",
        "use_local_lockfiles": True,
        "raw_workspace_dependencies": {"dependencies/package.json": '{"name": "local"}'},
        "temp_script_refs": {"u/alice/lib": store(world, LIB).content.decode()},
    }
    assert world.post("alice", "w/acme/jobs/run/flow_dependencies_async", body).status_code == 201
    [claim] = queue.claim_jobs(worker="w", tags=["dependency"])
    step = replace(claim, language="nativets")

    files = asyncio.run(PgRuntimeStore().wanted_files(step))
    imported = asyncio.run(PgRuntimeStore().imported(step, ["u/alice/lib"]))

    assert files.by_name == {"": '{"name": "local"}'}
    assert imported["u/alice/lib"].content == LIB


@committed
def test_a_script_run_cannot_bring_files_along_in_its_arguments(world: World) -> None:
    deploy("u/alice/same", LIB)
    body = {"raw_workspace_dependencies": {"dependencies/requirements.in": "evil"}}
    assert world.post("alice", "w/acme/jobs/run/p/u/alice/same", body).status_code == 201
    [claim] = queue.claim_jobs(worker="w", tags=["python3"])

    assert asyncio.run(PgRuntimeStore().wanted_files(claim)).by_name == {}


# --- forgetting ---


@committed
def test_old_texts_and_old_locks_are_forgotten(world: World) -> None:
    store(world, LIB)
    CachedLock.objects.create(key="old", lock="")
    CachedLock.objects.create(key="young", lock="")
    TemporaryCode.objects.update(created_at=Now() - timedelta(hours=25))
    CachedLock.objects.filter(key="old").update(
        created_at=Now() - locks.CACHED_LOCK_LIFE - timedelta(hours=1)
    )

    monitor.clean_up()

    assert not TemporaryCode.objects.exists()
    assert list(CachedLock.objects.values_list("key", flat=True)) == ["young"]
