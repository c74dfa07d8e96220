"""Labels on items: short texts that people filter by."""

from typing import Any

from workspaces.errors import BadRequest

MAX_LABELS = 50
MAX_LABEL = 50  # characters


def check_labels(value: Any) -> list[str]:
    """The labels as given. Raises BadRequest: not a list of short texts, or too many."""
    if not isinstance(value, list) or not all(isinstance(label, str) and label.strip() for label in value):
        raise BadRequest('labels must be a list of texts such as ["billing", "nightly"]')
    if len(value) > MAX_LABELS or any(len(label) > MAX_LABEL for label in value):
        raise BadRequest(f"labels: at most {MAX_LABELS}, each of at most {MAX_LABEL} characters")
    return value
