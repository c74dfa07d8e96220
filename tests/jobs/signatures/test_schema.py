"""Signature to JSON Schema, and what survives a new reading of the source."""

import copy
import json

import pytest
from jsonschema import Draft202012Validator

from jobs.signatures import infer_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def property_of(parameter: str, previous: dict | None = None) -> dict:
    schema = None if previous is None else {"properties": {"x": previous}}
    return infer_schema("python3", f"def main({parameter}): ...", previous=schema).schema["properties"]["x"]


def test_the_schema_has_the_keys_in_their_usual_order():
    schema = infer_schema("python3", 'def main(b: int, a: str = "x"): ...').schema

    assert json.dumps(schema) == json.dumps(
        {
            "$schema": DIALECT,
            "type": "object",
            "order": ["b", "a"],
            "properties": {
                "b": {"type": "integer", "description": "", "default": None},
                "a": {"type": "string", "description": "", "default": "x", "originalType": "string"},
            },
            "required": ["b"],
        }
    )


def test_an_unknown_language_has_an_empty_schema_and_says_so():
    inference = infer_schema("cobol", "whatever")

    assert not inference.is_supported
    assert inference.problem is None
    assert inference.schema == {
        "$schema": DIALECT,
        "type": "object",
        "order": [],
        "properties": {},
        "required": [],
    }


@pytest.mark.parametrize(
    ("annotation", "keywords"),
    [
        ("int", {"type": "integer"}),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("str", {"type": "string", "originalType": "string"}),
        ('Literal["a"]', {"type": "string", "originalType": "enum", "enum": ["a"]}),
        ("bytes", {"type": "string", "contentEncoding": "base64", "originalType": "bytes"}),
        ("datetime", {"type": "string", "format": "date-time"}),
        ("date", {"type": "string", "format": "date"}),
        ("Sql", {"type": "string", "format": "sql"}),
        ("list[int]", {"type": "array", "items": {"type": "number"}, "originalType": "number[]"}),
        ("list[float]", {"type": "array", "items": {"type": "number"}, "originalType": "number[]"}),
        ("list[str]", {"type": "array", "items": {"type": "string"}, "originalType": "string[]"}),
        (
            'list[Literal["a"]]',
            {"type": "array", "items": {"type": "string", "enum": ["a"]}, "originalType": "enum[]"},
        ),
        (
            "list[bytes]",
            {
                "type": "array",
                "items": {"type": "string", "contentEncoding": "base64"},
                "originalType": "bytes[]",
            },
        ),
        (
            "list[smtp]",
            {
                "type": "array",
                "items": {"type": "resource", "resourceType": "smtp"},
                "originalType": "resource[]",
            },
        ),
        ("list[dict]", {"type": "array", "items": {"type": "object"}, "originalType": "record[]"}),
        ("list[bool]", {"type": "array", "items": {"type": "object"}, "originalType": "object[]"}),
        ("dict", {"type": "object", "properties": {}}),
        ("smtp", {"type": "object", "format": "resource-smtp"}),
        ("wmill.S3Object", {"type": "object", "format": "resource-s3_object"}),
        ("DynSelect_city", {"type": "object", "format": "dynselect-city"}),
        ("dict[str, int]", {"type": "object"}),
    ],
)
def test_each_type_has_its_keywords(annotation, keywords):
    assert property_of(f"x: {annotation}") == {"description": "", "default": None, **keywords}


def test_a_dataclass_is_an_object_with_its_fields():
    code = "@dataclass\nclass Point:\n    x: int\n    name: str\ndef main(p: Point, ps: list[Point]): ..."
    properties = infer_schema("python3", code).schema["properties"]
    fields = {"x": {"type": "integer"}, "name": {"type": "string", "originalType": "string"}}

    assert properties["p"] == {
        "type": "object",
        "description": "",
        "default": None,
        "format": "resource-Point",
        "properties": fields,
    }
    assert properties["ps"]["items"] == {"type": "object", "properties": fields}


@pytest.mark.parametrize(
    ("parameter", "edited"),
    [
        ("x", {"description": "What it is"}),
        (
            "x: int",
            {"type": "integer", "title": "X", "placeholder": "1", "showExpr": "fields.y", "nullable": True},
        ),
        ("x: str", {"type": "string", "pattern": "^a", "customErrorMessage": "no", "password": True}),
        ("x: str", {"type": "string", "originalType": "string", "enum": ["a", "b"], "format": "uri"}),
        ("x: str", {"type": "string", "pattern": r"(?<year>\p{L})"}),
        ("x: int", {"type": "integer", "min": 1, "max": 9, "currency": "EUR", "currencyLocale": "fr-FR"}),
        ("x: float", {"type": "integer", "min": 1, "max": 9}),
        ("x: list[str]", {"type": "array", "minItems": 1, "multiselect": True}),
        ("x: smtp", {"type": "object", "description": "Mail server"}),
    ],
)
def test_what_the_author_edited_survives(parameter, edited):
    new = property_of(parameter, edited)

    assert new == new | {key: value for key, value in edited.items() if key not in ("type", "originalType")}


@pytest.mark.parametrize(
    ("parameter", "before"),
    [
        ("x: str", {"type": "string", "originalType": "enum", "enum": ["a"]}),
        ("x: str", {"type": "string", "format": "date", "originalType": "date"}),
        ("x: int", {"type": "string", "pattern": "^a", "enum": ["a"], "originalType": "string"}),
        ("x: str", {"type": "integer", "min": 1, "currency": "EUR"}),
        ("x: str", {"type": "object", "format": "resource-smtp"}),
        ("x: str", {"type": "string", "default": "old"}),
        ("x: str", {"enum": "hostile", "pattern": 3, "title": ["a"], "description": 7}),
        ("x: str", {"type": "string", "enum": {}}),
    ],
)
def test_what_no_longer_fits_the_code_goes(parameter, before):
    assert property_of(parameter, before) == property_of(parameter)


def test_an_argument_of_unknown_type_keeps_the_shape_it_was_given():
    shape = {"type": "array", "items": {"type": "string"}, "originalType": "string[]"}

    assert property_of("x", shape) == {"description": "", "default": None, **shape}
    assert property_of("x=None", shape | {"default": ["old"]}) == {
        "description": "",
        "default": None,
        **shape,
    }


def test_edits_inside_lists_and_objects_survive():
    code = "@dataclass\nclass P:\n    n: str\ndef main(p: P, tags: list[str]): ..."
    previous = infer_schema("python3", code).schema
    previous["properties"]["p"]["properties"]["n"] |= {"description": "Its name", "pattern": "^[a-z]+$"}
    previous["properties"]["tags"]["items"]["enum"] = ["a", "b"]

    assert infer_schema("python3", code, previous=previous).schema == previous


def test_a_description_comes_from_the_docstring_until_the_author_writes_one():
    code = 'def main(x: int):\n    """Do.\n\n    Args:\n        x: from the code\n    """'
    first = infer_schema("python3", code).schema
    first["properties"]["x"]["description"] = "by hand"

    assert infer_schema("python3", code).schema["properties"]["x"]["description"] == "from the code"
    assert infer_schema("python3", code, previous=first).schema["properties"]["x"]["description"] == "by hand"


def test_removed_arguments_go_and_the_order_is_that_of_the_code():
    first = infer_schema("python3", "def main(a: int, b: int, c: int): ...").schema
    second = infer_schema("python3", "def main(c: int, a: int = 1): ...", previous=first).schema

    assert second["order"] == list(second["properties"]) == ["c", "a"]
    assert second["required"] == ["c"]


def test_other_keys_of_the_schema_are_kept_and_the_previous_one_is_not_changed():
    previous = {"x-form": {"columns": 2}, "properties": {"x": {"description": "d"}}, "required": ["gone"]}
    before = copy.deepcopy(previous)

    schema = infer_schema("python3", "def main(x: int): ...", previous=previous).schema

    assert schema["x-form"] == {"columns": 2}
    assert schema["required"] == ["x"]
    assert previous == before


@pytest.mark.parametrize(
    "previous", [{"properties": 3}, {"properties": {"x": 3}}, [], "text", {"a": {"$ref": 3}}]
)
def test_a_damaged_previous_schema_is_survived(previous):
    schema = infer_schema("python3", "def main(x: int): ...", previous=previous).schema

    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["x"] == property_of("x: int")


def test_the_signature_is_available_in_the_shape_api_clients_know():
    good = infer_schema("python3", "def main(x: int = 1, *a): ...").as_json()
    bad = infer_schema("python3", "def main(").as_json()

    assert good == {
        "type": "Valid",
        "error": "",
        "star_args": True,
        "star_kwargs": False,
        "args": [{"name": "x", "typ": "int", "otyp": None, "default": 1, "has_default": True, "oidx": None}],
        "auto_kind": None,
        "has_preprocessor": False,
    }
    assert (bad["type"], bad["error"]) == ("Invalid", "'(' was never closed.")
