"""A pasted flow: what is one, and how what is none is refused."""

import json

import pytest

from jobs.flows.importing import flow_from_text
from jobs.flows.text import to_yaml
from workspaces.errors import BadRequest

FLOW = {
    "summary": "Greet",
    "value": {
        "modules": [
            {
                "id": "a",
                "value": {
                    "type": "rawscript",
                    "language": "python3",
                    "content": 'def main(name: str):\n    return f"hello {name}"\n',
                    "input_transforms": {"name": {"type": "static", "value": "2024-01-31"}},
                },
            }
        ]
    },
    "schema": {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}},
}


@pytest.mark.parametrize("write", [json.dumps, to_yaml])
def test_an_export_comes_back_as_it_was(write):
    assert flow_from_text(write(FLOW)) == FLOW


def test_a_bare_value_is_a_flow_and_gets_its_ids():
    found = flow_from_text("modules: [{value: {type: identity}}]")

    assert found == {"value": {"modules": [{"id": "a", "value": {"type": "identity"}}]}}


def test_where_a_flow_was_is_not_kept():
    assert flow_from_text(json.dumps(FLOW | {"path": "f/x/y", "edited_by": "ada", "archived": True})) == FLOW


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "line 2"),
        ("a: &x 1\nb: *x", "line 2"),
        ("[1]", "no object"),
        ("summary: no steps", "value.modules is missing"),
        ("value:\n  modules:\n  - content: !inline a.py", "the tag !inline is not supported"),
        ("modules: [{value: {type: nonsense}}]", r"modules\[0\]"),
        ("x" * 10_000_001, "at most 10000000"),
    ],
)
def test_what_is_no_flow_is_refused_with_the_reason(text, problem):
    with pytest.raises(BadRequest, match=problem):
        flow_from_text(text)
