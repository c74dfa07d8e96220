"""Hostile input on every page: an answer for people or a refusal, never a failure of ours."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver

from tests import tenancy
from tests.workspaces.pages.test_doors import PARTS, acme, browser, workspace_addresses
from workspaces.models import Workspace

__all__ = ["acme"]  # the fixture
pytestmark = pytest.mark.django_db

ADDRESSES = [
    *workspace_addresses(),
    "/",
    "/login/",
    "/account/",
    "/account/tokens/",
    "/workspaces/",
    "/workspaces/new/",
]
NAMES = (
    *(
        "path",
        "name",
        "value",
        "args",
        "later",
        "tag",
        "id",
        "deed",
        "filters",
        "all",
        "hash",
        "from",
        "to",
        "force",
    ),
    *(
        "reason",
        "latest",
        "email",
        "username",
        "role",
        "owner",
        "level",
        "summary",
        "description",
        "is_secret",
        "labels",
    ),
    *(
        "resource_type",
        "schema",
        "next",
        "ticket",
        "password",
        "new_password",
        "repeated",
        "label",
        "lifetime",
        "color",
    ),
    *(
        "workspace",
        "scopes",
        "expiration",
        "members",
        "principal",
        "q",
        "cursor",
        "page",
        "group",
        "kind",
        "language",
    ),
    *(
        "newest",
        "after",
        "since",
        "until",
        "range",
        "status",
        "fill",
        "at",
        "theme",
        "part",
        "file",
        "old_password",
    ),
)
VALUES = [
    "",
    "\x00",
    "../../etc/passwd",
    "x" * 20_000,
    "-1",
    "99999999999999999999999",
    "' OR 1=1 --",
    "<script>alert(1)</script>",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    "[" * 3000,
    '{"a": 1e999}',
    "9999-12-31T23:59:59-14:00",
    "1/0/99999999",
    "\u202e\u0663\r\nSet-Cookie: a=b",
]
TEXTS = [
    b"{",
    b"[]",
    b"null",
    b'{"value": 1, "path": [], "content": {}, "args": "x", "language": 7, "base": "zz"}',
    b"[" * 50_000,
    b"\xff\xfe",
    b'{"a": "\\u0000"}',
    b'{"a": NaN}',
    b'{"value": {"content": 7, "timeout": "x"}}',
]


@pytest.fixture
def ada(acme: Workspace) -> Client:
    client = browser("ada@example.com")
    client.raise_request_exception = False
    return client


def check(answer: Any, doing: str) -> None:
    assert answer.status_code < 500, f"{doing} answered {answer.status_code}"
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    assert b"<script>alert(1)</script>" not in content or answer["Content-Type"].startswith(
        ("application/json", "text/plain")
    ), doing
    assert "a" not in answer.cookies, doing


def without_leaving(addresses: list[str]) -> Iterator[str]:
    return (address for address in addresses if "logout" not in address)


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_no_query_makes_a_page_fail(value: str, ada: Client) -> None:
    for address in ADDRESSES:
        for headers in ({}, {"HX-Request": "true"}):
            check(ada.get(address, dict.fromkeys(NAMES, value), headers=headers), f"GET {address}")


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_no_form_makes_a_page_fail(value: str, ada: Client) -> None:
    for address in ADDRESSES:
        check(
            ada.post(address, dict.fromkeys(NAMES, value), headers={"HX-Request": "true"}), f"POST {address}"
        )


@pytest.mark.parametrize("body", TEXTS, ids=range(len(TEXTS)))
def test_no_body_makes_a_page_fail(body: bytes, ada: Client) -> None:
    for address in ADDRESSES:
        for content_type in ("application/json", "multipart/form-data", "application/x-www-form-urlencoded"):
            check(ada.post(address, body, content_type=content_type), f"POST {address} as {content_type}")


@pytest.mark.parametrize(
    "hostile",
    [
        "%00",
        "%ff%fe",
        "..%2f..%2fetc",
        "a" * 3000,
        "%0d%0aSet-Cookie:a=b",
        "%27%22%3Cscript%3E",
        "-1",
        "%F0%9F%92%A9",
    ],
)
def test_no_address_makes_a_page_fail(hostile: str, ada: Client) -> None:
    for address in ADDRESSES:
        for part in [part for part in PARTS.values() if part in address]:
            for method in ("get", "post"):
                check(
                    getattr(ada, method)(address.replace(part, hostile)),
                    f"{method} {address} with {hostile[:20]}",
                )
        check(ada.get(address.replace("/w/acme/", f"/w/{hostile}/")), address)


def test_the_operator_of_a_page_finds_no_failure_either(acme: Workspace) -> None:
    client = browser("cleo@example.com")
    client.raise_request_exception = False
    for address in ADDRESSES:
        check(client.post(address, dict.fromkeys(NAMES, "<script>alert(1)</script>")), f"POST {address}")


def test_every_page_that_takes_a_form_needs_the_token_against_forgery(acme: Workspace) -> None:
    client = Client(enforce_csrf_checks=True)
    client.cookies["token"] = tenancy.token_for("ada@example.com")
    for address in [*ADDRESSES, "/logout/"]:
        answer = client.post(address, {"x": "y"}, headers={"Origin": "https://evil.example"})
        assert answer.status_code in (403, 405), f"{address} answered {answer.status_code}"
        answer = client.post(address, json.dumps({}), content_type="text/plain")
        assert answer.status_code in (403, 405), f"{address} answered {answer.status_code}"


def test_no_view_is_exempt_from_forgery_checks_but_the_api() -> None:
    exempt = []

    def walk(patterns: Any, prefix: str) -> None:
        for pattern in patterns:
            address = prefix + str(pattern.pattern)
            if hasattr(pattern, "url_patterns"):
                walk(pattern.url_patterns, address)
            elif getattr(pattern.callback, "csrf_exempt", False) and not re.match(r"\^?api\b", address):
                exempt.append(address)

    walk(get_resolver().url_patterns, "")
    assert exempt == []
