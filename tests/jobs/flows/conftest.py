"""V8 for tests: one engine a module, with a time limit that a test can wait for."""

from collections.abc import Iterator

import pytest

from jobs.flows.javascript import Engine


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine(lanes=2, max_lanes=2, time_limit_s=10)
    engine.warm_up()
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def hasty_engine() -> Iterator[Engine]:
    """One helper, half a second for a call."""
    engine = Engine(lanes=1, max_lanes=1, time_limit_s=0.5)
    engine.warm_up()
    yield engine
    engine.close()
