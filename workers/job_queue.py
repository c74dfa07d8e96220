"""What a worker needs of the queue. PostgreSQL is one implementation (pg_queue); another may speak HTTP."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from jobs.dedicated import Dedicated
from jobs.queue import Claim, Completion, JobRequest, NarrowClaim
from workers.groups.schema import GroupConfig

if TYPE_CHECKING:
    from workers.options import OptionStore
    from workers.pg_flows import PgFlowStore

Lease = tuple[UUID, int]  # (job id, attempt): the fencing pair that every write names


class QueueAway(Exception):
    """The queue cannot be reached right now. Nothing is wrong with the request; ask again.

    `outcome_unknown`: the request may have been carried out although its answer was lost.
    """

    def __init__(self, message: str, *, outcome_unknown: bool) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Somebody asked for a running job to be stopped."""

    canceled_by: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A piece of output of one running job."""

    lease: Lease
    text: str
    # How many reads of secrets by the job this worker knows of: those are masked in it. None: so are all that matter.
    secret_reads: int | None = 0


@dataclass(frozen=True, slots=True)
class SecretReads:
    """Secrets that a job has read while it runs."""

    count: int  # of the reads
    secrets: frozenset[str] = field(repr=False)  # plain values


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of pieces of output."""

    accepted: frozenset[Lease]
    # Not appended: the job has read secrets that the worker did not know of.
    unmasked: Mapping[Lease, SecretReads]


@dataclass(frozen=True, slots=True)
class Exchange:
    """The answer to what warm processes have done."""

    claims: list[NarrowClaim]
    lost: set[UUID]  # whose leases were over: their results were dropped
    default_timeout_s: int | None  # of the instance, for jobs that say nothing; None: no jobs were asked for


@dataclass(frozen=True, kw_only=True)
class WorkerReport:
    """A row of worker_ping: the worker as it describes itself (units: jobs.models.WorkerPing)."""

    worker: str
    worker_instance: str
    worker_group: str
    ip: str
    state: str  # starting, running, draining, failed
    custom_tags: list[str]
    languages: list[str]
    runtimes: dict[str, dict[str, str]]
    slots: int
    wm_version: str
    busy_slots: int = 0
    jobs_executed: int = 0
    current_job_id: UUID | None = None
    last_job_id: UUID | None = None
    last_job_workspace_id: str | None = None
    occupancy_rate: float | None = None
    occupancy_rate_15s: float | None = None
    occupancy_rate_5m: float | None = None
    occupancy_rate_30m: float | None = None
    memory: int | None = None
    memory_usage: int | None = None
    wm_memory_usage: int | None = None
    vcpus: int | None = None
    job_isolation: str = ""
    isolation_note: str = ""
    init_log: str = ""
    state_note: str = ""
    native_mode: bool = False
    dedicated_workers: list[str] = field(default_factory=list)


class JobQueue(Protocol):
    """The queue as one worker sees it. All methods but `complete` and `append_logs` raise QueueAway."""

    @property
    def hears_wakeups(self) -> bool:
        """Whether `on_work` and `on_cancel` are called at present; if not, the worker polls faster."""

    @property
    def option_store(self) -> "OptionStore":
        """Places, cached results, what is to be forgotten: see workers.options."""

    @property
    def flow_store(self) -> "PgFlowStore":
        """Where flows are read and advanced."""

    async def open(self) -> None:
        """Connect. Raises QueueAway when that is not possible yet."""

    async def close(self) -> None:
        """Let go of all connections."""

    async def claim(
        self, *, tags: Sequence[str], limit: int, ranks: Mapping[str, int] | None = None
    ) -> list[Claim]:
        """Take up to `limit` due jobs, most urgent first; those of tags with a higher rank (none: 0) before others."""

    async def exchange(
        self,
        completions: Sequence[Completion],
        *,
        dedicated: Dedicated,
        limit: int,
        mem_peak_kb: int | None,
        isolation: str,
        held: Callable[[], Collection[UUID]],
    ) -> Exchange:
        """Record outcomes (without labels), each once, and take up to `limit` due jobs of a dedicated tag.

        Waits as long as the queue is away. `held` are the jobs of this tag that the worker knows it has: others in
        its name go back into the queue when an answer was lost. Tell the watchers yourself.
        """

    async def whole(self, leases: Sequence[Lease]) -> list[Claim]:
        """All there is to know of jobs that `exchange` answered. Those missing are lost."""

    async def head_of(self, dedicated: Dedicated) -> Claim | None:
        """The live version of a dedicated script, as a claim of no job; None when there is no such script."""

    async def push(self, request: JobRequest) -> UUID:
        """Queue a job for whoever takes it."""

    async def start_own(self, request: JobRequest) -> Claim:
        """Record a job that this worker runs itself, outside the queue's order, as running."""

    async def heartbeat(self, held: Sequence[tuple[Lease, int | None]]) -> dict[Lease, CancelRequest | None]:
        """Extend these leases, each with its memory peak in kB if known. Those missing from the answer are lost."""

    async def append_logs(self, pieces: Sequence[LogPiece]) -> Appended:
        """Append output, once, however long the queue is away. Leases missing from the answer are lost."""

    async def set_preprocessed(self, lease: Lease, args: str) -> None:
        """Make `args` (JSON text of an object) the arguments of a job, however long the queue is away."""

    async def complete(self, completions: Sequence[Completion]) -> set[UUID]:
        """Record outcomes, each once, however long the queue is away. The others' leases were lost."""

    async def complete_step(self, completion: Completion, *, flow_id: UUID) -> bool:
        """Record the outcome of a flow's step and have the flow looked at, when it could not be advanced at once."""

    async def was_recorded(self, job_id: UUID) -> bool:
        """Whether this worker has recorded the end of a job: asked when the answer to a write was lost."""

    async def tell_watchers(self, job_ids: Iterable[UUID]) -> None:
        """Tell whoever watches these jobs to look. A hint."""

    async def wake_workers(self, tags: Iterable[str]) -> None:
        """Tell idle workers of these tags to look. A hint."""

    async def release(self, lease: Lease, *, count_restart: bool) -> bool:
        """Put a job back into the queue. False: its lease was lost."""

    async def release_all_but(self, held: Sequence[Lease], *, but_tags: Sequence[str] = ()) -> int:
        """Put back whatever is claimed in this worker's name but is not in `held`; answers how many.

        Jobs of `but_tags` are left alone: others ask for them.
        """

    def on_work(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        """Call back with each tag that got work (None: any may have). The answer unsubscribes."""

    def on_cancel(self, callback: Callable[[UUID | None], None]) -> Callable[[], None]:
        """Call back when a job's lease should be looked at (None: any). The answer unsubscribes."""

    def on_group(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        """Call back with a worker group whose configuration changed (None: any may have). The answer unsubscribes."""

    async def group_config(self, group: str) -> GroupConfig:
        """The configuration of a worker group."""

    async def ping(self, report: WorkerReport) -> None:
        """Show this worker to the others."""

    async def leave(self) -> None:
        """Take this worker off the list."""
