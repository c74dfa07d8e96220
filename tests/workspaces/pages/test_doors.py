"""Who gets into which page, and what they see instead when they do not."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver

from tests import tenancy
from workspaces import variables
from workspaces.models import Variable, Workspace

pytestmark = pytest.mark.django_db

LISTS = [
    "",
    "variables/",
    "resources/",
    "resource-types/",
    "folders/",
    "groups/",
    "users/",
    "workers/",
    "workers/tags/",
    "runs/",
]
FOR_OPERATORS = ["", "runs/"]
PARTS = {
    "path": "f/billing/secret",
    "name": "billing",
    "language": "python3",
    "username": "ada",
    "job_id": "01890000-0000-7000-8000-000000000000",
    "prefix": "abcdefghij",
    "alert_id": "1",
}


@pytest.fixture
def acme() -> Workspace:
    """A workspace with an admin (ada), a developer (bob), an operator (cleo), and something to read."""
    workspace = tenancy.make_workspace("acme", admin="ada@example.com")
    tenancy.join(workspace, "bob@example.com")
    tenancy.join(workspace, "cleo@example.com", operator=True)
    tenancy.make_account("eve@example.com")
    tenancy.fill(tenancy.enter(workspace, "ada@example.com"), "billing", secret="sk_live_hidden")
    return workspace


def browser(email: str, **limits: Any) -> Client:
    """A browser in which this account is signed in."""
    client = Client()
    client.cookies["token"] = tenancy.token_for(email, **limits)
    return client


def workspace_addresses() -> Iterator[str]:
    """Every address below /w/<workspace>/, with something plausible for each part."""

    def walk(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[str]:
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, route)
            elif route.startswith("w/<str:workspace>"):
                yield route

    for route in walk(get_resolver().url_patterns, ""):
        address = "/" + route.replace("<str:workspace>", "acme")
        for part, value in PARTS.items():
            for converter in ("str", "path", "uuid", "int"):
                address = address.replace(f"<{converter}:{part}>", value)
        yield address


def test_every_part_of_every_address_is_known_to_this_test() -> None:
    assert not [address for address in workspace_addresses() if "<" in address]


@pytest.mark.parametrize("address", LISTS)
def test_signed_out_people_are_sent_to_the_sign_in_page(acme: Workspace, address: str) -> None:
    answer = Client().get(f"/w/acme/{address}?q=x")

    assert answer.status_code == 302
    target = urlsplit(answer["Location"])
    assert target.path == "/login/"
    assert parse_qs(target.query) == {"next": [f"/w/acme/{address}?q=x"]}


def test_a_fragment_sends_the_whole_page_to_the_sign_in_page(acme: Workspace) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/w/acme/workers/"}

    answer = Client().get("/w/acme/workers/", headers=headers)

    assert answer.status_code == 204
    assert answer["HX-Redirect"] == "/login/?next=http%3A%2F%2Ftestserver%2Fw%2Facme%2Fworkers%2F"


def test_next_leads_nowhere_else(acme: Workspace) -> None:
    client = browser("ada@example.com")

    assert client.get("/login/?next=https://evil.example/")["Location"] == "/"
    assert client.get("/login/?next=//evil.example/")["Location"] == "/"


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_stranger_finds_nothing_at_any_address_of_a_workspace(acme: Workspace, method: str) -> None:
    client = browser("eve@example.com")

    for address in workspace_addresses():
        answer = getattr(client, method)(address)

        assert answer.status_code in (404, 405), address
        assert b"sk_live_hidden" not in answer.content


@pytest.mark.parametrize("method", ["get", "post"])
def test_nobody_signed_out_gets_anything_at_any_address(acme: Workspace, method: str) -> None:
    for address in workspace_addresses():
        answer = getattr(Client(), method)(address)

        assert answer.status_code in (302, 401, 405), address


@pytest.mark.parametrize("address", LISTS)
def test_operators_see_home_and_runs_only(acme: Workspace, address: str) -> None:
    answer = browser("cleo@example.com").get(f"/w/acme/{address}")

    assert answer.status_code == (200 if address in FOR_OPERATORS else 403)
    if answer.status_code == 403:
        assert "Admins of Acme, who can give it to you: ada." in answer.content.decode()


def test_what_one_may_not_read_is_not_listed_and_does_not_exist(acme: Workspace) -> None:
    client = browser("bob@example.com")

    assert "f/billing/secret" not in client.get("/w/acme/variables/").content.decode()
    assert client.get("/w/acme/variables/f/billing/secret/edit/").status_code == 404
    assert client.post("/w/acme/variables/f/billing/secret/reveal/").status_code == 404
    assert client.post("/w/acme/variables/f/billing/secret/delete/").status_code == 404
    assert Variable.objects.filter(path="f/billing/secret").exists()


def test_a_suggestion_names_only_what_the_reader_may_read(acme: Workspace) -> None:
    missing = "/w/acme/variables/f/billing/secrt/edit/"

    assert "f/billing/secret" in browser("ada@example.com").get(missing).content.decode()
    assert "f/billing/secret" not in browser("bob@example.com").get(missing).content.decode()


@pytest.mark.parametrize(
    "limits", [{"scopes": ["variables:read"]}, {"read_only": True}, {"workspace_id": "acme"}]
)
def test_limited_tokens_cannot_do_through_pages_what_they_may_not_do(
    acme: Workspace, limits: dict[str, Any]
) -> None:
    client = browser("ada@example.com", **limits)

    answer = client.post("/account/tokens/", {"label": "more", "lifetime": "", "workspace": ""})

    assert answer.status_code in (403, 422) or limits == {"workspace_id": "acme"}
    if limits != {"workspace_id": "acme"}:
        assert client.post("/w/acme/variables/u/ada/secret/delete/").status_code == 403


def test_forms_need_the_token_against_forgery(acme: Workspace) -> None:
    client = Client(enforce_csrf_checks=True)
    client.cookies["token"] = tenancy.token_for("ada@example.com")

    assert client.post("/w/acme/variables/u/ada/secret/delete/").status_code == 403
    assert Variable.objects.filter(path="u/ada/secret").exists()


def test_a_failed_deed_asked_by_htmx_leaves_the_page_and_says_why(acme: Workspace) -> None:
    answer = browser("ada@example.com").post(
        "/w/acme/variables/u/ada/gone/delete/", headers={"HX-Request": "true"}
    )

    assert answer.status_code == 404
    assert answer["HX-Reswap"] == "none"
    assert "u/ada/gone does not exist" in answer["HX-Trigger"]


def test_revealing_a_secret_is_by_post_and_never_cached(acme: Workspace) -> None:
    client = browser("ada@example.com")

    assert client.get("/w/acme/variables/u/ada/secret/reveal/").status_code == 405
    answer = client.post("/w/acme/variables/u/ada/secret/reveal/")
    assert answer.json() == {"value": "sk_live_hidden"}
    assert answer["Cache-Control"] == "no-store"


def queries_of(client: Client, address: str) -> list[str]:
    """The statements that a page costs, without those that only begin and end transactions."""
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 200
    statements = [query["sql"] for query in queries]
    return [sql for sql in statements if not sql.startswith(("SAVEPOINT", "RELEASE", "SELECT set_config"))]


@pytest.mark.parametrize("address", LISTS)
@pytest.mark.parametrize("email", ["ada@example.com", "bob@example.com"])
def test_a_list_page_costs_at_most_12_queries(acme: Workspace, address: str, email: str) -> None:
    caller = tenancy.enter(acme, email)
    for number in range(30):
        variables.create_variable(caller, path=f"u/{caller.username}/v{number}", value="1", is_secret=False)

    assert len(queries_of(browser(email), f"/w/acme/{address}")) <= 12


def test_the_palette_costs_at_most_12_queries_and_keeps_rights(acme: Workspace) -> None:
    client = browser("bob@example.com")

    assert len(queries_of(client, "/palette/?q=secret&w=acme")) <= 12
    assert "f/billing" not in client.get("/palette/?q=secret&w=acme").content.decode()


@pytest.mark.parametrize("query", ["cursor=nonsense", "cursor=MjAyNi0wMS0wMSAx", "cursor=" + "x" * 5000])
def test_a_cursor_of_ones_own_making_is_refused(acme: Workspace, query: str) -> None:
    answer = browser("ada@example.com").get(f"/w/acme/?{query}")

    assert answer.status_code == 400
    assert b"Cursor is not one that this list gave out." in answer.content
