"""Sentences for jobs that ended without saying why."""

from __future__ import annotations

import signal

from workers.runtimes.base import ExecutionFailed, Limits
from workers.sandbox import Ended


def timed_out(timeout_s: float | None) -> ExecutionFailed:
    """The job ran longer than `timeout_s`."""
    return ExecutionFailed({"name": "ExecutionErr", "message": f"Job timed out after (>{timeout_s:g}s)"})


def killed(ended: Ended, limits: Limits, last_lines: str = "") -> ExecutionFailed | None:
    """The job was killed: by us for its memory, or by a signal. None when it was not."""
    if ended.over_memory:
        message = f"Job was stopped: it used more memory than it may (limit {limits.memory_bytes >> 20} MiB)"
    elif ended.exit_code < 0:
        message = f"Job was killed by signal {-ended.exit_code} ({_signal_name(-ended.exit_code)})"
        if ended.exit_code == -signal.SIGKILL:
            message += (
                f"; most often the machine is out of memory (limit of a job: {limits.memory_bytes >> 20} MiB)"
            )
        elif ended.exit_code == -signal.SIGXFSZ:
            message += f": a file grew beyond {limits.file_bytes:,} bytes"
    else:
        return None
    if last_lines:
        message += f", last log lines:\n{last_lines}"
    return ExecutionFailed({"name": "ExecutionErr", "message": message}, mem_peak_kb=ended.peak_kb)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
