import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.job_runs import ISOLATED, Jobs, started_with
from workers.sandbox import Isolation


@pytest.fixture(scope="package")
def project_dir() -> Iterator[Path]:
    """A folder that jobs may see; its folder "data" is the one they must not. All of it is readable for everybody."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        (folder / "visible.txt").write_text("visible")
        (folder / "data" / "secret.txt").write_text("the-hidden-secret")
        for path in (folder, folder / "data"):
            path.chmod(0o755)
        yield folder


@pytest.fixture
def secrets_dir(project_dir: Path) -> Path:
    return project_dir / "data"


@pytest.fixture(scope="package", params=ISOLATED)
def isolated(request: pytest.FixtureRequest, project_dir: Path) -> Iterator[Jobs]:
    """Jobs in each kind of isolation."""
    kind: Isolation = request.param
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)  # not below the folders of pytest, which are for their owner only
        with started_with(
            kind, Path(folder) / "jobs", hidden_paths=[project_dir / "data"], read_only=[project_dir]
        ) as jobs:
            yield jobs


@pytest.fixture(scope="package", params=[*ISOLATED, "none"])
def any_host(request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """Jobs in each kind of isolation, and without."""
    kind: Isolation = request.param
    with tempfile.TemporaryDirectory() as base_dir:
        os.chmod(base_dir, 0o711)
        with started_with(kind, Path(base_dir) / "jobs") as jobs:
            yield jobs
