"""A job that this worker holds a lease on."""

import asyncio
import enum
import time
from dataclasses import dataclass, field

from jobs.models import FLOW_KINDS
from jobs.queue import Claim
from workers.job_queue import CancelRequest, Lease
from workers.logs import JobLog


class Stop(enum.Enum):
    """Why an execution is stopped before its end."""

    CANCELED = "canceled"  # somebody asked; recorded as such
    LOST = "lost"  # the lease is over: whatever comes of it is dropped
    RELEASED = "released"  # the worker leaves: back into the queue
    HELD_BACK = "held back"  # its like take all places: it is in the queue again


@dataclass(eq=False, slots=True)
class HeldJob:
    """One claim and how far it is."""

    claim: Claim
    log: JobLog
    started_at: float = field(default_factory=time.monotonic)
    task: "asyncio.Task[None] | None" = None
    is_executing: bool = False
    is_recording: bool = False  # its outcome is on the way to the database: the lease ends there
    stop: Stop | None = None
    cancel_request: CancelRequest | None = None
    # When (monotonic time) its slot began with the flow that it is part of, or with it.
    streak_began: float = field(default_factory=time.monotonic)
    counts_as_restart: bool = False  # when put back: the machinery died under it
    mem_peak_kb: int | None = None
    isolation: str | None = None  # what its processes run in; None: it has none

    @property
    def lease(self) -> Lease:
        """What every write names."""
        return self.claim.id, self.claim.attempt

    def report_memory(self, peak_kb: int) -> None:
        """The job was seen with this much memory."""
        self.mem_peak_kb = max(self.mem_peak_kb or 0, peak_kb)

    def stop_for(self, reason: Stop, request: CancelRequest | None = None) -> None:
        """Stop the execution, if it still runs. The first reason stands, but a lost lease outranks all."""
        if self.is_recording or (self.stop is not None and reason is not Stop.LOST):
            return
        if self.claim.kind in FLOW_KINDS and reason is Stop.CANCELED:
            return  # the flow itself notices, and ends once its steps have
        was_stopped, self.stop = self.stop is not None, reason
        self.cancel_request = request
        if self.is_executing and not was_stopped and self.task is not None:
            self.task.cancel()
