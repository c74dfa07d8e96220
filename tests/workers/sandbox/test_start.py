"""Starting a job host where it cannot work says what to do."""

from pathlib import Path

import pytest

from workers.sandbox import JobHost, SandboxUnavailable


async def test_a_folder_that_cannot_be_made_is_named_with_the_setting_that_moves_it(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    host = JobHost(base_dir=blocked / "jobs")

    with pytest.raises(SandboxUnavailable, match=r"cannot be made: Not a directory\. Set WORKER_DIR"):
        await host.start()
