"""How a worker behaves."""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.environment import EnvironmentSource


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Built from settings by the command, by hand in tests."""

    name: str
    instance: str  # host
    group: str
    tags: Sequence[str]
    slots: int
    version: str
    environment: EnvironmentSource
    poll_s: float  # between claims while notifications do not arrive (SLEEP_QUEUE)
    heartbeat_s: float
    max_timeout_s: int  # TIMEOUT
    default_timeout_s: int | None  # JOB_DEFAULT_TIMEOUT
    token_expiry_s: int
    max_result_size_mb: int
    max_log_size_mb: int
    keep_logs: bool
    restart_limit: int
    init_script: str = ""
    # Scripts and flows ("ws:path", "ws:flow/path") that have processes of their own here, from the start; their tags are
    # among `tags`.
    dedicated: Sequence[str] = ()
