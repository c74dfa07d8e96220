"""Realistic flows, each run for real: what the samples say is what comes out."""

from typing import Any

import pytest

from tests.flows.conftest import RunFlow
from tests.jobs.flows.samples import SAMPLES, Sample

BY_THEMSELVES = [sample for sample in SAMPLES.values() if sample.needs is None]


@pytest.mark.parametrize("sample", BY_THEMSELVES, ids=lambda sample: sample.name)
def test_a_sample_does_what_it_says(sample: Sample, run_flow: RunFlow) -> None:
    run = run_flow(sample.make()["value"], sample.args)
    expected = "skipped" if sample.is_skipped else "success" if sample.is_success else "failure"
    assert run.outcome == expected, run.result
    if sample.is_success:
        assert run.result == sample.result
    else:
        assert contains(run.result, sample.result), run.result


def contains(whole: Any, part: Any) -> bool:
    """Is `part` found in `whole`, objects compared by the keys that `part` has?"""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], value) for key, value in part.items()
        )
    if isinstance(part, list):
        return (
            isinstance(whole, list)
            and len(whole) == len(part)
            and all(contains(*pair) for pair in zip(whole, part, strict=True))
        )
    return bool(whole == part)
