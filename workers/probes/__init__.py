"""Hostile scripts with a verdict of one word: what a job must not be able to do, tried by a job.

The suite of hostile jobs (tests/hostile) and `manage.py isolation_check` run the same scripts, on the same judgement.
"""

from workers.probes.catalog import PROBES, Probe, Surroundings
from workers.probes.judging import Judged, Verdict, judge

__all__ = ["PROBES", "Judged", "Probe", "Surroundings", "Verdict", "judge"]
