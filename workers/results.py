"""From what a run answers to what is recorded: limits and conventions of results (reference/queue.md section 10)."""

import json
from dataclasses import dataclass, replace
from typing import Any

from jobs.models import JobStatus
from workers import failures

_MAX_LABELS = 10
_MAX_LABEL_CHARS = 255


@dataclass(frozen=True, slots=True)
class Recorded:
    """An outcome as it goes into completed_job."""

    status: str  # JobStatus
    result: str  # JSON text
    labels: list[str] | None = None


def succeeded(result: str, *, max_size_mb: int) -> Recorded:
    """A run that returned `result` (JSON text). `wm_failure` in it makes it a failure, `wm_labels` labels it."""
    if len(result) > max_size_mb * 1024 * 1024 // 4 and len(result.encode()) > max_size_mb * 1024 * 1024:
        return failed_with(
            "ResultTooLarge",
            f"The result is {len(result.encode()) / 1024 / 1024:.1f} MB; MAX_RESULT_SIZE_MB allows {max_size_mb}. "
            "Store large data elsewhere and return where it is.",
        )
    if '"wm_labels"' not in result and '"wm_failure"' not in result:
        return Recorded(JobStatus.SUCCESS, result)
    value = json.loads(result)
    if not isinstance(value, dict):
        return Recorded(JobStatus.SUCCESS, result)
    labels = _labels(value.get("wm_labels"))
    message = value.get("wm_failure")
    if isinstance(message, str):
        value["error"] = {"name": "WmFailure", "message": message}
        return Recorded(JobStatus.FAILURE, json.dumps(value, ensure_ascii=False), labels)
    return Recorded(JobStatus.SUCCESS, result, labels)


def failed(result: str, *, max_size_mb: int) -> Recorded:
    """A run whose code failed with `result`, JSON text of {"error": ...}."""
    recorded = succeeded(result, max_size_mb=max_size_mb)
    return Recorded(JobStatus.FAILURE, recorded.result, recorded.labels)


def failed_with(name: str, message: str) -> Recorded:
    """A failure that the worker itself found."""
    return Recorded(JobStatus.FAILURE, failures.as_result(name, message))


def _labels(value: Any) -> list[str] | None:
    if not isinstance(value, list):
        return None
    labels = [label[:_MAX_LABEL_CHARS] for label in value if isinstance(label, str) and label]
    return labels[:_MAX_LABELS] or None


def with_step(recorded: Recorded, step_id: str) -> Recorded:
    """The failure of a flow's step: its error says which step it was."""
    try:
        value = json.loads(recorded.result)
    except ValueError:
        return recorded
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict) or error.get("step_id"):
        return recorded
    error["step_id"] = step_id
    return replace(recorded, result=json.dumps(value, ensure_ascii=False))
