"""Flows as text: what YAML says comes back, what it cannot say is refused with its place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.flows.text import BadText, flow_from_text, from_yaml, to_yaml

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


def test_code_reads_as_code():
    assert "content: |\n        def main(name: str):\n            return" in to_yaml(FLOW)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(TEXTS, JSON, max_size=5))
def test_every_json_object_comes_back_from_its_yaml(value):
    assert from_yaml(to_yaml(value)) == value


@given(st.text())
def test_any_text_is_read_or_refused(text):
    try:
        assert isinstance(from_yaml(text), dict)
    except BadText as exc:
        assert exc.message


def test_dates_and_words_that_old_yaml_takes_for_others_stay_text():
    assert from_yaml("day: 2024-01-31\nanswer: yes\nswitch: off\n1: one\nsure: true") == {
        "day": "2024-01-31",
        "answer": "yes",
        "switch": "off",
        "1": "one",
        "sure": True,
    }


def test_json_and_a_bare_value_are_flows_too():
    assert flow_from_text(json.dumps(FLOW)) == FLOW
    assert flow_from_text("modules: []") == {"value": {"modules": []}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "line 2, column 1"),
        ("a: &x 1\nb: *x", r"line 2\); write it out"),
        ("[1]", "found something else"),
        ("summary: no steps", "value.modules is missing"),
        ("value:\n  modules:\n  - content: !inline a.py", "!inline names a file that is not here"),
        ("x: !!python/object/apply:os.system [ls]", "cannot be read"),
        ("a: " + "[" * 300, "nested more than 200 deep"),
        ("x" * 5_000_001, "at most 5000000 fit"),
    ],
)
def test_what_is_no_flow_is_refused_with_the_reason(text, problem):
    with pytest.raises(BadText, match=problem):
        flow_from_text(text)
