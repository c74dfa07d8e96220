"""Installed packages: each one once, together as many environments as there are locks.

A package lies in the cache as uv installed it, with its bytecode, alone in a folder. An environment is one folder with
links to the files of all its packages: it costs no space of its own, and Python searches one folder instead of thirty.
Each package is installed in a sandbox that may write nothing but that package's folder, so that none can change another.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from workers.cache import Cache
from workers.runtimes import python_uv
from workers.runtimes.base import Limits, LogSink, Registries, Site
from workers.runtimes.python_versions import Python
from workers.runtimes.tool_runs import run_tool
from workers.sandbox import ownership

T = TypeVar("T")

INSTALL_TIMEOUT_S = 900.0  # of one package; some are compiled
_AT_A_TIME = 3  # packages of one environment
_PACKAGE = "package"  # what uv installs, in a package's folder
_UV = "uv"  # what it needs meanwhile, beside it


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """All that an environment depends on."""

    python: Python
    pins: Sequence[str]
    registries: Registries

    def key(self, pins: Sequence[str]) -> str:
        """Names what `pins` become with this Python from these registries.

        The addresses of registries are in it with their passwords: who does not know these cannot tell the name, and
        so not read the packages.
        """
        from_where = [
            self.registries.pip_index_url,
            *self.registries.pip_extra_index_urls,
            self.registries.uv_index_strategy,
        ]
        what = [self.python.minor, self.python.platform, list(pins), from_where]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()


class Environments:
    """The environments of a machine."""

    def __init__(self, site: Site, *, registry_timeout_s: float) -> None:
        self._site = site
        self._registry_timeout_s = registry_timeout_s
        self._packages = Cache(site.cache_dir / "python-packages")
        self._environments = Cache(site.cache_dir / "python-environments")

    @asynccontextmanager
    async def folder(self, wanted: Wanted, *, limits: Limits, log: LogSink) -> AsyncIterator[Path]:
        """The folder to put on sys.path, installed if need be; it stays at least as long as the block.

        Raises ExecutionFailed: what cannot be installed, and why.
        """

        async def build(folder: Path) -> None:
            await self._build(folder, wanted, limits, log)

        async with self._environments.entry(wanted.key(wanted.pins), build) as path:
            yield path

    async def _build(self, folder: Path, wanted: Wanted, limits: Limits, log: LogSink) -> None:
        began = time.monotonic()
        installed: list[str] = []
        log.write(f"installing {_count(wanted.pins)} for Python {wanted.python.minor}\n")

        async def package(pin: str) -> Path:
            async def build(folder: Path) -> None:
                await self._install(folder, pin, wanted, limits, log)
                installed.append(pin)

            return await self._packages.get(wanted.key([pin]), build)

        packages = await _all([lambda pin=pin: package(pin) for pin in wanted.pins])  # type: ignore[misc]
        await asyncio.to_thread(link_together, [path / _PACKAGE for path in packages], folder)
        cached = len(wanted.pins) - len(installed)
        log.write(
            f"installed {_count(installed)} in {time.monotonic() - began:.1f} s"
            f"{f', {cached} had been installed before' if cached else ''}\n"
        )

    async def _install(self, folder: Path, pin: str, wanted: Wanted, limits: Limits, log: LogSink) -> None:
        """Install `pin` into `folder`. Packages are built from their source only where there is no other way: a build
        runs code of the package, with what it takes to reach the registries in sight."""
        began = time.monotonic()
        name = python_uv.without_secrets(pin.partition(" --hash")[0], wanted.registries)
        clean = python_uv.CleanLog(log, wanted.registries)
        command = [
            *python_uv.arguments(self._site.tools[python_uv.UV.name].path, "pip", "install"),
            *("--no-deps", "--requirements", "lock.txt", "--python", str(wanted.python.executable)),
            *("--target", str(folder / _PACKAGE), "--compile-bytecode", "--link-mode", "hardlink"),
        ]
        env = python_uv.environment(
            wanted.registries, timeout_s=self._registry_timeout_s, cache=str(folder / _UV)
        )
        for allowed in (["--only-binary", ":all:"], []):
            ended = await run_tool(
                self._site,
                [*command, *allowed],
                env=env,
                files={"lock.txt": pin + "\n"},
                writable=[folder],
                limits=limits,
                log=clean if not allowed else None,
                timeout_s=INSTALL_TIMEOUT_S,
            )
            if ended.exit_code == 0 or not python_uv.needs_build(ended.output):
                break
            if allowed:
                log.write(f"{name} has no wheel that fits: it is built from its source\n")
        clean.close()
        if ended.exit_code != 0:
            raise python_uv.failed(
                ended.output,
                wanted.registries,
                python=wanted.python.version,
                timeout_s=self._registry_timeout_s,
            )
        with suppress(FileNotFoundError):
            await asyncio.to_thread(ownership.remove, str(folder / _UV))
        log.write(f"+ {name} ({time.monotonic() - began:.1f} s)\n")


def link_together(packages: Sequence[Path], folder: Path) -> None:
    """Fill `folder` with the files of all `packages`; where two have the same one, with that of the first.

    What a build left there is not to be trusted: symbolic links, which may lead anywhere, are left out.
    """
    for package in packages:
        if package.is_symlink():
            continue
        for place, _, files in os.walk(package):
            target = os.path.join(folder, os.path.relpath(place, package))
            # What is a folder in one package and a file in another is that of the first, too.
            with suppress(FileExistsError, NotADirectoryError):
                os.makedirs(target, exist_ok=True)
                for name in files:
                    source, link = os.path.join(place, name), os.path.join(target, name)
                    if not os.path.islink(source) and not os.path.lexists(link):
                        _link(source, link)


def _link(source: str, link: str) -> None:
    try:
        os.link(source, link)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        shutil.copy2(source, link)  # a file system without links, or one that has enough of this one


async def _all(asked: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """The answers of all, a few at a time. The first failure ends the others."""
    room = asyncio.Semaphore(_AT_A_TIME)

    async def one(ask: Callable[[], Awaitable[T]]) -> T:
        async with room:
            return await ask()

    tasks = [asyncio.ensure_future(one(ask)) for ask in asked]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _count(things: Sequence[str]) -> str:
    return f"{len(things)} package{'' if len(things) == 1 else 's'}"
