"""What running code needs of the workspace besides its job. PostgreSQL is one implementation (pg_runtimes)."""

from collections.abc import Sequence
from typing import Protocol

from jobs.dependencies import WantedFiles
from jobs.queue import Claim
from workers.runtimes.base import Imported, Registries
from workspaces.job_limits import AskedLimits


class RuntimeStore(Protocol):
    """All methods raise django.db's OperationalError while the database is away."""

    async def imported(self, claim: Claim, paths: Sequence[str]) -> dict[str, Imported]:
        """The live scripts at these paths that the job may read; others are missing in the answer."""

    async def wanted_files(self, claim: Claim) -> WantedFiles:
        """The dependency files of the workspace for the job's language."""

    async def registries(self) -> Registries:
        """Where packages come from, as the instance's settings say now."""

    async def job_limits(self) -> AskedLimits:
        """What the instance's settings hold all jobs to; may be some seconds old."""

    async def find_lock(self, key: str) -> str | None:
        """A lock that was computed before; None when there is none, or it is too old."""

    async def keep_lock(self, key: str, lock: str) -> None:
        """Remember a lock."""
