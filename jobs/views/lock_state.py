"""What pages say of a script's dependencies: whether they are resolved, why not, and what they are."""

from dataclasses import dataclass
from uuid import UUID

from jobs import locks
from jobs.dependencies import LANGUAGES_WITH_LOCKS
from jobs.dependencies.blame import offending_line
from jobs.models import QueuedJob, Script

# What people of each language call the files that a lock is made of.
NAMES = {
    "python3": "requirements.txt",
    "bun": "package.json and bun.lock",
    "bunnative": "package.json and bun.lock",
    "nativets": "package.json and bun.lock",
    "deno": "deno.lock",
    "go": "go.mod and go.sum",
    "php": "composer.lock",
}
_MAX_SUMMARY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LockState:
    """A version's dependencies."""

    # none: its language has no packages; ready; renewing: ready, and being resolved again; locking: not resolved yet;
    # failed
    state: str
    job_id: UUID | None  # that resolves or resolved them
    log: str = ""  # why it failed
    summary: str = ""  # the last line of that
    line: int | None = None  # of the code that failed, where it is known
    lock: str = ""
    name: str = ""  # what people call the lock: requirements.txt
    runs_meanwhile: str = ""  # hash of the version that runs until this one is ready; "": none does

    @property
    def count(self) -> int:
        """Lines of the lock."""
        return len(self.lock.splitlines())


def of(script: Script) -> LockState:
    """The state of `script`. One to three queries."""
    name = NAMES.get(script.language, "lock")
    state, why = locks.state_of(script)
    if state == "ready":
        if script.language not in LANGUAGES_WITH_LOCKS:
            return LockState(state="none", job_id=None)
        is_renewing = script.lock_job is not None and QueuedJob.objects.filter(pk=script.lock_job).exists()
        return LockState(
            state="renewing" if is_renewing else "ready",
            job_id=script.lock_job,
            lock=script.lock or "",
            name=name,
        )
    before = None
    if not script.archived:
        older = Script.objects.filter(
            workspace=script.workspace_id, hash__in=script.parent_hashes, path=script.path, deleted=False
        )
        before = older.exclude(lock=None).order_by("-created_at").only("hash").first()
    log = why or ""
    return LockState(
        state=state,
        job_id=script.lock_job,
        log=log,
        summary=_summary(log),
        line=offending_line(script.language, script.content, log) if log else None,
        name=name,
        runs_meanwhile=before.hash_hex if before is not None else "",
    )


def after_deployment(script: Script) -> str:
    """What follows "Deployed x, version y" in the message after a deployment."""
    return "" if script.lock is not None else "; its dependencies are being resolved"


def _summary(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return lines[-1][:_MAX_SUMMARY] if lines else ""
