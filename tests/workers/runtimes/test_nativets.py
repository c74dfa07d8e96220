import pytest

from tests.workers.job_runs import Jobs
from tests.workers.runtimes.test_bun import registry, script

pytestmark = pytest.mark.usefixtures("bun_process")


@pytest.mark.parametrize("language", ["nativets", "bunnative"])
def test_scripts_use_the_interfaces_of_the_web(jobs: Jobs, language: str) -> None:
    code = """
    import { path } from "./path"
    export async function main(base: string) {
      const answer = await fetch(new URL(path, base), { headers: { authorization: "Bearer t" } })
      const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode("x"))
      return { answer: await answer.json(), bytes: digest.byteLength }
    }
    """
    imports = script("f/folder/path", "export const path: string = '/data'", language)
    with registry(200, b'{"a": 1}') as server:
        ran = jobs(language, code, args={"base": server.url}, script_path="f/folder/x", imports=imports)

    assert ran.result == {"answer": {"a": 1}, "bytes": 32}
    assert server.requests == [("/data", "Bearer t")]
