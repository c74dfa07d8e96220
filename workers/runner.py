"""What the worker loop needs of whatever runs code: one job in, one outcome out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from jobs.queue import Claim
from workers.groups.schema import GroupConfig
from workers.logs import JobLog

if TYPE_CHECKING:
    from workers.dedicated.process import WarmProcess


class RunnerLost(Exception):
    """The machinery died under a job (not the job's fault): it may be started again elsewhere."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One job, ready to run."""

    claim: Claim
    args: dict[str, Any]  # references replaced
    environment: Mapping[str, str]
    timeout_s: float
    log: JobLog
    report_memory: Callable[[int], None]  # call with the peak in kB, now and then
    share: str | None = None  # jobs with the same name here have the folder ./shared in common
    group: GroupConfig = field(default_factory=GroupConfig)  # of the worker, as it is when the job begins
    dedicated: bool = False  # to be run by a process that has the code loaded, if its language can


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended. A failure of the job's code, a timeout or a memory limit is an outcome, not an exception."""

    is_success: bool
    result: str  # JSON text; of a failure {"error": {...}}
    mem_peak_kb: int | None = None
    preprocessed_args: str | None = (
        None  # JSON text of what the script's preprocessor returned, if it was asked
    )


class Runner(Protocol):
    """Runs jobs of some languages. `run` may be called for as many jobs at once as the worker has slots."""

    @property
    def languages(self) -> Sequence[str]:
        """What this host can really run."""

    @property
    def runtimes(self) -> dict[str, dict[str, str]]:
        """By language: {"version": ...} of what runs it, or {"missing": tool, "install": how to get it}."""

    @property
    def isolation(self) -> tuple[str, str]:
        """How jobs are isolated ("none", "unshare", ...), and a note for people on what is missing."""

    async def start(self) -> None:
        """Get ready."""

    async def close(self) -> None:
        """Stop whatever was started."""

    def drop_share(self, name: str, *, is_missed: bool = False) -> None:
        """Forget the folder of jobs with this `share`. `is_missed`: further ones shall fail instead of finding none."""

    async def run(self, request: RunRequest) -> RunOutcome:
        """Run one job. Cancelling this call kills all of the job's processes before it returns.

        Raises RunnerLost when the machinery died.
        """

    def stays_warm(self, language: str) -> bool:
        """Whether scripts in `language` can stay loaded between jobs."""

    async def warm_process(self, request: RunRequest) -> "WarmProcess":
        """The warm process of the request's code with the fewest calls; a new one if all have some and may have company.

        What is printed while it is loaded goes to the request's log. Raises ExecutionFailed when it does not load,
        SandboxUnavailable.
        """

    async def let_misfits_leave(self, request: RunRequest) -> None:
        """End the warm processes of the request's code, each after the calls that it was sent, that were started under
        other limits than it would be now, or with another network. Raises ExecutionFailed: those cannot be kept.
        """

    async def lock(self, request: RunRequest) -> str:
        """The dependencies of the request's code, pinned; "" when there are none. Nothing of it is run.

        Raises ExecutionFailed: which of them cannot be had, and why; RunnerLost.
        """
