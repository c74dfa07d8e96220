"""Tools that install, resolve or compile: programs of ours on input of others, so each runs in a sandbox like a job."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.runtimes import failures
from workers.runtimes.base import ExecutionFailed, Limits, LogSink, Site
from workers.runtimes.output import STREAM_PREFIX, OutputPump
from workers.sandbox import Ended, Program, ProgramTimedOut

OUTPUT_BYTES = 200_000
# How the worker itself reaches the network. Each tool reads those that it knows.
_NETWORK_VARIABLES = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
_LOOK_S = 0.25  # how often is looked at what a tool wrote
_OF_FREE = 0.9  # of the disk's free space, and of the files that it has room for, that one tool may take
_MOST_FILES = 2_000_000


@dataclass(frozen=True, kw_only=True)
class ToolEnded:
    """How a tool ended by itself."""

    exit_code: int
    output: str  # the end of what it printed, of both streams: OUTPUT_BYTES at most
    values: Mapping[str, bytes]  # its result files by kind, those that it wrote


def network_environment() -> dict[str, str]:
    """The worker's own variables by which a tool that downloads finds its way: proxies, and whose certificates count."""
    return {name: value for name in _NETWORK_VARIABLES if (value := os.environ.get(name))}


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

    Raises ExecutionFailed when it took longer than `timeout_s`, wrote more than the cache may hold or the disk has room
    for, or was killed; SandboxUnavailable; and ValueError when `writable` holds a folder that is not below the cache.
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
        run = site.host.run(program, limits=limits, on_output=take, timeout_s=timeout_s)
        ended = await (_within_disk(run, site, writable, name) if writable else run)
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


async def _within_disk(
    run: Coroutine[None, None, Ended], site: Site, folders: Sequence[Path], name: str
) -> Ended:
    """The outcome of `run`, which is ended when it fills the disk. Raises ExecutionFailed then.

    What a job writes elsewhere is in memory and limited; this is the disk of the worker, and others live on it.
    """
    before = os.statvfs(site.cache_dir)
    most_bytes = min(site.cache_max_bytes, int(before.f_bavail * before.f_frsize * _OF_FREE))
    most_files = min(_MOST_FILES, int(before.f_favail * _OF_FREE) or _MOST_FILES)  # 0: it does not count them
    task = asyncio.ensure_future(run)
    try:
        while not (await asyncio.wait([task], timeout=_LOOK_S))[0]:
            now = os.statvfs(site.cache_dir)
            taken = (before.f_bfree - now.f_bfree) * now.f_frsize
            if taken <= most_bytes and before.f_ffree - now.f_ffree <= most_files:
                continue
            # Others write, too: now it is worth a look at what is this tool's.
            size, count = await asyncio.to_thread(_held, folders)
            if size > most_bytes or count > most_files:
                raise ExecutionFailed(
                    {
                        "name": "ToolKilled",
                        "message": f"{name} was stopped: it wrote more than {most_bytes >> 20:,} MB or "
                        f"{most_files:,} files, which is all that the worker has room for (CACHE_MAX_MB, and the disk "
                        "of WORKER_DIR)",
                    }
                )
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


def _held(folders: Sequence[Path]) -> tuple[float, float]:
    """Bytes and files below `folders`; without end when something in them cannot be looked at."""
    size, count = 0.0, 0.0

    def hidden(error: OSError) -> None:
        nonlocal size
        if not isinstance(error, FileNotFoundError):
            size = float("inf")

    for folder in folders:
        for place, names, files in os.walk(folder, onerror=hidden):
            count += len(names) + len(files)
            for one in files:
                try:
                    size += os.lstat(os.path.join(place, one)).st_blocks * 512
                except OSError as error:
                    hidden(error)
    return size, count


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
