"""Python: the script is a module, its function `main` is called in a process forked from a warm interpreter."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobs.dependencies.python import modules_of, requirements_of
from jobs.dependencies.python_comments import HINT, WrongRequirement, python_specifier
from jobs.dependencies.python_packages import package_of
from workers.runtimes import failures, python_uv, results
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site, WarmProgram
from workers.runtimes.program_runs import run_program
from workers.runtimes.python_environments import Environments, Wanted
from workers.runtimes.python_local import without
from workers.runtimes.python_locks import PythonLock, read_lock, write_lock
from workers.runtimes.python_resolver import compile_requirements
from workers.runtimes.python_versions import NoSuchPython, Python, choose, found_pythons, of_minor
from workers.sandbox import Ended, JobHost, Program

ENTRYPOINT_OVERRIDE = "_ENTRYPOINT_OVERRIDE"


class Python3:
    """Executor and Resolver for language python3."""

    language = "python3"
    default_tag = "python3"

    def __init__(self, site: Site, *, registry_timeout_s: float = python_uv.REGISTRY_TIMEOUT_S) -> None:
        self._site = site
        self._registry_timeout_s = registry_timeout_s
        self._environments = Environments(site, registry_timeout_s=registry_timeout_s)

    async def resolve(self, execution: Execution, log: LogSink) -> str:
        """See Resolver.resolve; the form of locks is that of python_locks. Raises ExecutionFailed."""
        try:
            wanted = requirements_of(
                execution.code,
                execution.script_path,
                imports={
                    path: one.content
                    for path, one in execution.imports.items()
                    if one.language == self.language
                },
                wanted_files=execution.wanted_files,
            )
            python = choose(found_pythons(), wanted.python, latest=wanted.latest)
        except (WrongRequirement, NoSuchPython) as error:
            raise python_uv.dependency_error(str(error)) from None
        requirements = without(wanted.requirements, execution.local_packages)
        if len(requirements) < len(wanted.requirements):
            left_out = sorted(set(wanted.requirements) - set(requirements))
            log.write(f"not resolved, because this worker's host has them: {', '.join(left_out)}\n")
        if not requirements:
            return write_lock(python.minor, []) if wanted.python or wanted.latest else ""
        pins = await compile_requirements(
            self._site,
            python,
            requirements,
            registries=execution.registries,
            limits=execution.tool_limits,
            log=log,
            registry_timeout_s=self._registry_timeout_s,
        )
        return write_lock(python.minor, without(pins, execution.local_packages))

    async def install(self, execution: Execution, log: LogSink) -> None:
        """See Installer.install."""
        lock = _lock(execution)
        async with self._environment(execution, lock, _python(execution, lock, log), log):
            pass

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run. Result conventions: job_process.python_results."""
        lock = _lock(execution)
        python = _python(execution, lock, log)
        async with self._environment(execution, lock, python, log) as folder:
            # Packages that are imported again and again may be there already: that is the pool's to decide.
            modules = self._modules(execution) if folder is not None else ()
            async with self._site.hosts.host_for(
                workspace_id=execution.workspace_id,
                python=None if python.is_own else python.executable,
                environment=folder,
                modules=modules,
                share=execution.share,
                network=execution.network,
            ) as host:
                return await self._run(execution, host, folder, log)

    @asynccontextmanager
    async def warm(self, execution: Execution, log: LogSink) -> AsyncIterator[WarmProgram]:
        """See Warmable.warm."""
        lock = _lock(execution)
        python = _python(execution, lock, log)
        async with (
            self._environment(execution, lock, python, log) as folder,
            self._site.hosts.host_for(
                workspace_id=execution.workspace_id, python=None if python.is_own else python.executable
            ) as host,
        ):
            mark = f"\0{secrets.token_hex(16)}:"
            program = self._program(replace(execution, args={}, share=None), folder)
            yield WarmProgram(
                host=host,
                program=replace(program, python={**(program.python or {}), "mark": mark}),
                mark=mark.encode(),
                function=None,
                hint=_hint,
            )

    def _modules(self, execution: Execution) -> list[str]:
        """Modules of packages that the script and those that it imports load."""
        scripts = [one.content for one in execution.imports.values() if one.language == self.language]
        return [module for code in (execution.code, *scripts) for module in modules_of(code)]

    @asynccontextmanager
    async def _environment(
        self, execution: Execution, lock: PythonLock, python: Python, log: LogSink
    ) -> AsyncIterator[Path | None]:
        """The folder with the job's packages, which is there as long as the block lasts; None when it has none."""
        if not lock.pins:
            yield None
            return
        wanted = Wanted(python=python, pins=lock.pins, registries=execution.registries)
        async with self._environments.folder(wanted, limits=execution.tool_limits, log=log) as folder:
            yield folder

    async def _run(self, execution: Execution, host: JobHost, folder: Path | None, log: LogSink) -> Outcome:
        ended, _ = await run_program(host, self._program(execution, folder), execution, log)
        preprocessed = ended.values.get("A")
        args_json = None
        try:
            if preprocessed is not None:
                args_json = await results.checked(preprocessed, what="what the preprocessor returned")
            return Outcome(
                result_json=await _result(ended, execution),
                mem_peak_kb=ended.peak_kb,
                exit_code=ended.exit_code,
                preprocessed_args_json=args_json,
                timings=ended.timings,
            )
        except ExecutionFailed as failed:
            failed.mem_peak_kb = ended.peak_kb
            failed.preprocessed_args_json = args_json
            log.write(_hint(failed.error))
            raise

    def _program(self, execution: Execution, folder: Path | None) -> Program:
        args = {key: value for key, value in execution.args.items() if key != ENTRYPOINT_OVERRIDE}
        path = module_path(execution.script_path)
        scripts = {
            module_path(script): one.content
            for script, one in execution.imports.items()
            if one.language == self.language
        }
        return Program(
            env=execution.env,
            share=execution.share,
            network=execution.network,
            files={path: execution.code, "args.json": json.dumps(args, ensure_ascii=False)},
            python={
                "script_path": path,
                "code": execution.code,
                "args": args,
                "entrypoint": str(execution.args.get(ENTRYPOINT_OVERRIDE) or execution.entrypoint),
                "preprocess": execution.preprocess,
                "python_paths": [
                    *execution.python_paths,
                    *([] if folder is None else [str(folder)]),
                    *self._site.host.python_paths,
                ],
                "scripts": scripts,
                "folders": _renamed_folders([execution.script_path or "", *execution.imports]),
                "result_bytes": execution.limits.result_bytes,
                "memory_bytes": execution.limits.memory_bytes,
            },
        )


def _lock(execution: Execution) -> PythonLock:
    try:
        lock = read_lock(execution.lock or "")
    except WrongRequirement as error:
        raise python_uv.dependency_error(str(error)) from None
    if not execution.local_packages:
        return lock
    return replace(lock, pins=without(lock.pins, execution.local_packages))


def _python(execution: Execution, lock: PythonLock, log: LogSink) -> Python:
    """The Python that the lock was made for; for a lock that does not say, or names one that is gone, what the code
    asks for. Raises ExecutionFailed."""
    pythons = found_pythons()
    if lock.python is not None and (python := of_minor(pythons, lock.python)):
        return python
    try:
        specifier = python_specifier(execution.code) if HINT.search(execution.code) else None
        python = choose(pythons, specifier)
    except (WrongRequirement, NoSuchPython) as error:
        raise python_uv.dependency_error(str(error)) from None
    if lock.python is not None:
        log.write(
            f"this script's lock was made for Python {lock.python}, which this worker does not have: it runs on "
            f"{python.version}\n"
        )
    return python


def _hint(error: Mapping[str, Any]) -> str:
    """A line for the log when a module is missing that a package could bring; "" for any other error."""
    missing = re.fullmatch(r"No module named '([^']+)'", str(error.get("message")))
    package = package_of(missing[1]) if missing and error.get("name") == "ModuleNotFoundError" else None
    if package is None:
        return ""
    return (
        f"hint: no package with this module is installed. Packages are told from imports at the top level of a script; "
        f"others are named in comments: #extra_requirements: on one line, #{package} on the next\n"
    )


async def _result(ended: Ended, execution: Execution) -> str:
    limits = execution.limits
    if ended.over_memory:
        raise failures.killed(ended, limits) or AssertionError
    if "E" in ended.values:
        raise ExecutionFailed(results.error_object(ended.values["E"]))
    if "R" in ended.overflowed:
        raise results.result_too_large(
            limits.result_bytes + 1, limits.result_bytes, mem_peak_kb=ended.peak_kb
        )
    if "R" in ended.values:
        return await results.checked(ended.values["R"], what="the result")
    killed = failures.killed(ended, limits)
    if killed is not None:
        raise killed
    raise ExecutionFailed(
        {
            "name": "ExecutionErr",
            "message": f"The Python process ended with exit code {ended.exit_code} before {execution.entrypoint} "
            "returned; os._exit does that",
        }
    )


def module_path(script_path: str | None) -> str:
    """Where a script lies in the job's folder, so that every part of its path is a Python name.

    >>> module_path("f/ops/2024-report")
    'f/ops/_2024_report.py'
    """
    parts = []
    for part in (script_path or "tmp/main").split("/"):
        name = re.sub(r"[^\w.]", "_", part.replace("@", "."))
        name = name.strip(".") or "_"
        parts.append(f"_{name}" if name[0].isdigit() else name)
    return "/".join(parts) + ".py"


def _renamed_folders(paths: list[str]) -> dict[str, str]:
    """Folders of scripts whose names differ as modules, by the name that they have as modules.

    >>> _renamed_folders(["f/my-team/report", "f/ops/x"])
    {'f/my_team': 'f/my-team'}
    """
    renamed = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        as_module = module_path(path).rpartition("/")[0]
        if folder and folder != as_module:
            renamed[as_module] = folder
    return renamed
