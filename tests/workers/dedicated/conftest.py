import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import wmill

from tests.workers.dedicated.warm_processes import Warm
from tests.workers.job_runs import ISOLATED, Jobs, started, started_with
from workers.sandbox import Isolation


@pytest.fixture(scope="package")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Jobs under the strongest isolation that this machine has."""
    packages = Path(wmill.__file__).parent.parent
    with started(base_dir=tmp_path_factory.mktemp("base"), policy="warn", read_only=[packages]) as jobs:
        yield jobs


@pytest.fixture
def python(jobs: Jobs) -> Warm:
    return Warm(jobs, "python3")


@pytest.fixture(params=[*ISOLATED, "none"])
def python_anywhere(request: pytest.FixtureRequest) -> Iterator[Warm]:
    """Warm Python processes in each kind of isolation, and without."""
    kind: Isolation = request.param
    with tempfile.TemporaryDirectory() as base_dir:
        os.chmod(base_dir, 0o711)
        with started_with(kind, Path(base_dir) / "jobs") as jobs:
            yield Warm(jobs, "python3")


@pytest.fixture(params=["bun", "deno", "node"])
def typescript(request: pytest.FixtureRequest, jobs: Jobs) -> Warm:
    """Warm processes of all that run TypeScript and JavaScript."""
    if request.param == "node":
        if shutil.which("node") is None:
            pytest.skip("no Node here")
        return Warm(jobs, "bun", "// nodejs\n")
    return Warm(jobs, request.param)


@pytest.fixture
def bun(jobs: Jobs) -> Warm:
    return Warm(jobs, "bun")
