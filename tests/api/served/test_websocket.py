"""Live logs over websockets: from any server, resumed by offset, to those who may see the job."""

import asyncio
import json
import statistics
import time
import uuid
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import websockets
from django.db import connection

from jobs import queue
from jobs.models import Job
from tests.api.served.conftest import ECHO
from tests.tenancy import join, token_for
from workspaces.models import Member, Token


def start(acme):
    """A job of acme that this test works on: its id and claim."""
    acme.deploy("u/alice/logs") if not Job.objects.filter(workspace_id=acme.workspace_id).exists() else None
    job_id = acme.http.post(acme.api("jobs/run/p/u/alice/logs"), json={}).text
    claims = {str(claim.id): claim for claim in queue.claim_jobs(worker="w", tags=[ECHO], limit=200)}
    claim = claims[job_id]
    return job_id, (claim.id, claim.attempt)


def address(acme, path, *, server=0):
    return f"ws{acme.served.urls[server][4:]}/ws/w/{acme.workspace_id}/{path}"


@asynccontextmanager
async def watching(acme, job_id, *, offset=0, server=0, token=None, **options):
    url = address(acme, f"jobs/{job_id}?log_offset={offset}&token={token or acme.token}", server=server)
    async with websockets.connect(url, **options) as socket:
        yield socket


async def messages(socket):
    """All messages until the server closes."""
    return [json.loads(message) async for message in socket]


async def until_log(socket, text):
    """Read until the log so far ends with `text`; answers the offset after it."""
    while True:
        message = json.loads(await asyncio.wait_for(socket.recv(), 10))
        if message["type"] == "log" and message["text"].endswith(text):
            return message["next"]


async def close_code(url, **options):
    async with websockets.connect(url, **options) as socket:
        await asyncio.wait_for(socket.wait_closed(), 10)
        return socket.close_code


def in_thread(function, *args, **kwargs):
    def call():
        try:
            return function(*args, **kwargs)
        finally:
            connection.close()

    return asyncio.to_thread(call)


def test_both_servers_tell_the_same_log_in_order_and_the_end(acme):
    job_id, claim = start(acme)

    async def scenario():
        async with watching(acme, job_id) as one, watching(acme, job_id, server=1) as other:
            for line in range(20):
                await in_thread(queue.append_log, claim, f"line {line} é😀\n")
            await in_thread(queue.complete_job, claim, result=1)
            return await messages(one), await messages(other), one.close_code

    one, other, code = asyncio.run(scenario())

    expected = "".join(f"line {line} é😀\n" for line in range(20))
    for told in (one, other):
        assert "".join(message["text"] for message in told if message["type"] == "log") == expected
        assert told[-1] == {"type": "done"} and told[-2]["job"]["status"] == "success"
    assert code == 1000


def test_a_reader_resumes_where_it_was_without_loss_or_doubles(acme):
    job_id, claim = start(acme)

    async def scenario():
        await in_thread(queue.append_log, claim, "first\n")
        async with watching(acme, job_id) as socket:
            offset = await until_log(socket, "first\n")
        await in_thread(queue.append_log, claim, "second\n")
        await in_thread(queue.complete_job, claim, result=1)
        async with watching(acme, job_id, offset=offset, server=1) as socket:
            return await messages(socket)

    told = asyncio.run(scenario())

    assert [message["text"] for message in told if message["type"] == "log"] == ["second\n"]


def test_a_large_log_comes_in_bounded_messages(acme):
    job_id, claim = start(acme)
    for _ in range(5):
        queue.append_log(claim, "x" * 200_000)
    queue.complete_job(claim, result=1)

    async def scenario():
        async with watching(acme, job_id) as socket:
            return await messages(socket)

    logs = [message for message in asyncio.run(scenario()) if message["type"] == "log"]

    assert sum(len(message["text"]) for message in logs) == 1_000_000
    assert max(len(message["text"]) for message in logs) <= 256 * 1024
    assert all(a["next"] == b["offset"] for a, b in pairwise(logs))


def test_a_line_reaches_the_reader_within_150_ms(acme):
    job_id, claim = start(acme)

    async def scenario():
        delays = []
        async with watching(acme, job_id) as socket:
            await socket.recv()
            for number in range(10):
                await asyncio.sleep(0.12)
                began = time.monotonic()
                await in_thread(queue.append_log, claim, f"{number}\n")
                await until_log(socket, f"{number}\n")
                delays.append(time.monotonic() - began)
        return delays

    delays = asyncio.run(scenario())

    assert statistics.median(delays) < 0.15, delays  # whatever else the machine does now and then


def test_a_chatty_job_sends_ten_messages_a_second_at_most(acme):
    job_id, claim = start(acme)

    async def scenario():
        async with watching(acme, job_id) as socket:
            began = time.monotonic()
            while time.monotonic() - began < 1.0:
                await in_thread(queue.append_log, claim, "tick\n")
            await in_thread(queue.complete_job, claim, result=1)
            return await messages(socket), time.monotonic() - began

    told, took = asyncio.run(scenario())

    assert len([message for message in told if message["type"] == "log"]) <= 10 * took + 2


@pytest.mark.parametrize("path", ["jobs/{unknown}", "jobs/7", "nothing"])
def test_an_unknown_address_closes_with_4404(acme, path):
    url = address(acme, path.format(unknown=uuid.uuid4())) + f"?token={acme.token}"

    assert asyncio.run(close_code(url)) == 4404


def test_strangers_learn_nothing(acme):
    job_id, _ = start(acme)
    join(acme.caller.workspace, "dave@example.com")
    url = address(acme, f"jobs/{job_id}")

    assert asyncio.run(close_code(url)) == 4401
    assert asyncio.run(close_code(url + "?token=nonsense")) == 4401
    assert asyncio.run(close_code(f"{url}?token={token_for('dave@example.com')}")) == 4404
    scoped = token_for("alice@example.com", scopes=["variables:read"])
    assert asyncio.run(close_code(f"{url}?token={scoped}")) == 4403


def test_the_cookie_works_from_our_own_pages_only(acme):
    job_id, claim = start(acme)
    queue.complete_job(claim, result=1)
    url, cookie = address(acme, f"jobs/{job_id}"), {"Cookie": f"token={acme.token}"}

    async def own_page():
        async with websockets.connect(url, additional_headers=cookie, origin=acme.served.urls[0]) as socket:
            return await messages(socket)

    async def other_page():
        async with websockets.connect(url, additional_headers=cookie, origin="https://evil.example"):
            pass

    assert asyncio.run(own_page())[-1] == {"type": "done"}
    with pytest.raises(websockets.InvalidStatus):
        asyncio.run(other_page())


def test_lists_of_runs_are_told_when_to_look_again(acme):
    async def scenario():
        async with websockets.connect(address(acme, f"runs?token={acme.token}"), open_timeout=5) as socket:
            first = json.loads(await asyncio.wait_for(socket.recv(), 5))
            await in_thread(start, acme)
            return first, json.loads(await asyncio.wait_for(socket.recv(), 5))

    assert asyncio.run(scenario()) == ({"type": "tick"}, {"type": "tick"})


def test_ticks_are_for_members(acme):
    Member.objects.filter(workspace_id=acme.workspace_id).delete()
    assert asyncio.run(close_code(address(acme, f"runs?token={acme.token}"))) == 4404
    Token.objects.all().delete()
    assert asyncio.run(close_code(address(acme, f"runs?token={acme.token}"))) == 4401
