"""GraphQL scripts, against a small server that answers what a test wants."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.workers.job_runs import Jobs, Ran
from workers.runtimes import Limits
from workers.runtimes.graphql import Graphql


class Server(ThreadingHTTPServer):
    """Remembers requests; answers `answer` with `status`, or hangs."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.status = 200
        self.answer: Any = {"data": {"ok": True}}
        self.headers: dict[str, str] = {}
        self.hangs = False
        self.asked = threading.Event()
        self.go_on = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/graphql"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(({key.lower(): value for key, value in self.headers.items()}, body))
        self.server.asked.set()
        if self.server.hangs:
            self.server.go_on.wait(30)
        answer = self.server.answer
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.go_on.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def run(jobs: Jobs, server: Server) -> Iterator[Any]:
    def run(code: str, /, *, api: Any = None, args: dict[str, Any] | None = None, **given: Any) -> Ran:
        api = {"base_url": server.url} if api is None else api
        return jobs("graphql", code, args={"api": api, **(args or {})}, **given)

    yield run
    executor = jobs.executors["graphql"]
    assert isinstance(executor, Graphql)
    jobs.runner.run(executor.close())


def test_the_data_is_the_result_and_variables_are_sent(run, server):
    server.answer = {"data": {"user": {"name": "é", "n": 1.5}}, "extensions": {}}
    code = "query User($id: ID!, $n: Int = 3, $m: Int = 4) { user(id: $id) { name } }"

    ran = run(code, args={"id": "7", "m": 5, "other": 1})

    assert ran.outcome.result_json == '{"user":{"name":"é","n":1.5}}'
    [(headers, body)] = server.requests
    assert body == {"query": code, "variables": {"id": "7", "m": 5}}
    assert headers["content-type"] == "application/json"
    assert "authorization" not in headers


def test_the_resource_gives_token_and_headers(run, server):
    run("{ ok }", api={"base_url": server.url, "bearer_token": "t0k", "custom_headers": {"X-Team": "blue"}})

    [(headers, _)] = server.requests
    assert headers["authorization"] == "Bearer t0k"
    assert headers["x-team"] == "blue"


def test_the_first_of_several_operations_is_run(run, server):
    run("query A($x: Int) { a } query B { b }", args={"x": 1})

    [(_, body)] = server.requests
    assert (body["operationName"], body["variables"]) == ("A", {"x": 1})


def test_errors_of_the_answer_fail_the_job_with_their_places(run, server):
    problem = {
        "message": "no such field",
        "path": ["user", 0, "nme"],
        "locations": [{"line": 2, "column": 3}],
    }
    server.answer = {"errors": [problem, {"message": "and more"}], "data": {"user": None}}

    error = run("{ user }").error

    assert error["name"] == "GraphQLError"
    assert error["message"] == "no such field (at user.0.nme) (line 2)\nand more"
    assert error["extra"] == {"errors": [problem, {"message": "and more"}], "data": {"user": None}}


@pytest.mark.parametrize(
    ("status", "answer", "name", "told"),
    [
        (500, b"<h1>oops</h1>", "HttpError", "HTTP status 500: <h1>oops</h1>"),
        (401, {"message": "who?"}, "HttpError", 'HTTP status 401: {"message": "who?"}'),
        (400, {"errors": [{"message": "bad query"}]}, "GraphQLError", "bad query"),
        (302, b"", "HttpError", "HTTP status 302 (redirects are not followed): nothing"),
        (200, b"hello", "NotGraphQL", "no GraphQL response (a JSON object with data): hello"),
        (200, b"\xff\x00\xfe", "NotGraphQL", "no GraphQL response"),
        (200, [1], "NotGraphQL", "no GraphQL response"),
        (200, b'{"data": ', "InvalidResult", "the answer is not valid JSON"),
    ],
)
def test_answers_that_are_no_data_say_what_came_instead(run, server, status, answer, name, told):
    server.status, server.answer = status, answer
    server.headers = {"location": "http://127.0.0.1:1/"} if status == 302 else {}

    error = run("{ ok }").error

    assert (error["name"], told in error["message"]) == (name, True), error


def test_a_syntax_error_has_its_line_and_nothing_is_sent(run, server):
    error = run("query {\n  a(\n}").error

    assert error["name"] == "GraphQLSyntaxError"
    assert "(line 3)" in error["message"]
    assert server.requests == []


@pytest.mark.parametrize("code", ["fragment F on X { a }", "query A { a } query { b }".replace("A ", "")])
def test_a_script_that_names_nothing_to_run_says_so(run, server, code):
    assert run(code).error["name"] in ("NoOperation", "GraphQLSyntaxError")
    assert server.requests == []


@pytest.mark.parametrize(
    ("api", "told"),
    [
        ("u/me/api", "should be a graphql resource"),
        ({}, "has no base_url"),
        ({"base_url": "file:///etc/passwd"}, "begins with http:// or https://"),
        ({"base_url": "http://[oops"}, "begins with http:// or https://"),
        ({"base_url": "http://x/", "bearer_token": "a\r\nb: c"}, "bearer_token should be text of one line"),
        ({"base_url": "http://x/", "custom_headers": {"a b": "c"}}, "have a name that is none: 'a b'"),
        ({"base_url": "http://x/", "custom_headers": {"a": 1}}, "header a should be text"),
        (
            {"base_url": "http://x/", "custom_headers": []}.copy() | {"custom_headers": [1]},
            "should be an object",
        ),
    ],
)
def test_a_resource_that_cannot_be_used_says_why(run, api, told):
    error = run("{ ok }", api=api).error

    assert error["name"] == "BadResource"
    assert told in error["message"]


def test_a_host_that_does_not_answer_is_named_without_secrets(run):
    error = run("{ ok }", api={"base_url": "http://user:hunter2@127.0.0.1:1/graphql?key=hunter3"}).error

    assert error["name"] == "RequestFailed"
    assert "http://127.0.0.1:1/graphql" in error["message"]
    assert "hunter" not in json.dumps(error)


def test_a_timeout_ends_the_request(run, server):
    server.hangs = True

    assert "timed out" in run("{ ok }", timeout_s=0.2).error["message"]


def test_a_cancelled_job_ends_the_request(jobs, server):
    server.hangs = True

    async def cancelled() -> None:
        task = asyncio.create_task(jobs.run("graphql", "{ ok }", args={"api": {"base_url": server.url}}))
        await asyncio.to_thread(server.asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    jobs.runner.run(cancelled())


def test_an_answer_that_is_too_large_is_refused(run, server):
    server.answer = {"data": "x" * 200_000}

    assert run("{ ok }", limits=Limits(result_bytes=100_000)).error["name"] == "ResultTooLarge"


def test_cookies_of_one_job_are_not_sent_by_the_next(run, server):
    server.headers = {"set-cookie": "session=1"}

    run("{ ok }")
    run("{ ok }")

    assert all("cookie" not in headers for headers, _ in server.requests)
