"""Python: the script is a module, its function `main` is called in a process forked from a warm interpreter."""

from __future__ import annotations

import json
import re

from workers.runtimes import failures, results
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site
from workers.runtimes.output import OutputPump
from workers.sandbox import Ended, Program, ProgramTimedOut

ENTRYPOINT_OVERRIDE = "_ENTRYPOINT_OVERRIDE"


class Python3:
    """Executor for language python3."""

    language = "python3"
    default_tag = "python3"

    def __init__(self, site: Site) -> None:
        self._host = site.host

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run. Result conventions: job_process.python_results."""
        limits = execution.limits
        pump = OutputPump(log, limits)
        try:
            ended = await self._host.run(
                self._program(execution), limits=limits, on_output=pump.feed, timeout_s=execution.timeout_s
            )
        except ProgramTimedOut:
            raise failures.timed_out(execution.timeout_s) from None
        finally:
            pump.close()
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
            raise

    def _program(self, execution: Execution) -> Program:
        args = {key: value for key, value in execution.args.items() if key != ENTRYPOINT_OVERRIDE}
        path = module_path(execution.script_path)
        return Program(
            env=execution.env,
            share=execution.share,
            files={path: execution.code, "args.json": json.dumps(args, ensure_ascii=False)},
            python={
                "script_path": path,
                "code": execution.code,
                "args": args,
                "entrypoint": str(execution.args.get(ENTRYPOINT_OVERRIDE) or execution.entrypoint),
                "preprocess": execution.preprocess,
                "python_paths": [*execution.python_paths, *self._host.python_paths],
                "result_bytes": execution.limits.result_bytes,
                "memory_bytes": execution.limits.memory_bytes,
            },
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
