"""Packages that are imported ahead run code before there is a job: it is held as jobs are."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.workers.job_runs import ISOLATED
from tests.workers.sandbox.test_environments import Warm, a_pool

MOST_PROCESSES = 4096


@pytest.fixture(params=ISOLATED)
def warm(request: pytest.FixtureRequest) -> Iterator[Warm]:
    with a_pool(request.param) as warm:
        yield warm


LOOKS_AROUND = """
import resource
with open("/proc/self/oom_score_adj") as file:
    rank = int(file.read())
processes = resource.getrlimit(resource.RLIMIT_NPROC)
try:
    resource.setrlimit(resource.RLIMIT_NPROC, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    processes = "raised"
except (OSError, ValueError):
    pass
"""


def test_an_import_has_limits_of_its_own_and_dies_before_the_worker(warm: Warm) -> None:
    environment = warm.environment(LOOKS_AROUND)
    told = "import tabulate\ndef main():\n    return [tabulate.rank, tabulate.processes]"

    async def run() -> Any:
        await warm.warmed(environment)
        return await warm.run(environment, told)

    rank, processes = warm.go(run())
    assert rank == 1000
    assert processes != "raised" and all(0 <= limit <= MOST_PROCESSES for limit in processes)


def test_an_import_that_leaves_processes_behind_is_left_to_the_jobs(warm: Warm) -> None:
    environment = warm.environment(
        "import os, time\nif os.fork() == 0:\n    time.sleep(600)\n    os._exit(0)\n"
    )

    async def run() -> Any:
        for _ in range(2):
            await warm.run(environment, "def main(): pass")
        async with asyncio.timeout(20):
            while warm.pool._warm:
                await asyncio.sleep(0.01)
        return await warm.run(environment, "def main(): return 'fine'")

    assert warm.go(run()) == "fine"
    assert warm.pool.warm_environments == []
