"""How a worker behaves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workers.environment import EnvironmentSource
from workers.groups.schema import GroupConfig
from workers.networks import BlockedNetworks
from workers.tags import NATIVE_LANGUAGES


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Built from settings and the group's configuration (workers.setup), by hand in tests.

    A worker takes others while it runs when the group's configuration changes; `name`, `slots` and whatever makes it
    start again (schema.restart_note) stay.
    """

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
    config: GroupConfig = field(default_factory=GroupConfig)  # what the group's configuration says
    priority_tags: Mapping[str, int] = field(default_factory=dict)  # 1..255: those first, highest first
    dedicated: Sequence[str] = ()  # "workspace:path", "workspace:flow/path"
    native: bool = False  # runs nothing but languages that need no process of their own
    init_script: str = ""
    periodic_script: str = ""
    periodic_interval_s: int | None = None
    exit_after_jobs: int | None = None  # EXIT_AFTER_N_JOBS
    blocked: BlockedNetworks = field(default_factory=BlockedNetworks)  # JOB_BLOCKED_NETWORKS

    def runs(self, language: str) -> bool:
        """Whether jobs in this language may run here; whether they can is for the runner to say."""
        return not self.native or language in NATIVE_LANGUAGES
