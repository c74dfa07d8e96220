"""Deno: TypeScript with imports from npm:, jsr: and addresses. A lock pins them; each is downloaded once."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from jobs.dependencies.typescript import package, specifiers
from jobs.signatures.syntax_trees import plain_lines
from workers.cache import Cache
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site, WarmProgram
from workers.runtimes.javascript import call, deno_failures, outcome
from workers.runtimes.javascript.npm import npmrc
from workers.runtimes.javascript.npm_failures import dependency_error
from workers.runtimes.javascript.npm_lock import EMPTY
from workers.runtimes.program_runs import run_program
from workers.runtimes.tool_runs import network_environment, run_tool
from workers.runtimes.tools import ToolSpec
from workers.sandbox import Program

DENO = ToolSpec(name="Deno", programs=("deno",), install="pip install deno (it is in requirements.txt)")

_FORMAT = 1  # of a download: a change of how it is made makes all of them anew
_DOWNLOAD_TIMEOUT_S = 300.0
_REGISTRY_TIMEOUT_S = 60.0  # for all that is asked while resolving; Deno itself waits without end
_LOCK, _MAP, _LIST = "deno.lock", "import_map.json", "imports.ts"
_COMMON = ("--no-config", "--node-modules-dir=none", f"--import-map={_MAP}")
# Jobs have all the rights that their sandbox leaves them. Nothing is downloaded while they run.
_RUN = ("run", "-A", "--no-check", "--cached-only", "--no-code-cache", "--quiet", *_COMMON)
_ENV = {
    "DENO_NO_UPDATE_CHECK": "1",
    "DENO_NO_PROMPT": "1",
    "DENO_TLS_CA_STORE": "mozilla,system",  # so that the certificates of a company's proxy count
    "DO_NOT_TRACK": "1",
    "NO_COLOR": "1",
}
_RUN_ENV = {
    **_ENV,
    # A job cannot write what it finds in DENO_DIR, and trying to takes Deno 150 ms.
    "DENO_EMIT_CACHE_MODE": "disable",
    "DENO_CACHE_DB_MODE": "disabled",
}
_NOWHERE = "/dev/null/deno"


class Deno:
    """Executor for language deno."""

    language = "deno"
    default_tag = "deno"

    def __init__(self, site: Site, *, registry_timeout_s: float = _REGISTRY_TIMEOUT_S) -> None:
        self._site = site
        self._deno = site.tools[DENO.name]
        self._registry_timeout_s = registry_timeout_s
        self._downloads = Cache(site.cache_dir / "deno")

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run. Result conventions: javascript/wrapper.mjs."""
        async with self._placed(execution, log) as (env, lock):
            program = self._program(execution, env, lock, call.wrapper)
            ended, pump = await run_program(self._site.host, program, execution, log)
        return await outcome.of(ended, execution, pump.last_lines)

    @asynccontextmanager
    async def warm(self, execution: Execution, log: LogSink) -> AsyncIterator[WarmProgram]:
        """See Warmable.warm."""
        async with self._placed(execution, log) as (env, lock):
            mark = f"\0{secrets.token_hex(16)}:"
            program = self._program(
                replace(execution, share=None), env, lock, partial(call.server, mark=mark)
            )
            yield WarmProgram(
                host=self._site.host,
                program=replace(program, result_files={}),
                mark=mark.encode(),
                function=partial(call.function, execution.code),
                readable=partial(outcome.readable, execution=execution),
            )

    @asynccontextmanager
    async def _placed(
        self, execution: Execution, log: LogSink
    ) -> AsyncIterator[tuple[Mapping[str, str], Sequence[str]]]:
        """The variables and options with which Deno finds what the script imports, as long as the block lasts."""
        if (execution.lock or "").strip() in ("", EMPTY):
            yield {**_RUN_ENV, "DENO_DIR": _NOWHERE}, ["--no-lock"]
            return
        async with self._downloads.entry(
            self._key(execution), lambda folder: self._download(folder, execution, log)
        ) as folder:
            env = {**_RUN_ENV, "DENO_DIR": str(folder / "deno")}
            yield env, [f"--lock={folder / _LOCK}", "--frozen"]

    def _program(
        self, execution: Execution, env: Mapping[str, str], lock: Sequence[str], wrapper: Callable[..., str]
    ) -> Program:
        return Program(
            env={**env, **execution.env},
            share=execution.share,
            network=execution.network,
            files={
                **call.sources(execution, written=plain_lines),
                call.WRAPPER: wrapper(execution, module=f"./{call.source_path(execution.script_path)}"),
                _MAP: _import_map(execution),
            },
            argv=[str(self._deno.path), *_RUN, *lock, call.WRAPPER],
            result_files=call.RESULT_FILES,
        )

    async def resolve(self, execution: Execution, log: LogSink) -> str:
        """See Resolver.resolve."""
        wanted = _remote_imports(execution)
        if not wanted:
            return ""
        began = time.monotonic()
        try:
            ended = await run_tool(
                self._site,
                self._command("cache", "--allow-import", f"--lock={_LOCK}", "--frozen=false"),
                env=_tool_environment() | {"DENO_DIR": ".deno"},
                files=_listing(execution, wanted),
                result_files={"L": _LOCK},
                limits=execution.tool_limits,
                timeout_s=self._registry_timeout_s,
            )
        except ExecutionFailed as failed:
            if failed.error["name"] != "ToolTimedOut":
                raise
            raise dependency_error(
                f"Where the script imports from, something did not answer within {self._registry_timeout_s:g} seconds: "
                f"{', '.join(wanted[:10])}."
            ) from None
        if ended.exit_code != 0:
            raise deno_failures.failed(ended.output, execution.registries)
        log.write(f"resolved {', '.join(wanted[:10])} in {time.monotonic() - began:.1f} s\n")
        return ended.values.get("L", b"").decode("utf-8", "replace")

    def _key(self, execution: Execution) -> str:
        registries = execution.registries
        what = [
            *(_FORMAT, self._deno.version, execution.lock, _remote_imports(execution)),
            *(registries.npm_registry, registries.npmrc),
        ]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()

    async def _download(self, folder: Path, execution: Execution, log: LogSink) -> None:
        began = time.monotonic()
        wanted = _remote_imports(execution)
        (folder / _LOCK).write_bytes((execution.lock or "").encode("utf-8", "replace"))
        ended = await run_tool(
            self._site,
            self._command("cache", "--allow-import", f"--lock={folder / _LOCK}", "--frozen"),
            env=_tool_environment() | {"DENO_DIR": str(folder / "deno")},
            files=_listing(execution, wanted),
            writable=[folder],
            limits=execution.tool_limits,
            timeout_s=_DOWNLOAD_TIMEOUT_S,
        )
        if ended.exit_code != 0:
            raise deno_failures.failed(ended.output, execution.registries)
        log.write(f"installed {', '.join(wanted[:10])} in {time.monotonic() - began:.1f} s\n")

    def _command(self, *command: str) -> list[str]:
        # It reads .npmrc in HOME only, as it is told to look for no configuration of a project.
        told = [str(self._deno.path), *command, *_COMMON, _LIST]
        return ["sh", "-c", 'HOME="$PWD" exec "$@"', "sh", *told]


def _remote_imports(execution: Execution) -> list[str]:
    """What the code, with what it imports, loads from elsewhere, in the words of the code."""
    found = set()
    for code in _codes(execution):
        for one in specifiers(code):
            is_address = one.text.startswith(("https://", "http://"))
            if not one.is_type_only and (is_address or package(one.text) is not None):
                found.add(one.text)
    return sorted(found)


def _codes(execution: Execution) -> Iterable[str]:
    yield execution.code
    for one in execution.imports.values():
        if one.language in call.LANGUAGES:
            yield one.content


def _listing(execution: Execution, wanted: Iterable[str]) -> Mapping[str, str]:
    """Files with which Deno loads all of `wanted`, and nothing else."""
    lines = (f"import {json.dumps(specifier)};\n" for specifier in wanted)
    return {_LIST: "".join(lines), _MAP: _import_map(execution), ".npmrc": npmrc(execution.registries)}


def _import_map(execution: Execution) -> str:
    """Where imports lead: packages named without npm:, as for Bun, and scripts of the workspace without .ts."""
    imports = {}
    for specifier in _remote_imports(execution):
        if not specifier.startswith(("npm:", "jsr:", "http")):
            imports[specifier] = f"npm:{specifier}"
    own = execution.script_path or "tmp/main"
    for path in {own, *execution.imports}:
        file = f"./{call.source_path(path)}"
        imports |= {f"./{path}": file, f"/{path}": file, f"/{path}.ts": file, path: file, f"{path}.ts": file}
    return json.dumps({"imports": imports})


def _tool_environment() -> dict[str, str]:
    return network_environment() | _ENV
