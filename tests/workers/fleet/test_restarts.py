"""The workers of a group are told to start again: who may, what is written, what workers do about it."""

from typing import Any

import pytest
from django.test import Client

from jobs import queue
from jobs.models import CompletedJob, JobStatus, WorkerPing
from tests.tenancy import make_account, make_workspace, token_for
from workers.fleet import restarts
from workers.groups import configs
from workers.models import Config
from workers.worker import RESTART_CODE
from workspaces.access import Identity
from workspaces.errors import BadRequest, NotFound, PermissionDenied
from workspaces.models import AuditEntry

ROOT = Identity(email="root@example.com", super_admin=True)
OPS = Identity(email="ops@example.com", devops=True)


def worker(name: str, group: str = "gpu", state: str = "running") -> None:
    WorkerPing.objects.create(worker=name, worker_instance="host", worker_group=group, state=state)


def entries() -> list[tuple[str, str]]:
    return list(AuditEntry.objects.filter(operation="workers.restart").values_list("email", "resource"))


@pytest.fixture
def admins(db: None) -> None:
    make_account("root@example.com", super_admin=True)
    make_account("ops@example.com", devops=True)
    make_workspace("admins", admin="root@example.com")


@pytest.mark.django_db(transaction=True)
def test_a_worker_finishes_what_it_runs_and_asks_to_be_started_again(
    admins: None, transactional_db: None, start_process: Any, make_job: Any, wait_until: Any
) -> None:
    process = start_process()
    running = make_job(
        language="bash",
        tag="bash",
        raw_code="echo begun; while [ $SECONDS -lt 2 ]; do sleep 0.05; done",
    )
    wait_until(lambda: "begun" in queue.read_logs(running)[0])

    assert restarts.restart(name="default", actor=OPS) == 1

    seen = wait_until(lambda: WorkerPing.objects.filter(state="draining").first())
    assert seen.state_note == "restarting, as its group was told to"
    assert process.wait(timeout=30) == RESTART_CODE
    assert CompletedJob.objects.get(pk=running).status == JobStatus.SUCCESS

    again = start_process()  # which has nothing to follow
    configs.update(name="default", config={"worker_tags": ["gpu"]}, actor=ROOT)
    wait_until(lambda: WorkerPing.objects.get().custom_tags == ["gpu"], timeout_s=30)
    assert again.poll() is None


@pytest.mark.parametrize("actor", [ROOT, OPS])
def test_it_is_written_down_with_who_asked_and_is_no_configuration(admins: None, actor: Identity) -> None:
    worker("wk-1")
    worker("wk-2", state="starting")
    worker("wk-3", state="draining")
    worker("wk-other", group="other")

    assert restarts.restart(name="gpu", actor=actor) == 2

    assert entries() == [(actor.email, "worker__gpu")]
    assert configs.list_groups() == [] and configs.get("gpu") is None


def test_each_time_counts(admins: None) -> None:
    configs.update(name="gpu", config={"worker_tags": ["gpu"]}, actor=ROOT)

    marks = set()
    for _ in range(2):
        assert restarts.restart(name="gpu", actor=ROOT) == 0
        marks.add(Config.objects.get(pk="restart__gpu").config)

    assert len(marks) == 2 and configs.get("gpu") == {"worker_tags": ["gpu"]}


@pytest.mark.parametrize(
    ("name", "actor", "error", "says"),
    [
        ("gpv", ROOT, NotFound, "there is no worker group gpv"),
        ("a b", ROOT, BadRequest, "worker group 'a b' is not valid"),
        ("gpu", Identity(email="ann@example.com"), PermissionDenied, "devops"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    admins: None, name: str, actor: Identity, error: type[Exception], says: str
) -> None:
    worker("wk-1")

    with pytest.raises(error, match=says):
        restarts.restart(name=name, actor=actor)

    assert entries() == [] and not Config.objects.exists()


def test_route_page_and_administration_do_the_same(admins: None) -> None:
    worker("wk-1")
    client = Client()
    client.cookies["token"] = token_for("root@example.com")
    api = "/api/settings/restart_worker_group/"

    page = client.get("/w/admins/workers/groups/gpu/").content.decode()
    answers = [client.post(f"{api}{name}") for name in ("gpu", "gpv", "a%20b")]
    posted = client.post("/w/admins/workers/groups/gpu/restart/", follow=True).content.decode()
    configs.update(name="gpu", config={}, actor=ROOT)
    chosen = {"action": "restart", "_selected_action": ["worker__gpu"]}
    listed = client.post("/admin/workers/config/", chosen, follow=True).content.decode()

    assert "Restart the workers of group gpu? 1 live worker will finish what it runs, leave" in page
    assert [answer.status_code for answer in answers] == [200, 404, 400]
    told = "1 worker of group gpu will start again when done with what is running"
    assert answers[0].content.decode() == told and told in posted
    assert "1 told to restart" in listed and "delete_selected" not in listed
    assert entries() == [("root@example.com", "worker__gpu")] * 3
