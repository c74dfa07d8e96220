"""What came of a probe: contained, exposed, or not tried. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from workers.probes.catalog import Probe

Verdict = Literal["contained", "exposed", "untried", "not promised"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict and what it rests on."""

    verdict: Verdict
    happened: str  # for people

    @property
    def is_failure(self) -> bool:
        """Whether something is not as it was promised."""
        return self.verdict == "exposed"


def judge(
    probe: Probe, *, result: Any = None, error: str | None = None, isolation: str, note: str = ""
) -> Judged:
    """The verdict on a job of `probe` that ended with `result`, or failed with the message `error`.

    `isolation` and `note` are what the worker that ran it says of itself.

    A probe that failed in a way that is not its containment proves nothing: it counts as exposed.
    """
    judged = _judged(probe, result, error)
    if judged.verdict == "exposed" and probe.needs_namespaces and isolation == "none":
        return Judged("not promised", f"{judged.happened} (this worker runs jobs without isolation)")
    if judged.verdict == "exposed" and probe.unless and (said := re.search(probe.unless, note)):
        return Judged("not promised", f"{judged.happened} (this worker says: {said[0]})")
    return judged


def _judged(probe: Probe, result: Any, error: str | None) -> Judged:
    if error is not None:
        first = error.strip().split("\n")[0]
        if probe.is_endless and "timed out" in error:
            return Judged("contained", first)
        if probe.message is not None and re.search(probe.message, error, re.IGNORECASE):
            return Judged("contained", first)
        return Judged("exposed", f"it failed otherwise: {first}")
    said = result if isinstance(result, str) else f"it returned {str(result)[:100]}"
    word, _, rest = said.partition(":")
    if word in ("contained", "untried"):
        return Judged(word, rest.strip() or word)  # type: ignore[arg-type]
    return Judged("exposed", said.removeprefix("exposed:").strip())
