"""What came of a run: the result that the wrapper wrote, or its error as the script's author should read it."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from posixpath import dirname, join, normpath
from typing import Any

from workers.runtimes import failures, results
from workers.runtimes.base import Execution, ExecutionFailed, Outcome
from workers.runtimes.javascript.call import WRAPPER
from workers.sandbox import Ended

_OUT_OF_MEMORY = re.compile(
    r"out of memory|Array buffer allocation failed|Invalid array length", re.IGNORECASE
)
# Less than this and Bun aborts before it runs anything (Deno says why): most of it is only reserved.
_START_BYTES = 384 << 20
_FOREIGN_FRAME = re.compile(
    rf"^\s+at (?:.*(?:{re.escape(WRAPPER)}|\(native|\(ext:|\(node:internal|\bext:).*|unknown)$"
)
_IN_PACKAGES = re.compile(r"(?:file://)?/[^\s()\"']*?/node_modules/")
_PLACE = re.compile(r"(?:file://)?(\S+?\.[cm]?[jt]s):(\d+):(\d+)")
_NOT_FOUND = re.compile(
    r"(?:Cannot find (?:module|package)|Module not found|Import|Failed loading \S+ for package) "
    r"[\"'](?P<what>[^\"']+)[\"']"
    r"(?:(?: imported)? from [\"']?(?P<where>[^\s\"']+))?"
)


async def of(ended: Ended, execution: Execution, last_lines: str) -> Outcome:
    """The outcome of a run under wrapper.mjs. Raises ExecutionFailed. `last_lines` are the end of its output."""
    args_json = None
    try:
        if "A" in ended.values:
            args_json = await results.checked(ended.values["A"], what="what the preprocessor returned")
        return Outcome(
            result_json=await _result(ended, execution, last_lines),
            mem_peak_kb=ended.peak_kb,
            exit_code=ended.exit_code,
            preprocessed_args_json=args_json,
            timings=ended.timings,
        )
    except ExecutionFailed as failed:
        failed.mem_peak_kb = ended.peak_kb
        failed.preprocessed_args_json = args_json
        if step_id := execution.env.get("WM_FLOW_STEP_ID"):
            failed.error["step_id"] = step_id
        raise


async def _result(ended: Ended, execution: Execution, last_lines: str) -> str:
    limits = execution.limits
    if ended.over_memory:
        raise failures.killed(ended, limits) or AssertionError
    if ended.values.get("E"):  # empty: there was no room for it on the disk
        raise ExecutionFailed(readable(results.error_object(ended.values["E"]), execution, ended.peak_kb))
    if "R" in ended.overflowed:
        raise results.result_too_large(
            limits.result_bytes + 1, limits.result_bytes, mem_peak_kb=ended.peak_kb
        )
    if ended.values.get("R"):
        return await results.checked(ended.values["R"], what="the result")
    if ended.exit_code == 0:
        return "null"  # it said so itself: process.exit(0)
    told = f", last log lines:\n{last_lines}" if last_lines else ""
    could_not_start = ended.exit_code == -signal.SIGABRT and limits.memory_bytes < _START_BYTES
    if could_not_start or _OUT_OF_MEMORY.search(last_lines):
        raise ExecutionFailed(
            {"name": "ExecutionErr", "message": f"{failures.needs_memory(limits, ended.peak_kb)}{told}"}
        )
    killed = failures.killed(ended, limits, last_lines)
    if killed is not None:
        raise killed
    message = (
        f"The script ended with exit code {ended.exit_code} before {execution.entrypoint} returned; process.exit "
        f"does that{told}"
    )
    raise ExecutionFailed({"name": "ExecutionErr", "message": message})


def readable(told: Mapping[str, Any], execution: Execution, peak_kb: int | None = None) -> dict[str, Any]:
    """The error as JavaScript told it, in the words and places of the script's author. `peak_kb`: of its memory."""
    inner = told.get("errors")
    if isinstance(inner, list) and inner and isinstance(inner[0], dict):
        first = readable({"name": "Error", "message": "", **inner[0]}, execution, peak_kb)
        others = f" (and {len(inner) - 1} more errors)" if len(inner) > 1 else ""
        return {**first, "message": first["message"] + others}
    name, message = str(told["name"]), str(told["message"])
    stack = clean_stack(str(told.get("stack", "")))
    if name == "BuildMessage" or (name == "TypeError" and message.startswith("SyntaxError: ")):
        return _syntax_error(message, told.get("position"))
    if name == "ResolveMessage" or (name == "TypeError" and _NOT_FOUND.match(message)):
        return _not_found(message, stack)
    if name == "RangeError" and _OUT_OF_MEMORY.search(message):
        message = failures.needs_memory(execution.limits, peak_kb)
    extra = {"extra": told["extra"]} if isinstance(told.get("extra"), dict) else {}
    return {"name": name, "message": message, "stack": stack, **extra}


def clean_stack(stack: str) -> str:
    """`stack` without the frames of the wrapper and of the runtime itself."""
    kept = [line for line in stack.split("\n") if not _FOREIGN_FRAME.match(line)]
    return _IN_PACKAGES.sub("node_modules/", "\n".join(kept)).rstrip()


def _syntax_error(message: str, position: object) -> dict[str, Any]:
    if isinstance(position, dict):
        place = f"{position.get('file')}:{position.get('line')}:{position.get('column')}"
        line = str(position.get("lineText", ""))[:500]
    else:
        found = _PLACE.search(message)
        place, line = (":".join(found.groups()), "") if found else ("", "")
        quoted = re.search(r"^\s*\d+ \| (.*)$", message, re.MULTILINE)
        line = quoted[1] if quoted else line
    what = message.removeprefix("SyntaxError: ").split("\n")[0]
    if place:
        what += f" ({place})"
    return {"name": "SyntaxError", "message": what, "stack": f"{line}\n    at {place}" if place else ""}


def _not_found(message: str, stack: str) -> dict[str, Any]:
    found = _NOT_FOUND.search(message)
    what, where = (found["what"], found["where"]) if found else (message, None)
    if where is None and (place := _PLACE.search(stack)):
        where = ":".join(place.groups())
    told = f", imported by {where}" if where else ""
    what = what.removeprefix("file://")
    if what.startswith("."):
        what = normpath(join(dirname(where or ""), what))
    if re.match(r"/|[fu]/", what):
        problem = (
            f"Cannot find the script {what.removeprefix('/')}{told}: there is no such TypeScript script in this "
            "workspace, or whoever runs this may not read it"
        )
    else:
        problem = (
            f"Cannot find the package {what}{told}: it is not among the dependencies that this script was deployed with. "
            "Deploy it again, or add the package to the package.json that it names"
        )
    return {"name": "ModuleNotFound", "message": problem, "stack": ""}
