"""What holds for every source, found by generated ones."""

import copy
import json
import keyword
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from jobs.signatures import PARSERS, infer_schema, validate_args
from jobs.signatures.bash import positional_order

languages = st.sampled_from([*PARSERS, "unknown"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

# Text made of the pieces that mean something to a parser finds more than letters do.
pieces = st.sampled_from(
    [
        "def main(",
        "async ",
        "x",
        "y",
        ": int",
        "=",
        "1",
        "-",
        "None",
        "*",
        "**",
        "/",
        ",",
        ")",
        ":",
        "\n",
        "\r\n",
        "    ",
        "...",
        '"',
        "'",
        '"""',
        "Args:\n",
        "[",
        "]",
        "{",
        "}",
        "List[",
        "Optional[",
        "class E(Enum):\n",
        "\x00",
        "\ufeff",
        "$1",
        "${2:-",
        "}",
        "<<EOF\n",
        "EOF\n",
        "local ",
        "f() {\n",
        "$(",
        "`",
        "\\",
        "#",
        ";",
        "\ud800",
        "é",
        "|",
    ]
)
sources = st.text() | st.lists(pieces, max_size=30).map("".join)

names = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)
plain = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=10)
# Type -> annotation in Python, and the values a default of that type can have.
python_types: list[tuple[str, Any, st.SearchStrategy[Any]]] = [
    ("int", "int", st.integers(-(2**53) + 1, 2**53 - 1)),
    ("float", "float", st.floats(allow_nan=False, allow_infinity=False)),
    ("bool", "bool", st.booleans()),
    ("str", {"str": None}, plain),
    ("Literal['a', 'b']", {"str": ["a", "b"]}, st.sampled_from(["a", "b"])),
    ("List[int]", {"list": "int"}, st.lists(st.integers(-9, 9), max_size=3)),
    ("dict", {"object": {"name": None, "props": []}}, st.dictionaries(plain, st.integers(0, 9), max_size=3)),
    ("smtp", {"resource": "smtp"}, st.none()),
]
parameters = st.sampled_from(python_types).flatmap(
    lambda kind: st.tuples(st.just(kind[0]), st.just(kind[1]), st.none() | st.tuples(kind[2]))
)


def assert_is_a_schema(schema: dict[str, Any]) -> None:
    # "resource", the type of the items in a list of resources, is the platform's own word.
    text = json.dumps(schema).replace('"type": "resource"', '"type": "object"')
    Draft202012Validator.check_schema(json.loads(text))


@given(language=languages, code=sources)
def test_no_source_raises_and_every_schema_is_json_schema(language, code):
    inference = infer_schema(language, code)

    assert_is_a_schema(inference.schema)
    assert (
        inference.schema["order"] == list(inference.schema["properties"]) == [a.name for a in inference.args]
    )
    assert set(inference.schema["required"]) <= set(inference.schema["properties"])
    if inference.problem is not None:
        assert inference.args == ()
        assert inference.problem.line >= 1
        assert inference.problem.column >= 1


@given(language=languages, code=sources)
def test_reading_the_same_source_again_changes_nothing(language, code):
    first = infer_schema(language, code).schema

    assert infer_schema(language, code, previous=copy.deepcopy(first)).schema == first


@given(
    language=st.sampled_from(list(PARSERS)),
    code=sources,
    previous=st.dictionaries(st.text(max_size=5), json_values) | st.none(),
    old=json_values,
)
def test_no_previous_schema_breaks_the_next_one(language, code, previous, old):
    hostile = (previous or {}) | {
        "properties": {"x": old, "y": {"type": old, "enum": old, "properties": old}}
    }

    schema = infer_schema(language, code, previous=hostile).schema

    assert_is_a_schema(schema)
    assert infer_schema(language, code, previous=schema).schema == schema


@given(st.dictionaries(names, parameters, max_size=6))
def test_a_written_python_signature_is_read_back(signature):
    words = [
        f"{name}: {kind}" + (f" = {value[0]!r}" if value else "")
        for name, (kind, _, value) in signature.items()
    ]

    inference = infer_schema(
        "python3", f"def main(*, {', '.join(words)}): ..." if words else "def main(): ..."
    )

    assert inference.problem is None
    assert {arg.name: (arg.typ, arg.default, arg.has_default) for arg in inference.args} == {
        name: (typ, value[0] if value else None, value is not None)
        for name, (_, typ, value) in signature.items()
    }


@given(
    st.lists(
        st.tuples(names, st.none() | st.text("abc XYZ.:/-_", max_size=8)), unique_by=lambda pair: pair[0]
    )
)
def test_a_written_bash_signature_is_read_back(signature):
    lines = [
        f'{name}="${{{position}}}"' if default is None else f'{name}="${{{position}:-{default}}}"'
        for position, (name, default) in enumerate(signature, start=1)
    ]

    assert positional_order("\n".join(reversed(lines))) == signature


keywords = st.sampled_from(
    [
        "type",
        "enum",
        "pattern",
        "items",
        "properties",
        "required",
        "$ref",
        "allOf",
        "oneOf",
        "format",
        "min",
        "minimum",
        "additionalProperties",
        "uniqueItems",
        "contentEncoding",
        "const",
        "not",
        "if",
        "$dynamicRef",
        "patternProperties",
    ]
)
hostile_values = json_values | st.sampled_from(
    ["#", "#/properties/x", "string", "array", "object", "(", "date-time"]
)


@given(
    schema=json_values
    | st.dictionaries(keywords, hostile_values | st.dictionaries(keywords, hostile_values)),
    args=json_values,
)
def test_no_schema_or_arguments_make_validation_raise(schema, args):
    validate_args(schema, args)
    validate_args({"properties": {"x": schema}}, {"x": args})
    for problem in validate_args({"properties": {"x": schema}, "required": ["x"]}, {"x": args}):
        assert problem.message
