"""Bash: arguments by position; the result is ./result.json, ./result.out or the last line printed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from workers.runtimes import failures, results
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site
from workers.runtimes.output import OutputPump
from workers.runtimes.program_runs import run_program
from workers.sandbox import Ended, Program

_SCRIPT = "main.sh"
_ASSIGNMENT = re.compile(
    r'^[ \t]*(\w+)="?\$(?:([1-9])|\{([1-9]\d?)(?::?-([^}"]*))?\})"?[ \t]*$', re.MULTILINE
)


class Bash:
    """Executor for language bash."""

    language = "bash"
    default_tag = "bash"

    def __init__(self, site: Site) -> None:
        self._host = site.host

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run."""
        code = execution.code.replace("\r\n", "\n")
        order = positional_order(code) if execution.arg_order is None else execution.arg_order
        program = Program(
            env=execution.env,
            share=execution.share,
            network=execution.network,
            files={_SCRIPT: code, "args.json": json.dumps(execution.args, ensure_ascii=False)},
            # -e instead of a line "set -e" in the file: line numbers in messages stay the author's own.
            argv=["bash", "-e", _SCRIPT, *positional_args(order, execution.args)],
            result_files={"J": "result.json", "O": "result.out"},
        )
        ended, pump = await run_program(self._host, program, execution, log)
        try:
            result = await _result(ended, execution, pump)
        except ExecutionFailed as failed:
            failed.mem_peak_kb = ended.peak_kb
            raise
        return Outcome(result_json=result, mem_peak_kb=ended.peak_kb, timings=ended.timings)


async def _result(ended: Ended, execution: Execution, pump: OutputPump) -> str:
    limits = execution.limits
    killed = failures.killed(ended, limits, pump.last_lines)
    if killed is not None:
        raise killed
    if "E" in ended.values:
        raise ExecutionFailed(results.error_object(ended.values["E"]))  # it could not even be started
    if ended.exit_code != 0:
        message = f"ExitCode: {ended.exit_code}, last log lines:\n{pump.last_lines}"
        raise ExecutionFailed({"name": "ExecutionErr", "message": message})
    if ended.overflowed:
        raise results.result_too_large(
            limits.result_bytes + 1, limits.result_bytes, mem_peak_kb=ended.peak_kb
        )
    if "J" in ended.values:
        return await results.checked(ended.values["J"], what="./result.json")
    if "O" in ended.values:
        return results.text_result(ended.values["O"].decode("utf-8", "replace"))
    last_line = pump.last_line
    return "null" if last_line is None else results.text_result(last_line)


def positional_order(code: str) -> list[tuple[str, str | None]]:
    """(name, default) by position, from lines such as name="$1" and name="${2:-default}"; "" names a gap."""
    found: dict[int, tuple[str, str | None]] = {}
    for name, short, braced, default in _ASSIGNMENT.findall(code):
        is_computed = "$" in default or "`" in default  # by Bash itself, when it gets an empty text
        found[int(short or braced)] = (name, None if is_computed or not default else default)
    return [found.get(position, ("", None)) for position in range(1, max(found, default=0) + 1)]


def positional_args(order: Sequence[tuple[str, str | None]], args: dict[str, Any]) -> list[str]:
    """The command line: text as it is, other values as JSON; the default, else an empty text, for what is absent.

    An empty text makes Bash compute defaults of its own (${1:-$(date)}).
    """
    values = []
    for name, default in order:
        value = args.get(name)
        if value is None:
            values.append(default or "")
        else:
            values.append(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return values
