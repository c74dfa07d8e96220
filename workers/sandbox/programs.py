"""What can be run in a sandbox, with which limits, and how it ended: the words of JobHost and those who use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Isolation = Literal["namespaces", "user-namespaces", "none"]
ISOLATIONS: tuple[Isolation, ...] = ("namespaces", "user-namespaces", "none")


class SandboxUnavailable(Exception):
    """The job could not be started, or its sandbox was lost under it; the script is not to blame."""


class SharedFolderLost(Exception):
    """The folder that the program shares with earlier ones is gone, with the fork server that held it."""


class IsolationRefused(SandboxUnavailable):
    """This machine offers no isolation and the policy asks for it."""


class ProgramTimedOut(Exception):
    """The program ran longer than it may; all of it was killed. `peak_kb` is what was seen of its memory."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one job may use. Bytes unless the name says otherwise."""

    memory_bytes: int = 2 << 30  # of all processes together with /tmp, and of each (private writable memory)
    output_bytes: int = 50 << 20  # of log; the rest is dropped, the job goes on
    result_bytes: int = 500 << 20
    line_bytes: int = 1 << 20  # of one line that means something: the last one of bash, one of a stream
    processes: int = 512  # threads count, too
    open_files: int = 4096  # of each process
    file_bytes: int = 4 << 30  # of one file
    disk_bytes: int = (
        1 << 30
    )  # of /tmp, which holds the working folder; needs a file system view of the job's own
    cpus: float | None = (
        None  # processors' worth of time, 0.5 is half of one; needs a control group. None: no limit
    )


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to run. Either `python` (see job_process.python_main.run) or `argv`, found on the PATH of `env`."""

    env: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)  # text by path in the job's folder
    argv: Sequence[str] = ()
    python: Mapping[str, Any] | None = None
    result_files: Mapping[str, str] = field(default_factory=dict)  # path by kind (a capital letter)
    # Programs with the same name here share a folder: ./shared, and /shared too where jobs have a file system view of
    # their own. It is in memory there, as large as a job's /tmp, and counts for no job. See JobHost.drop_share.
    share: str | None = None
    # Folders that this program may change, absolute, below the host's `writable_root`; it sees them under this very path.
    # Each is for one program at a time: the job's user owns it meanwhile, we when run() returns (see take_back).
    writable: Sequence[str] = ()
    network: bool = True  # False: it reaches nothing but itself, at 127.0.0.1. See JobHost.cuts_network


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Packages that a fork server imports once for its jobs; what that means for it: job_process.environment_server."""

    paths: Sequence[str]  # folders with the packages, below a `read_only` path of the host
    modules: Sequence[str]  # to import: preloadable (see pool) and wanted by jobs
    memory_bytes: int  # that importing may take


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a program ended. No process of it is left."""

    exit_code: int  # negative: the signal that killed it
    peak_kb: int
    over_memory: bool  # killed because all its processes together used too much
    values: Mapping[str, bytes]  # what it sent and its result files, by kind
    overflowed: frozenset[str]  # kinds larger than result_bytes; their values are cut off
    # Seconds: sandbox (waiting for a prepared one), send, job (until its process was dead), teardown (until nothing
    # of it ran any more and all its output was read); and prepare, which was spent before there was a job.
    timings: Mapping[str, float]
