"""Synchronous runs against real servers: results as stored, composite answers, time limits, clients that leave."""

import asyncio
import json
import time

import httpx
import psutil
import pytest
from django.db import connection

from jobs import queue
from jobs.models import CompletedJob, Job, QueuedJob
from tests.api.served.conftest import ECHO
from tests.browser.site import wait_until


def args_of(claim):
    return claim.args


def test_a_result_comes_back_as_it_was_stored_on_every_server(acme, echo_worker):
    acme.deploy("u/alice/echo")
    echo_worker(args_of)

    for server in (0, 1):
        answer = acme.http.post(
            acme.api("jobs/run_wait_result/p/u/alice/echo", server=server), json={"z": 1.5, "a": [1]}
        )
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json() == {"z": 1.5, "a": [1]}
    assert acme.http.get(acme.api("jobs/run_wait_result/p/u/alice/echo?payload=eyJ4IjoyfQ==")).json() == {
        "x": 2
    }


def test_previews_and_versions_wait_too(acme, echo_worker):
    version = acme.deploy("u/alice/echo")
    echo_worker(args_of)

    by_hash = acme.http.post(acme.api(f"jobs/run_wait_result/h/{version}"), json={"x": 1})
    preview = acme.http.post(
        acme.api("jobs/run_wait_result/preview"),
        json={"content": "", "language": "python3", "args": {"x": 2}, "tag": ECHO},
    )

    assert by_hash.json() == {"x": 1} and preview.json() == {"x": 2}


def test_a_failure_is_422_with_the_error(acme, echo_worker):
    acme.deploy("u/alice/echo")
    echo_worker(lambda claim: {"error": {"name": "Boom", "message": "no"}})

    answer = acme.http.post(acme.api("jobs/run_wait_result/p/u/alice/echo"), json={})

    assert answer.status_code == 422 and answer.json() == {"error": {"name": "Boom", "message": "no"}}


@pytest.mark.parametrize(
    ("result", "status", "content_type", "body"),
    [
        (
            {"windmill_status_code": 201, "result": {"b": 1, "a": 2}},
            201,
            "application/json",
            '{"b": 1, "a": 2}',
        ),
        ({"windmill_content_type": "text/csv", "result": "a,b"}, 200, "text/csv", "a,b"),
        ({"windmill_headers": {"X-A": "1"}}, 204, None, ""),
        ({"windmill_status_code": 302, "windmill_headers": {"Location": "/x"}}, 302, None, ""),
        ({"windmill_status_code": 999, "result": 1}, 422, "text/plain; charset=utf-8", None),
        (
            {"windmill_headers": {"X-A": "1\r\nSet-Cookie: a=b"}, "result": 1},
            422,
            "text/plain; charset=utf-8",
            None,
        ),
        ({"windmill_content_type": "text/html\r\nX: y", "result": 1}, 422, "text/plain; charset=utf-8", None),
        ({"result": 5}, 200, "application/json", '{"result": 5}'),
    ],
)
def test_composite_results_shape_the_answer(acme, echo_worker, result, status, content_type, body):
    acme.deploy("u/alice/echo")
    echo_worker(lambda claim: result)

    answer = acme.http.post(acme.api("jobs/run_wait_result/p/u/alice/echo"), json={})

    assert answer.status_code == status, answer.text
    assert content_type is None or answer.headers["content-type"] == content_type
    assert body is None or answer.text == body
    assert "set-cookie" not in answer.headers


def test_a_script_cannot_set_cookies_or_run_in_our_origin(acme, echo_worker):
    acme.deploy("u/alice/echo")
    page = {"windmill_content_type": "text/html", "windmill_headers": {"Set-Cookie": "token=x", "X-Ok": "1"}}
    echo_worker(lambda claim: page | {"result": "<script>"})

    answer = acme.http.post(acme.api("jobs/run_wait_result/p/u/alice/echo"), json={})

    assert answer.text == "<script>" and answer.headers["x-ok"] == "1"
    assert "set-cookie" not in answer.headers
    assert answer.headers["content-security-policy"].startswith("sandbox")


def test_large_results_pass_through(acme, echo_worker):
    acme.deploy("u/alice/echo")
    large = "é" * 1_500_000  # nine megabytes of JSON, escaped as it is
    echo_worker(lambda claim: large)

    answer = acme.http.post(acme.api("jobs/run_wait_result/p/u/alice/echo"), json={})

    assert answer.json() == large


def test_after_the_limit_the_answer_says_so_and_the_job_goes_on(acme):
    acme.deploy("u/alice/slow")

    answer = acme.http.post(acme.api("jobs/run_wait_result/p/u/alice/slow"), json={})

    assert answer.status_code == 504 and "5 s" in answer.text
    assert QueuedJob.objects.filter(workspace_id=acme.workspace_id, canceled_by=None).exists()


def test_a_client_that_leaves_cancels_its_job(acme):
    acme.deploy("u/alice/slow")

    with pytest.raises(httpx.ReadTimeout):
        acme.http.post(acme.api("jobs/run_wait_result/p/u/alice/slow"), json={}, timeout=0.5)

    def canceled():
        return CompletedJob.objects.filter(workspace_id=acme.workspace_id, status="canceled").first()

    job = wait_until(canceled, "the job to be canceled", 5)
    assert job.canceled_reason == "http connection broke"


def test_more_waiting_jobs_than_queue_limit_are_refused(acme):
    acme.deploy("u/alice/slow")
    for _ in range(3):
        acme.http.post(acme.api("jobs/run/p/u/alice/slow"), json={})

    answer = acme.http.post(acme.api("jobs/run_wait_result/p/u/alice/slow?queue_limit=2"), json={})

    assert answer.status_code == 429
    assert Job.objects.filter(workspace_id=acme.workspace_id).count() == 3


def test_hundreds_wait_without_a_thread_or_a_connection_each(acme):
    acme.deploy("u/alice/slow")
    port = acme.served.urls[0].rpartition(":")[2]
    (server,) = [
        process
        for process in psutil.process_iter(["cmdline"])
        if {"daphne", port} <= set(process.info["cmdline"] or ())
    ]

    threads = asyncio.run(_threads_while_waiting(acme, server, 200))

    assert threads < 60, "a waiting request must not hold a thread"


async def _threads_while_waiting(acme, server, count):
    """The threads of the server while so many clients wait; they leave afterwards."""
    limits = httpx.Limits(max_connections=count)
    async with httpx.AsyncClient(headers=acme.http.headers, timeout=20, limits=limits) as client:
        url = acme.api("jobs/run_wait_result/p/u/alice/slow")
        waiting = [asyncio.create_task(client.post(url, json={})) for _ in range(count)]
        while await asyncio.to_thread(_queued, acme.workspace_id) < count:
            assert not any(task.done() for task in waiting)
            await asyncio.sleep(0.02)
        threads = server.num_threads()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return threads


def _queued(workspace_id):
    try:
        return QueuedJob.objects.filter(workspace_id=workspace_id).count()
    finally:
        connection.close()


def test_getupdate_answers_news_at_once_and_otherwise_waits_a_little(acme):
    acme.deploy("u/alice/slow")
    job_id = acme.http.post(acme.api("jobs/run/p/u/alice/slow"), json={}).text
    url = acme.api(f"jobs_u/getupdate/{job_id}")

    began = time.monotonic()
    nothing = acme.http.get(url, params={"log_offset": 0, "running": False}).json()
    waited = time.monotonic() - began
    (claim,) = [c for c in queue.claim_jobs(worker="w", tags=[ECHO], limit=100) if str(c.id) == job_id]
    queue.append_log((claim.id, claim.attempt), "one\ntwo\n")
    running = acme.http.get(url, params={"log_offset": 4, "running": False}).json()
    queue.complete_job((claim.id, claim.attempt), result=1)
    done = acme.http.get(url, params={"log_offset": 8, "running": True}).json()

    assert nothing == {"running": False, "completed": False, "log_offset": 0} and 0.9 < waited < 3
    assert running == {"running": True, "completed": False, "log_offset": 8, "new_logs": "two\n"}
    assert done == {"running": False, "completed": True, "log_offset": 8}


def test_a_stream_tells_the_log_and_then_the_result(acme, echo_worker):
    acme.deploy("u/alice/echo")

    def answer(claim):
        queue.append_log((claim.id, claim.attempt), "hello\n")
        return {"a": "x\ny"}

    echo_worker(answer)

    with acme.http.stream("POST", acme.api("jobs/run_and_stream/p/u/alice/echo"), json={}) as response:
        assert response.headers["content-type"] == "text/event-stream"
        events = [json.loads(line[6:]) for line in response.iter_lines() if line]

    assert {event["type"] for event in events} == {"update"}
    assert "".join(event.get("new_logs", "") for event in events) == "hello\n"
    assert events[-1]["completed"] is True and events[-1]["only_result"] == {"a": "x\ny"}
