"""PHP: a wrapper includes the script and calls its function."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

from jobs.dependencies.php import WrongRequirement, wanted_composer_json
from workers.runtimes import failures, results
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site
from workers.runtimes.output import OutputPump
from workers.runtimes.php_packages import Packages
from workers.runtimes.program_runs import run_program
from workers.runtimes.tools import ToolSpec
from workers.sandbox import Ended, Program

PHP = ToolSpec(
    name="PHP", programs=("php",), install="Debian, Ubuntu: apt install php-cli; Alpine: apk add php83-cli"
)

ENTRYPOINT_OVERRIDE = "_ENTRYPOINT_OVERRIDE"
_WRAPPER = (Path(__file__).parent / "php_wrapper.php").read_text()
_FOR_MEMORY = "Allowed memory size of "
_PHP_MEMORY = 0.95  # of what the job may use: PHP can tell the line then, and the kernel could not


class Php:
    """Executor for language php."""

    language = "php"
    default_tag = "php"

    def __init__(self, site: Site) -> None:
        self._host = site.host
        self._php = site.tools[PHP.name]
        self._packages = Packages(site, self._php)

    async def resolve(self, execution: Execution, log: LogSink) -> str:
        """See Resolver.resolve. The lock is a composer.json and a composer.lock (jobs.dependencies.php)."""
        try:
            composer_json = wanted_composer_json(execution.code, execution.wanted_files)
        except WrongRequirement as wrong:
            raise ExecutionFailed({"name": "DependencyError", "message": str(wrong)}) from None
        return await self._packages.resolve(composer_json, log) if composer_json else ""

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run."""
        packages = self._packages.autoloader(execution.lock, log) if execution.lock else nullcontext(None)
        async with packages as autoloader:
            ended, pump = await run_program(self._host, self._program(execution, autoloader), execution, log)
        try:
            result = await _result(ended, execution, pump)
        except ExecutionFailed as failed:
            failed.mem_peak_kb = ended.peak_kb
            raise
        return Outcome(result_json=result, mem_peak_kb=ended.peak_kb, timings=ended.timings)

    def _program(self, execution: Execution, autoloader: Path | None) -> Program:
        args = {key: value for key, value in execution.args.items() if key != ENTRYPOINT_OVERRIDE}
        script = script_file(execution.script_path)
        settings = {
            "display_errors": "1",
            "log_errors": "0",
            "html_errors": "0",
            "error_reporting": "-1",
            "memory_limit": str(int(execution.limits.memory_bytes * _PHP_MEMORY)),
            "zend.exception_ignore_args": "1",  # arguments may be secrets
            "serialize_precision": "-1",
        }
        options = [part for name, value in settings.items() for part in ("-d", f"{name}={value}")]
        entrypoint = str(execution.args.get(ENTRYPOINT_OVERRIDE) or execution.entrypoint)
        return Program(
            env=execution.env,
            share=execution.share,
            network=execution.network,
            files={
                "args.json": json.dumps(args, ensure_ascii=False),
                "wrapper.php": _WRAPPER,
                script: execution.code,
            },
            argv=[str(self._php.path), *options, "wrapper.php", script, entrypoint, str(autoloader or "")],
            result_files={"J": "result.json", "M": "error.json"},
        )


async def _result(ended: Ended, execution: Execution, pump: OutputPump) -> str:
    limits = execution.limits
    error = results.error_object(ended.values["M"]) if "M" in ended.values else None
    if error is not None and error["name"] == "FatalError" and error["message"].startswith(_FOR_MEMORY):
        place = error["message"].rpartition(" in ")[2]
        message = f"{failures.needs_memory(limits, ended.peak_kb)}, in {place}"
        raise ExecutionFailed({**error, "message": message})
    killed = failures.killed(ended, limits, pump.last_lines)
    if killed is not None:
        raise killed
    if error is not None:
        raise ExecutionFailed(error)
    if "J" in ended.overflowed:
        raise results.result_too_large(
            limits.result_bytes + 1, limits.result_bytes, mem_peak_kb=ended.peak_kb
        )
    if ended.exit_code != 0 or "J" not in ended.values:
        message = f"ExitCode: {ended.exit_code}, last log lines:\n{pump.last_lines}"
        raise ExecutionFailed({"name": "ExecutionErr", "message": message})
    return await results.checked(ended.values["J"], what="the result")


def script_file(script_path: str | None) -> str:
    """Where a script lies in the job's folder.

    >>> script_file("f/ops/report")
    'f/ops/report.php'
    """
    parts = [part for part in (script_path or "tmp/main").replace("\0", "").split("/") if part.strip(".")]
    return "/".join(parts or ["main"]) + ".php"
