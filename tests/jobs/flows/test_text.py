"""Flows as text: what YAML says comes back, what it cannot say is refused with its place."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jobs.flows.text import MAX_CHARS, BadText, flow_from_text, from_yaml, to_yaml
from tests.jobs.flows.strategies import flows

FLOW = {
    "summary": "Greet: politely",
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
            },
            {"id": "b", "value": {"type": "identity"}, "retry": {}, "sleep": 1.5},
        ]
    },
    "schema": {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}, "order": []},
}
FLOW_TEXT = """\
summary: "Greet: politely"
value:
  modules:
    - id: a
      value:
        type: rawscript
        language: python3
        content: |
          def main(name: str):
              return f"hello {name}"
        input_transforms:
          name:
            type: static
            value: "2024-01-31"
    - id: b
      value:
        type: identity
      retry: {}
      sleep: 1.5
schema:
  type: object
  properties:
    "on":
      type: boolean
      default: true
  order: []
"""


def test_a_flow_reads_well():
    assert to_yaml(FLOW) == FLOW_TEXT


def test_it_comes_back():
    assert from_yaml(FLOW_TEXT) == FLOW


@pytest.mark.parametrize(
    "code",
    [
        "if x:\n\tgo()\n",  # tabs
        "a = 1  \n   \nb = 2\n",  # spaces at the end of lines, and nothing else on one
        "    indented\nfirst\n",
        "\n\n# comes late\n",
        "no line end\nat the end",
        "many\nline ends\n\n\n",
        "é: 'ü' # ☃\n- {a: [}\n---\n...\n",
    ],
)
def test_code_stays_readable_however_it_is_written(code: str):
    text = to_yaml({"content": code, "next": 1})

    assert text.startswith("content: |")
    assert from_yaml(text) == {"content": code, "next": 1}


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
# Where YAML is easily misread: indents, breaks, indicators, words and numbers of other types.
TRICKY = st.text(st.sampled_from(list(" \t\n\r-:#|>'\"\\&*!%@`,[]{}?ay1.~\x85\u2028\xa0\ufeff")), max_size=12)
WORDS = st.sampled_from(
    ["yes", "No", "on", "~", "null", "", "1e3", "0x1f", "0o7", "1_000", "12:30", "2024-01-31", "<<", "="]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | TRICKY
    | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS | TRICKY | WORDS, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(TEXTS | TRICKY | WORDS, JSON, max_size=5)


@given(OBJECTS)
def test_every_json_object_comes_back_from_its_yaml(value):
    assert repr(from_yaml(to_yaml(value))) == repr(value)  # 1 and 1.0 and true are equal, but not the same


@given(OBJECTS)
def test_readers_of_yaml_1_1_understand_it_too(value):
    assert repr(yaml.load(to_yaml(value), Loader=yaml.CSafeLoader)) == repr(value)


@given(flows(noise=True))
def test_every_flow_comes_back_from_its_yaml(value):
    assert from_yaml(to_yaml(value)) == value


@given(st.text() | st.text(st.sampled_from(list(" \n-:#|>'\"&*!?[]{},a1"))))
def test_any_text_is_read_or_refused(text):
    try:
        assert isinstance(from_yaml(text), dict)
    except BadText as exc:
        assert exc.message


def test_a_key_of_any_length_comes_back():
    value = {"k" * 2000: {"x" * 2000: [1]}, "list": [{"y\n" * 2000: "two\nlines\n"}]}

    assert from_yaml(to_yaml(value)) == value


def test_dates_and_words_that_old_yaml_takes_for_others_stay_text():
    assert from_yaml("day: 2024-01-31\nanswer: yes\nswitch: off\non: 12:30\nthousand: 1_000\n<<: 0b1") == {
        "day": "2024-01-31",
        "answer": "yes",
        "switch": "off",
        "on": "12:30",
        "thousand": "1_000",
        "<<": "0b1",
    }


def test_numbers_truth_and_nothing_are_those_of_json():
    text = "[-1, +2, 0x1F, 0o17, .5, 1e3, 1., true, False, null, ~, , '1', !!str 1]".replace(", ,", ', "",')

    values = from_yaml("x: " + text)["x"]

    assert values == [-1, 2, 31, 15, 0.5, 1000.0, 1.0, True, False, None, None, "", "1", "1"]


def test_json_and_a_bare_value_are_flows_too():
    assert flow_from_text(json.dumps(FLOW)) == FLOW
    assert flow_from_text("\n " + json.dumps(FLOW, indent="\t")) == FLOW
    assert flow_from_text("modules: []") == {"value": {"modules": []}}


@pytest.mark.parametrize(
    ("text", "problem", "place"),
    [
        ("a: [", "did not find expected node content", (2, 1)),
        ("a: 1\n b: 2", "mapping values are not allowed in this context", (2, 3)),
        ("a:\n\t- b", "found character that cannot start any token", (2, 1)),
        ("a: &x 1\nb: *x", r"\*x repeats another part of the text; write it out", (2, 4)),
        ("a: &a [*a]", r"\*a repeats another part", (1, 8)),
        ("[1]", "found no object", (1, 1)),
        ("", "found no object", (1, 1)),
        ("a: 1\n---\nb: 2", "a second document starts here", (2, 1)),
        ("a: 1\nb: 2\na: 3", "the key 'a' is there twice", (3, 1)),
        ("x:\n  1: one", 'this key is no text; write "1"', (2, 3)),
        ("? [a]\n: 1", "this key is no text", (1, 3)),
        (
            "content: !inline a.py",
            "the tag !inline is not supported; put a text that starts with ! in quotes",
            (1, 10),
        ),
        ("x: !!python/object/apply:os.system [ls]", "python/object/apply:os.system is not supported", (1, 4)),
        ("a: " + "[" * 300, "nested more than 200 levels deep", (1, 203)),
        ("a: 1\nb: é\x07", "a control character may only stand in double quotes", (2, 5)),
        ("a: \ud800", "surrogate", (1, 4)),
        ('a: "\\0"', "NUL", (1, 4)),
        ("a: .nan", ".nan is no number of JSON", (1, 4)),
        ("a: 1e999", "the number 1e999 is out of range", (1, 4)),
        ("a: " + "9" * 5000, "is out of range", (1, 4)),
    ],
)
def test_what_is_no_flow_is_refused_with_the_place(text, problem, place):
    with pytest.raises(BadText, match=problem) as caught:
        from_yaml(text)

    assert (caught.value.line, caught.value.column) == place
    assert caught.value.message.startswith(f"line {place[0]}, column {place[1]}: ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("summary: no steps", "value.modules is missing"),
        ("value: {modules: 3}", "value.modules is missing"),
        ("a: " + "x" * MAX_CHARS, "at most 10000000 fit"),
    ],
)
def test_what_describes_no_flow_is_refused(text, problem):
    with pytest.raises(BadText, match=problem):
        flow_from_text(text)


def test_a_text_that_would_unfold_into_billions_of_values_is_refused():
    laughs = "a: &a [ha, ha]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )

    with pytest.raises(BadText, match="line 2"):
        from_yaml(laughs)
