"""Tools that install, resolve or compile: programs of ours on input of others, so each runs in a sandbox like a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.runtimes import failures
from workers.runtimes.base import ExecutionFailed, Limits, LogSink, Site
from workers.runtimes.output import STREAM_PREFIX, OutputPump
from workers.sandbox import Program, ProgramTimedOut

OUTPUT_BYTES = 200_000


@dataclass(frozen=True, kw_only=True)
class ToolEnded:
    """How a tool ended by itself."""

    exit_code: int
    output: str  # the end of what it printed, of both streams: OUTPUT_BYTES at most
    values: Mapping[str, bytes]  # its result files by kind, those that it wrote


async def run_tool(
    site: Site,
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    result_files: Mapping[str, str] | None = None,
    writable: Sequence[Path] = (),
    limits: Limits | None = None,
    log: LogSink | None = None,
    timeout_s: float = 600,
) -> ToolEnded:
    """Run `argv` in a sandbox of its own and return how it ended; what its exit code means is the caller's to say.

    It starts in an empty folder with `files` (text by relative path) and sees of the host what jobs see. `env` is all
    of its environment besides HOME, PATH, LANG and TZ. `writable`: folders below the cache that it may change, each
    for one tool at a time; they are the worker's again when this returns. `result_files` (path by a capital letter)
    are read at the end. What it prints goes to `log`, too, as it comes.

    Raises ExecutionFailed when it took longer than `timeout_s` or was killed, SandboxUnavailable, and ValueError when
    `writable` holds a folder that is not below the cache.
    """
    limits = limits or Limits()
    name = Path(argv[0]).name
    tail = _Tail(OUTPUT_BYTES)
    pump = OutputPump(_OneStream(log), limits) if log is not None else None

    def take(data: bytes) -> None:
        tail.feed(data)
        if pump is not None:
            pump.feed(data)

    program = Program(
        env=env or {},
        files=files or {},
        argv=[str(part) for part in argv],
        result_files=result_files or {},
        writable=[str(folder) for folder in writable],
    )
    try:
        ended = await site.host.run(program, limits=limits, on_output=take, timeout_s=timeout_s)
    except ProgramTimedOut:
        message = f"{name} took longer than {timeout_s:g} seconds and was stopped{_last_lines(tail)}"
        raise ExecutionFailed({"name": "ToolTimedOut", "message": message}) from None
    finally:
        if pump is not None:
            pump.close()
    killed = failures.killed(ended, limits, tail.last_lines)
    if killed is not None:
        message = f"{name}: {killed.error['message']}"
        raise ExecutionFailed({"name": "ToolKilled", "message": message}, mem_peak_kb=ended.peak_kb)
    return ToolEnded(exit_code=ended.exit_code, output=tail.text, values=ended.values)


class _Tail:
    """The end of an output."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._kept = bytearray()

    def feed(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > 2 * self._limit_bytes:
            del self._kept[: -self._limit_bytes]

    @property
    def text(self) -> str:
        return bytes(self._kept[-self._limit_bytes :]).decode(errors="replace").replace("\0", "")

    @property
    def last_lines(self) -> str:
        return "\n".join(self.text[-4000:].splitlines()[-10:])


def _last_lines(tail: _Tail) -> str:
    return f", last log lines:\n{tail.last_lines}" if tail.last_lines else ""


class _OneStream:
    """The log of a job without its result stream, which is not for tools."""

    def __init__(self, log: LogSink) -> None:
        self._log = log

    def write(self, text: str) -> None:
        self._log.write(text)

    def stream(self, text: str) -> None:
        self._log.write(f"{STREAM_PREFIX}{text}\n")
