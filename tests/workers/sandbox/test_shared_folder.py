"""The folder that the jobs of a flow have in common: theirs to change, out of everybody else's reach, gone with them."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.workers.job_runs import Jobs, started
from workers.sandbox import SharedFolderLost

WRITE = """
import os, pathlib
def main(text: str):
    pathlib.Path("shared/note.txt").write_text(text)
    os.mkdir("shared/inner", 0o700)
    pathlib.Path("shared/inner/private.txt").write_text(text)
    os.chmod("shared/inner/private.txt", 0o600)
"""
READ = """
import pathlib
def main():
    return {str(path.relative_to("shared")): path.read_text() for path in sorted(pathlib.Path("shared").rglob("*.txt"))}
"""


@pytest.fixture
def share(any_host: Jobs) -> Any:
    name = "0190-flow"
    yield name
    any_host.host.drop_share(name)
    any_host.host.drop_share("0190-other")


def test_what_one_job_leaves_the_next_one_finds_and_may_change(any_host: Jobs, share: str) -> None:
    any_host.python(WRITE, args={"text": "hello"}, share=share)

    assert any_host.python(READ, share=share).result == {"inner/private.txt": "hello", "note.txt": "hello"}
    any_host.bash("echo again > shared/note.txt; rm -r shared/inner", share=share)
    assert any_host.python(READ, share=share).result == {"note.txt": "again\n"}


def test_it_is_a_folder_at_the_root_too(isolated: Jobs) -> None:
    isolated.bash("echo 1 > shared/one", share="0190-root")

    found = isolated.bash(
        "cat /shared/one; df --output=target /shared | tail -1 > result.out", share="0190-root"
    )

    assert found.result.strip() == "/shared"
    assert found.log.text == "1\n"
    isolated.host.drop_share("0190-root")


def test_other_flows_have_folders_of_their_own(any_host: Jobs, share: str) -> None:
    any_host.python(WRITE, args={"text": "hello"}, share=share)

    assert any_host.python(READ, share="0190-other").result == {}


def test_jobs_without_one_find_none(any_host: Jobs, share: str) -> None:
    any_host.python(WRITE, args={"text": "hello"}, share=share)

    assert any_host.bash("ls -A; ls -A /shared 2>/dev/null || true").log.text == "args.json\nmain.sh\n"


LOOK_EVERYWHERE = """
import os
def main():
    found = []
    for place, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if place != "/" or name not in ("proc", "sys", "usr", "opt")]
        found += [f"{place}/{name}" for name in files if name in ("note.txt", "private.txt")]
    names = [line.split()[4] for line in open("/proc/self/mountinfo")]
    try:
        hidden = os.listdir("/.shares")
    except OSError as error:
        hidden = type(error).__name__
    for name in names:
        if name.startswith("/.shares/"):
            try:
                found += os.listdir(name)
            except OSError:
                pass
    return {"found": found, "names": names, "hidden": hidden}
"""


def test_no_name_leads_to_the_folder_of_another_flow(isolated: Jobs) -> None:
    isolated.python(WRITE, args={"text": "hello"}, share="0190-theirs")

    stranger = isolated.python(LOOK_EVERYWHERE).result
    neighbour = isolated.python(LOOK_EVERYWHERE, share="0190-ours").result

    assert stranger["found"] == neighbour["found"] == []
    assert "/shared" in neighbour["names"] and "/shared" not in stranger["names"]
    assert not any("0190" in name for name in stranger["names"] + neighbour["names"])
    assert stranger["hidden"] in ([], "PermissionError") and neighbour["hidden"] in ([], "PermissionError")
    for name in ("0190-theirs", "0190-ours"):
        isolated.host.drop_share(name)


@pytest.mark.parametrize("target", ["/etc", "/tmp", "../../../../etc"])
def test_links_that_a_job_leaves_lead_nowhere_outside(
    any_host: Jobs, share: str, tmp_path: Path, target: str
) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text("kept")

    any_host.bash(f"ln -s {target} shared/link; ln -s {tmp_path} shared/outside", share=share)
    any_host.host.drop_share(share)
    any_host.bash("true")  # the fork server has read the request by the time it made a further sandbox

    assert kept.read_text() == "kept" and Path("/etc/passwd").exists()


def test_a_folder_that_was_dropped_is_empty_when_it_comes_again(any_host: Jobs, share: str) -> None:
    any_host.python(WRITE, args={"text": "hello"}, share=share)

    any_host.host.drop_share(share)

    assert any_host.python(READ, share=share).result == {}


def test_a_folder_that_had_to_go_early_is_missed(any_host: Jobs, share: str) -> None:
    any_host.python(WRITE, args={"text": "hello"}, share=share)
    any_host.host.drop_share(share, is_missed=True)

    with pytest.raises(SharedFolderLost):
        any_host.python(READ, share=share)

    any_host.host.drop_share(share)
    assert any_host.python(READ, share=share).result == {}


def test_many_folders_one_after_the_other_use_up_nothing(any_host: Jobs) -> None:
    for number in range(30):
        name = f"0190-{number}"
        assert any_host.bash("ls shared; touch shared/x", share=name).log.text == ""
        any_host.host.drop_share(name)


def test_its_size_is_limited(isolated: Jobs) -> None:
    size = isolated.bash("df -B1 --output=size /shared | tail -1 > result.out", share="0190-size").result

    assert int(size) == 1 << 30  # as much as /tmp
    isolated.host.drop_share("0190-size")


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's jobs all run as that user")
def test_without_namespaces_other_users_jobs_cannot_enter(any_host: Jobs, share: str) -> None:
    any_host.python(WRITE, args={"text": "hello"}, share=share)
    place = any_host.bash("readlink -f shared > result.out", share=share).result

    answer = any_host.bash(f"ls {place} 2>&1 || true").log.text

    assert "note.txt" not in answer


def test_a_folder_lost_with_the_fork_server_is_not_silently_empty(tmp_path: Path) -> None:
    with started(base_dir=tmp_path / "base", policy="warn") as jobs:
        jobs.python(WRITE, args={"text": "hello"}, share="0190-flow")
        pid = jobs.host.fork_server_pid
        assert pid is not None
        os.killpg(pid, signal.SIGKILL)
        jobs.runner.run(_until_it_is_another(jobs, pid))

        with pytest.raises(SharedFolderLost):
            jobs.python(READ, share="0190-flow")

        assert jobs.python(READ, share="0190-other").result == {}


async def _until_it_is_another(jobs: Jobs, pid: int) -> None:
    async with asyncio.timeout(20):
        while jobs.host.fork_server_pid in (pid, None):
            await asyncio.sleep(0.01)
