"""Sentences for jobs that ended without saying why."""

from __future__ import annotations

import signal

from workers.runtimes.base import ExecutionFailed, Limits
from workers.sandbox import Ended
from workspaces.job_limits import sized


def timed_out(timeout_s: float | None) -> ExecutionFailed:
    """The job ran longer than `timeout_s`."""
    return ExecutionFailed({"name": "ExecutionErr", "message": f"Job timed out after (>{timeout_s:g}s)"})


def killed(ended: Ended, limits: Limits, last_lines: str = "") -> ExecutionFailed | None:
    """The job was killed: by us for its memory, or by a signal. None when it was not."""
    if ended.over_memory:
        memory = f"{sized(limits.memory_bytes)} of memory ({_peak(ended.peak_kb)})"
        message = f"Job used more than its {memory} and was stopped"
    elif ended.exit_code < 0:
        message = f"Job was killed by signal {-ended.exit_code} ({_signal_name(-ended.exit_code)})"
        if ended.exit_code == -signal.SIGKILL:
            message += (
                f"; most often the machine is out of memory (limit of this job: {sized(limits.memory_bytes)}, "
                f"{_peak(ended.peak_kb)})"
            )
        elif ended.exit_code == -signal.SIGXFSZ:
            message += f": a file grew beyond {sized(limits.file_bytes)}"
    else:
        return None
    if last_lines:
        message += f", last log lines:\n{last_lines}"
    return ExecutionFailed({"name": "ExecutionErr", "message": message}, mem_peak_kb=ended.peak_kb)


def needs_memory(limits: Limits, peak_kb: int | None) -> str:
    """What ended by itself because it got no more memory. `peak_kb` is None when nobody looked."""
    peak = f" ({_peak(peak_kb)})" if peak_kb else ""
    return f"The job asked for more than its {sized(limits.memory_bytes)} of memory{peak}"


def _peak(peak_kb: int) -> str:
    return f"peak {peak_kb / 1024:.0f} MB"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
