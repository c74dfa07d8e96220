"""Errors of the jobs app (see workspaces.errors for how they reach the reader)."""

from workspaces.errors import Conflict, DomainError, NotFound


class LeaseLost(DomainError):
    """The claim (job id, attempt) is over: the job was canceled, restarted elsewhere or completed by somebody else."""

    code, http_status, prefix = "lease_lost", 409, "Conflict"


class JobNotFound(NotFound):
    """No such job, or not for this caller."""

    code = "job_not_found"


class JobIdTaken(Conflict):
    """A job with the id that the caller chose exists already."""

    code = "job_id_taken"


class QueueTooLong(DomainError):
    """More jobs wait than the caller or the instance accepts; nothing was queued."""

    code, http_status, prefix = "queue_too_long", 429, "Too many jobs"


class WaitTimedOut(DomainError):
    """A synchronous run took longer than a request may wait. The job goes on."""

    code, http_status, prefix = "wait_timed_out", 504, "Timeout"
