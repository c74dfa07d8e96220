"""Workers that a test may kill, stop and drain: real `runworker` processes with a tag of their own."""

import signal
import subprocess
import uuid
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from jobs import queue
from jobs.models import QueuedJob, WorkerPing
from tests.browser.site import Site, wait_until

SLOTS = 2


@dataclass(frozen=True)
class Hand:
    """One worker of the crew."""

    name: str
    process: "subprocess.Popen[bytes]"
    log_name: str
    crew: "Crew"

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()
        self.crew.aboard.remove(self)

    def declare_dead(self) -> None:
        """What happens once it has been silent for too long: its jobs are anybody's."""
        leases = QueuedJob.objects.filter(worker=self.name, running=True, last_ping__isnull=False)
        leases.update(last_ping=Now() - timedelta(hours=1))
        queue.recover_lost_jobs()

    def lose(self) -> None:
        """It is killed, and that is noticed."""
        self.kill()
        self.declare_dead()

    def freeze(self) -> None:
        """SIGSTOP: it does nothing any more, and does not know."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def drain(self) -> None:
        """SIGTERM: it finishes what it has, and leaves."""
        self.process.send_signal(signal.SIGTERM)
        self.crew.aboard.remove(self)

    def stop(self) -> None:
        """SIGTERM twice: it puts back what it has, and leaves at once."""
        self.drain()
        self.wait_for_log("draining worker=")
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.crew.site.log(self.log_name)

    def wait_for_log(self, text: str) -> None:
        """Until its log says this."""
        wait_until(
            lambda: text in self.crew.site.log(self.log_name), f"{text!r} in the log of {self.name}", 60
        )


@dataclass
class Crew:
    """The workers of one tag. Who survives a test serves in the next one."""

    site: Site
    tag: str = field(default_factory=lambda: f"crew-{uuid.uuid4().hex[:8]}")
    aboard: list[Hand] = field(default_factory=list, init=False)

    def only_one(self) -> Hand:
        """The crew's one worker: others are killed, a missing one is hired."""
        for hand in self.aboard[1:]:
            hand.kill()
        return self.aboard[0] if self.aboard else self.hire()

    def hire(self) -> Hand:
        """One more worker."""
        log_name = f"{self.tag}-{uuid.uuid4().hex[:6]}"
        known = set(self._names())
        process = self.site.start(
            log_name,
            "manage.py",
            "runworker",
            "--slots",
            str(SLOTS),
            FORCE_WORKER_TAGS=self.tag,
            # It learns that it was declared dead when it comes back, not before.
            HEARTBEAT_SECONDS="30",
            MONITOR_INTERVAL_SECONDS="3600",
        )

        def new_name() -> str | None:
            if process.poll() is not None:
                pytest.fail(f"the worker ended:\n{self.site.log(log_name)}")
            return next((name for name in self._names() if name not in known), None)

        hand = Hand(str(wait_until(new_name, "a worker", 60)), process, log_name, self)
        self.aboard.append(hand)
        return hand

    def dismiss(self) -> None:
        """Kill all of them."""
        for hand in list(self.aboard):
            hand.kill()

    def _names(self) -> list[str]:
        running = WorkerPing.objects.filter(custom_tags=[self.tag], state="running")
        return list(running.values_list("worker", flat=True))
