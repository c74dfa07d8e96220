"""The cache of built things: built once by whoever comes first, whole or not at all, the oldest removed first."""

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workers.cache import Cache, collect, state_folder

KEY, OTHER, THIRD = "a" * 64, "b" * 64, "c" * 64
BUILDER = """
import asyncio, os, sys, time
from pathlib import Path
from workers.cache import Cache
root, key, count, how = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
async def build(folder):
    with open(count, "a") as file:
        file.write("built\\n")
    (folder / "half").write_text("x")
    if how == "hang":
        await asyncio.sleep(600)
    await asyncio.sleep(0.3)
    (folder / "whole").write_text("x")
print(sorted(os.listdir(asyncio.run(Cache(root).get(key, build)))))
"""


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)  # the folders of pytest are for their owner only
        yield Path(folder) / "python"


@pytest.fixture
def cache(root: Path) -> Cache:
    return Cache(root)


def building(root: Path, key: str, count: Path, how: str = "") -> "subprocess.Popen[str]":
    """Another process that gets the entry `key` and writes a line to `count` when it builds it."""
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, root, key, count, how],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )


async def fill(folder: Path, *, size: int = 10) -> None:
    (folder / "file").write_bytes(b"x" * size)


async def never(folder: Path) -> None:
    raise AssertionError("it was built already")


def last_used(root: Path, key: str, *, minutes_ago: float) -> None:
    at = time.time() - 60 * minutes_ago
    os.utime(state_folder(root.parent) / root.name / "used" / key, (at, at))


async def test_an_entry_is_built_once_and_found_from_then_on(cache: Cache, root: Path) -> None:
    built = await cache.get(KEY, fill)

    assert built == root / KEY
    assert (built / "file").read_text() == "x" * 10
    assert await cache.get(KEY, never) == built
    assert await Cache(root).get(KEY, never) == built


def test_two_processes_that_want_the_same_entry_build_it_once(root: Path, tmp_path: Path) -> None:
    both = [building(root, KEY, tmp_path / "count") for _ in range(2)]

    assert [one.communicate()[0] for one in both] == ["['half', 'whole']\n"] * 2
    assert (tmp_path / "count").read_text() == "built\n"


def test_what_a_killed_builder_left_is_built_again(
    root: Path, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    killed = building(root, KEY, tmp_path / "count", "hang")
    wait_until(lambda: len(list(root.glob(".building/*/half"))) == 1)
    killed.kill()
    killed.communicate()

    assert building(root, KEY, tmp_path / "count").communicate()[0] == "['half', 'whole']\n"
    assert list((root / ".building").iterdir()) == []


def test_what_a_killed_builder_left_is_collected_but_not_what_is_being_built(
    root: Path, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    killed, alive = (building(root, key, tmp_path / "count", "hang") for key in (KEY, OTHER))
    wait_until(lambda: len(list(root.glob(".building/*/half"))) == 2)
    killed.kill()
    killed.communicate()

    collect(root.parent, 1 << 30)

    assert [path.name.partition("-")[0] for path in (root / ".building").iterdir()] == [OTHER]
    alive.kill()
    alive.communicate()


async def test_a_build_that_fails_leaves_nothing(cache: Cache, root: Path) -> None:
    async def fail(folder: Path) -> None:
        await fill(folder)
        raise RuntimeError("no such package")

    with pytest.raises(RuntimeError, match="no such package"):
        await cache.get(KEY, fail)

    assert not (root / KEY).exists() and list((root / ".building").iterdir()) == []
    assert await cache.get(KEY, fill) == root / KEY


async def test_those_who_wait_in_one_process_share_a_build_that_goes_on_while_one_of_them_wants_it(
    cache: Cache, root: Path
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def build(folder: Path) -> None:
        begun.set()
        await go_on.wait()

    first = asyncio.create_task(cache.get(KEY, build))
    await begun.wait()
    second = asyncio.create_task(cache.get(KEY, never))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    go_on.set()

    assert await second == root / KEY


async def test_a_build_that_nobody_waits_for_any_more_is_cancelled(cache: Cache, root: Path) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def build(folder: Path) -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            cancelled.set()

    waiting = asyncio.create_task(cache.get(KEY, build))
    await begun.wait()
    waiting.cancel()
    await asyncio.wait([waiting])

    assert cancelled.is_set() and list((root / ".building").iterdir()) == []
    assert await cache.get(KEY, fill) == root / KEY


async def test_an_entry_that_was_deleted_by_hand_is_built_again(cache: Cache, root: Path) -> None:
    await cache.get(KEY, fill)
    (root / KEY).rename(root.parent / "gone")

    assert (await cache.get(KEY, fill)).is_dir()

    subprocess.run(["rm", "-rf", root], check=True)
    assert (await cache.get(KEY, fill)).is_dir()


async def test_an_entry_is_for_all_to_read_and_for_nobody_to_change(cache: Cache, root: Path) -> None:
    outside = root.parent / "outside"

    async def build(folder: Path) -> None:
        outside.write_text("secret")
        outside.chmod(0o600)
        (folder / "inner").mkdir(mode=0o700)
        (folder / "inner" / "program").write_text("x")
        (folder / "inner" / "program").chmod(0o4777)
        (folder / "link").symlink_to(outside)

    entry = await cache.get(KEY, build)

    modes = {name: stat.S_IMODE((entry / name).lstat().st_mode) for name in (".", "inner", "inner/program")}
    assert modes == dict.fromkeys(modes, 0o755)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o600
    assert os.readlink(entry / "link") == str(outside)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's jobs may list what this user may")
async def test_strangers_can_read_an_entry_they_know_and_cannot_list_the_others(
    cache: Cache, root: Path
) -> None:
    await cache.get(KEY, fill)

    def stranger(*command: str) -> int:
        return subprocess.run(
            command, user=65534, group=65534, extra_groups=[], capture_output=True
        ).returncode

    assert stranger("cat", f"{root}/{KEY}/file") == 0
    assert all(stranger("ls", f"{root}{below}") for below in ("", "/.building", "/../.state"))


@pytest.mark.parametrize("key", ["../x", "A" * 64, "short", "a" * 64 + "/.."])
async def test_a_key_is_a_digest(cache: Cache, key: str) -> None:
    with pytest.raises(ValueError, match="expected a hexadecimal digest"):
        await cache.get(key, fill)


async def test_what_was_used_longest_ago_is_removed_first(cache: Cache, root: Path) -> None:
    for minutes_ago, key in ((60, KEY), (120, OTHER), (30, THIRD)):
        await cache.get(key, lambda folder: fill(folder, size=100_000))
        last_used(root, key, minutes_ago=minutes_ago)

    freed = collect(root.parent, 250_000)

    assert freed >= 100_000
    assert sorted(path.name for path in root.glob("[!.]*")) == [KEY, THIRD]


async def test_of_what_is_gone_no_record_stays(cache: Cache, root: Path) -> None:
    async def fail(folder: Path) -> None:
        raise RuntimeError

    await cache.get(KEY, fill)
    with pytest.raises(RuntimeError):
        await cache.get(OTHER, fail)
    for key in (KEY, OTHER):
        last_used(root, key, minutes_ago=60)

    collect(root.parent, 0)

    state = state_folder(root.parent) / root.name
    assert [list(folder.iterdir()) for folder in (state / "used", state / "locks", root / ".building")] == [
        [],
        [],
        [],
    ]


async def test_what_is_in_use_or_was_just_now_is_not_removed(cache: Cache, root: Path) -> None:
    await cache.get(KEY, fill)
    async with cache.entry(OTHER, fill) as held:
        last_used(root, OTHER, minutes_ago=600)

        assert collect(root.parent, 0) == 0
        assert held.is_dir() and (root / KEY).is_dir()

    last_used(root, OTHER, minutes_ago=600)
    assert collect(root.parent, 0) > 0
    assert not held.exists() and (root / KEY).is_dir()


async def test_an_entry_that_was_removed_is_built_again(cache: Cache, root: Path) -> None:
    await cache.get(KEY, fill)
    last_used(root, KEY, minutes_ago=60)
    collect(root.parent, 0)

    async with cache.entry(KEY, fill) as entry:
        assert (entry / "file").exists()


async def test_entries_of_all_kinds_count(cache: Cache, root: Path) -> None:
    other_kind = Cache(root.parent / "go")
    await other_kind.get(KEY, lambda folder: fill(folder, size=100_000))
    last_used(root.parent / "go", KEY, minutes_ago=60)
    await cache.get(OTHER, lambda folder: fill(folder, size=100_000))
    last_used(root, OTHER, minutes_ago=30)

    collect(root.parent, 150_000)

    assert not (root.parent / "go" / KEY).exists() and (root / OTHER).exists()


async def test_collecting_leaves_alone_what_is_not_the_caches(cache: Cache, root: Path) -> None:
    await cache.get(KEY, fill)
    (root / "notes").mkdir()
    (root.parent / "downloads").mkdir()
    (root.parent / "link").symlink_to(root)

    collect(root.parent, 0)

    assert (root / "notes").is_dir() and (root.parent / "downloads").is_dir()


async def test_finding_an_entry_again_costs_next_to_nothing(cache: Cache) -> None:
    await cache.get(KEY, fill)

    began = time.perf_counter()
    for _ in range(1000):
        await cache.get(KEY, never)

    assert (
        time.perf_counter() - began
    ) / 1000 < 0.000_5  # it takes a few millionths; this machine may be busy
