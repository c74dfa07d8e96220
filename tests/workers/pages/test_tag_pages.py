"""The page of custom tags."""

from typing import Any

import pytest
from django.test import Client

from tests.tenancy import identity, join, make_account, make_workspace, token_for
from workers.fleet import custom_tags
from workspaces.access import Identity
from workspaces.custom_tags import parse

pytestmark = pytest.mark.django_db
PAGE = "/w/acme/workers/tags/"


@pytest.fixture
def root() -> Identity:
    acme = make_workspace("acme", admin="ann@example.com")
    make_account("ops@example.com", devops=True)
    join(acme, "ops@example.com")
    root = identity("root@example.com")
    custom_tags.add(parse("gpu(acme)"), actor=root)
    custom_tags.add(parse("hush(umbra)"), actor=root)
    return root


def browser(email: str) -> Client:
    client = Client()
    client.cookies["token"] = token_for(email)
    return client


def texts() -> list[str]:
    return [row.tag.text for row in custom_tags.list_tags()]


def send(address: str, **fields: Any) -> Any:
    return browser("root@example.com").post(PAGE + address, fields)


def test_a_superadmin_adds_changes_and_removes_tags(root: Identity) -> None:
    send("new/", name="big", rule="except", workspaces="acme\numbra")
    send("edit/?tag=gpu", name="gpus", rule="everywhere", workspaces="acme")
    send("delete/", tag="hush")

    assert texts() == ["gpus", "big(^acme^umbra)"]


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"name": "two words", "rule": "everywhere"}, "name", "is not valid"),
        ({"name": "gpu", "rule": "everywhere"}, "name", "exists already"),
        ({"name": "x-$workspace", "rule": "only", "workspaces": "acme"}, "name", "is not valid"),
        ({"name": "x", "rule": "only"}, "workspaces", "at least one workspace"),
        ({"name": "x", "rule": "only", "workspaces": "a b"}, "name", "is not valid"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    root: Identity, fields: dict[str, str], field: str, says: str
) -> None:
    answer = send("new/", **fields)

    assert answer.status_code == 422 and says in answer.context["form"].errors[field][0]
    assert texts() == ["gpu(acme)", "hush(umbra)"]


def test_devops_see_all_tags_and_change_none(root: Identity) -> None:
    client = browser("ops@example.com")

    assert b"hush" in client.get(PAGE).content
    assert client.get(f"{PAGE}uses/?tag=gpu").status_code == 200
    for address in ("new/", "edit/?tag=gpu", "delete/"):
        answer = client.post(PAGE + address, {"name": "x", "rule": "everywhere", "tag": "gpu"})
        assert answer.status_code == 403
    assert texts() == ["gpu(acme)", "hush(umbra)"]


def test_members_see_the_tags_of_their_workspace_only(root: Identity) -> None:
    page = browser("ann@example.com").get(PAGE).content

    assert b"gpu" in page and b"hush" not in page and b"umbra" not in page
    assert browser("ann@example.com").get(f"{PAGE}uses/?tag=gpu").status_code == 403


def test_the_editor_suggests_the_tags_of_its_workspace(root: Identity) -> None:
    page = browser("ann@example.com").get("/w/acme/scripts/new/?language=bash").content.decode()

    assert '<option value="gpu">' in page and "hush" not in page


def test_of_many_tags_some_are_shown_and_all_are_found(root: Identity) -> None:
    for number in range(60):
        custom_tags.add(parse(f"rack-{number}" + ("(umbra)" if number == 55 else "")), actor=root)
    client = browser("root@example.com")

    first = client.get(PAGE)
    assert [row.tag.name for row in first.context["tags"][:3]] == ["gpu", "hush", "rack-0"]
    assert (len(first.context["tags"]), first.context["more"]) == (50, 12)

    assert [row.tag.name for row in client.get(PAGE + "?q=RACK-59").context["tags"]] == ["rack-59"]
    assert [row.tag.name for row in client.get(PAGE + "?q=umbra").context["tags"]] == ["hush", "rack-55"]
    assert len(client.get(PAGE + "?all=1").context["tags"]) == 62
    assert b"No tag matches" in client.get(PAGE + "?q=zzz").content
