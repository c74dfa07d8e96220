"""Python packages that a worker's host has already: they are not resolved and not installed (pip_local_dependencies)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")


def names_of(requirements: Iterable[str]) -> frozenset[str]:
    """The names of packages, as indexes compare them.

    >>> sorted(names_of(["Torch==2.4.0", "requests[socks]>=2", "zope.interface"]))
    ['requests', 'torch', 'zope-interface']
    """
    return frozenset(name for one in requirements if (name := _name(one)))


def without(requirements: Sequence[str], local: frozenset[str]) -> Sequence[str]:
    """`requirements` (as in requirements.txt, perhaps pinned) that are not among the packages `local`."""
    return [one for one in requirements if _name(one) not in local] if local else requirements


@lru_cache(maxsize=4096)
def _name(requirement: str) -> str:
    match = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""
