"""Bun processes that wait for their job: who takes one, what of it is seen, and when they end."""

import asyncio
from collections.abc import Callable

import pytest

from tests.workers.job_runs import Jobs
from workers.runtimes import Limits
from workers.runtimes.bun import Bun
from workers.runtimes.javascript.spares import Spares

SEES = """
import fs from "node:fs";
export const main = () => ({
  argv: process.argv.slice(1),
  cwd: process.cwd(),
  env: process.env,
  path: import.meta.path,
  stdin: fs.readFileSync(0, "utf8"),
  open: fs.readdirSync("/proc/self/fd").map(target).filter((at) => at.startsWith("pipe:")).length,
  files: fs.readdirSync(".").sort(),
});
function target(fd) {
  try { return fs.readlinkSync(`/proc/self/fd/${fd}`); } catch { return ""; }
}
"""


@pytest.fixture
def spares(jobs: Jobs) -> Spares:
    executor = jobs.executors["bun"]
    assert isinstance(executor, Bun)
    executor.spares.rest()
    return executor.spares


@pytest.fixture
def until(jobs: Jobs) -> Callable[[Callable[[], bool]], None]:
    """Lets the worker go on until something is true."""

    async def wait(is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not is_so():
                await asyncio.sleep(0.005)

    return lambda is_so: jobs.runner.run(wait(is_so))


def test_a_script_sees_the_same_in_a_process_that_waited(
    jobs: Jobs, spares: Spares, until: Callable[[Callable[[], bool]], None]
) -> None:
    env = {"WM_JOB_ID": "j", "WM_TOKEN": "t", "OTHER": "o"}

    started = jobs("bun", SEES, env=env, script_path="f/x/y")
    until(lambda: spares.waiting_count == 1)
    waited = jobs("bun", SEES, env=env, script_path="f/x/y")

    assert spares.waiting_count == 0
    assert waited.result == started.result
    assert waited.result["env"]["WM_TOKEN"] == "t"


def test_each_process_runs_one_job(
    jobs: Jobs, spares: Spares, until: Callable[[Callable[[], bool]], None]
) -> None:
    code = "globalThis.n = (globalThis.n ?? 0) + 1; export const main = () => [process.pid, globalThis.n]"
    ran = []
    for _ in range(3):
        ran.append(jobs("bun", code).result)
        until(lambda: spares.waiting_count == 1)

    assert [count for _, count in ran] == [1, 1, 1]


@pytest.mark.parametrize(
    ("header", "given"),
    [
        ("", {"env": {"NODE_ENV": "production"}}),
        ("", {"limits": Limits(open_files=100)}),
        ("", {"share": "flow"}),
        ("", {"network": False}),
        ("// nodejs\n", {}),
    ],
)
def test_a_job_that_needs_another_process_does_not_take_it(
    jobs: Jobs,
    spares: Spares,
    until: Callable[[Callable[[], bool]], None],
    header: str,
    given: dict[str, object],
) -> None:
    jobs("bun", "export const main = () => 1")
    until(lambda: spares.waiting_count == 1)

    ran = jobs("bun", f"{header}export const main = () => 1", **given)

    assert ran.result == 1 or "Node" in ran.error["message"]
    assert spares.waiting_count == 1
    jobs.host.drop_share("flow")


def test_a_job_that_takes_too_long_or_is_cancelled_ends_with_its_process(
    jobs: Jobs, spares: Spares, until: Callable[[Callable[[], bool]], None]
) -> None:
    jobs("bun", "export const main = () => 1")
    until(lambda: spares.waiting_count == 1)

    ran = jobs("bun", "export function main() { while (true); }", timeout_s=0.3)

    assert "timed out" in ran.error["message"]


def test_they_end_when_no_jobs_come(jobs: Jobs, until: Callable[[Callable[[], bool]], None]) -> None:
    bun = Bun(jobs.site)
    bun.spares = Spares(jobs.host, idle_s=0.3)
    jobs.executors["idle"] = bun

    jobs("idle", "export const main = () => 1")
    until(lambda: bun.spares.waiting_count == 1)
    until(lambda: bun.spares.waiting_count == 0)

    jobs.runner.run(jobs.host.settle())
    del jobs.executors["idle"]


def test_there_are_as_many_as_jobs_ran_at_once_and_no_more_than_allowed(
    jobs: Jobs, spares: Spares, until: Callable[[Callable[[], bool]], None]
) -> None:
    async def at_once(count: int) -> None:
        await asyncio.gather(*(jobs.run("bun", "export const main = () => 1") for _ in range(count)))

    jobs.runner.run(at_once(4))

    until(lambda: spares.waiting_count == 2)


def test_jobs_one_right_after_another_have_the_next_process_started_beside_them(
    jobs: Jobs, spares: Spares
) -> None:
    async def two() -> int:
        for _ in range(2):
            await jobs.run("bun", "export const main = () => 1")
        return spares.waiting_count

    assert jobs.runner.run(two()) == 1


def test_a_closed_executor_has_none_left(jobs: Jobs, until: Callable[[Callable[[], bool]], None]) -> None:
    bun = Bun(jobs.site)
    jobs.executors["closed"] = bun
    jobs("closed", "export const main = () => 1")
    until(lambda: bun.spares.waiting_count == 1)

    jobs.runner.run(bun.close())

    assert bun.spares.waiting_count == 0
    del jobs.executors["closed"]


def test_one_that_waits_takes_little_memory(
    jobs: Jobs, spares: Spares, until: Callable[[Callable[[], bool]], None]
) -> None:
    jobs("bun", "export const main = () => 1")
    until(lambda: spares.waiting_count == 1)
    read = "export const main = async () => await Bun.file('/proc/self/smaps_rollup').text()"

    text = jobs("bun", read).result

    pss_kb = int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1])
    assert pss_kb < 60 * 1024
