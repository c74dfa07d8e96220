"""How busy a worker is: the share of its slots' time that jobs took, over rolling windows."""

from collections import deque

_HORIZON_S = 30 * 60.0


class Occupancy:
    """Busy time of `slots` slots. All times are seconds of one monotonic clock."""

    def __init__(self, *, slots: int, now: float) -> None:
        self._slots = slots
        self._busy = 0
        self._started_at = now
        self._changed_at = now
        self._busy_s = 0.0  # slot-seconds since the start
        self._samples: deque[tuple[float, float]] = deque([(now, 0.0)])

    def started(self, now: float) -> None:
        """A slot took up a job."""
        self._advance(now)
        self._busy += 1

    def finished(self, now: float) -> None:
        """A slot let go of a job."""
        self._advance(now)
        self._busy -= 1

    def sample(self, now: float) -> None:
        """Remember how it stands, every few seconds: windows are as exact as the samples are dense."""
        self._advance(now)
        self._samples.append((now, self._busy_s))
        while len(self._samples) > 2 and self._samples[1][0] <= now - _HORIZON_S:
            self._samples.popleft()

    def rate(self, now: float, window_s: float | None = None) -> float:
        """0..1 over the last `window_s` seconds (at most 30 minutes), or since the start; less when it started later."""
        self._advance(now)
        if window_s is None or now - window_s <= self._started_at:
            since, busy_before = self._started_at, 0.0
        else:
            since, busy_before = now - window_s, self._busy_s_at(now - window_s)
        elapsed = now - since
        return min(1.0, (self._busy_s - busy_before) / (self._slots * elapsed)) if elapsed > 0 else 0.0

    def _advance(self, now: float) -> None:
        self._busy_s += self._busy * (now - self._changed_at)
        self._changed_at = now

    def _busy_s_at(self, moment: float) -> float:
        later = (self._changed_at, self._busy_s)
        for sample in reversed(self._samples):
            if sample[0] <= moment:
                span = later[0] - sample[0]
                share = (moment - sample[0]) / span if span > 0 else 0.0
                return sample[1] + (later[1] - sample[1]) * share
            later = sample
        return later[1]
