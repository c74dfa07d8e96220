"""/openapi/: the API to read in the browser."""

from django.test import Client

from tests.api.conftest import World
from windmill_site.api_docs import kind_of


def browse(world: World, query: str = "") -> str:
    client = Client()
    client.cookies["token"] = world.tokens["dave"]
    answer = client.get(f"/openapi/{query}")
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_it_lists_every_route_with_parameters_and_answers(world: World) -> None:
    page = browse(world)

    assert 'id="createVariable"' in page and "/api/w/{workspace}/variables/create" in page
    assert "is_secret" in page and "text/plain" in page


def test_it_finds_routes_by_words(world: World) -> None:
    page = browse(world, "?q=TOKENS+impersonate")

    assert 'id="createTokenImpersonate"' in page and 'id="createVariable"' not in page
    assert "1 route." in page
    assert "No route holds" in browse(world, "?q=%3Cscript%3E") and "<script>" not in browse(
        world, "?q=%3Cscript%3E"
    )


def test_it_is_for_people_who_are_signed_in(db: None) -> None:
    assert Client().get("/openapi/").status_code == 302


def test_kinds_are_told_in_words() -> None:
    assert (
        kind_of({"type": "array", "items": {"type": "string"}, "nullable": True}) == "list of string or null"
    )
    assert kind_of({"$ref": "#/components/schemas/CreateTokenBodyRequest"}) == "CreateTokenBody"
    assert kind_of({"allOf": [{"$ref": "#/x/User"}]}) == "User"
    assert kind_of({}) == "any JSON"
