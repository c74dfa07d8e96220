"""Packages of PHP scripts: resolved and installed by Composer, each set once. Nothing of a package runs meanwhile."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from jobs.dependencies.php import join_lock, split_lock
from workers.cache import Cache
from workers.runtimes.base import ExecutionFailed, LogSink, Site
from workers.runtimes.tool_runs import ToolEnded, network_environment, run_tool
from workers.runtimes.tools import Tool, ToolSpec, find

COMPOSER = ToolSpec(
    name="Composer",
    programs=("composer",),
    install="Debian, Ubuntu: apt install composer unzip; Alpine: apk add composer",
)

_TIMEOUT_S = 600.0
_ANSWER_TIMEOUT_S = 20
_LAST_LINES = 20
_QUIET = ("--no-scripts", "--no-plugins", "--no-interaction", "--no-ansi", "--no-progress", "--no-cache")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_NOT_REACHED = re.compile(r"curl error \d+|Connection (?:refused|timed out)|failed to open stream")
_UNKNOWN = re.compile(r"requires (?P<name>\S+/[^\s,]+)[^\n]* could not be found in any version")
_NO_VERSION = re.compile(r"requires (?P<what>\S+/\S+ [^,\n]+), found [^\n]* not match the constraint")


class Packages:
    """The installed packages of a machine."""

    def __init__(self, site: Site, php: Tool) -> None:
        self._site = site
        self._php = php
        self._composer = find(COMPOSER)
        self._cache = Cache(site.cache_dir / "php")

    async def resolve(self, composer_json: str, log: LogSink) -> str:
        """The lock of a composer.json. Raises ExecutionFailed: what cannot be had, and why."""
        log.write("looking for the packages: composer update\n")
        ended = await self._run(["update", "--no-install"], files={"composer.json": composer_json}, log=None)
        if ended.exit_code != 0 or "L" not in ended.values:
            raise _failed(ended)
        return join_lock(composer_json, ended.values["L"].decode(errors="replace"))

    @asynccontextmanager
    async def autoloader(self, lock: str, log: LogSink) -> AsyncIterator[Path]:
        """The file to include, installed if need be; it stays as long as the block. Raises ExecutionFailed."""

        async def build(folder: Path) -> None:
            composer_json, composer_lock = split_lock(lock)
            (folder / "composer.json").write_text(composer_json)
            if composer_lock:
                (folder / "composer.lock").write_text(composer_lock)
            log.write("installing packages: composer install\n")
            ended = await self._run(
                [
                    "install",
                    "--no-dev",
                    "--prefer-dist",
                    "--optimize-autoloader",
                    "--working-dir",
                    str(folder),
                ],
                log=log,
                writable=[folder],
            )
            if ended.exit_code != 0:
                raise _failed(ended)

        what = [self._php.version, lock]
        key = hashlib.sha256(json.dumps(what).encode("utf-8", "surrogatepass")).hexdigest()
        async with self._cache.entry(key, build) as folder:
            yield folder / "vendor" / "autoload.php"

    async def _run(
        self,
        command: list[str],
        *,
        log: LogSink | None,
        files: dict[str, str] | None = None,
        writable: list[Path] | None = None,
    ) -> ToolEnded:
        if self._composer is None:
            message = (
                f"The script needs Composer for its packages, and this worker has none. {COMPOSER.install}."
            )
            raise ExecutionFailed({"name": "DependencyError", "message": message})
        return await run_tool(
            self._site,
            [
                self._php.path,
                *("-d", f"default_socket_timeout={_ANSWER_TIMEOUT_S}", "-d", "memory_limit=-1"),
                self._composer.path,
                *command,
                *_QUIET,
            ],
            # It refuses plugins of root otherwise by asking; here it is nobody in particular.
            env={
                **network_environment(),
                "COMPOSER_ALLOW_SUPERUSER": "1",
                "COMPOSER_MAX_PARALLEL_HTTP": "6",
            },
            files=files,
            result_files={"L": "composer.lock"},
            writable=writable or (),
            log=log,
            timeout_s=_TIMEOUT_S,
        )


def _failed(ended: ToolEnded) -> ExecutionFailed:
    output = _CREDENTIALS.sub("***@", ended.output)
    if match := _UNKNOWN.search(output):
        message = f"There is no package {match['name']} in the package repositories."
    elif match := _NO_VERSION.search(output):
        message = f"There is no version that fits {match['what']} in the package repositories."
    elif _NOT_REACHED.search(output):
        message = "A package repository cannot be reached."
    else:
        message = "The packages could not be resolved or installed."
    last = "\n".join(output.strip().splitlines()[-_LAST_LINES:])
    return ExecutionFailed({"name": "DependencyError", "message": f"{message}\n{last}"})
