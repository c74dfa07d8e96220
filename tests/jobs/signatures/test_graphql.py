"""The arguments of GraphQL scripts: the API, and the variables of the operations."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.signatures import infer_schema

TEXT = {"str": None}


def arguments(code: str) -> dict[str, Any]:
    return {arg.name: arg.typ for arg in infer_schema("graphql", code).args if arg.name != "api"}


def test_variables_become_arguments_after_the_api():
    code = "query($id: ID!, $name: String, $n: Int = 3, $x: Float!, $on: Boolean!, $tags: [String!]!) { a }"
    schema = infer_schema("graphql", code).schema

    assert schema["order"] == ["api", "id", "name", "n", "x", "on", "tags"]
    assert schema["properties"]["api"]["format"] == "resource-graphql"
    assert schema["required"] == ["api", "id", "x", "on", "tags"]
    assert schema["properties"]["n"]["default"] == 3
    assert arguments(code) == {
        "id": TEXT,
        "name": TEXT,
        "n": "int",
        "x": "float",
        "on": "bool",
        "tags": {"list": TEXT},
    }


@pytest.mark.parametrize(
    ("variable", "typ", "default"),
    [
        ("$a: Input", "unknown", None),
        ("$a: Input = {b: [1, null]}", {"object": {"name": None, "props": []}}, {"b": [1, None]}),
        ("$a: Mood = HAPPY", TEXT, "HAPPY"),
        ("$a: [Int!] = [1, 2]", {"list": "int"}, [1, 2]),
        ("$a: [Input!]", {"list": "unknown"}, None),
        ("$a: Int = null", "int", None),
    ],
)
def test_types_of_the_servers_own_are_told_by_their_default(variable, typ, default):
    [_, arg] = infer_schema("graphql", f"mutation({variable}) {{ a }}").args

    assert (arg.typ, arg.default, arg.has_default) == (typ, default, True)


def test_the_variables_of_all_operations_are_collected_once():
    assert arguments("query A($x: Int, $y: Int) {a} query B($y: Int, $z: ID) {b}") == {
        "x": "int",
        "y": "int",
        "z": TEXT,
    }


def test_a_document_that_cannot_be_read_says_where():
    problem = infer_schema("graphql", "query {\n  a(b: $) }").problem

    assert problem is not None
    assert problem.line == 2
    assert "Expected" in problem.message


def test_an_empty_script_asks_for_the_api():
    assert infer_schema("graphql", "  \n").schema["order"] == ["api"]


pieces = st.sampled_from(
    ["query", "mutation ", "(", ")", "{", "}", "$a", ":", "Int", "!", "[", "]", "=", "1", '"', '"""', "#", "\n", "\r\n",
     "a",      "...", "on", "@x", "1e999", "\ud800", "\x00", "&", "null"]
)  # fmt: skip


@given(st.text() | st.lists(pieces, max_size=30).map(" ".join))
def test_no_text_raises(code):
    infer_schema("graphql", code)


def test_a_deeply_nested_document_is_a_problem_not_a_crash():
    assert infer_schema("graphql", "{a" * 100_000).problem is not None
    assert (
        infer_schema("graphql", "query($a: I = " + "[" * 20_000 + "]" * 20_000 + ") {a}").problem is not None
    )
