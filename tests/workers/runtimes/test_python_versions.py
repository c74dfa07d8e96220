"""Which Python a script runs on."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from workers.runtimes import look_around
from workers.runtimes.python_versions import NoSuchPython, Python, choose, found_pythons, of_minor


def pythons(*versions: str) -> Sequence[Python]:
    """Pythons of these versions; the first one is the worker's."""
    return [
        Python(
            executable=Path(f"/p/{one}/bin/python3"), version=one, prefix=Path(f"/p/{one}"), platform="linux"
        )
        for one in versions
    ]


@pytest.mark.parametrize(
    ("specifier", "chosen"),
    [
        (None, "3.11.2"),
        (">=3.10", "3.11.2"),
        (">=3.12", "3.13.0"),
        ("==3.12.*", "3.12.4"),
        ("==3.12.1", "3.12.1"),
        ("<3.11", "3.10.9"),
        ("!=3.11.*,<3.13", "3.12.4"),
    ],
)
def test_the_workers_own_python_comes_first_then_the_newest_that_fits(
    specifier: str | None, chosen: str
) -> None:
    there = pythons("3.11.2", "3.13.0", "3.12.4", "3.12.1", "3.10.9")

    assert choose(there, specifier).version == chosen


def test_the_newest_python_may_be_preferred() -> None:
    there = pythons("3.11.2", "3.10.9", "3.13.0")

    assert choose(there, None, latest=True).version == "3.13.0"
    assert choose(there, "<3.13", latest=True).version == "3.11.2"


def test_a_python_that_is_not_there_is_refused_with_those_that_are_and_the_way_to_get_it() -> None:
    with pytest.raises(NoSuchPython) as refused:
        choose(pythons("3.11.2", "3.12.4"), ">=3.14")

    assert str(refused.value) == (
        "This script asks for Python >=3.14, which this worker does not have; it has 3.11.2, 3.12.4. To add one on the "
        "worker's machine: uv python install 3.14 (or pyenv install 3.14, or the packages of the system), then start the "
        "worker again."
    )


def test_a_python_is_found_by_its_minor_version() -> None:
    there = pythons("3.11.2", "3.13.0", "3.12.4", "3.12.1")

    assert [one and one.version for one in (of_minor(there, "3.12"), of_minor(there, "3.9"))] == [
        "3.12.4",
        None,
    ]


def test_the_pythons_of_this_machine_are_found_and_told() -> None:
    found = found_pythons()

    own = ".".join(map(str, sys.version_info[:3]))
    assert (found[0].version, found[0].is_own) == (own, True)
    assert all(one.executable.is_file() and not one.executable.is_symlink() for one in found)
    assert look_around().as_json()["python3"]["version"].startswith(f"Python {own}")
