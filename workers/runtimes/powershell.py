"""PowerShell: a wrapper calls the script; the result is ./result.json, ./result.out, or the last thing it put out."""

from __future__ import annotations

import json
from pathlib import Path

from workers.runtimes import failures, results
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site
from workers.runtimes.program_runs import run_program
from workers.runtimes.tools import ToolSpec
from workers.sandbox import Ended, Limits, Program

POWERSHELL = ToolSpec(
    name="PowerShell",
    programs=("pwsh",),
    install="Debian, Ubuntu: apt install powershell, after adding the package source of Microsoft "
    "(https://learn.microsoft.com/powershell/scripting/install/linux-overview); Alpine: apk add powershell",
)

ENTRYPOINT_OVERRIDE = "_ENTRYPOINT_OVERRIDE"
_WRAPPER = (Path(__file__).parent / "powershell_wrapper.ps1").read_text()
_ENVIRONMENT = {
    "POWERSHELL_TELEMETRY_OPTOUT": "1",
    "POWERSHELL_UPDATECHECK": "Off",
    "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
    "NO_COLOR": "1",
}


class PowerShell:
    """Executor for language powershell."""

    language = "powershell"
    default_tag = "powershell"

    def __init__(self, site: Site) -> None:
        self._host = site.host
        self._pwsh = site.tools[POWERSHELL.name]

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run."""
        ended, pump = await run_program(self._host, program(execution, str(self._pwsh.path)), execution, log)
        try:
            result = await result_of(
                ended, execution.limits, last_line=pump.last_line, last_lines=pump.last_lines
            )
        except ExecutionFailed as failed:
            failed.mem_peak_kb = ended.peak_kb
            raise
        return Outcome(result_json=result, mem_peak_kb=ended.peak_kb, timings=ended.timings)


def program(execution: Execution, pwsh: str) -> Program:
    """What to run. Arguments go through args.json: on a command line they would be texts, and open to quoting."""
    args = {key: value for key, value in execution.args.items() if key != ENTRYPOINT_OVERRIDE}
    script = script_file(execution.script_path)
    return Program(
        env={**_ENVIRONMENT, **execution.env},
        share=execution.share,
        network=execution.network,
        files={
            "args.json": json.dumps(args, ensure_ascii=False),
            "wrapper.ps1": _WRAPPER,
            script: execution.code,
        },
        argv=[pwsh, "-NoLogo", "-NoProfile", "-NonInteractive", "-File", "wrapper.ps1", script],
        result_files={
            "J": "result.json",
            "O": "result.out",
            "W": "windmill_result.json",
            "M": "windmill_error.json",
        },
    )


async def result_of(ended: Ended, limits: Limits, *, last_line: str | None, last_lines: str) -> str:
    """The result as JSON text. Raises ExecutionFailed when the script failed."""
    killed = failures.killed(ended, limits, last_lines)
    if killed is not None:
        raise killed
    if ended.exit_code != 0 and "M" in ended.values:
        raise ExecutionFailed(results.error_object(ended.values["M"]))
    if ended.exit_code != 0:
        message = f"ExitCode: {ended.exit_code}, last log lines:\n{last_lines}"
        raise ExecutionFailed({"name": "ExecutionErr", "message": message})
    if ended.overflowed:
        raise results.result_too_large(
            limits.result_bytes + 1, limits.result_bytes, mem_peak_kb=ended.peak_kb
        )
    if "J" in ended.values:
        return await results.checked(ended.values["J"], what="./result.json")
    if "O" in ended.values:
        return results.text_result(ended.values["O"].decode("utf-8", "replace"))
    if "W" in ended.values:
        return await results.checked(ended.values["W"], what="the last object of the output")
    return "null" if last_line is None else results.text_result(last_line)


def script_file(script_path: str | None) -> str:
    """Where a script lies in the job's folder.

    >>> script_file("f/ops/report")
    'f/ops/report.ps1'
    """
    parts = [part for part in (script_path or "tmp/main").replace("\0", "").split("/") if part.strip(".")]
    return "/".join(parts or ["main"]) + ".ps1"
