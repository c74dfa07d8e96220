"""Checking the arguments of a run against the schema of its form."""

import time

import pytest

from jobs.signatures import FUNCTION_CALL, infer_schema, validate_args

VARIANTS = {
    "type": "object",
    "oneOf": [
        {"type": "object", "title": "A", "properties": {"n": {"type": "integer"}}},
        {"type": "object", "title": "B", "properties": {"n": {"type": "string"}}},
    ],
}


def form(**properties) -> dict:
    return {"type": "object", "properties": properties, "required": []}


def messages(subschema: object, value: object) -> list[str]:
    return [problem.message for problem in validate_args(form(x=subschema), {"x": value})]


def test_arguments_that_fit_have_no_problems():
    code = "def main(a: int, b: list[str], c: smtp, d: datetime, e: bytes, f: Literal['p', 'q']): ..."
    args = {"a": 1, "b": ["x"], "c": "$res:u/me/mail", "d": "2024-01-31T08:30:00Z", "e": "YWJj", "f": "p"}

    assert validate_args(infer_schema("python3", code).schema, args) == []


def test_each_problem_names_its_field_and_place():
    schema = infer_schema("python3", "def main(a: int, b: list[str], c: str): ...").schema
    problems = validate_args(schema, {"a": "1", "b": ["x", 3]})

    assert [(p.field, p.path, p.message) for p in problems] == [
        ("a", ("a",), "Should be a whole number, not text."),
        ("b", ("b", 1), "Should be text, not a number."),
        ("c", ("c",), "This field is required."),
    ]


@pytest.mark.parametrize(
    ("subschema", "value"),
    [
        ({"type": "object", "format": "resource-smtp"}, "$res:u/me/mail"),
        ({"type": "object", "format": "resource-smtp"}, {"host": "a"}),
        ({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}, {"a": "$res:f/x/y"}),
        ({"type": "array", "items": {"type": "resource", "resourceType": "smtp"}}, ["$res:f/x/y", {}]),
        ({"type": "array", "items": {"type": "number"}}, "$var:u/me/numbers"),
        ({"type": "string", "pattern": "^[0-9]+$"}, "$var:u/me/secret"),
        ({"type": "string", "enum": ["a"]}, "$var:u/me/secret"),
        ({"type": "object"}, [1, 2]),
        ({"type": "object"}, "text"),
        ({"type": "any"}, 3),
        ({"type": ""}, 3),
        ({}, 3),
        (True, 3),
        ({"type": "integer"}, None),
        ({"type": "number"}, 3),
        ({"type": "integer", "default": FUNCTION_CALL}, FUNCTION_CALL),
        ({"type": "string", "format": "date"}, "31/01/2024"),
        ({"type": "string", "format": "made-up"}, "x"),
        ({"type": "string", "pattern": r"^(?<letters>\p{L}+)$"}, "été"),
        ({"type": "integer", "nullable": True}, None),
        (VARIANTS, {"label": "B", "n": "x"}),
    ],
)
def test_what_is_accepted(subschema, value):
    assert messages(subschema, value) == []


@pytest.mark.parametrize(
    ("subschema", "value", "message"),
    [
        ({"type": "integer"}, 1.5, "Should be a whole number, not a number."),
        ({"type": "integer"}, True, "Should be a whole number, not true or false."),
        ({"type": "integer"}, "$var:u/me/n", "Should be a whole number, not text."),
        ({"type": "object", "format": "resource-smtp"}, "text", "Should be an object, not text."),
        ({"type": "object", "format": "resource-smtp"}, "$res:", "Should be an object, not text."),
        ({"type": "array"}, {}, "Should be a list, not an object."),
        ({"type": "string", "enum": ["a", "b"]}, "c", "Should be one of a, b."),
        ({"type": "string", "pattern": "^a$"}, "b", "Does not match ^a$"),
        ({"type": "string", "pattern": "^a$", "customErrorMessage": "Only a."}, "b", "Only a."),
        (
            {"type": "string", "format": "date-time"},
            "soon",
            "Should be a date and time such as 2024-01-31T08:30:00Z.",
        ),
        ({"type": "string", "format": "date"}, "soon", "Should be a date such as 2024-01-31."),
        ({"type": "string", "format": "email"}, "me", "Should be an e-mail address."),
        ({"type": "string", "contentEncoding": "base64"}, "a", "Should be a file, or its content in base64."),
        ({"type": "integer", "min": 2}, 1, "Should be at least 2."),
        ({"type": "integer", "max": 2}, 3, "Should be at most 2."),
        ({"type": "integer", "minimum": 2}, 1, "Should be at least 2."),
        ({"type": "string", "minLength": 2}, "a", "Should have at least 2 characters."),
        ({"type": "array", "uniqueItems": True}, [{}, {}], "Should not have the same item twice."),
        ({"type": "object", "required": ["a"]}, {}, "Lacks a."),
        (VARIANTS, {"label": "A", "n": "x"}, "Should be a whole number, not text."),
        ({"type": "object", "properties": {}, "additionalProperties": False}, {"a": 1}, "Should not have a."),
        (False, 1, "Does not fit the rule None of its schema."),
    ],
)
def test_what_is_refused_and_why(subschema, value, message):
    assert messages(subschema, value) == [message]


def test_a_message_never_repeats_the_value():
    [problem] = validate_args(form(x={"type": "integer"}), {"x": "my secret"})

    assert "my secret" not in problem.message


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, form()])
def test_a_form_without_fields_takes_anything(schema):
    assert validate_args(schema, {"anything": [1]}) == []


@pytest.mark.parametrize("schema", [[], "text", 3, {"properties": []}, {"properties": "x"}])
def test_a_damaged_schema_is_a_problem_of_the_whole_form(schema):
    [problem] = validate_args(schema, {"x": 1})

    assert problem.field == ""


@pytest.mark.parametrize("args", [None, [], "text", 3])
def test_arguments_are_an_object(args):
    [problem] = validate_args(form(), args)

    assert problem.message.startswith("The arguments should be an object")


def deep(levels: int) -> dict:
    schema: dict = {}
    for _ in range(levels):
        schema = {"allOf": [schema]}
    return schema


@pytest.mark.parametrize(
    ("subschema", "value"),
    [
        ({"pattern": "("}, "x"),
        ({"pattern": 3}, "x"),
        ({"pattern": "(a|a)*$"}, "a" * 500 + "b"),
        ({"pattern": "(a+)+$"}, "a" * 500 + "b"),
        ({"$ref": "#/properties/x"}, 1),
        ({"$ref": "#/nowhere"}, 1),
        ({"$ref": "http://127.0.0.1:1/schema"}, 1),
        ({"$ref": 3}, 1),
        (deep(900), 1),
        ({"allOf": 3}, 1),
        ({"minimum": "a"}, 1),
        ({"enum": 3}, 1),
        ({"required": 3, "type": "object"}, {}),
        ({"properties": 3}, {}),
        ({"multipleOf": 0}, 1),
        (3, 1),
        ("text", 1),
    ],
)
def test_a_field_whose_schema_cannot_be_checked_is_a_problem_of_that_field(subschema, value):
    problems = validate_args(form(x=subschema, y={"type": "integer"}), {"x": value, "y": "z"})

    assert [problem.field for problem in problems] == ["x", "y"]


def test_references_that_double_at_each_step_stop_in_time():
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": {}}
    schema = form(x={"$ref": "#/$defs/d0"}) | {"$defs": definitions}
    started = time.process_time()

    [problem] = validate_args(schema, {"x": 1})

    assert "takes too long" in problem.message
    assert time.process_time() - started < 3


def test_the_number_of_problems_is_bounded():
    many = validate_args(form(x={"type": "array", "items": {"type": "integer"}}), {"x": ["a"] * 10_000})
    fields = validate_args(
        {"properties": {f"f{n}": {} for n in range(10_000)}, "required": [f"f{n}" for n in range(10_000)]}, {}
    )

    assert len(many) == 100
    assert len(fields) == 100
