"""The superadmin's windows on worker groups and workers."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client

from jobs.models import WorkerPing
from tests.tenancy import identity, make_account, make_workspace, token_for
from workers.groups import configs, schema
from workers.models import Config
from workspaces.models import AuditEntry

LIST = "/admin/workers/config/"


@pytest.fixture
def root(db: None) -> Client:
    make_account("root@example.com", super_admin=True)
    make_workspace("admins", admin="root@example.com")
    client = Client()
    client.cookies["token"] = token_for("root@example.com")
    return client


def configure(name: str, **config: Any) -> None:
    configs.update(name=name, config=config, actor=identity("root@example.com"))


def seen(client: Client, name: str) -> str:
    """What the page's form was made from."""
    form = client.get(f"{LIST}worker__{name}/change/").context["adminform"].form
    value: str = form["seen"].value()
    return value


def test_a_group_is_added_and_changed_like_everywhere_and_the_changes_are_told(root: Client) -> None:
    added = root.post(
        f"{LIST}add/", {"group": "gpu", "config": '{"worker_tags": ["gpu"]}', "seen": ""}, follow=True
    )
    change = {"config": '{"worker_tags": ["gpu", "big"], "init_bash": "true"}', "seen": seen(root, "gpu")}
    changed = root.post(f"{LIST}worker__gpu/change/", change, follow=True)

    assert "Tags: added gpu (At once; running jobs go on)" in added.content.decode()
    assert "Tags: added big" in changed.content.decode()
    assert configs.get("gpu") == {"worker_tags": ["gpu", "big"], "init_bash": "true"}
    kinds = AuditEntry.objects.filter(operation="worker_config.update", email="root@example.com")
    assert sorted(kinds.values_list("action_kind", flat=True)) == ["create", "update"]
    assert "root@example.com: Tags: added big" in root.get(f"{LIST}worker__gpu/change/").content.decode()


def test_values_of_variables_are_not_in_the_page_and_are_kept(root: Client) -> None:
    configure("gpu", env_vars_static={"TOKEN": "s3cret", "REGION": "eu"})

    page = root.get(f"{LIST}worker__gpu/change/")
    shown = json.loads(page.context["adminform"].form["config"].value())
    assert shown == {"env_vars_static": {"TOKEN": schema.HIDDEN, "REGION": schema.HIDDEN}}
    assert b"s3cret" not in page.content

    shown["env_vars_static"] |= {"REGION": "us", "STAGE": "test"}
    root.post(f"{LIST}worker__gpu/change/", {"config": json.dumps(shown), "seen": seen(root, "gpu")})
    assert configs.get("gpu") == {"env_vars_static": {"TOKEN": "s3cret", "REGION": "us", "STAGE": "test"}}

    shown["env_vars_static"]["NEW"] = schema.HIDDEN
    answer = root.post(f"{LIST}worker__gpu/change/", {"config": json.dumps(shown), "seen": seen(root, "gpu")})
    assert b"env_vars_static.NEW is ********" in answer.content


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"group": "a b", "config": "{}"}, "worker group &#x27;a b&#x27; is not valid"),
        ({"group": "new", "config": '{"worker_tags": "gpu"}'}, "worker_tags is the text"),
        ({"group": "new", "config": "[]"}, "is a JSON object, got a list"),
        ({"group": "new", "config": '{"job_limits": {"memory": 1}}'}, "job_limits.memory is not known"),
        ({"group": "new", "config": "{"}, "Enter a valid JSON"),
        ({"group": "gpu", "config": "{}"}, "changed by somebody else"),
    ],
)
def test_what_is_wrong_is_refused_with_its_field(root: Client, sent: dict[str, str], says: str) -> None:
    configure("gpu", worker_tags=["gpu"])

    answer = root.post(f"{LIST}add/", sent | {"seen": ""})

    assert answer.status_code == 200 and says in answer.content.decode()
    assert configs.list_names() == ["gpu"] and configs.get("gpu") == {"worker_tags": ["gpu"]}


def test_a_change_of_somebody_else_in_between_is_not_overwritten(root: Client) -> None:
    configure("gpu", worker_tags=["gpu"])
    opened = seen(root, "gpu")
    configure("gpu", worker_tags=["gpu", "big"])

    answer = root.post(f"{LIST}worker__gpu/change/", {"config": json.dumps({}), "seen": opened})

    assert "changed by somebody else" in answer.content.decode()
    assert configs.get("gpu") == {"worker_tags": ["gpu", "big"]}


def test_a_configuration_is_deleted_with_an_entry_in_the_audit_log(root: Client) -> None:
    configure("gpu", worker_tags=["gpu"])

    root.post(f"{LIST}worker__gpu/delete/", {"post": "yes"})

    assert configs.list_names() == []
    assert AuditEntry.objects.filter(operation="worker_config.delete", resource="worker__gpu").exists()


def test_other_configurations_are_not_offered(root: Client) -> None:
    Config.objects.create(name="alert__job_queue_waiting", config=[])
    configure("gpu", worker_tags=["gpu"])

    assert root.get(LIST).context["cl"].result_count == 1
    assert root.get(f"{LIST}alert__job_queue_waiting/change/").status_code == 302


def test_a_configuration_that_somebody_wrote_by_hand_is_listed_all_the_same(root: Client) -> None:
    Config.objects.create(name="worker__odd", config={"worker_tags": "gpu"})
    Config.objects.create(name="worker__odder", config=["gpu"])

    assert root.get(LIST).status_code == 200
    assert root.get(f"{LIST}worker__odder/change/").status_code == 200
    root.post(f"{LIST}worker__odder/change/", {"config": "{}", "seen": seen(root, "odder")})
    assert Config.objects.get(pk="worker__odder").config == {}


def test_workers_are_looked_at_and_dead_ones_taken_off(root: Client) -> None:
    for name in ("dead", "live"):
        WorkerPing.objects.create(
            worker=name, worker_instance="h", worker_group="gpu", job_isolation="namespaces"
        )
    WorkerPing.objects.filter(pk="dead").update(ping_at=Now() - timedelta(minutes=5))

    page = root.get("/admin/jobs/workerping/").content.decode()
    both = {"action": "forget", "_selected_action": ["dead", "live"]}
    told = root.post("/admin/jobs/workerping/", both, follow=True).content.decode()

    assert "namespaces" in page and "gpu" in page
    assert "1 taken off the list" in told and "live reported lately" in told
    assert list(WorkerPing.objects.values_list("worker", flat=True)) == ["live"]
