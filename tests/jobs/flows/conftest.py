"""V8 for tests: engines that the tests of a module share."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jobs.flows.javascript import Engine


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine(lanes=2, max_lanes=2, time_limit_s=10)
    engine.warm_up()
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def one_lane() -> Iterator[Engine]:
    """One helper: what one call leaves behind, the next one would find."""
    engine = Engine(lanes=1, max_lanes=1, time_limit_s=10)
    engine.warm_up()
    yield engine
    engine.close()


@contextmanager
def time_limit(engine: Engine, seconds: float) -> Iterator[None]:
    """For calls that will not end by themselves."""
    before, engine.time_limit_s = engine.time_limit_s, seconds
    try:
        yield
    finally:
        engine.time_limit_s = before
