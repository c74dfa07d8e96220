"""Folders on disk that one program may change: it and nobody else, there and nowhere else, ours again afterwards."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.job_runs import ISOLATED, Jobs, started_with
from workers.sandbox import Ended, Isolation, JobHost, Limits, Program, ownership


@pytest.fixture(scope="module", params=[*ISOLATED, "none"])
def cache(request: pytest.FixtureRequest) -> Iterator[tuple[Jobs, Path]]:
    """Jobs in each kind of isolation and without, and the folder below which they may be allowed to write."""
    kind: Isolation = request.param
    with tempfile.TemporaryDirectory(prefix="cache of ") as folder:
        root = Path(folder) / "cache"
        root.mkdir(0o711)
        root.parent.chmod(0o711)
        with started_with(
            kind, Path(folder) / "jobs", writable_root=root, hidden_paths=[root / "hidden"]
        ) as jobs:
            yield jobs, root


@pytest.fixture
def folder(cache: tuple[Jobs, Path]) -> Iterator[Path]:
    folder = cache[1] / "python" / "staging"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder.parent)


def run(jobs: Jobs, script: str, *writable: Path | str) -> tuple[Ended, str]:
    """Run a Bash script that may change `writable`; returns how it ended and what it printed."""
    output = bytearray()
    program = Program(env={}, argv=["bash", "-e", "-c", script], writable=[str(path) for path in writable])
    ended = jobs.runner.run(jobs.host.run(program, limits=Limits(), on_output=output.extend, timeout_s=20))
    return ended, output.decode()


def test_a_program_can_write_there_and_what_it_wrote_is_ours_then(
    cache: tuple[Jobs, Path], folder: Path
) -> None:
    script = (
        f"cd '{folder}'; mkdir -p a/b; echo hello > a/b/one; chmod 6777 a/b/one; echo x > two; ln -s / a/root"
    )

    ended, output = run(cache[0], script, folder)

    assert (ended.exit_code, output) == (0, "")
    assert (folder / "a/b/one").read_text() == "hello\n"
    found = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    assert {entry.st_uid for entry in found.values()} == {os.geteuid()}
    modes = {path.name: stat.S_IMODE(entry.st_mode) for path, entry in found.items() if not path.is_symlink()}
    assert modes == {"staging": 0o755, "a": 0o755, "b": 0o755, "one": 0o755, "two": 0o644}


def test_what_an_earlier_program_left_the_next_one_may_change(cache: tuple[Jobs, Path], folder: Path) -> None:
    run(cache[0], f"mkdir '{folder}/a'; echo 1 > '{folder}/a/one'", folder)

    ended, output = run(cache[0], f"cd '{folder}'; echo 2 >> a/one; cat a/one; rm -r a", folder)

    assert (ended.exit_code, output) == (0, "1\n2\n")
    assert list(folder.iterdir()) == []


def test_it_can_write_nowhere_else_below_the_root(cache: tuple[Jobs, Path], folder: Path) -> None:
    if cache[0].host.isolation == "none" and os.geteuid() != 0:
        pytest.skip("without namespaces, jobs of an ordinary user may do what this user may")
    other = folder.parent / "other"
    other.mkdir()

    _, output = run(
        cache[0],
        f"for at in '{other}' '{folder.parent}' '{cache[1]}'; do touch \"$at/x\" || echo refused; done",
        folder,
    )

    assert output.count("refused") == 3
    assert list(other.iterdir()) == []


def test_another_program_can_read_but_not_write_it(cache: tuple[Jobs, Path], folder: Path) -> None:
    if cache[0].host.isolation == "none" and os.geteuid() != 0:
        pytest.skip("without namespaces, jobs of an ordinary user may do what this user may")
    other = folder.parent / "other"
    other.mkdir()
    run(cache[0], f"echo hello > '{folder}/one'", folder)

    attempt = '{ echo x > "$at"; } 2>/dev/null || echo refused'
    script = f"cat '{folder}/one'; for at in '{folder}/one' '{folder}/two'; do {attempt}; done"
    seen = [run(cache[0], script)[1], run(cache[0], script, other)[1]]

    assert seen == ["hello\nrefused\nrefused\n"] * 2
    assert (folder / "one").read_text() == "hello\n"


def test_no_other_name_leads_to_the_writable_root(cache: tuple[Jobs, Path], folder: Path) -> None:
    jobs, root = cache
    if jobs.host.isolation == "none":
        pytest.skip("without namespaces there are no other names")
    (root / "marker").write_text("x")

    _, output = run(
        jobs,
        'while read -r _ _ _ _ at _; do at=${at//\\\\040/ }; touch "$at/probe" 2>/dev/null && echo "$at"; done'
        " < /proc/self/mountinfo; touch /.shares/writable/probe 2>/dev/null && echo reached || true",
        folder,
    )

    writable = set(output.split("\n")) - {""}
    assert writable <= {str(folder), "/tmp", "/proc", "/dev/pts"} and str(folder) in writable
    assert not (root / "probe").exists() and (folder / "probe").exists()


def test_set_user_id_and_device_files_mean_nothing_there(cache: tuple[Jobs, Path], folder: Path) -> None:
    jobs, _ = cache
    if jobs.host.isolation == "none":
        pytest.skip("without namespaces there is no mount to say so")

    _, output = run(jobs, f"grep -F '{folder.name}' /proc/self/mountinfo", folder)

    assert "nosuid,nodev" in output and " rw," in output


@pytest.mark.parametrize(
    "path", ["{root}", "{root}/", "{root}/../outside", "/etc", "relative", "{root}/python/./staging"]
)
def test_what_is_not_strictly_below_the_root_is_refused(
    cache: tuple[Jobs, Path], folder: Path, path: str
) -> None:
    with pytest.raises(ValueError, match="cannot be writable: only folders below"):
        run(cache[0], "true", path.format(root=cache[1]))


def test_a_link_is_refused_as_the_folder_and_on_the_way(cache: tuple[Jobs, Path], folder: Path) -> None:
    target = folder / "target"
    (target / "inner").mkdir(parents=True)
    (folder / "link").symlink_to(target)

    for path in (folder / "link", folder / "link" / "inner", folder / "missing"):
        with pytest.raises(ValueError, match="is not a folder without links on its way"):
            run(cache[0], "true", path)


def test_a_hidden_folder_below_the_root_stays_hidden(tmp_path: Path) -> None:
    hidden = tmp_path / "cache" / "one" / "hidden"
    hidden.mkdir(parents=True)
    (hidden / "secret").write_text("secret")
    tmp_path.chmod(0o711)
    with started_with(
        ISOLATED[0], tmp_path / "jobs", writable_root=tmp_path / "cache", hidden_paths=[hidden]
    ) as jobs:
        script = f"ls '{hidden}' 2>/dev/null || true; cat '{hidden}/secret' 2>/dev/null || echo nothing"

        assert run(jobs, script, hidden.parent)[1] == "nothing\n"


async def test_a_host_without_such_a_root_says_so(tmp_path: Path) -> None:
    host = JobHost(base_dir=tmp_path)

    with pytest.raises(ValueError, match="was made without writable_root"):
        await host.run(Program(env={}, writable=["/tmp/x"]), limits=Limits(), on_output=print)


def test_the_folder_comes_back_when_the_program_is_cancelled_or_takes_too_long(
    cache: tuple[Jobs, Path], folder: Path
) -> None:
    from workers.sandbox import ProgramTimedOut

    jobs, _ = cache
    program = Program(
        env={}, argv=["bash", "-c", f"mkdir '{folder}/inner'; sleep 60"], writable=[str(folder)]
    )

    with pytest.raises(ProgramTimedOut):
        jobs.runner.run(jobs.host.run(program, limits=Limits(), on_output=print, timeout_s=0.3))

    assert {path.stat().st_uid for path in (folder, folder / "inner")} == {os.geteuid()}


def test_taking_back_follows_no_links_and_touches_no_file_of_ours_under_another_name(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    ours.write_text("secret")
    ours.chmod(0o600)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "soft").symlink_to(ours)
    os.link(ours, folder / "hard")
    os.mkfifo(folder / "pipe")
    (folder / "locked").mkdir()
    (folder / "locked" / "file").write_text("x")
    (folder / "locked").chmod(0o000)
    folder.chmod(0o000)

    ownership.take_back(str(tmp_path), "folder")

    assert stat.S_IMODE(ours.stat().st_mode) == 0o600
    assert (folder / "locked" / "file").read_text() == "x"
    assert not (folder / "pipe").exists()


def test_folders_nested_without_end_are_refused_and_can_be_removed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    at = os.open(folder, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("down", dir_fd=at)
        os.symlink(kept, "link", dir_fd=at)
        below = os.open("down", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.fchmod(at, 0o000)
    os.close(at)

    with pytest.raises(OSError, match="nested more than 200 deep"):
        ownership.take_back(str(tmp_path), "folder")
    ownership.remove(str(folder))

    assert not folder.exists() and (kept / "file").read_text() == "x"
