"""Facts about the machine (or container) that a worker runs on. Linux control groups count where they limit."""

import os
import socket
from pathlib import Path

import psutil

_V2 = Path("/sys/fs/cgroup")
_V1_MEMORY = _V2 / "memory"
_V1_CPU = _V2 / "cpu"


def memory_limit() -> int:
    """Bytes that the worker and its jobs may use."""
    total: int = psutil.virtual_memory().total
    limits = (_number(_V2 / "memory.max"), _number(_V1_MEMORY / "memory.limit_in_bytes"))
    return min([total, *(limit for limit in limits if limit)])


def memory_usage() -> int:
    """Bytes in use in the container, or on the host when nothing limits us."""
    if memory_limit() < psutil.virtual_memory().total:
        used = _number(_V2 / "memory.current") or _number(_V1_MEMORY / "memory.usage_in_bytes")
        if used:
            return used
    return int(psutil.virtual_memory().used)


def process_memory() -> int:
    """Bytes that this process holds in memory."""
    return int(psutil.Process().memory_info().rss)


def vcpus() -> int:
    """Processors that we may use; 100000 = one."""
    whole = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = (_V2 / "cpu.max").read_text().split()
    except (OSError, ValueError):
        v1_quota, v1_period = _number(_V1_CPU / "cpu.cfs_quota_us"), _number(_V1_CPU / "cpu.cfs_period_us")
        quota, period = (str(v1_quota), str(v1_period)) if v1_quota and v1_period else ("max", "1")
    if quota == "max":
        return whole * 100_000
    return min(whole * 100_000, int(quota) * 100_000 // int(period))


def ip() -> str:
    """The address under which others on the network see this host; empty when it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(
                ("192.0.2.1", 9)
            )  # a documentation address: sends nothing, only picks the interface
            return str(probe.getsockname()[0])
        except OSError:
            return ""


def _number(path: Path) -> int | None:
    try:
        value = int(path.read_text())
    except (OSError, ValueError):  # no such control group, or "max"
        return None
    return value if value > 0 else None
