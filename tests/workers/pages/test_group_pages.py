"""Pages of worker groups: who may change one, what is sent and kept, what is refused at which field."""

from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client

from jobs import scripts
from jobs.flows import deployed
from jobs.models import WorkerPing
from tests.tenancy import enter, identity, join, make_account, make_workspace, token_for
from workers.groups import configs
from workspaces.access import Identity
from workspaces.models import Alert, AuditEntry

pytestmark = pytest.mark.django_db
PAGE = "/w/acme/workers/groups/gpu/"


@pytest.fixture
def root() -> Identity:
    acme = make_workspace("acme", admin="ann@example.com")
    make_account("ops@example.com", devops=True)
    join(acme, "ops@example.com")
    join(acme, "dan@example.com")
    return identity("root@example.com")


def browser(email: str) -> Client:
    client = Client()
    client.cookies["token"] = token_for(email)
    return client


def form(client: Client, **changes: Any) -> dict[str, Any]:
    """What the page's form would send, with changes."""
    page = client.get(PAGE)
    bound = page.context["form"]
    sent: dict[str, Any] = {"seen": page.context["seen"], "step": "save"}
    for field in bound:
        value = field.value()
        if isinstance(value, list):
            sent[f"{field.html_name}-name"] = [row.name for row in value]
            sent[f"{field.html_name}-value"] = [row.value for row in value]
            sent[f"{field.html_name}-was"] = [row.was for row in value]
        elif value is True:
            sent[field.html_name] = "on"
        elif value not in (None, False):
            sent[field.html_name] = value
    return sent | changes


FULL: dict[str, Any] = {
    "worker_tags": ["gpu", "python3"],
    "priority_tags": {"gpu": 50},
    "dedicated_worker": "acme:f/team/infer",
    "env_vars_static": {"PEM": "a\nb\n", "TOKEN": "secret"},
    "env_vars_allowlist": ["HTTP_PROXY"],
    "native_mode": True,
    "init_bash": "set -e\necho hi\n",
    "periodic_script_bash": "date\n",
    "periodic_script_interval_seconds": 60,
    "job_limits": {"memory_mb": 512, "cpus": 0.5},
    "network": "none",
    "additional_python_paths": ["/opt/lib"],
    "pip_local_dependencies": ["numpy>=1,<2"],
    "min_alive_workers_alert_threshold": 2,
    "cache_clear": 3,
    "autoscaling": {"enabled": False},
    "a_field_of_tomorrow": [1],
}


def test_a_form_that_is_sent_back_untouched_changes_nothing(root: Identity) -> None:
    configs.update(name="gpu", config=FULL, actor=root)
    client = browser("root@example.com")

    answer = client.post(PAGE, form(client))

    assert answer.status_code == 302
    assert configs.get("gpu") == FULL
    assert AuditEntry.objects.filter(operation="worker_config.update").count() == 1


def test_what_changes_is_shown_first_and_written_after_that(root: Identity) -> None:
    configs.update(name="gpu", config={"worker_tags": ["gpu"]}, actor=root)
    client = browser("ops@example.com")
    sent = form(client, worker_tags="gpu\nfast\n", init_bash="echo hi\r\n", memory_mb="256")

    review = client.post(PAGE, sent | {"step": "review"})

    assert review.status_code == 200 and configs.get("gpu") == {"worker_tags": ["gpu"]}
    told = {change.field: change.effect for change in review.context["review"]}
    assert told == {"worker_tags": "live", "init_bash": "restart", "job_limits": "next job"}

    assert client.post(PAGE, sent).status_code == 302
    assert configs.get("gpu") == {
        "worker_tags": ["gpu", "fast"],
        "init_bash": "echo hi\n",
        "job_limits": {"memory_mb": 256},
    }


def test_that_live_workers_take_less_or_more_than_before_is_told(root: Identity) -> None:
    client = browser("root@example.com")

    def cautions(**changes: Any) -> str:
        page = client.post(PAGE, form(client, **changes) | {"step": "review"})
        return " ".join(page.context["cautions"])

    assert cautions(worker_tags="gpu") == ""  # nobody is there to take less
    WorkerPing.objects.create(worker="w1", worker_instance="h", worker_group="gpu")
    assert "everything that they can run. From now on it is gpu;" in cautions(worker_tags="gpu")
    assert cautions(memory_mb="512") == ""
    assert "and no others" in cautions(dedicated_workers="acme:f/team/infer")
    configs.update(name="gpu", config={"worker_tags": ["gpu"]}, actor=root)
    assert "and no others" not in cautions(dedicated_workers="acme:f/team/infer")
    assert cautions(worker_tags="gpu\nbig") == ""
    assert "Without tags" in cautions(worker_tags="")


def test_values_of_variables_are_in_no_page_until_they_are_asked_for(root: Identity) -> None:
    configs.update(name="gpu", config={"env_vars_static": {"TOKEN": "hidden-value"}}, actor=root)
    configs.update(name="gpu", config={"env_vars_static": {"TOKEN": "hidden-value-2"}}, actor=root)
    client = browser("ops@example.com")

    pages = [client.get(PAGE), client.get("/w/acme/workers/")]

    assert all(b"hidden-value" not in page.content for page in pages)
    assert client.post(f"{PAGE}variables/").json() == {"TOKEN": "hidden-value-2"}
    assert AuditEntry.objects.filter(operation="worker_config.reveal", email="ops@example.com").exists()


def test_an_empty_value_keeps_the_one_that_is_there_also_under_a_new_name(root: Identity) -> None:
    configs.update(name="gpu", config={"env_vars_static": {"A": "1", "B": "2", "C": "3"}}, actor=root)
    client = browser("root@example.com")
    rows = {
        "env_vars_static-was": ["A", "B", "", ""],
        "env_vars_static-name": ["A", "RENAMED", "NEW", "EMPTY"],
        "env_vars_static-value": ["", "", "x\r\ny", ""],
    }

    client.post(PAGE, form(client, **rows))

    config = configs.get("gpu")
    assert config is not None
    assert config["env_vars_static"] == {"A": "1", "RENAMED": "2", "NEW": "x\ny", "EMPTY": ""}


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"worker_tags": "a,b"}, "worker_tags", "expected a tag"),
        ({"dedicated_workers": "f/team/infer"}, "dedicated_workers", "workspace:path"),
        ({"periodic_script_bash": "date"}, "periodic_script_interval_seconds", "is missing"),
        ({"periodic_script_interval_seconds": "59"}, "periodic_script_interval_seconds", "from 60"),
        ({"memory_mb": "1"}, "memory_mb", "between 32"),
        ({"cpus": "many"}, "cpus", "number"),
        ({"env_vars_allowlist": "2X"}, "env_vars_allowlist", "name of a variable"),
        ({"additional_python_paths": "lib"}, "additional_python_paths", "absolute path"),
        ({"pip_local_dependencies": "-e ."}, "pip_local_dependencies", "Python package"),
        (
            {"priority_tags-name": ["gpu"], "priority_tags-value": ["high"], "priority_tags-was": [""]},
            "priority_tags",
            "expected a number",
        ),
        (
            {"priority_tags-name": ["gpu"], "priority_tags-value": ["900"], "priority_tags-was": [""]},
            "priority_tags",
            "from 0 to 255",
        ),
        (
            {
                "env_vars_static-name": ["A", "A"],
                "env_vars_static-value": ["1", "2"],
                "env_vars_static-was": ["", ""],
            },
            "env_vars_static",
            "twice",
        ),
        (
            {"env_vars_static-name": [""], "env_vars_static-value": ["1"], "env_vars_static-was": [""]},
            "env_vars_static",
            "has no name",
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    root: Identity, changes: dict[str, Any], field: str, says: str
) -> None:
    client = browser("root@example.com")

    answer = client.post(PAGE, form(client, **changes))

    assert answer.status_code == 422
    errors = answer.context["form"].errors
    assert list(errors) == [field] and says in errors[field][0]
    assert configs.get("gpu") is None


def test_a_change_of_somebody_else_in_between_is_not_lost(root: Identity) -> None:
    configs.update(name="gpu", config={"worker_tags": ["gpu"]}, actor=root)
    client = browser("root@example.com")
    sent = form(client, worker_tags="gpu\nfast")
    configs.update(name="gpu", config={"worker_tags": ["gpu", "big"]}, actor=root)

    answer = client.post(PAGE, sent)

    assert answer.status_code == 422
    assert "changed by somebody else" in answer.context["form"].errors["__all__"][0]
    assert configs.get("gpu") == {"worker_tags": ["gpu", "big"]}


def test_members_see_a_group_without_values_and_scripts_and_change_nothing(root: Identity) -> None:
    configs.update(name="gpu", config=FULL, actor=root)
    client = browser("dan@example.com")

    page = client.get(PAGE)

    assert page.status_code == 200 and b"HTTP_PROXY" in page.content
    assert b"echo hi" not in page.content and b"secret" not in page.content
    for address in (PAGE, f"{PAGE}delete/", f"{PAGE}clear-caches/", f"{PAGE}variables/"):
        assert client.post(address, {"step": "save"}).status_code == 403
    assert client.get("/w/acme/workers/new-group/").status_code == 403
    assert client.get("/w/acme/workers/dedicated/").status_code == 403
    assert client.post("/w/acme/workers/forget/").status_code == 403
    assert configs.get("gpu") == FULL


def test_a_new_group_starts_with_its_name(root: Identity) -> None:
    configs.update(name="gpu", config={}, actor=root)
    client = browser("root@example.com")
    new = "/w/acme/workers/new-group/"

    wrong = client.post(new, {"name": "a b"})
    taken = client.post(new, {"name": "gpu"})
    free = client.post(new, {"name": "fresh"})

    assert (wrong.status_code, taken.status_code) == (422, 422)
    assert "is not valid" in wrong.context["form"].errors["name"][0]
    assert "is configured already" in taken.context["form"].errors["name"][0]
    assert free["Location"] == "/w/acme/workers/groups/fresh/"
    assert configs.get("fresh") is None


def test_caches_are_cleared_by_counting_up(root: Identity) -> None:
    configs.update(name="gpu", config={"worker_tags": ["gpu"]}, actor=root)
    client = browser("root@example.com")

    for _ in range(2):
        assert client.post(f"{PAGE}clear-caches/").status_code == 302

    assert configs.get("gpu") == {"worker_tags": ["gpu"], "cache_clear": 2}


def test_the_history_tells_who_changed_what(root: Identity) -> None:
    configs.update(name="gpu", config={"worker_tags": ["gpu"]}, actor=root)
    configs.update(name="other", config={"worker_tags": ["x"]}, actor=root)
    configs.update(name="gpu", config={"worker_tags": ["big"]}, actor=identity("ops@example.com"))

    history = browser("root@example.com").get(PAGE).context["history"]

    assert [(entry["row"].email, entry["verb"]) for entry in history] == [
        ("ops@example.com", "changed it"),
        ("root@example.com", "configured it"),
    ]
    assert (history[0]["changes"][0].added, history[0]["changes"][0].removed) == (("big",), ("gpu",))


def test_scripts_and_flows_that_are_marked_dedicated_are_suggested(root: Identity) -> None:
    ann = enter(make_workspace("umbra", admin="una@example.com"), "una@example.com")
    for path, extra in (("f/x/infer", {"dedicated_worker": True}), ("f/x/plain", {})):
        draft = scripts.ScriptDraft(
            path=path.replace("f/x", "u/una"), content="def main(): ...", language="python3", extra=extra
        )
        scripts.deploy_script(ann, draft)
    flow = deployed.FlowDraft(path="u/una/pipe", value={"modules": []}, extra={"dedicated_worker": True})
    deployed.create_flow(ann, flow)
    client = browser("root@example.com")

    def suggested(search: str) -> list[str]:
        answer: list[str] = client.get("/w/acme/workers/dedicated/", {"q": search}).json()
        return answer

    assert suggested("") == ["umbra:u/una/infer", "umbra:flow/u/una/pipe"]
    assert suggested("umbra:u/una/inf") == ["umbra:u/una/infer"]
    assert suggested("umbra:flow/u/una/p") == ["umbra:flow/u/una/pipe"]
    assert suggested("acme") == []


def test_alerts_are_shown_to_those_who_operate_until_one_of_them_has_seen_them(root: Identity) -> None:
    alert = Alert.objects.create(
        kind="too_few_workers", subject="gpu", message="Worker group gpu has no live workers", raised_at=Now()
    )
    page, seen = "/w/acme/workers/", f"/w/acme/workers/alerts/{alert.pk}/"
    ops, dan = browser("ops@example.com"), browser("dan@example.com")

    assert b"Worker group gpu has no live workers" in ops.get(page).content
    assert b"Worker group gpu has no live workers" not in dan.get(page).content
    assert dan.post(seen).status_code == 403

    assert ops.post(seen).status_code == 302
    assert b"Worker group gpu has no live workers" not in ops.get(page).content
    assert ops.post(f"{seen[:-1]}0/").status_code == 404


def test_a_group_with_a_name_of_another_time_is_listed_without_a_page(root: Identity) -> None:
    WorkerPing.objects.create(worker="w1", worker_instance="h", worker_group="my group/1")

    page = browser("root@example.com").get("/w/acme/workers/")

    assert page.status_code == 200 and b"my group/1" in page.content


def test_the_page_of_workers_asks_as_often_with_many_groups(
    root: Identity, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        configs.update(name=f"g{number}", config={"worker_tags": ["x"]}, actor=root)
    client = browser("root@example.com")
    client.get("/w/acme/workers/")

    with django_assert_max_num_queries(12):
        client.get("/w/acme/workers/")
