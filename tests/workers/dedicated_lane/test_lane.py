"""The lane of a dedicated script: what comes of its jobs, whatever happens around them."""

from collections.abc import Callable
from typing import Any

from jobs import queue
from jobs.models import CompletedJob, QueuedJob

COUNT = """
calls = 0

def main(x: int = 0):
    global calls
    calls += 1
    return [calls, x]
"""


def test_jobs_run_one_after_another_in_a_process_that_keeps_its_state(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    script = deploy(COUNT)
    jobs = [run(script, x=number) for number in range(300)]

    start()

    assert outcomes(jobs) == [[number + 1, number] for number in range(300)]


def test_a_job_that_comes_later_finds_the_same_process(
    deploy: Any, run: Any, start: Any, outcomes: Any
) -> None:
    script = deploy(COUNT)
    start()

    first = outcomes([run(script, x=1)])
    second = outcomes([run(script, x=2)])

    assert (first, second) == ([[1, 1]], [[2, 2]])
