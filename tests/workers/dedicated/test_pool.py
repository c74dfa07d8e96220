"""The warm processes of a worker: how many there are, for what, and when they end."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.workers.dedicated.warm_processes import Warm
from tests.workers.job_runs import Log
from workers.dedicated import DedicatedPool, WarmKey
from workers.runtimes import Execution, ExecutionFailed, Limits, Outcome

KEY = WarmKey("w", "f/ops/x", "1")
PID = "import os\ndef main():\n    return os.getpid()"
WAITS = "import os, time\ndef main(x=60):\n    print('runs', flush=True)\n    time.sleep(x)\n    return os.getpid()"


@pytest.fixture
def make_pool(python: Warm) -> Iterator[Callable[..., DedicatedPool]]:
    pools: list[DedicatedPool] = []

    def make(**options: Any) -> DedicatedPool:
        pools.append(DedicatedPool(python.jobs.executors, **options))
        return pools[-1]

    yield make
    for pool in pools:
        python.run(pool.close())


def result(outcome: Outcome) -> Any:
    return json.loads(outcome.result_json)


def test_jobs_of_one_script_share_a_process_and_other_versions_and_steps_do_not(
    python: Warm, make_pool: Callable[..., DedicatedPool]
) -> None:
    pool = make_pool()

    async def act() -> list[int]:
        keys = [
            KEY,
            KEY,
            KEY._replace(version="2"),
            KEY._replace(step_id="a"),
            KEY._replace(workspace_id="v"),
        ]
        return [result(await pool.run(key, python.execution(PID), Log())) for key in keys]

    pids = python.run(act())

    assert pids[0] == pids[1]
    processes = [pool.processes(key) for key in (KEY, KEY._replace(version="2"), KEY._replace(step_id="a"))]
    assert [len(ones) for ones in processes] == [1, 1, 1]
    assert len({id(ones[0]) for ones in processes}) == 3


def test_jobs_at_once_take_turns_or_have_as_many_processes_as_there_may_be(
    python: Warm, make_pool: Callable[..., DedicatedPool]
) -> None:
    async def act(most: int) -> int:
        pool = make_pool(most_each=most)
        execution = python.execution(WAITS, args={"x": 0.02})
        await asyncio.gather(*(pool.run(KEY, replace(execution, job_id=str(n)), Log()) for n in range(8)))
        return len(pool.processes(KEY))

    assert python.run(act(1)) == 1
    assert python.run(act(3)) == 3


def test_a_process_is_started_with_a_prepared_execution_and_only_then(
    python: Warm, make_pool: Callable[..., DedicatedPool]
) -> None:
    pool = make_pool()
    prepared = []

    async def prepare(execution: Execution) -> Execution:
        prepared.append(execution.job_id)
        return replace(execution, code="def main(): return 'prepared'")

    async def act() -> list[Any]:
        executions = [python.execution("", job_id=job_id) for job_id in "ab"]
        return [result(await pool.run(KEY, one, Log(), prepare=prepare)) for one in executions]

    assert python.run(act()) == ["prepared", "prepared"]
    assert prepared == ["a"]


def test_a_crash_fails_the_job_that_ran_and_the_next_has_a_new_process(
    python: Warm, make_pool: Callable[..., DedicatedPool]
) -> None:
    pool = make_pool()
    code = "import os\nseen = []\ndef main(bad=False):\n    seen.append(1)\n    if bad: os._exit(5)\n    return len(seen)"

    async def act() -> list[Any]:
        executions = [python.execution(code, job_id=str(at), args={"bad": at == 1}) for at in range(4)]
        return await asyncio.gather(
            *(pool.run(KEY, one, Log()) for one in executions), return_exceptions=True
        )

    first, second, third, fourth = python.run(act())

    assert isinstance(second, ExecutionFailed)
    assert "exit code 5" in second.error["message"]
    assert [result(one) for one in (first, third, fourth)] == [1, 1, 2]


def test_a_cancelled_job_ends_its_process_before_it_is_over(
    python: Warm, make_pool: Callable[..., DedicatedPool]
) -> None:
    pool, log = make_pool(), Log()

    async def act() -> int:
        running = asyncio.create_task(pool.run(KEY, python.execution(WAITS, job_id="a"), log))
        behind = asyncio.create_task(pool.run(KEY, python.execution(WAITS, job_id="b", args={"x": 0}), Log()))
        await log.wait_for("runs")
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert running.cancelled()
        await behind
        return len(pool.processes(KEY))

    assert python.run(act()) == 1


def test_a_script_that_does_not_load_fails_each_of_its_jobs(
    python: Warm, make_pool: Callable[..., DedicatedPool]
) -> None:
    pool = make_pool()

    async def act() -> list[Any]:
        one = python.execution("import nowhere\ndef main(): pass")
        return await asyncio.gather(*(pool.run(KEY, one, Log()) for _ in range(3)), return_exceptions=True)

    failures = python.run(act())

    assert [failed.error["name"] for failed in failures] == ["ModuleNotFoundError"] * 3
    assert not pool.processes(KEY)


def test_a_process_that_nobody_uses_ends(python: Warm, make_pool: Callable[..., DedicatedPool]) -> None:
    async def act() -> None:
        pool = make_pool(idle_s=0.05)
        await pool.run(KEY, python.execution(PID), Log())
        async with asyncio.timeout(20):
            while pool.processes(KEY):
                await asyncio.sleep(0.01)

    python.run(act())


def test_the_process_of_an_older_version_ends_soon(
    python: Warm, make_pool: Callable[..., DedicatedPool]
) -> None:
    newer = KEY._replace(version="2")

    async def act() -> int:
        pool = make_pool(superseded_s=0.05)
        for key in (KEY, newer):
            await pool.run(key, python.execution(PID), Log())
        async with asyncio.timeout(20):
            while pool.processes(KEY):
                await asyncio.sleep(0.01)
        return len(pool.processes(newer))

    assert python.run(act()) == 1


def test_a_job_with_other_limits_has_a_process_with_these(
    python: Warm, make_pool: Callable[..., DedicatedPool]
) -> None:
    pool = make_pool()
    code = (
        "import resource\nn = 0\ndef main():\n    global n; n += 1\n    return [n, resource.getrlimit(7)[0]]"
    )

    async def act() -> list[Any]:
        limits = [Limits(), Limits(), Limits(open_files=77), Limits(open_files=77)]
        executions = [python.execution(code, limits=one) for one in limits]
        return [result(await pool.run(KEY, one, Log())) for one in executions]

    usual = Limits().open_files
    assert python.run(act()) == [[1, usual], [2, usual], [1, 77], [2, 77]]
    assert len(pool.processes(KEY)) == 1


def test_a_language_that_cannot_stay_warm_is_told(
    python: Warm, make_pool: Callable[..., DedicatedPool]
) -> None:
    pool = make_pool()

    assert [pool.can(language) for language in ("python3", "bun", "nativets", "deno", "bash", "x")] == [
        *[True] * 4,
        *[False] * 2,
    ]
    with pytest.raises(ExecutionFailed, match="bash cannot have dedicated workers"):
        python.run(pool.run(KEY, replace(python.execution("true"), language="bash"), Log()))


def test_a_closed_pool_leaves_no_process(python: Warm, make_pool: Callable[..., DedicatedPool]) -> None:
    pool, log = make_pool(most_each=2), Log()

    async def act() -> Any:
        running = asyncio.create_task(pool.run(KEY, python.execution(WAITS), log))
        loading = asyncio.create_task(pool.run(KEY, python.execution("while True: pass"), Log()))
        await log.wait_for("runs")
        await pool.close()
        return await asyncio.gather(running, loading, return_exceptions=True)

    running, loading = python.run(act())

    assert "ended by its worker" in str(running)
    assert isinstance(loading, (asyncio.CancelledError, Exception))
    assert not pool.processes(KEY)
