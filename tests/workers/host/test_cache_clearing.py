"""A group's wish to clear the cache is fulfilled once on each machine."""

import threading
from pathlib import Path

import pytest

from workers import cache
from workers.cache import Cache
from workers.host.cache_clearing import clear_when_asked

KEY, OTHER = "a" * 64, "b" * 64


async def build(folder: Path) -> None:
    (folder / "file").write_text("built")


@pytest.fixture
async def filled(tmp_path: Path) -> Path:
    await Cache(tmp_path / "python").get(KEY, build)
    await Cache(tmp_path / "npm").get(OTHER, build)
    return tmp_path


async def test_a_new_wish_clears_all_kinds_and_the_same_wish_nothing(filled: Path) -> None:
    assert clear_when_asked(filled, group="default", wish=1)
    assert cache.entry_count(filled) == 0

    await Cache(filled / "python").get(KEY, build)
    assert not clear_when_asked(filled, group="default", wish=1)
    assert cache.entry_count(filled) == 1

    # Another number is another wish, also a smaller one: the configuration may have been made anew.
    assert clear_when_asked(filled, group="default", wish=2)
    await Cache(filled / "python").get(KEY, build)
    assert clear_when_asked(filled, group="default", wish=1)
    assert clear_when_asked(filled, group="another", wish=1)


async def test_no_wish_clears_nothing(filled: Path) -> None:
    assert not clear_when_asked(filled, group="default", wish=0)
    assert cache.entry_count(filled) == 2


async def test_what_is_in_use_stays(filled: Path) -> None:
    async with Cache(filled / "python").entry(KEY, build) as path:
        assert clear_when_asked(filled, group="default", wish=1)

        assert (path / "file").read_text() == "built"
        assert cache.entry_count(filled) == 1


async def test_of_workers_that_start_at_once_one_clears(filled: Path) -> None:
    did: list[bool] = []
    workers = [
        threading.Thread(target=lambda: did.append(clear_when_asked(filled, group="default", wish=1)))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert sorted(did) == [False, False, False, True]


def test_a_machine_without_a_cache_has_nothing_to_clear_and_remembers_that(tmp_path: Path) -> None:
    assert clear_when_asked(tmp_path / "new", group="default", wish=1)
    assert not clear_when_asked(tmp_path / "new", group="default", wish=1)
