"""A flow that somebody pastes: YAML or JSON of a whole flow, or of its value alone."""

from typing import Any

from jobs.flows import text
from jobs.flows.value import fill_ids, parse_flow_value

# What of a document is kept; the rest (path, edited_by, ...) says where it was, not what it is.
FIELDS = (
    "summary",
    "description",
    "value",
    "schema",
    "tag",
    "timeout",
    "priority",
    "labels",
    "dedicated_worker",
)


def flow_from_text(document: str) -> dict[str, Any]:
    """{value, schema?, summary?, ...} of a YAML or JSON document, checked as if it were deployed; missing ids are filled.

    A document that is only a FlowValue ({modules: [...]}) is one too. Raises BadRequest with the line, or the place in
    the flow.
    """
    found = text.flow_from_text(document)
    value = fill_ids(found["value"])
    parse_flow_value(value)
    return {name: found[name] for name in FIELDS if found.get(name) is not None} | {"value": value}
