from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.job_runs import Jobs, started


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
