import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.job_runs import Jobs, started
from workers.runtimes.bun import Bun


@pytest.fixture(scope="package")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Jobs under the strongest isolation that this machine has."""
    library = tmp_path_factory.mktemp("library")
    (library / "company_tools.py").write_text("def greet(name):\n    return f'hello {name}'\n")
    with started(
        base_dir=tmp_path_factory.mktemp("base"), policy="warn", python_paths=[_opened(library)]
    ) as jobs:
        yield jobs


def _opened(folder: Path) -> Path:
    folder.chmod(0o755)
    return folder


@pytest.fixture(params=["started for its job", "waiting for a job"])
def bun_process(request: pytest.FixtureRequest, jobs: Jobs) -> None:
    """Jobs of Bun find a process that waits for them, or none."""
    executor = jobs.executors["bun"]
    assert isinstance(executor, Bun)

    async def wait() -> None:
        await jobs.run("bun", "export const main = () => 1", lock="")
        async with asyncio.timeout(20):
            while not executor.spares.waiting_count:
                await asyncio.sleep(0.005)

    executor.spares.rest()
    if request.param == "waiting for a job":
        jobs.runner.run(wait())
