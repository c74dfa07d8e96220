"""How busy a worker says it is."""

import pytest

from workers.occupancy import Occupancy


def test_an_idle_worker_is_not_occupied() -> None:
    occupancy = Occupancy(slots=2, now=100)

    assert occupancy.rate(100) == 0
    assert occupancy.rate(160, 15) == 0


def test_one_of_two_slots_busy_is_half() -> None:
    occupancy = Occupancy(slots=2, now=0)
    occupancy.started(0)

    assert occupancy.rate(10) == pytest.approx(0.5)
    assert occupancy.rate(10, 15) == pytest.approx(0.5)


def test_windows_forget_what_was_before_them() -> None:
    occupancy = Occupancy(slots=1, now=0)
    occupancy.started(0)
    for moment in range(5, 121, 5):
        if moment == 60:
            occupancy.finished(moment)
        occupancy.sample(moment)

    assert occupancy.rate(120) == pytest.approx(0.5)
    assert occupancy.rate(120, 15) == 0
    assert occupancy.rate(120, 90) == pytest.approx(1 / 3)


def test_only_half_an_hour_is_remembered() -> None:
    occupancy = Occupancy(slots=1, now=0)
    occupancy.started(0)
    for moment in range(0, 20_000, 5):
        occupancy.sample(moment)

    assert len(occupancy._samples) <= 362
    assert occupancy.rate(20_000, 1800) == pytest.approx(1)
