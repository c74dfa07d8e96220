"""When a failed step is tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.flows.retries import next_delay
from jobs.flows.value import Constant, Exponential, Retry


def delays(retry: Retry, count: int, *, random: float = 0.5) -> list[float | None]:
    """After the first, second, ... failure; `random` 0.5 is no jitter."""
    return [next_delay(retry, failures, random=lambda: random) for failures in range(count)]


def test_constant_attempts_come_before_exponential_ones():
    retry = Retry(Constant(attempts=2, seconds=5), Exponential(attempts=2, multiplier=3, seconds=2))

    assert delays(retry, 5) == [5, 5, 3 * 2**3, 3 * 2**4, None]


def test_the_first_exponential_delay_is_multiplier_times_seconds():
    assert delays(Retry(exponential=Exponential(attempts=2, multiplier=3, seconds=7)), 3) == [21, 147, None]


@pytest.mark.parametrize(("random", "delay"), [(0, 80), (0.75, 110), (1, 120)])
def test_a_delay_strays_by_its_random_factor(random: float, delay: float):
    retry = Retry(exponential=Exponential(attempts=1, multiplier=1, seconds=100, random_factor=20))

    assert delays(retry, 1, random=random) == [pytest.approx(delay)]


@given(
    failures=st.integers(0, 300) | st.integers(0, 2**32 - 1),
    multiplier=st.integers(0, 2**31 - 1),
    seconds=st.integers(0, 2**31 - 1),
    factor=st.integers(0, 100),
    random=st.floats(0, 1),
)
def test_no_delay_is_longer_than_six_hours_and_none_is_cut_short(
    failures: int, multiplier: int, seconds: int, factor: int, random: float
):
    retry = Retry(exponential=Exponential(2**32, multiplier, seconds, factor))

    delay = next_delay(retry, failures, random=lambda: random)

    least = min(multiplier * seconds ** min(failures + 1, 60), 6 * 3600) * (100 - factor) / 100
    assert delay is not None
    assert least * 0.999 <= delay <= 6 * 3600


def test_a_delay_that_no_number_holds_is_six_hours():
    retry = Retry(exponential=Exponential(attempts=2000, multiplier=100, seconds=2))

    assert next_delay(retry, 1022, random=lambda: 0.5) == 6 * 3600
