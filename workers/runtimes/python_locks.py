"""Locks of Python scripts: `# py: 3.12` on the first line, then one pinned requirement a line.

The pins are plain, without hashes, as Windmill writes them: people read them, and the two are pushed to and fro by its
command line. Hashes in a lock that somebody supplies are checked all the same when its packages are installed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from jobs.dependencies.python_comments import requirements_in

_PYTHON = re.compile(r"#\s*py(?:thon)?(?::\s*|(?=3\d))(?P<major>3)\.?(?P<minor>\d{1,2})(?:\.\d+)?\s*$")


@dataclass(frozen=True, kw_only=True)
class PythonLock:
    """What a lock says."""

    python: str | None  # "3.12"; None: it does not say
    pins: Sequence[str]  # "requests==2.32.3", perhaps with --hash=...; sorted, each once


EMPTY = PythonLock(python=None, pins=())


@lru_cache(maxsize=256)
def read_lock(text: str) -> PythonLock:
    """The lock in `text`: ours, or one that was supplied in the format of requirements.txt. Raises WrongRequirement."""
    python = None
    for line in text.splitlines():
        if match := _PYTHON.match(line.strip()):
            python = f"{match['major']}.{match['minor']}"
            break
        if line.strip() and not line.lstrip().startswith("#"):
            break
    return PythonLock(python=python, pins=tuple(sorted(set(requirements_in(text, "the lock")))))


def write_lock(python: str, pins: Sequence[str]) -> str:
    """The text of a lock for Python `python` ("3.12")."""
    return "\n".join([f"# py: {python}", *pins]) + "\n"
