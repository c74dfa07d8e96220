"""Warm Bun, Deno and Node processes: as the Python ones (test_python.py), in their own words."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.workers.dedicated.warm_processes import Heard, Warm, call
from tests.workers.job_runs import Jobs
from workers.runtimes import Limits


def test_a_script_is_loaded_once_and_what_it_keeps_stays(typescript: Warm) -> None:
    code = (
        'import process from "node:process";\n'
        "const seen: number[] = [];\n"
        "export function main(x: number) { seen.push(x); return [process.pid, ...seen]; }\n"
    )

    heard = typescript.calls(code, call("a", {"x": 1}), call("b", {"x": 2}), call("c", {"x": 3}))

    pid = heard.result("a")[0]
    assert [heard.result(job) for job in "abc"] == [[pid, 1], [pid, 1, 2], [pid, 1, 2, 3]]


@pytest.mark.parametrize("language", ["bun", "deno"])
def test_every_kind_of_isolation_will_do(python_anywhere: Warm, language: str) -> None:
    warm = Warm(python_anywhere.jobs, language)
    code = "export const main = (x: number) => { console.log(x); return x }"

    heard = warm.calls(code, call("a", {"x": 1}), call("b", {"x": 2}))

    assert [heard.result(job) for job in "ab"] == [1, 2]
    assert heard.logs == {"a": "1\n", "b": "2\n"}


def test_each_call_has_its_own_variables_and_none_of_earlier_ones(typescript: Warm) -> None:
    code = (
        'import process from "node:process";\n'
        "export const main = () => ['WM_JOB_ID', 'ONLY_A', 'BASE'].map((name) => process.env[name] ?? null);\n"
    )
    first = call("a", env={"WM_JOB_ID": "a", "ONLY_A": "1", "BASE": "changed"})

    heard = typescript.calls(code, first, call("b", env={"WM_JOB_ID": "b"}), env={"BASE": "own"})

    assert heard.result("a") == ["a", "1", "changed"]
    assert heard.result("b") == ["b", None, "own"]


def test_what_a_call_prints_goes_to_its_job_though_many_were_sent_at_once(typescript: Warm) -> None:
    code = (
        'import process from "node:process";\n'
        "export async function main(x: number) {\n"
        "  console.log(`log ${x}`);\n"
        "  console.error(`error ${x}`);\n"
        "  process.stdout.write(`stream ${x}\\n`);\n"
        "}\n"
    )

    heard = typescript.calls(code, *(call(str(x), {"x": x}) for x in range(50)))

    for x in range(50):
        lines = heard.log_at_answer[str(x)].splitlines()
        assert sorted(lines) == [f"error {x}", f"log {x}", f"stream {x}"]
        assert heard.logs[str(x)] == heard.log_at_answer[str(x)]


def test_an_error_names_the_lines_of_the_script_and_the_next_call_works(typescript: Warm) -> None:
    code = "export function main(x: number) {\n  if (!x) throw new RangeError('no x');\n  return x;\n}\n"

    heard = typescript.calls(code, call("a", {"x": 0}), call("b", {"x": 2}), script_path="f/ops/checked")

    error = heard.error("a")
    line = 2 + typescript.header.count("\n")
    assert (error["name"], error["message"]) == ("RangeError", "no x")
    assert f"f/ops/checked.ts:{line}" in error["stack"]
    assert "wrapper.mjs" not in error["stack"]
    assert heard.result("b") == 2


def test_what_goes_wrong_behind_the_back_of_a_call_is_its_error(typescript: Warm) -> None:
    code = (
        "export async function main(how: string) {\n"
        "  if (how === 'rejection') Promise.reject(new Error('nobody waits'));\n"
        "  if (how === 'timer') setTimeout(() => { throw new Error('in a timer'); }, 1);\n"
        "  if (how) await new Promise((resolve) => setTimeout(resolve, 60_000));\n"
        "  return 'fine';\n"
        "}\n"
    )

    heard = typescript.calls(
        code, call("a", {"how": "rejection"}), call("b", {"how": "timer"}), call("c", {"how": ""})
    )

    assert heard.error("a")["message"] == "nobody waits"
    assert heard.error("b")["message"] == "in a timer"
    assert heard.result("c") == "fine"


def test_a_call_that_can_never_return_says_so_and_the_process_serves_others(typescript: Warm) -> None:
    code = (
        'import process from "node:process";\n'
        "export async function main(how: string) {\n"
        "  if (how === 'never') await new Promise(() => {});\n"
        "  if (how === 'later') await new Promise((resolve) => setTimeout(resolve, 20));\n"
        "  return [how, process.pid];\n"
        "}\n"
    )
    hows = ["", "never", "never", "later", "never", ""]

    heard = typescript.calls(code, *(call(str(x), {"how": how}, timeout_s=300) for x, how in enumerate(hows)))

    for never in "124":
        error = heard.error(never)
        assert (error["name"], error["message"].split(":")[0]) == (
            "NeverReturned",
            "main waits for something that can no longer happen",
        )
    pid = heard.result("0")[1]
    assert [heard.result(job) for job in "035"] == [["", pid], ["later", pid], ["", pid]]


def test_a_call_that_never_returns_is_noticed_when_it_comes_alone(typescript: Warm) -> None:
    async def act() -> list[Any]:
        process = await typescript.start(
            "export const main = (never: boolean) => (never ? new Promise(() => {}) : 1);\n"
        )
        heard = Heard()
        for number, never in enumerate([True, False, True, True, False]):
            process.send([call(str(number), {"never": never})], heard)
            await heard.until(str(number))
        await process.close()
        return [heard.answers[str(number)].is_success for number in range(5)]

    assert typescript.run(act()) == [False, True, False, False, True]


def test_process_exit_ends_the_call_and_not_the_process(typescript: Warm) -> None:
    code = (
        'import process from "node:process";\n'
        "export async function main(code: number | null) {\n"
        "  if (code !== null) process.exit(code);\n"
        "  return process.pid;\n"
        "}\n"
    )

    heard = typescript.calls(
        code,
        call("a", {"code": None}),
        call("b", {"code": 0}),
        call("c", {"code": 3}),
        call("d", {"code": None}),
    )

    assert heard.result("b") is None
    assert "exit code 3" in heard.error("c")["message"]
    assert heard.result("a") == heard.result("d")


def test_a_call_that_kills_its_process_fails_alone(typescript: Warm) -> None:
    code = (
        'import process from "node:process";\n'
        "export function main(bad: boolean) {\n"
        "  if (bad) { console.log('about to'); process.kill(process.pid, 'SIGKILL'); while (true); }\n"
        "  return 'fine';\n"
        "}\n"
    )

    heard = typescript.calls(
        code, call("a", {"bad": False}), call("b", {"bad": True}), call("c", {"bad": False})
    )

    assert heard.result("a") == "fine"
    assert heard.logs["b"] == "about to\n"
    assert "signal 9" in heard.message
    assert (heard.begun, heard.not_begun) == ("b", ["c"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fs.closeSync(4); while (true);", "closed the descriptor"),
        ("fs.closeSync(4);", "closed the descriptor"),
        ("fs.writeSync(4, '12 nonsense\\n');", "wrote to the descriptor"),
        ("fs.writeSync(4, 'no line');", "wrote to the descriptor"),
    ],
)
def test_a_call_that_meddles_with_its_answers_fails_alone(bun: Warm, line: str, message: str) -> None:
    code = (
        'import fs from "node:fs";\n'
        f"export function main(bad: boolean) {{ if (bad) {{ {line} }} return 'fine'; }}\n"
    )

    heard = bun.calls(code, call("a", {"bad": False}), call("b", {"bad": True}), call("c", {"bad": False}))

    assert heard.result("a") == "fine"
    assert message in heard.message
    assert (heard.begun, heard.not_begun) == ("b", ["c"])


def test_a_call_that_takes_too_long_is_killed_and_those_behind_it_are_given_back(typescript: Warm) -> None:
    code = "export function main(x: boolean) { while (!x); return 'fine'; }"

    heard = typescript.calls(
        code,
        call("a", {"x": True}),
        call("b", {"x": False}, timeout_s=0.2),
        call("c", {"x": True}, timeout_s=100.0),
    )

    assert heard.result("a") == "fine"
    assert heard.message == "Job timed out after (>0.2s)"
    assert (heard.begun, heard.not_begun) == ("b", ["c"])


def test_generators_stream_preprocessors_prepare_and_dates_are_dates(typescript: Warm) -> None:
    code = (
        "export function preprocessor(raw: string) { return { when: raw }; }\n"
        "export async function main(when: Date) { return when.getUTCFullYear(); }\n"
        "export function* numbers() { yield 'a'; yield 'b'; }\n"
    )

    heard = typescript.calls(
        code,
        call("a", {"raw": "2024-12-31T00:00:00Z"}, preprocess=True),
        call("b", entrypoint="numbers"),
        call("c", {"_ENTRYPOINT_OVERRIDE": "numbers"}),
        call("d", entrypoint="missing"),
    )

    assert heard.result("a") == 2024
    assert heard.answers["a"].preprocessed_args_json == '{"when":"2024-12-31T00:00:00Z"}'
    assert heard.answers["b"].preprocessed_args_json is None
    assert heard.result("b") == heard.result("c") == "ab"
    assert heard.logs["b"] == "WM_STREAM: a\nWM_STREAM: b\n"
    assert heard.error("d")["name"] == "MissingEntrypoint"


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        ("export function main( {", "SyntaxError", ""),
        ("const x: any = null; x.y; export const main = () => 1", "TypeError", "null"),
        ("while (true); export const main = () => 1", "ExecutionErr", "timed out"),
    ],
)
def test_a_script_that_does_not_load_says_why(typescript: Warm, code: str, name: str, message: str) -> None:
    error = typescript.fails_to_load(code, timeout_s=2.0 if "while" in code else None)

    assert error["name"] == name
    assert message in error["message"]


def test_a_script_that_leaves_while_it_is_loaded_says_so(typescript: Warm) -> None:
    code = 'import process from "node:process";\nprocess.exit(4);\nexport const main = () => 1;'

    assert "exit code 4 before it was loaded" in typescript.fails_to_load(code)["message"]


def test_top_level_await_and_large_values_both_ways(typescript: Warm) -> None:
    code = "const ready = await Promise.resolve('é');\nexport const main = (x: string) => x + ready;"

    heard = typescript.calls(
        code,
        call("a", {"x": "é" * 1_900_000}),
        call("b", {"x": "b"}),
        call("c", {"x": "é" * 2_000_000}),
        limits=Limits(result_bytes=4_000_000),
    )

    assert heard.order == ["a", "b", "c"]
    assert heard.result("a") == "é" * 1_900_001
    assert heard.result("b") == "bé"
    assert heard.error("c")["name"] == "ResultTooLarge"


def test_a_process_that_leaves_answers_first(typescript: Warm) -> None:
    async def act() -> Heard:
        process, heard = await typescript.start("export const main = () => 1"), Heard()
        process.send([call("a"), call("b")], heard)
        process.leave()
        await heard.until("a", "b")
        process.send([call("c")], heard)
        await heard.until_end()
        await process.close()
        return heard

    heard = typescript.run(act())

    assert [heard.result(job) for job in "ab"] == [1, 1]
    assert heard.not_begun == ["c"]


@pytest.fixture
def seen_tokens() -> Iterator[tuple[str, list[str]]]:
    """The address of a server, and the Authorization headers that it was sent."""
    seen: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_token_that_a_client_kept_is_renewed_when_it_is_used(
    typescript: Warm, seen_tokens: tuple[str, list[str]]
) -> None:
    address, seen = seen_tokens
    code = (
        'import process from "node:process";\n'
        "const kept = { Authorization: `Bearer ${process.env.WM_TOKEN}` };\n"
        "export async function main(url: string) {\n"
        "  await (await fetch(url, { headers: kept })).json();\n"
        "  await (await fetch(new Request(url, { headers: kept }))).json();\n"
        "  await (await fetch(url, { headers: { Authorization: 'Bearer given' } })).json();\n"
        "}\n"
    )
    calls = [call(job, {"url": address}, env={"WM_TOKEN": f"t-{job}"}) for job in "ab"]

    typescript.calls(code, *calls, env={"WM_TOKEN": "t-load"})

    assert seen == ["Bearer t-a", "Bearer t-a", "Bearer given", "Bearer t-b", "Bearer t-b", "Bearer given"]


@pytest.mark.parametrize("language", ["bun", "deno"])
def test_the_client_of_windmill_uses_the_token_of_the_job_that_runs(
    jobs: Jobs, seen_tokens: tuple[str, list[str]], language: str
) -> None:
    address, seen = seen_tokens
    warm = Warm(jobs, language)
    code = "import * as wmill from 'windmill-client'\nexport const main = () => wmill.getVariable('f/a/b')"
    env = {"BASE_INTERNAL_URL": address, "BASE_URL": address, "WM_WORKSPACE": "demo", "WM_TOKEN": "t-load"}
    calls = [call(job, env={**env, "WM_TOKEN": f"t-{job}"}) for job in "abc"]

    heard = warm.calls(code, *calls, env=env, lock=jobs.lock(language, code))

    assert heard.order == ["a", "b", "c"]
    assert seen == ["Bearer t-a", "Bearer t-b", "Bearer t-c"]
