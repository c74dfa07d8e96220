"""Hostile input on every route that reads a body or an address: a sentence, no change, never a failure of ours."""

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.conftest import World
from tests.api.test_every_route import API as EVERY_ROUTE
from tests.api.test_every_route import BODIES, address
from windmill_site import openapi

# Scripts and jobs take free-form arguments and have tests of their own.
API = [
    (method, route)
    for method, route in EVERY_ROUTE
    if not re.search(r"(^|>/)(jobs|jobs_u|scripts|workers|job_metrics)/", route)
]
NOT_JSON = [
    b"{",
    b"{'a': 1}",
    b"\xff\xfe\x00",
    b'{"a": NaN}',
    b'{"a": 1e999}',
    b"[" * 100_000,
    b'"\\ud800"',
    b"nul",
]
NOT_AN_OBJECT = [b"[]", b'"text"', b"1", b"null", b"true"]


def operation(method: str, route: str) -> dict[str, Any]:
    """What the schema says about a route."""
    path = "/api/" + route.replace("<", "{").replace(">", "}")
    found: dict[str, Any] = openapi.schema()["paths"][path][method.lower()]
    return found


def body_fields(method: str, route: str) -> dict[str, Any]:
    """The fields of the JSON body, by name; empty for routes that read none."""
    content = operation(method, route).get("requestBody", {}).get("content", {})
    reference = content.get("application/json", content.get("*/*", {})).get("schema", {}).get("$ref")
    if reference is None:
        return {}
    fields: dict[str, Any] = openapi.schema()["components"]["schemas"][reference.rsplit("/", 1)[1]][
        "properties"
    ]
    return fields


READ_BODY = [(method, route) for method, route in API if method != "GET" and body_fields(method, route)]


def test_the_routes_that_read_a_body_are_found() -> None:
    assert len(READ_BODY) > 25


def refuse(answer: Any, doing: str) -> None:
    assert 400 <= answer.status_code < 500, f"{doing} answered {answer.status_code} {answer.content[:200]!r}"
    assert answer["Content-Type"].startswith("text/plain"), doing
    assert b": " in answer.content and len(answer.content) > 25, (
        f"{doing} explains nothing: {answer.content!r}"
    )


@pytest.mark.parametrize(("method", "route"), READ_BODY, ids=[route for _, route in READ_BODY])
def test_a_body_that_is_not_a_json_object_is_refused(
    method: str, route: str, world: World, unchanged: Any
) -> None:
    unchanged()

    for body in NOT_JSON + NOT_AN_OBJECT:
        refuse(world.call("root", method, address(route), body), f"{route} with {body[:30]!r}")

    unchanged(route)


WRONG: dict[str, list[Any]] = {
    "string": [1, 1.5, True, [], {}, ["a"], "a\x00b"],
    "boolean": ["true", 1, 0, "", [], {}],
    "integer": ["1", 1.5, True, [], {}, 2**70],
    "array": ["a", 1, True, {}, [1], [None], [{"x": 1}], ["\x00"]],
    "object": ["a", 1, True, [], {"\x00": 1}],
}


@pytest.mark.parametrize(("method", "route"), READ_BODY, ids=[route for _, route in READ_BODY])
def test_a_field_of_the_wrong_type_is_refused(method: str, route: str, world: World, unchanged: Any) -> None:
    unchanged()

    for name, field in body_fields(method, route).items():
        for value in WRONG.get(field.get("type", ""), ["\x00", {"a": "\x00"}]):
            body = {**BODIES.get(route, {}), name: value}
            refuse(world.call("root", method, address(route), body), f"{route} with {name}={value!r}")

    unchanged(route)


HOSTILE = [
    "../../etc/passwd",
    "f/../x/y",
    "u/alice/..",
    "%00",
    "f/private/%00",
    "%ff%fe",
    "f//x",
    "a" * 3000,
    "f/private/" + "x" * 400,
    "' OR 1=1 --",
    "%F0%9F%92%A9",
    "-1",
    "99999999999999999999999",
    "f/private/secret%0A",
    ".",
    "%2e%2e%2f",
    "{x}",
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_parameters_in_the_address_never_fail_and_change_nothing(
    hostile: str, world: World, unchanged: Any
) -> None:
    unchanged()
    for method, route in API:
        for name in re.findall(r"<(\w+)>", route):
            body = BODIES.get(route, {}) if method != "GET" else None
            answer = world.call("root", method, address(route, **{name: hostile}), body)

            doing = f"{method} {route} with {name}={hostile[:40]!r}"
            assert answer.status_code < 500, f"{doing}: {answer.content[:200]!r}"
            if answer.status_code >= 400:
                assert answer["Content-Type"].startswith("text/plain"), doing
            if method != "GET":
                unchanged(doing, expected=answer.status_code < 400)


QUERIES = [
    "page=-1",
    "page=x",
    "per_page=1e3",
    "page=99999999999999999999",
    "before=yesterday",
    "before_id=x",
    "action_kind=Break",
    "decrypt_secret=maybe",
    "already_encrypted=2",
    "path=%00",
    "label=%ff",
    "page=%EF%BC%91",
]


@pytest.mark.parametrize("query", QUERIES)
def test_hostile_queries_never_fail(query: str, world: World) -> None:
    for method, route in API:
        if method == "GET":
            answer = world.get("root", f"{address(route)}?{query}")
            assert answer.status_code < 500, f"{route}?{query}: {answer.content[:200]!r}"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({name for method, route in READ_BODY for name in body_fields(method, route)})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    call=st.sampled_from(READ_BODY),
    body=st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), json_values, max_size=6),
)
def test_whatever_the_body_holds_nothing_fails(
    call: tuple[str, str], body: dict[str, Any], world: World
) -> None:
    method, route = call
    # json.dumps writes lone surrogates as escapes, as a hostile client would.
    answer = world.call(
        "root", method, address(route), json.dumps({**BODIES.get(route, {}), **body}).encode()
    )

    assert answer.status_code < 500, f"{method} {route} {body!r}: {answer.content[:300]!r}"
    if answer.status_code >= 400:
        assert answer["Content-Type"].startswith("text/plain")


def test_a_body_of_ten_megabytes_is_stored_or_refused(world: World) -> None:
    big = {"path": "f/private/big", "value": "x" * 10_000_000, "resource_type": "text"}

    stored = world.post("alice", "w/acme/resources/create", big)
    refused = world.post("alice", "w/acme/variables/create", {**big, "is_secret": False})

    assert stored.status_code == 201
    assert world.get("alice", "w/acme/resources/get_value/f/private/big").json() == big["value"]
    assert refused.status_code == 400 and b"at most 5000000" in refused.content


def test_a_body_over_the_limit_is_413_however_it_is_sent(world: World, settings: Any) -> None:
    settings.MAX_REQUEST_SIZE_MB = 1
    body = json.dumps({"path": "f/private/big", "value": "x" * 2_000_000, "is_secret": False}).encode()

    announced = world.post("alice", "w/acme/variables/create", body)

    assert announced.status_code == 413
    assert b"MAX_REQUEST_SIZE_MB" in announced.content


@pytest.mark.parametrize("length", ["\xb2", "-1", "1e3", "0x10"])
def test_a_length_that_is_no_number_is_refused(length: str, world: World) -> None:
    headers = {"CONTENT_LENGTH": length}

    answer = world.client.generic("POST", "/api/auth/login", b"{}", "application/json", **headers)

    assert answer.status_code == 400
