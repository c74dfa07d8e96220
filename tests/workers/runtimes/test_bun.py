import http.server
import json
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobs.dependencies import WantedFiles
from tests.workers.job_runs import Jobs, Log, processes_with, started
from workers.runtimes import Execution, ExecutionFailed, Imported, Limits, Registries, Resolver
from workers.runtimes.bun import Bun
from workers.runtimes.deno import Deno

pytestmark = pytest.mark.usefixtures("bun_process")
PATH = "f/folder/x"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no Node on this machine")


def script(path: str, content: str, language: str = "bun") -> dict[str, Imported]:
    return {path: Imported(path=path, language=language, content=content)}


# --- calling the function -------------------------------------------------------------------------------------------


def test_arguments_reach_main_in_its_order_and_its_result_comes_back(jobs: Jobs) -> None:
    code = """
    export async function main(first: string, second: number = 7, third?: { deep: string[] }) {
      await Bun.sleep(1)
      return { first, second, third, missing: undefined }
    }
    """

    ran = jobs("bun", code, args={"third": {"deep": ["ü", "\ud83d\ude00"]}, "first": "a"})

    assert ran.result == {"first": "a", "second": 7, "third": {"deep": ["ü", "😀"]}}


def test_dates_become_dates_and_a_computed_default_is_left_to_the_code(jobs: Jobs) -> None:
    code = """
    export function main(when: Date, token = [1, 2].join("-"), nothing: string | null) {
      return [when instanceof Date, when.getUTCFullYear(), token, nothing]
    }
    """

    ran = jobs(
        "bun", code, args={"when": "2024-12-31T00:00:00Z", "token": "<function call>", "nothing": None}
    )

    assert ran.result == [True, 2024, "1-2", None]


def test_hostile_arguments_are_only_data(jobs: Jobs) -> None:
    text = '"); process.exit(1); //${1}`\u2028\n\\'

    ran = jobs("bun", "export function main(x: any) { return x }", args={"x": {"__proto__": text, "k": text}})

    assert ran.result == {"__proto__": text, "k": text}


def test_values_beyond_json_are_written_sensibly(jobs: Jobs) -> None:
    code = """
    export function main() {
      return {
        small: 12n, large: 2n ** 70n, date: new Date(0), map: new Map([["a", new Set([1, 2])]]), pairs: new Map([[1, 2]]),
        bytes: new Uint8Array([1, 2, 255]), odd: [NaN, Infinity, undefined], error: new TypeError("t"), url: new URL("http://a/"),
      }
    }
    """

    ran = jobs("bun", code)

    assert ran.result == {
        "small": 12,
        "large": str(2**70),
        "date": "1970-01-01T00:00:00.000Z",
        "map": {"a": [1, 2]},
        "pairs": [[1, 2]],
        "bytes": "AQL/",
        "odd": [None, None, None],
        "error": {"name": "TypeError", "message": "t"},
        "url": "http://a/",
    }


def test_nothing_returned_is_null(jobs: Jobs) -> None:
    assert jobs("bun", "export async function main() {}").result is None


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("const a: any = {}; a.a = a; return a", "the result contains itself, which JSON cannot express"),
        (
            "let a: any = []; for (let i = 0; i < 1e6; i++) a = [a]; return a",
            "the result is nested too deeply",
        ),
    ],
)
def test_a_result_that_json_cannot_express_is_named(jobs: Jobs, code: str, message: str) -> None:
    ran = jobs("bun", f"export function main() {{ {code} }}")

    assert ran.error["name"] == "InvalidResult"
    assert ran.error["message"] == message


def test_what_a_generator_yields_is_streamed_and_is_the_result(jobs: Jobs) -> None:
    ran = jobs("bun", "export async function* main() { yield 'a\\n'; await Bun.sleep(1); yield 'b' }")

    assert ran.log.streamed == ["a\n", "b"]
    assert ran.result == "a\nb"


def test_the_preprocessor_makes_the_arguments_of_main(jobs: Jobs) -> None:
    code = """
    export async function preprocessor(event: { body: { n: number } }) { return { n: event.body.n + 1 } }
    export async function main(n: number) { return n * 10 }
    """

    ran = jobs("bun", code, args={"event": {"body": {"n": 1}}}, preprocess=True)

    assert ran.result == 20
    assert ran.outcome is not None and ran.outcome.preprocessed_args_json == '{"n":2}'


def test_a_preprocessor_must_return_arguments(jobs: Jobs) -> None:
    code = "export function preprocessor() { return [1] }\nexport function main() {}"

    ran = jobs("bun", code, preprocess=True)

    assert ran.error["name"] == "PreprocessorError"
    assert "[1]" in ran.error["message"]


def test_another_function_can_be_the_entrypoint(jobs: Jobs) -> None:
    code = "export function main() { return 1 }\nexport function other(x: number) { return x }"

    assert jobs("bun", code, args={"x": 5, "_ENTRYPOINT_OVERRIDE": "other"}).result == 5
    assert jobs("bun", code, args={"x": 6}, entrypoint="other").result == 6


def test_a_module_may_wait_before_it_is_ready(jobs: Jobs) -> None:
    code = "const x = await new Promise(r => setTimeout(() => r(5), 5))\nexport function main() { return x }"

    assert jobs("bun", code).result == 5


def test_what_is_printed_is_logged_in_its_order(jobs: Jobs) -> None:
    code = """
    export function main() {
      console.log("1", { a: 2 }); console.error("3"); process.stdout.write("4\\n"); console.log("5")
    }
    """

    assert jobs("bun", code).log.text == "1 {\n  a: 2,\n}\n3\n4\n5\n"


def test_bytes_that_are_no_text_do_no_harm(jobs: Jobs) -> None:
    code = (
        "export function main() { process.stdout.write(new Uint8Array([0, 255, 10, 0xc3])); return 'fine' }"
    )

    assert jobs("bun", code).result == "fine"


def test_all_of_a_long_output_is_logged(jobs: Jobs) -> None:
    ran = jobs("bun", "export function main() { for (let i = 0; i < 50000; i++) console.log('line ' + i) }")

    assert ran.log.text.endswith("line 49999\n")
    assert ran.log.text.count("\n") == 50_000


# --- errors ---------------------------------------------------------------------------------------------------------


def test_an_error_names_the_authors_own_lines(jobs: Jobs) -> None:
    code = (
        "interface Unused {\n  a: string\n}\n"
        "class Refused extends Error { name = 'Refused'; code = 42 }\n"
        "function inner(): never { throw new Refused('no') }\n"
        "export async function main() {\n  await 1\n  inner()\n}\n"
    )

    ran = jobs("bun", code, script_path=PATH, env={"WM_FLOW_STEP_ID": "b"})

    assert ran.error["name"] == "Refused"
    assert ran.error["message"] == "no"
    assert ran.error["extra"] == {"code": 42}
    assert ran.error["step_id"] == "b"
    assert "at inner (f/folder/x.ts:5:" in ran.error["stack"]
    assert "f/folder/x.ts:8:" in ran.error["stack"]
    assert "wrapper" not in ran.error["stack"]


def test_the_lines_of_code_from_windows_are_right_too(jobs: Jobs) -> None:
    ran = jobs("bun", "\r\nexport function main() {\r\n  throw new Error('x')\r\n}\r\n", script_path=PATH)

    assert "f/folder/x.ts:3:" in ran.error["stack"]


@pytest.mark.parametrize("language", ["bun", "deno"])
def test_wrong_syntax_is_told_with_its_line(jobs: Jobs, language: str) -> None:
    ran = jobs(language, "export function main() {\n  const x = ;\n}\n", script_path=PATH)

    assert ran.error["name"] == "SyntaxError"
    assert "f/folder/x.ts:2:13" in ran.error["message"]
    assert "const x = ;" in ran.error["stack"]


@pytest.mark.parametrize("language", ["bun", "deno"])
def test_a_missing_main_says_what_to_write(jobs: Jobs, language: str) -> None:
    ran = jobs(language, "function main() {}", script_path=PATH)

    assert ran.error["name"] == "MissingEntrypoint"
    assert ran.error["message"].startswith(
        "f/folder/x.ts exports no function named main; define it and export it"
    )


@pytest.mark.parametrize("language", ["bun", "deno"])
@pytest.mark.parametrize(
    ("thrown", "expected"),
    [
        ("'text'", {"name": "Error", "message": "text", "stack": ""}),
        ("null", {"name": "Error", "message": "thrown: null", "stack": ""}),
        ("{ a: 1 }", {"name": "Error", "message": '{"a":1}', "stack": "", "extra": {"a": 1}}),
    ],
)
def test_what_is_no_error_can_be_thrown(
    jobs: Jobs, language: str, thrown: str, expected: dict[str, Any]
) -> None:
    assert jobs(language, f"export function main() {{ throw {thrown} }}").error == expected


@pytest.mark.parametrize("language", ["bun", "deno"])
def test_a_rejection_that_nobody_handles_fails_the_job(jobs: Jobs, language: str) -> None:
    code = """export async function main() {
      Promise.reject(new Error("lost"))
      await new Promise((resolve) => setTimeout(resolve, 60000))
    }"""

    ran = jobs(language, code, script_path=PATH)

    assert ran.error["message"] == "lost"
    assert "f/folder/x.ts:2:" in ran.error["stack"]


@pytest.mark.parametrize("language", ["bun", "deno"])
def test_waiting_for_what_never_happens_is_an_error(jobs: Jobs, language: str) -> None:
    ran = jobs(language, "export async function main() { await new Promise(() => {}) }")

    assert ran.error["name"] == "NeverReturned"


@needs_node
def test_a_script_without_packages_runs_with_node_too(jobs: Jobs) -> None:
    code = "//nodejs\nimport { sep } from 'node:path'\nexport const main = (x: string) => x + sep + process.release.name"

    assert jobs("bun", code, args={"x": "a"}).result == "a/node"


def test_a_script_may_end_its_process(jobs: Jobs) -> None:
    assert jobs("bun", "export function main() { process.exit(0) }").result is None
    failed = jobs("bun", "export function main() { console.log('why'); process.exit(3) }")
    assert "exit code 3" in failed.error["message"]
    assert failed.error["message"].endswith("last log lines:\nwhy")


@pytest.mark.parametrize("language", ["bun", "deno"])
@pytest.mark.parametrize(
    "grow", ["new Array(100000).fill(a.length + 0.5)", "new Uint8Array(10_000_000).fill(1)"]
)
def test_a_job_that_wants_too_much_memory_is_told_so(jobs: Jobs, language: str, grow: str) -> None:
    code = f"export function main() {{ const a: any[] = []; for (;;) a.push({grow}) }}"

    ran = jobs(language, code, limits=Limits(memory_bytes=1 << 30))

    assert re.search(r"more than its 1 GB of memory \(peak \d+ MB\)", ran.error["message"])


@pytest.mark.parametrize("language", ["bun", "deno"])
def test_what_is_only_reserved_counts_where_there_are_no_control_groups(
    tmp_path: Path, jobs: Jobs, language: str
) -> None:
    tmp_path.chmod(0o755)
    code, limits = "export const main = () => 1", Limits(memory_bytes=128 << 20)

    with started(base_dir=tmp_path / "host", groups=None) as without:
        ran = without(language, code, limits=limits)

    assert "more than its 128 MB of memory (peak " in ran.error["message"]
    if jobs.host.limits_cpus:  # a sign of control groups
        assert jobs(language, code, limits=limits).result == 1


@pytest.mark.parametrize("language", ["bun", "deno"])
def test_a_job_that_takes_too_long_leaves_nothing(jobs: Jobs, language: str) -> None:
    code = """
    import { spawn } from "node:child_process"
    export async function main() {
      spawn("sleep", ["61.6161"])
      await new Promise((resolve) => setTimeout(resolve, 60000))
    }
    """

    ran = jobs(language, code, timeout_s=1.0)

    assert ran.error["message"] == "Job timed out after (>1s)"
    assert processes_with("61.6161") == []


# --- imports between scripts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["bun", "deno"])
def test_scripts_of_the_workspace_are_imported_from_near_and_far(jobs: Jobs, language: str) -> None:
    code = """
    import { near } from "./near"
    import { near as same } from "./near.ts"
    import { far } from "/f/other/far"
    import { up } from "../../u/bob/up.ts"
    export function main() { return [near, same, far, up] }
    """
    imports = {
        **script("f/folder/near", "export const near: string = 'near'"),
        **script("f/other/far", "import { up } from '/u/bob/up'\nexport const far = `far ${up}`", "deno"),
        **script("u/bob/up", "export const up = 'up'"),
    }

    ran = jobs(language, code, script_path=PATH, imports=imports)

    assert ran.result == ["near", "near", "far up", "up"]


@pytest.mark.parametrize("language", ["bun", "deno"])
def test_an_error_in_an_imported_script_names_that_script(jobs: Jobs, language: str) -> None:
    imports = script("f/folder/lib", "export function lib() {\n  throw new Error('from lib')\n}")

    ran = jobs(
        language,
        "import { lib } from './lib'\nexport const main = () => lib()",
        script_path=PATH,
        imports=imports,
    )

    assert "at lib (f/folder/lib.ts:2:" in ran.error["stack"]


@pytest.mark.parametrize("language", ["bun", "deno"])
def test_a_script_that_cannot_be_read_is_named(jobs: Jobs, language: str) -> None:
    ran = jobs(language, "import { x } from '../secret/lib'\nexport const main = () => x", script_path=PATH)

    assert ran.error["name"] == "ModuleNotFound"
    assert ran.error["message"].startswith("Cannot find the script f/secret/lib, imported by f/folder/x.ts")
    assert "may not read it" in ran.error["message"]


# --- packages ---------------------------------------------------------------------------------------------------------

TWO_PACKAGES = """import ms from "ms@2.1.3"
import { isOdd } from "./odd"
export async function main(n: number) {
  if (isOdd(n)) throw new Error(ms(n))
  return ms("2h")
}
"""
ODD = script("f/folder/odd", "import isOdd from 'is-odd'\nexport { isOdd }\n")


@pytest.fixture(scope="module")
def two_packages(jobs: Jobs) -> str:
    return jobs.lock("bun", TWO_PACKAGES, script_path=PATH, imports=ODD)


def test_a_lock_is_a_package_json_with_what_it_resolves_to(two_packages: str) -> None:
    package_json, mark, bun_lock = two_packages.partition("\n//bun.lock\n")

    assert json.loads(package_json) == {"dependencies": {"is-odd": "latest", "ms": "2.1.3"}}
    assert mark
    assert '"ms@2.1.3"' in bun_lock and "sha512-" in bun_lock


@pytest.mark.parametrize("header", ["", "//nobundling\n", pytest.param("//nodejs\n", marks=needs_node)])
def test_packages_are_there_and_errors_keep_their_lines(jobs: Jobs, two_packages: str, header: str) -> None:
    given: dict[str, Any] = {"lock": two_packages, "script_path": PATH, "imports": ODD}

    assert jobs("bun", header + TWO_PACKAGES, args={"n": 2}, **given).result == 7_200_000
    failed = jobs("bun", header + TWO_PACKAGES, args={"n": 3}, **given)

    assert failed.error["message"] == "3ms"
    assert f"f/folder/x.ts:{4 + header.count(chr(10))}:" in failed.error["stack"]
    assert "/tmp" not in failed.error["stack"]


def test_what_is_installed_once_is_not_installed_again(jobs: Jobs, two_packages: str) -> None:
    given: dict[str, Any] = {"lock": two_packages, "script_path": PATH, "imports": ODD, "args": {"n": 4}}
    jobs("bun", TWO_PACKAGES, **given)

    again = jobs("bun", TWO_PACKAGES + "// changed", **given)

    assert again.result == 7_200_000
    assert again.log.text == ""


def test_a_lock_without_pins_installs_what_its_package_json_says(jobs: Jobs) -> None:
    code = "import ms from 'ms'\nexport const main = () => ms('1s')"

    assert jobs("bun", code, lock='{"dependencies": {"ms": "2.1.3"}}').result == 1000


@pytest.mark.parametrize("lock", ["", "<empty>", '{"dependencies": {}}\n//bun.lock\n<empty>'])
def test_an_empty_lock_installs_nothing(jobs: Jobs, lock: str) -> None:
    assert jobs("bun", "export const main = () => 1", lock=lock).result == 1


def test_code_without_packages_needs_no_lock(jobs: Jobs) -> None:
    code = "import { readFileSync } from 'node:fs'\nimport os from 'os'\nimport { x } from './x'\nexport const main = 1"

    assert jobs.lock("bun", code) == ""


def test_a_package_that_no_lock_holds_is_never_fetched(jobs: Jobs) -> None:
    ran = jobs("bun", "import ms from 'ms'\nexport const main = () => ms('1s')", script_path=PATH, lock="")

    assert ran.error["name"] == "ModuleNotFound"
    assert ran.error["message"].startswith("Cannot find the package ms, imported by f/folder/x.ts")


def test_a_dependency_file_of_the_workspace_says_the_versions(jobs: Jobs) -> None:
    code = "// package_json: tools\nimport ms from 'ms'\nexport const main = () => ms('1s')"
    files = WantedFiles(by_name={"tools": '{"dependencies": {"ms": "2.1.2"}}', "": "{}"})

    lock = jobs.lock("bun", code, wanted_files=files)

    assert '"ms@2.1.2"' in lock


def test_a_dependency_file_that_is_not_there_is_named(jobs: Jobs) -> None:
    with pytest.raises(
        ExecutionFailed, match=r"dependencies/tools\.package\.json, which this workspace does not"
    ):
        jobs.lock("bun", "// package_json: tools\nimport ms from 'ms'\n")


def test_two_versions_of_a_package_contradict(jobs: Jobs) -> None:
    imports = script("f/folder/odd", "import ms from 'ms@1'\n")

    with pytest.raises(ExecutionFailed, match=r"ms is imported as 2\.1\.3 and as 1"):
        jobs.lock("bun", TWO_PACKAGES, script_path=PATH, imports=imports)


def test_no_script_of_a_package_is_run(jobs: Jobs) -> None:
    lock = json.dumps(
        {"dependencies": {"ms": "2.1.3"}, "scripts": {"postinstall": "touch /tmp/job/ran; exit 7"}}
    )

    assert jobs("bun", "import ms from 'ms'\nexport const main = () => ms('3s')", lock=lock).result == 3000


def test_the_client_of_windmill_works_as_it_is(jobs: Jobs) -> None:
    code = "import * as wmill from 'windmill-client'\nexport const main = () => wmill.getVariable('f/a/b')"
    with registry(200, b'"the value"') as server:
        env = {"BASE_INTERNAL_URL": server.url, "WM_TOKEN": "the-token", "WM_WORKSPACE": "demo"}
        for language in ("bun", "deno"):
            lock = jobs.lock(language, code)

            ran = jobs(language, code, lock=lock, env={**env, "BASE_URL": server.url})

            assert ran.result == "the value"
            path, authorization = server.requests.pop()
            assert path.startswith("/api/w/demo/variables/get_value/f/a/b")
            assert authorization == "Bearer the-token"


# --- packages that cannot be had --------------------------------------------------------------------------------------


class _Server:
    def __init__(self, url: str, body: bytes) -> None:
        self.url = url
        self.body = body
        self.content_type = "application/json"
        self.requests: list[tuple[str, str | None]] = []


@contextmanager
def registry(status: int, body: bytes = b"no") -> Iterator[_Server]:
    """A server that answers everything in this way, and remembers path and authorization of what it was asked."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append((self.path, self.headers.get("authorization")))
            self.send_response(status)
            self.send_header("content-type", server.content_type)
            self.send_header("content-length", str(len(server.body)))
            self.end_headers()
            self.wfile.write(server.body)

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server = _Server(f"http://127.0.0.1:{listening.server_address[1]}", body)
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()


def refusal(jobs: Jobs, code: str, language: str = "bun", **given: Any) -> str:
    with pytest.raises(ExecutionFailed) as failed:
        jobs.lock(language, code, **given)
    assert failed.value.error["name"] == "DependencyError"
    return str(failed.value.error["message"])


def test_a_package_that_does_not_exist_is_named(jobs: Jobs) -> None:
    with registry(404) as server:
        message = refusal(jobs, "import 'no-such-thing'", registries=Registries(npm_registry=server.url))

    assert message.startswith("There is no package no-such-thing on 127.0.0.1")


def test_a_version_that_does_not_exist_is_named(jobs: Jobs) -> None:
    assert refusal(jobs, "import 'ms@99.0.0'").startswith("ms has no version 99.0.0;")


def test_a_registry_gets_its_token_and_its_refusal_is_told_without_it(jobs: Jobs) -> None:
    log = Log()
    with registry(401) as server:
        place = server.url.removeprefix("http:")
        npmrc = f"@mine:registry={server.url}/npm/\n{place}/npm/:_authToken=s3cret-token\n"
        message = refusal(jobs, "import '@mine/tool'", registries=Registries(npmrc=npmrc), log=log)

    assert ("/npm/@mine%2ftool", "Bearer s3cret-token") in server.requests
    assert message.startswith("The registry 127.0.0.1") and "refuses access to @mine/tool (401)" in message
    assert "s3cret-token" not in message + log.text


@pytest.mark.parametrize(
    ("language", "words"), [("bun", "does not answer in time"), ("deno", "did not answer within 2 s")]
)
def test_a_registry_that_keeps_silent_is_given_up(jobs: Jobs, language: str, words: str) -> None:
    executors: dict[str, Resolver] = {
        "bun": Bun(jobs.site, registry_timeout_s=1),
        "deno": Deno(jobs.site, registry_timeout_s=2),
    }
    with socket.create_server(("127.0.0.1", 0)) as silent:
        registries = Registries(npm_registry=f"http://127.0.0.1:{silent.getsockname()[1]}")
        execution = Execution(
            job_id="j",
            workspace_id="w",
            language=language,
            code="import 'npm:ms'",
            args={},
            env={},
            registries=registries,
        )
        with pytest.raises(ExecutionFailed, match=words):
            jobs.runner.run(executors[language].resolve(execution, Log()))


def test_a_lock_that_was_tampered_with_is_refused(jobs: Jobs, two_packages: str) -> None:
    tampered = two_packages.replace("sha512-6FlzubTLZG3J2a", "sha512-AAAAAAAAAAAAAA")
    assert tampered != two_packages

    ran = jobs("bun", TWO_PACKAGES, lock=tampered, script_path=PATH, imports=ODD, args={"n": 2})

    assert ran.error["name"] == "DependencyError"


def test_a_lock_that_is_no_lock_is_refused(jobs: Jobs) -> None:
    ran = jobs("bun", "export const main = 1", lock="requests==2.0")

    assert "is not a package.json" in ran.error["message"]
