"""The lock of a script for Bun: its package.json, and behind a line //bun.lock what that resolved to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.dependencies.typescript import Package

_MARK = "//bun.lock\n"
_BINARY_MARK = (
    "//bun.lockb\n"  # of older versions of Bun: its content is no text, the package.json is what counts
)
EMPTY = "<empty>"  # how the CLI writes down that there is none
_KINDS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")


class WrongPackages(ValueError):
    """A sentence for the author of a script about what it asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmLock:
    """What to install."""

    package_json: str
    bun_lock: str | None  # None: versions are not pinned

    def __str__(self) -> str:
        return f"{self.package_json}\n{_MARK}{self.bun_lock or ''}"


def read(text: str | None) -> NpmLock | None:
    """The lock as a script has it; None when nothing is to be installed.

    Raises WrongPackages for a text that is no lock of Bun.
    """
    text = (text or "").replace("\r\n", "\n")
    for mark in (_BINARY_MARK, _MARK):
        package_json, found, rest = f"\n{text}".partition(f"\n{mark}")
        if found:
            break
    package_json = package_json.strip()
    if package_json in ("", EMPTY):
        return None
    bun_lock = rest.strip() if mark == _MARK else ""
    parsed = _parsed(package_json, "The lock of this script")
    if not any(parsed.get(kind) for kind in _KINDS):
        return None
    return NpmLock(package_json=package_json, bun_lock=None if bun_lock in ("", EMPTY) else f"{bun_lock}\n")


def package_json(wanted: Iterable[Package], files: Mapping[str, str]) -> str | None:
    """The package.json to resolve: that of the workspace's `files` (text by path), with what the code imports besides.

    None when that is nothing. Raises WrongPackages for files that cannot be read, and versions that contradict.
    """
    whole: dict[str, Any] = {}
    for path, text in files.items():
        for kind, value in _parsed(text, path).items():
            both_have = isinstance(value, dict) and isinstance(whole.get(kind), dict)
            whole[kind] = {**whole[kind], **value} if both_have else value
    listed = {name for kind in _KINDS for name in whole.get(kind) or ()}
    added = {name: version for name, version in _versions(wanted).items() if name not in listed}
    if not listed and not added:
        return None
    if added:
        whole["dependencies"] = dict(sorted({**(whole.get("dependencies") or {}), **added}.items()))
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _versions(wanted: Iterable[Package]) -> dict[str, str]:
    found: dict[str, str | None] = {}
    for package in wanted:
        if package.registry != "npm":
            raise WrongPackages(
                f'Bun cannot install "{package.registry}:{package.name}": packages from there need the language Deno.'
            )
        before = found.get(package.name)
        if before is not None and package.version is not None and before != package.version:
            raise WrongPackages(
                f"{package.name} is imported as {before} and as {package.version}; all scripts that are run together "
                "need the same version. Name it in one of the imports, or change one of them."
            )
        found[package.name] = package.version or before
    return {name: version or "latest" for name, version in found.items()}


def _parsed(text: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongPackages(f"{what} is not a package.json: {error}.") from None
    if not isinstance(value, dict):
        raise WrongPackages(f"{what} is not a package.json: it must be a JSON object.")
    for kind in _KINDS:
        dependencies = value.get(kind)
        if dependencies is not None and not _is_text_by_name(dependencies):
            raise WrongPackages(f'{what}: "{kind}" must be an object of versions by package name.')
    return value


def _is_text_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def names(lock: NpmLock) -> Sequence[str]:
    """The packages that the script itself asks for."""
    parsed = json.loads(lock.package_json)
    return [name for kind in _KINDS for name in parsed.get(kind) or ()]
