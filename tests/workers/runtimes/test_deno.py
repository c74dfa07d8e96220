"""What Deno does differently; what it does like Bun is in test_bun.py."""

import pytest

from tests.workers.job_runs import Jobs
from tests.workers.runtimes.test_bun import refusal, registry
from workers.runtimes import Registries

PATH = "f/folder/x"
CODE = """import ms from 'npm:ms@2.1.3'
import isOdd from 'is-odd'
export const main = (n: number) => [ms('1s'), isOdd(n)]
"""


def test_arguments_reach_main_in_its_order_and_its_result_comes_back(jobs: Jobs) -> None:
    code = """
    export async function main(first: string, when: Date, second = 7) {
      await new Promise((resolve) => setTimeout(resolve, 1))
      console.log("seen")
      return { first, second, when: when instanceof Date, large: 2n ** 70n, map: new Map([["a", new Set([1])]]) }
    }
    """

    ran = jobs("deno", code, args={"when": "2024-12-31T00:00:00Z", "first": "a"})

    assert ran.result == {"first": "a", "second": 7, "when": True, "large": str(2**70), "map": {"a": [1]}}
    assert ran.log.text == "seen\n"


def test_what_a_generator_yields_is_streamed(jobs: Jobs) -> None:
    ran = jobs("deno", "export async function* main() { yield 'a'; yield 'b' }")

    assert (ran.log.streamed, ran.result) == (["a", "b"], "ab")


def test_the_preprocessor_makes_the_arguments_of_main(jobs: Jobs) -> None:
    code = "export const preprocessor = (event: any) => ({ n: event + 1 })\nexport const main = (n: number) => n * 10"

    ran = jobs("deno", code, args={"event": 1}, preprocess=True)

    assert ran.result == 20
    assert ran.outcome is not None and ran.outcome.preprocessed_args_json == '{"n":2}'


def test_an_error_names_the_authors_own_lines(jobs: Jobs) -> None:
    code = (
        "class Refused extends Error { code = 42 }\n"
        "export async function main() {\n  await 1\n  throw new Refused('no')\n}"
    )

    ran = jobs("deno", code, script_path=PATH, env={"WM_FLOW_STEP_ID": "b"})

    assert ran.error["stack"] == "Error: no\n    at main (f/folder/x.ts:4:9)"
    assert ran.error["extra"] == {"code": 42}
    assert ran.error["step_id"] == "b"


def test_a_job_has_the_rights_of_its_sandbox(jobs: Jobs) -> None:
    code = """
    export async function main() {
      await Deno.writeTextFile("own.txt", "text")
      const { stdout } = await new Deno.Command("cat", { args: ["own.txt"] }).output()
      return [new TextDecoder().decode(stdout), Deno.env.get("MINE")]
    }
    """

    assert jobs("deno", code, env={"MINE": "here"}).result == ["text", "here"]


def test_packages_are_locked_installed_once_and_never_fetched_by_a_job(jobs: Jobs) -> None:
    lock = jobs.lock("deno", CODE)

    first = jobs("deno", CODE, lock=lock, args={"n": 3})
    second = jobs("deno", "// changed\n" + CODE, lock=lock, args={"n": 4})

    assert '"npm:ms@2.1.3": "2.1.3"' in lock
    assert (first.result, second.result) == ([1000, True], [1000, False])
    assert first.log.text.startswith("installed is-odd, npm:ms@2.1.3 in ")
    assert second.log.text == ""


def test_a_package_that_no_lock_holds_is_never_fetched(jobs: Jobs) -> None:
    ran = jobs("deno", CODE, lock="", script_path=PATH)

    assert ran.error["name"] == "ModuleNotFound"
    assert "imported by f/folder/x.ts:" in ran.error["message"]


def test_modules_come_from_addresses_as_they_were_when_they_were_locked(jobs: Jobs) -> None:
    with registry(200, b"export const answer = 42") as server:
        server.content_type = "application/javascript"
        code = f"import {{ answer }} from '{server.url}/lib.js'\nexport const main = () => answer"
        lock = jobs.lock("deno", code)

        assert jobs("deno", code, lock=lock).result == 42
    assert jobs("deno", code, lock=lock).result == 42  # the server is gone


def test_an_address_that_has_changed_since_is_refused(jobs: Jobs) -> None:
    with registry(200, b"export const answer = 1") as server:
        server.content_type = "application/javascript"
        code = f"import {{ answer }} from '{server.url}/lib.js'\nexport const main = () => answer"
        lock = jobs.lock("deno", code)
        server.body = b"export const answer = 2"

        ran = jobs("deno", code, lock=lock)

    assert ran.error["name"] == "DependencyError"


def test_code_that_imports_nothing_from_elsewhere_needs_no_lock(jobs: Jobs) -> None:
    assert (
        jobs.lock("deno", "import { x } from './x.ts'\nimport fs from 'node:fs'\nexport const main = 1") == ""
    )


@pytest.mark.parametrize(
    ("specifier", "words"),
    [
        ("npm:ms@99", "ms has no version 99;"),
        ("http://127.0.0.1:1/x.ts", "http://127.0.0.1:1/x.ts cannot be reached: Connection refused"),
    ],
)
def test_what_cannot_be_had_is_named_with_the_reason(jobs: Jobs, specifier: str, words: str) -> None:
    assert refusal(jobs, f"import '{specifier}'", "deno").startswith(words)


def test_a_package_that_does_not_exist_is_named(jobs: Jobs) -> None:
    with registry(404) as server:
        message = refusal(
            jobs, "import 'npm:no-such-thing'", "deno", registries=Registries(npm_registry=server.url)
        )

    assert message.startswith("There is no package no-such-thing on npm")


def test_a_registry_gets_its_token_and_its_refusal_is_told_without_it(jobs: Jobs) -> None:
    with registry(401) as server:
        settings = Registries(npm_registry=f"{server.url}/npm:_authToken=s3cret-token")
        message = refusal(jobs, "import 'npm:tool'", "deno", registries=settings)

    assert ("/npm/tool", "Bearer s3cret-token") in server.requests
    assert message.startswith("The registry refuses access to tool (401)")
    assert "s3cret-token" not in message
