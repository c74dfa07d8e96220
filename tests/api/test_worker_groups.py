"""The routes of worker groups, as the command line and the pages use them."""

from typing import Any

import pytest
from django.test import Client

from jobs.models import WorkerPing
from tests.api.conftest import RunningJob, World
from tests.tenancy import make_account, token_for
from workspaces.models import Account, AuditEntry

CONFIG = {
    "worker_tags": ["gpu"],
    "env_vars_static": {"KEY": "s3cret"},
    "init_bash": "echo s3cret",
    "dedicated_worker": "acme:f/private/script",
    "of_a_newer_version": {"deep": [1]},
}


@pytest.fixture
def ops(world: World) -> World:
    """The world with ops, who has the devops role, and a group `gpu`."""
    make_account("ops@example.com", devops=True)
    world.tokens["ops"] = token_for("ops@example.com")
    assert world.post("root", "configs/update/worker__gpu", CONFIG).status_code == 200
    return world


@pytest.mark.parametrize("who", ["root", "ops"])
def test_superadmins_and_devops_read_write_and_forget_a_group(ops: World, who: str) -> None:
    assert ops.get(who, "configs/list_worker_groups").json() == [{"name": "gpu", "config": CONFIG}]
    assert ops.get(who, "configs/list").json() == [{"name": "worker__gpu", "config": CONFIG}]
    assert ops.get(who, "configs/get/worker__gpu").json() == CONFIG
    assert ops.get(who, "configs/get/worker__none").json() is None

    answer = ops.post(who, "configs/update/worker__gpu", {"worker_tags": ["gpu", "cpu"]})
    assert (answer.status_code, answer.content) == (200, b"updated worker__gpu")
    assert ops.delete(who, "configs/update/worker__gpu").content == b"deleted worker__gpu"
    assert ops.delete(who, "configs/update/worker__gpu").status_code == 404
    assert ops.get(who, "configs/list_worker_groups").json() == []
    assert AuditEntry.objects.filter(operation__startswith="worker_config.").count() == 3


def test_others_see_the_groups_and_their_tags_but_no_secrets(ops: World) -> None:
    assert ops.get("olga", "configs/list_worker_groups").json() == [
        {
            "name": "gpu",
            "config": {
                "worker_tags": ["gpu"],
                "env_vars_static": {"KEY": "********"},
                "init_bash": "********",
            },
        }
    ]


def test_a_job_of_a_superadmin_does_not_operate_the_instance(
    ops: World, running_job: RunningJob, client: Client
) -> None:
    Account.objects.filter(pk="alice@example.com").update(super_admin=True)
    client.cookies["token"] = ops.tokens["job"] = running_job("alice")
    group = "/w/acme/workers/groups/gpu/"

    assert (client.get(group).status_code, client.post(f"{group}restart/").status_code) == (403, 403)
    assert ops.get("job", "configs/list_worker_groups").status_code == 403
    assert ops.post("job", "settings/restart_worker_group/gpu").status_code == 403


def test_what_has_no_effect_is_told_in_the_answer(ops: World) -> None:
    answer = ops.post("root", "configs/update/worker__gpu", {"worker_tag": ["gpu"]})

    assert answer.content.decode().splitlines() == [
        "updated worker__gpu",
        "worker_tag is not a field of this version: it is kept and has no effect; did you mean worker_tags?",
    ]


@pytest.mark.parametrize(
    ("name", "body", "status", "sentence"),
    [
        ("worker__gpu", [], 400, "JSON object"),
        ("worker__gpu", {"worker_tags": "gpu"}, 400, "worker_tags is the text 'gpu'"),
        ("worker__gpu", {"job_limits": {"memory": 1}}, 400, "job_limits.memory is not known"),
        ("worker__g p u", {}, 400, "worker group 'g p u'"),
        ("worker__", {}, 400, "worker group ''"),
        ("alert__job_queue_waiting", {}, 404, "worker__<group>"),
    ],
)
def test_what_is_wrong_is_refused_with_a_sentence(
    ops: World, name: str, body: Any, status: int, sentence: str
) -> None:
    answer = ops.post("root", f"configs/update/{name}", body)

    assert answer.status_code == status
    assert sentence in answer.content.decode()


def test_autoscaling_says_that_it_is_not_there(ops: World) -> None:
    assert ops.get("root", "configs/list_autoscaling_events/gpu").json() == []
    answer = ops.get("root", "configs/native_kubernetes_autoscaling_healthcheck")
    assert (answer.status_code, b"does not start or stop workers" in answer.content) == (400, True)


def test_pythons_are_those_of_the_live_workers(ops: World) -> None:
    version = "Python 3.12.1, 3.9.7, 3.11.0; uv 0.3.10"
    WorkerPing.objects.create(worker="wk-a", runtimes={"python3": {"version": version}}, state="running")
    WorkerPing.objects.create(worker="wk-b", runtimes={"python3": {"missing": "uv"}}, state="running")

    assert ops.get("dave", "configs/list_available_python_versions").json() == ["3.12", "3.11", "3.9"]


def test_what_a_worker_is_dedicated_to_is_for_those_who_operate_the_instance(ops: World) -> None:
    WorkerPing.objects.create(
        worker="wk-a",
        state="draining",
        state_note="restarting to apply init_bash",
        custom_tags=["gpu", "acme:f/private/script"],
        dedicated_workers=["acme:f/private/script"],
        native_mode=True,
    )

    (shown,) = ops.get("ops", "workers/list").json()
    assert shown["dedicated_worker"] == "acme:f/private/script"
    assert shown["dedicated_workers"] == ["acme:f/private/script"]
    assert shown["custom_tags"] == ["gpu", "acme:f/private/script"]
    assert (shown["native_mode"], shown["state_note"]) == (True, "restarting to apply init_bash")

    (shown,) = ops.get("olga", "workers/list").json()
    assert (shown["dedicated_worker"], shown["dedicated_workers"]) == (None, [])
    assert (shown["custom_tags"], shown["native_mode"], shown["state_note"]) == (["gpu"], True, "")
