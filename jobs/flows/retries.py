"""When a failed step is tried again (reference/flows.md chapter 5)."""

from collections.abc import Callable

from jobs.flows.value import Retry

MAX_DELAY_S = 6 * 3600.0


def next_delay(retry: Retry, failures: int, *, random: Callable[[], float]) -> float | None:
    """Seconds until the next attempt of a step that has failed `failures` times before; None when none is left.

    Constant attempts come first, then exponential ones: multiplier x seconds^(failures + 1), give or take random_factor
    percent. `random` answers 0 to 1.
    """
    constant = retry.constant.attempts if retry.constant is not None else 0
    if retry.constant is not None and failures < constant:
        return min(float(retry.constant.seconds), MAX_DELAY_S)
    exponential = retry.exponential
    if exponential is None or failures >= constant + exponential.attempts:
        return None
    try:
        delay = float(exponential.multiplier) * float(exponential.seconds) ** (failures + 1)
    except OverflowError:
        delay = MAX_DELAY_S
    delay = min(delay, MAX_DELAY_S)  # first: jitter of an infinite delay would be no number
    jitter = delay * exponential.random_factor / 100
    return max(0.0, min(delay + jitter * (2 * random() - 1), MAX_DELAY_S))
