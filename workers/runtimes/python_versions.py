"""The Pythons of this machine: which there are, and which of them a script runs on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

OLDEST = (3, 10)  # that job_process runs on
_ASK = (
    "import sys, sysconfig, platform, json; print(json.dumps([list(sys.version_info[:3]), sys.version_info[3], "
    "sys.base_prefix, sys.implementation.name, sysconfig.get_platform(), list(platform.libc_ver())]))"
)
_ASK_TIMEOUT_S = 20
# Where pyenv, uv and people put Pythons, besides the PATH; below the home of the worker's user, and of root.
_FOLDERS = (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin", ".local/bin")
_PLACES = ("/usr/bin", "/usr/local/bin", "/opt/*/bin")
_NAME = re.compile(r"python3\.(\d+)$")


@dataclass(frozen=True, kw_only=True)
class Python:
    """An interpreter."""

    executable: Path  # the real one, not a virtual environment's
    version: str  # "3.12.1"
    prefix: Path  # what it needs to run lies below; and below /usr, perhaps
    platform: str  # what its compiled packages are for: "linux-x86_64 glibc 2.36"

    @property
    def minor(self) -> str:
        """ "3.12"."""
        return ".".join(self.version.split(".")[:2])

    @property
    def is_own(self) -> bool:
        """Whether it is the worker's own."""
        return self.executable == _own()


class NoSuchPython(Exception):
    """None that was found fits. The message is for the script's author and for who runs the worker."""


@cache
def found_pythons() -> Sequence[Python]:
    """The worker's own first, then others, newest first; each version once. Starts each once."""
    found: dict[str, Python] = {}
    seen: set[Path] = set()
    for path in _candidates(os.environ):
        real = path.resolve()
        if real not in seen and os.access(real, os.X_OK):
            seen.add(real)
            if python := _asked(real):
                found.setdefault(python.version, python)
    own, *others = found.values()
    return [own, *sorted(others, key=lambda one: Version(one.version), reverse=True)]


def told() -> str:
    """What was found, for people: "Python 3.11.7, 3.13.0"."""
    return "Python " + ", ".join(one.version for one in found_pythons())


def choose(pythons: Sequence[Python], specifier: str | None, *, latest: bool = False) -> Python:
    """The Python for a script that asks for `specifier` (">=3.12"): the first one when it fits, else the newest one.

    `latest`: the newest in any case. Raises NoSuchPython.
    """
    if not specifier and not latest:
        return pythons[0]
    wanted = SpecifierSet(specifier or "", prereleases=True)
    fitting = [one for one in pythons if wanted.contains(one.version)]
    if not fitting:
        raise NoSuchPython(
            f"This script asks for Python {specifier}, which this worker does not have; {_has(pythons)}. "
            f"{_how_to_get(_example(specifier or ''))}"
        )
    if fitting[0] is pythons[0] and not latest:
        return pythons[0]
    return max(fitting, key=lambda one: Version(one.version))


def of_minor(pythons: Sequence[Python], minor: str) -> Python | None:
    """The newest Python 3.x for `minor` "3.x"; the worker's own when it is one."""
    return next((one for one in pythons if one.minor == minor), None)


def _has(pythons: Sequence[Python]) -> str:
    return "it has " + ", ".join(one.version for one in pythons)


def _how_to_get(minor: str) -> str:
    return (
        f"To add one on the worker's machine: uv python install {minor} (or pyenv install {minor}, or the packages of "
        "the system), then start the worker again."
    )


def _example(specifier: str) -> str:
    match = re.search(r"3\.\d+", specifier)
    return match[0] if match else "3.13"


@cache
def _own() -> Path:
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    yield _own()
    homes = dict.fromkeys([Path.home(), Path("/root")])
    patterns = [Path(home, folder) for home in homes for folder in _FOLDERS]
    patterns += [
        Path(place) for place in (*environ.get("PATH", os.defpath).split(os.pathsep), *_PLACES) if place
    ]
    for pattern in patterns:
        if not pattern.is_absolute():
            continue
        for folder in sorted(Path("/").glob(str(pattern).lstrip("/"))):
            try:
                names = sorted(os.listdir(folder))
            except OSError:
                continue
            for name in names:
                match = _NAME.fullmatch(name)
                if match and (3, int(match[1])) >= OLDEST:
                    yield folder / name


def _asked(executable: Path) -> Python | None:
    """What `executable` says of itself; None when it does not run, or is no Python that jobs can run on."""
    try:
        told = subprocess.run(
            [executable, "-I", "-S", "-c", _ASK],
            capture_output=True,
            timeout=_ASK_TIMEOUT_S,
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            check=True,
        )
        version, level, prefix, implementation, platform, libc = json.loads(told.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if implementation != "cpython" or level != "final" or tuple(version[:2]) < OLDEST:
        return None
    return Python(
        executable=executable,
        version=".".join(map(str, version)),
        prefix=Path(prefix),
        platform=" ".join([platform, *libc]).strip(),
    )
