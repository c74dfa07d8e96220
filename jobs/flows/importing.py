"""A flow that somebody pastes: YAML or JSON of a whole flow, or of its value alone."""

from typing import Any

from jobs.flows.text import from_yaml
from jobs.flows.value import fill_ids, parse_flow_value
from workspaces.errors import BadRequest
from workspaces.jsontext import check_storable, parse_json

# What of a document is kept; the rest (path, edited_by, ...) says where it was, not what it is.
FIELDS = ("summary", "description", "value", "schema", "tag", "timeout", "priority", "labels")


def flow_from_text(text: str) -> dict[str, Any]:
    """{value, schema?, summary?, ...} of a YAML or JSON document, checked as if it were deployed; missing ids are filled.

    A document that is only a FlowValue ({modules: [...]}) is one too. Raises BadRequest with the line, or the place in
    the flow.
    """
    found = _json(text) or from_yaml(text)
    if "value" not in found and isinstance(found.get("modules"), list):
        found = {"value": found}
    value = found.get("value")
    if not isinstance(value, dict) or not isinstance(value.get("modules"), list):
        raise BadRequest("value.modules is missing; a flow has a value with a list of modules, its steps")
    check_storable(found)
    value = fill_ids(value)
    parse_flow_value(value)
    return {name: found[name] for name in FIELDS if found.get(name) is not None} | {"value": value}


def _json(text: str) -> dict[str, Any] | None:
    """JSON is YAML too, but read much faster; None when it is something else."""
    try:
        found = parse_json(text) if text.lstrip().startswith("{") else None
    except BadRequest:
        return None
    return found if isinstance(found, dict) else None
