"""Every websocket, as everybody who should not get through. A new one fails here until it is classified."""

import asyncio
import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from channels.testing import WebsocketCommunicator

from jobs.models import Job
from jobs.ws_urls import websocket_urlpatterns
from tests.api.conftest import JOB_ID, SECRET, RunningJob, World
from tests.tenancy import token_for
from windmill_site.asgi import application

# Sockets look things up in threads of their own, so what the tests make must be committed.
pytestmark = pytest.mark.django_db(transaction=True)

SIGNED_OUT, NO_RIGHT, UNKNOWN = 4401, 4403, 4404
W = "ws/w/<workspace>/"
# Who is turned away, and how. Members who are not named here get through.
ROUTES: dict[str, dict[str | None, int]] = {
    W + "jobs/<id>": {
        None: SIGNED_OUT,
        "olga": UNKNOWN,  # of another workspace
        "dave": UNKNOWN,  # a developer who may not read the script
        "oscar": UNKNOWN,  # an operator who may not read the script
        "alice confined to other": NO_RIGHT,
        "scoped alice": NO_RIGHT,
        "may run something else": NO_RIGHT,
    },
    # Ticks tell members that they should look again, nothing else.
    W + "runs": {
        None: SIGNED_OUT,
        "olga": UNKNOWN,
        "alice confined to other": NO_RIGHT,
        "scoped alice": NO_RIGHT,
        "may run something else": NO_RIGHT,
        "may run the script": NO_RIGHT,
    },
    "": {who: UNKNOWN for who in (None, "root", "alice", "olga")},
}
ADMITTED = {
    W + "jobs/<id>": ["root", "alice", "read-only alice", "may run the script"],
    W + "runs": ["root", "alice", "dave", "oscar", "read-only alice"],
}
CASES = [(route, who) for route, refusals in ROUTES.items() for who in refusals]


def routes() -> list[str]:
    return [re.sub(r"<(?:\w+:)?(\w+)>", r"<\1>", str(pattern.pattern)) for pattern in websocket_urlpatterns]


@pytest.fixture(autouse=True)
def scoped(world: World) -> None:
    for name, path in (("may run the script", "f/private/script"), ("may run something else", "f/private/x")):
        world.tokens[name] = token_for("alice@example.com", scopes=[f"jobs:run:scripts:{path}"])


def address(route: str, *, workspace: str = "acme", id: str = str(JOB_ID)) -> str:
    return "/" + route.replace("<workspace>", workspace).replace("<id>", id)


async def _talk(path: str, headers: dict[str, str]) -> tuple[list[dict[str, Any]], int]:
    """(messages, close code) of a socket; code 0 when it stays open after its first message."""
    raw = [(name.encode(), value.encode()) for name, value in {"host": "testserver", **headers}.items()]
    socket = WebsocketCommunicator(application, path, headers=raw)
    messages: list[dict[str, Any]] = []
    try:
        is_open, code = await socket.connect(timeout=10)
        while is_open:
            event = await socket.receive_output(timeout=10)
            if event["type"] == "websocket.close":
                return messages, event["code"]
            messages.append(json.loads(event["text"]))
            if messages[-1]["type"] == "tick":
                return messages, 0
        return messages, code or 1000
    finally:
        await socket.disconnect()


def talk(path: str, token: str | None = None, **headers: str) -> tuple[list[dict[str, Any]], int]:
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    return asyncio.run(_talk(path, headers))


def test_every_websocket_is_classified() -> None:
    assert sorted(routes()) == sorted(ROUTES), "say in ROUTES who is turned away"
    assert sorted(filter(None, routes())) == sorted(ADMITTED), "say in ADMITTED who gets through"


@pytest.mark.parametrize(("route", "who"), CASES)
def test_who_has_no_right_hears_nothing(route: str, who: str | None, world: World) -> None:
    messages, code = talk(address(route), world.tokens.get(who or ""))

    assert (messages, code) == ([], ROUTES[route][who])


@pytest.mark.parametrize(
    ("route", "who"), [(route, who) for route, people in ADMITTED.items() for who in people]
)
def test_who_has_the_right_is_let_in(route: str, who: str, world: World) -> None:
    messages, code = talk(address(route), world.tokens[who])

    assert messages and code in (0, 1000)


def test_a_job_follows_what_its_person_may_follow_while_it_runs(
    world: World, running_job: RunningJob
) -> None:
    by_dave = running_job("dave")
    assert talk(address(W + "jobs/<id>"), by_dave) == ([], UNKNOWN)
    assert talk(address(W + "jobs/<id>", workspace="other"), by_dave) == ([], NO_RIGHT)

    running_job.end()

    assert talk(address(W + "runs"), by_dave) == ([], SIGNED_OUT)


@pytest.mark.parametrize("route", list(ADMITTED))
@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://testserver.evil.example", "http://[", "//testserver@evil"],
)
def test_a_page_of_another_site_cannot_use_the_readers_cookie(route: str, origin: str, world: World) -> None:
    messages, code = talk(address(route), cookie=f"token={world.tokens['alice']}", origin=origin)

    assert messages == [] and code in (1000, 1006, 403)


@pytest.mark.parametrize("route", list(ADMITTED))
@pytest.mark.parametrize(
    "hostile", ["\x00", "%00", "../other", "\udcff", "a" * 3000, "' OR 1=1 --", "acme%0A"]
)
def test_hostile_parts_of_the_address_close_the_socket(route: str, hostile: str, world: World) -> None:
    token = world.tokens["root"]
    for part in re.findall("<(workspace|id)>", route):
        path = address(route, **{part: hostile.encode("utf-8", "replace").decode()})
        messages, code = talk(path, token)
        assert (messages, code) == ([], UNKNOWN), f"{part}={hostile[:20]!r}"


@pytest.mark.parametrize(
    "offset", ["-1", "x", "9" * 15, "9" * 40, "1e3", "\u0663", "%00", "%ff", "0&log_offset=1", ""]
)
def test_hostile_offsets_never_break_a_socket(offset: str, world: World) -> None:
    messages, code = talk(
        f"{address(W + 'jobs/<id>')}?log_offset={quote(offset, safe='%&=')}", world.tokens["alice"]
    )

    assert code == 1000 and messages[-1] == {"type": "done"}


@pytest.mark.parametrize("token", ["", "%00", "%ff", "x" * 5000, "jwt_x", "jwt_" + "a.b.c"])
def test_hostile_tokens_are_no_tokens(token: str, world: World) -> None:
    assert talk(f"{address(W + 'runs')}?token={token}") == ([], SIGNED_OUT)


def test_signed_out_one_follows_jobs_of_nobody_only(world: World) -> None:
    Job.objects.filter(pk=JOB_ID).update(created_by="anonymous")

    messages, code = talk(address(W + "jobs/<id>"))

    assert code == 1000 and messages[0]["text"] == SECRET
