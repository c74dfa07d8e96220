"""Go: the script is a package, compiled once together with a program that calls its function."""

from __future__ import annotations

import json
import re

from jobs.dependencies import go as modules
from jobs.signatures import go as signature
from jobs.signatures.syntax_trees import Unreadable
from workers.runtimes import failures, results
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site
from workers.runtimes.go_builds import RESOLVE_TIMEOUT_S, Builds, Source
from workers.runtimes.output import OutputPump
from workers.runtimes.program_runs import run_program
from workers.sandbox import Ended, Program

ENTRYPOINT_OVERRIDE = "_ENTRYPOINT_OVERRIDE"
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_OUT_OF_MEMORY = re.compile(r"out of memory|cannot allocate memory")
_TRACE = re.compile(r"\n\n(?:goroutine \d+ [^\n]*\[|runtime stack:)")
_HEAD = re.compile(r"^(?P<kind>panic|fatal error): ", re.MULTILINE)
_SIGNAL = re.compile(r"\n\[signal [^\n]*\]")
_FRAME = re.compile(
    r"^(?P<function>\S[^\n]*?)(?:\([^()\n]*\))?\n\t(?P<file>[^\s:]+):(?P<line>\d+)", re.MULTILINE
)
_GOROUTINE = re.compile(r"^goroutine \d+ ", re.MULTILINE)
_NOT_THE_SCRIPTS = ("runtime", "reflect", "main", "panic")
_MOST_FRAMES = 50
_CRASHED = 2  # the exit code of a Go program that panics


class Go:
    """Executor for language go."""

    language = "go"
    default_tag = "go"

    def __init__(self, site: Site, *, resolve_timeout_s: float = RESOLVE_TIMEOUT_S) -> None:
        self._host = site.host
        self._builds = Builds(site, resolve_timeout_s=resolve_timeout_s)

    async def resolve(self, execution: Execution, log: LogSink) -> str:
        """See Resolver.resolve. The lock is a go.mod and a go.sum (jobs.dependencies.go)."""
        if not modules.external_packages(execution.code):
            return ""
        try:
            go_mod = modules.wanted_go_mod(execution.code, execution.wanted_files)
        except modules.WrongGoMod as wrong:
            raise ExecutionFailed({"name": "DependencyError", "message": str(wrong)}) from None
        return await self._builds.tidy(execution.code, go_mod, registries=execution.registries, log=log)

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run. The time it takes to compile does not count against the script's timeout."""
        limits = execution.limits
        args = {key: value for key, value in execution.args.items() if key != ENTRYPOINT_OVERRIDE}
        async with self._builds.program(
            _source(execution), registries=execution.registries, log=log
        ) as executable:
            program = Program(
                # Collecting garbage a little more often beats dying of it.
                env={"GOMEMLIMIT": str(limits.memory_bytes * 9 // 10), **execution.env},
                share=execution.share,
                network=execution.network,
                files={"args.json": json.dumps(args, ensure_ascii=False)},
                argv=[str(executable)],
                result_files={"J": "result.json", "M": "error.json"},
            )
            ended, pump = await run_program(self._host, program, execution, log)
        try:
            result = await _result(ended, execution, pump)
        except ExecutionFailed as failed:
            failed.mem_peak_kb = ended.peak_kb
            raise
        return Outcome(result_json=result, mem_peak_kb=ended.peak_kb, timings=ended.timings)


def _source(execution: Execution) -> Source:
    """Raises ExecutionFailed when there is nothing to call."""
    name = str(execution.args.get(ENTRYPOINT_OVERRIDE) or execution.entrypoint)
    try:
        entry = signature.entry(execution.code, name) if _IDENTIFIER.fullmatch(name) else None
    except Unreadable as unreadable:
        problem = unreadable.problem
        message = f"The script does not compile:\nmain.go:{problem.line}:{problem.column}: {problem.message}"
        raise ExecutionFailed({"name": "CompileError", "message": message}) from None
    if entry is None:
        message = f"The script has no function {name}: write func {name}(...) (T, error) in it."
        raise ExecutionFailed({"name": "MissingEntrypoint", "message": message})
    if entry.package in ("", "main"):
        message = (
            f"main.go:{entry.package_line}: the script has to begin with package inner: a program is compiled around it, "
            "which is package main."
        )
        raise ExecutionFailed({"name": "CompileError", "message": message})
    return Source(
        code=execution.code,
        entrypoint=name,
        package=entry.package,
        parameters=entry.parameters,
        modules=modules.read_lock(execution.lock or ""),
        has_lock=bool(execution.lock),
    )


async def _result(ended: Ended, execution: Execution, pump: OutputPump) -> str:
    limits = execution.limits
    crash = crash_error(pump.end) if ended.exit_code == _CRASHED else None
    if crash is not None and _OUT_OF_MEMORY.search(crash["message"]) and not ended.over_memory:
        raise ExecutionFailed(
            {"name": "ExecutionErr", "message": failures.needs_memory(limits, ended.peak_kb)}
        )
    killed = failures.killed(ended, limits, pump.last_lines)
    if killed is not None:
        raise killed
    if crash is not None:
        raise ExecutionFailed(dict(crash))
    if "M" in ended.values:
        raise ExecutionFailed(results.error_object(ended.values["M"]))
    if ended.exit_code != 0:
        message = f"ExitCode: {ended.exit_code}, last log lines:\n{pump.last_lines}"
        raise ExecutionFailed({"name": "ExecutionErr", "message": message})
    if "J" in ended.overflowed:
        raise results.result_too_large(
            limits.result_bytes + 1, limits.result_bytes, mem_peak_kb=ended.peak_kb
        )
    if "J" in ended.values:
        return await results.checked(ended.values["J"], what="the result")
    message = f"The program ended before {execution.entrypoint} returned; os.Exit does that"
    raise ExecutionFailed({"name": "ExecutionErr", "message": message})


def crash_error(output: str) -> dict[str, str] | None:
    """Name, message and stack of a panic, or of an error that ends a whole program, from the end of what it printed.

    The stack has the frames of the script and of its modules, innermost first. None when there was neither.
    """
    heads = list(_HEAD.finditer(output))
    trace = _TRACE.search(output, heads[-1].end()) if heads else None
    if trace is None:
        return None
    head = heads[-1]
    frames = []
    for match in _FRAME.finditer(_first_goroutine(output[trace.start() :])):
        function = match["function"].rpartition("/")[2]
        if function.partition(".")[0] in _NOT_THE_SCRIPTS:
            continue
        file = match["file"].rpartition("/inner/")[2]
        frames.append(f"{function}\n\t{file}:{match['line']}")
    return {
        "name": "Panic" if head["kind"] == "panic" else "FatalError",
        "message": _SIGNAL.sub("", output[head.end() : trace.start()]).strip(),
        "stack": "\n".join(frames[:_MOST_FRAMES]),
    }


def _first_goroutine(trace: str) -> str:
    return trace[match.start() :].strip().partition("\n\n")[0] if (match := _GOROUTINE.search(trace)) else ""
