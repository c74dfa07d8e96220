"""Packages from npm: resolved and installed by Bun in sandboxes, each lock once for all jobs of the machine."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from workers.cache import Cache
from workers.runtimes.base import Execution, Limits, LogSink, Registries, Site
from workers.runtimes.javascript import npm_failures
from workers.runtimes.javascript.npm_lock import NpmLock, names
from workers.runtimes.tool_runs import network_environment, run_tool
from workers.runtimes.tools import Tool

REGISTRY_TIMEOUT_S = 10.0  # without a byte; asked twice
_RESOLVE_TIMEOUT_S = 180.0
_INSTALL_TIMEOUT_S = 600.0
_FORMAT = 1  # of an installation: a change of how it is made makes all of them anew
_INSTALL = ("install", "--ignore-scripts", "--no-progress", "--linker=hoisted")
QUIET = {
    "DO_NOT_TRACK": "1",
    "BUN_ENABLE_CRASH_REPORTING": "0",
    "BUN_RUNTIME_TRANSPILER_CACHE_PATH": "0",  # a job's home is gone after it
}


class Npm:
    """The packages of a machine. Their scripts (postinstall) are never run."""

    def __init__(self, site: Site, bun: Tool, *, registry_timeout_s: float) -> None:
        self._site = site
        self._bun = bun
        self._registry_timeout_s = registry_timeout_s
        self._installed = Cache(site.cache_dir / "npm")

    async def resolve(self, package_json: str, execution: Execution, log: LogSink) -> NpmLock:
        """What `package_json` comes to today. Raises ExecutionFailed: which package cannot be had, and why."""
        registries = execution.registries
        began = time.monotonic()
        ended = await run_tool(
            self._site,
            [self._bun.path, *_INSTALL, "--lockfile-only"],
            env=self._environment("node_modules/.cache"),
            files={"package.json": package_json, ".npmrc": npmrc(registries)},
            result_files={"L": "bun.lock"},
            limits=execution.tool_limits,
            timeout_s=_RESOLVE_TIMEOUT_S,
        )
        found = ended.values.get("L")
        if ended.exit_code != 0 or found is None:
            raise npm_failures.failed(ended.output, registries)
        lock = NpmLock(package_json=package_json, bun_lock=found.decode("utf-8", "replace"))
        log.write(f"resolved {_listed(lock)} in {time.monotonic() - began:.1f} s\n")
        return lock

    @asynccontextmanager
    async def installed(
        self, lock: NpmLock, registries: Registries, *, limits: Limits, log: LogSink
    ) -> AsyncIterator[Path]:
        """A folder with the lock's node_modules, installed if need be; it stays as long as the block at least.

        Raises ExecutionFailed: what cannot be installed, and why.
        """

        async def build(folder: Path) -> None:
            await self._install(folder, lock, registries, limits, log)

        async with self._installed.entry(self.key(lock, registries), build) as folder:
            yield folder

    def key(self, lock: NpmLock, registries: Registries) -> str:
        """Names an installation. Who does not know the passwords of the registries cannot tell it."""
        what = [_FORMAT, self._bun.version, str(lock), registries.npm_registry, registries.npmrc]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()

    async def _install(
        self, folder: Path, lock: NpmLock, registries: Registries, limits: Limits, log: LogSink
    ) -> None:
        began = time.monotonic()
        files = {"package.json": lock.package_json, ".npmrc": npmrc(registries)}
        if lock.bun_lock is not None:
            files["bun.lock"] = lock.bun_lock
        for name, text in files.items():
            (folder / name).write_bytes(text.encode("utf-8", "replace"))
        os.chmod(folder / ".npmrc", 0o600)
        frozen = () if lock.bun_lock is None else ("--frozen-lockfile",)
        ended = await run_tool(
            self._site,
            [self._bun.path, *_INSTALL, *frozen, "--cwd", str(folder)],
            env=self._environment(str(folder / ".cache")),
            writable=[folder],
            limits=limits,
            timeout_s=_INSTALL_TIMEOUT_S,
        )
        if ended.exit_code != 0:
            raise npm_failures.failed(ended.output, registries)
        await asyncio.to_thread(_clean, folder)
        log.write(f"installed {_listed(lock)} in {time.monotonic() - began:.1f} s\n")

    def _environment(self, cache: str) -> Mapping[str, str]:
        return {
            **network_environment(),
            **QUIET,
            "BUN_INSTALL_CACHE_DIR": cache,  # beside what is installed from it, so that nothing is copied
            "BUN_CONFIG_HTTP_IDLE_TIMEOUT": str(max(1, round(self._registry_timeout_s))),
            "BUN_CONFIG_HTTP_RETRY_COUNT": "1",
        }


def npmrc(registries: Registries) -> str:
    """The text of an .npmrc for these registries."""
    lines = [registries.npmrc or ""]
    if registries.npm_registry:
        url, _, token = registries.npm_registry.partition(":_authToken=")
        url = url.rstrip("/") + "/"
        lines.append(f"registry={url}")
        if token:
            place = urlsplit(url)
            lines.append(f"//{place.netloc}{place.path}:_authToken={token}")
    return "\n".join(lines).strip() + "\n"


def _clean(folder: Path) -> None:
    """Leave what jobs need: no token, no second copy of the packages. Whatever the packages made of these names."""
    for name in (".npmrc", ".cache"):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _listed(lock: NpmLock) -> str:
    packages = names(lock)
    shown = ", ".join(packages[:10])
    return f"npm packages {shown}" + (f" and {len(packages) - 10} more" if len(packages) > 10 else "")
