"""PHP source to signature: what each type and default becomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.signatures import FUNCTION_CALL, Argument, infer_schema

TEXT = {"str": None}
ANY_OBJECT = {"object": {"name": None, "props": []}}
ENUMS = """
enum Suit: string { case Hearts = "h"; case Spades = 's'; }
enum Level: int { case Low = 1; case High = 2; }
enum Plain { case A; case B; }
"""


def arguments(code: str) -> dict[str, Argument]:
    inference = infer_schema("php", code)
    assert inference.problem is None
    return {arg.name: arg for arg in inference.args}


def only_argument(parameter: str) -> Argument:
    [arg] = arguments(f"<?php\n{ENUMS}\nfunction main({parameter}) {{ return 1; }}\n").values()
    return arg


@pytest.mark.parametrize(
    ("written", "typ"),
    [
        ("string", TEXT),
        ("int", "int"),
        ("float", "float"),
        ("bool", "bool"),
        ("BOOL", "bool"),
        ("array", {"list": TEXT}),
        ("iterable", {"list": TEXT}),
        ("object", ANY_OBJECT),
        ("stdClass", ANY_OBJECT),
        ("\\stdClass", ANY_OBJECT),
        ("DateTime", "datetime"),
        ("\\DateTimeImmutable", "datetime"),
        ("DateTimeInterface", "datetime"),
        ("mixed", "unknown"),
        ("callable", "unknown"),
        ("", "unknown"),
        ("Postgresql", {"resource": "postgresql"}),
        ("S3Object", {"resource": "s3_object"}),
        ("Acme\\MyApi", {"resource": "my_api"}),
        ("DynSelect_city", {"dynselect": "city"}),
        ("Suit", {"str": ["h", "s"]}),
        ("Level", "int"),
        ("Plain", {"str": ["A", "B"]}),
        ("int|string", "int"),
        ("null|float|string", "float"),
        ("Countable&Traversable", "unknown"),
    ],
)
def test_a_type_says_what_the_form_shows(written, typ):
    assert only_argument(f"{written} $x").typ == typ


@pytest.mark.parametrize("written", ["?int", "int|null", "null|int"])
def test_a_type_that_admits_null_is_not_required(written):
    arg = only_argument(f"{written} $x")

    assert (arg.typ, arg.has_default, arg.has_code_default) == ("int", True, False)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("3", 3),
        ("-1_000", -1000),
        ("0x1F", 31),
        ("017", 15),
        ("0b11", 3),
        ("1.5e3", 1500.0),
        ("TRUE", True),
        ("null", None),
        ("'it\\'s \\n'", "it's \\n"),
        ('"a\\n\\x41\\u{e9}\\$"', "a\nAé$"),
        ("[1, 2]", [1, 2]),
        ("array('a')", ["a"]),
        ("['k' => 1, 2 => [true]]", {"k": 1, "2": [True]}),
        ("[]", []),
        ("Suit::Spades", "s"),
        ("Plain::B", "B"),
        ("time()", FUNCTION_CALL),
        ("PHP_INT_MAX", FUNCTION_CALL),
        ("9223372036854775807", FUNCTION_CALL),
        ("1e999", FUNCTION_CALL),
        ('"a $b"', FUNCTION_CALL),
        ('"\\xff"', FUNCTION_CALL),
        ('"\\0"', FUNCTION_CALL),
        ("[...$x]", FUNCTION_CALL),
        ("new Foo()", FUNCTION_CALL),
    ],
)
def test_a_default_is_shown_as_it_is_or_left_to_php(written, value):
    arg = only_argument(f"$x = {written}")

    assert arg.default == value
    assert type(arg.default) is type(value)
    assert arg.has_default
    assert arg.has_code_default


@pytest.mark.parametrize(
    ("parameter", "typ"),
    [
        ("array $x = [1, 2]", {"list": "int"}),
        ("array $x = ['a' => 1]", ANY_OBJECT),
        ("array $x = []", {"list": TEXT}),
        ("$x = 1.5", "float"),
        ("$x = false", "bool"),
        ("$x = 'a'", TEXT),
        ("$x = time()", "unknown"),
        ("int ...$x", {"list": "int"}),
    ],
)
def test_where_the_type_leaves_it_open_the_default_tells(parameter, typ):
    assert only_argument(parameter).typ == typ


def test_required_are_those_without_a_default():
    schema = infer_schema(
        "php", "<?php function main(string $x, int $n = 3, ?float $f = null, object $o, int ...$r) {}"
    ).schema

    assert schema["required"] == ["x", "o"]
    assert schema["properties"]["n"]["default"] == 3


@pytest.mark.parametrize(
    "code",
    [
        "<?php namespace A\\B; function main(int $x) {}",
        "<?php namespace A { function main(int $x) {} }",
        "<?php #[Pure] function MAIN(int $x) {}",
        "<p>text</p><?php function main(int $x) {} ?>",
        "<?php function &main(int &$x) {}",
        "<?php class A { function main($no) {} } function main(int $x) {}",
    ],
)
def test_main_is_found_wherever_php_would_find_it(code):
    assert list(arguments(code)) == ["x"]


def test_a_file_without_main_is_a_library():
    assert infer_schema("php", "<?php\nfunction helper($n) {}").auto_kind == "lib"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("<?php\nfunction main(string $x,", 2),
        ("<?php\nfunction main(int $x = ) {\n}", 2),
        ("<?php\n\nfunction main($x) { $y = ", 3),
        ("<?php\n\nfunction main($x) {\n  $y = 1;\n", 3),
        ("function main($x) {}", 1),
        ("<?php\n\nfunction main(\ud800", 3),
    ],
)
def test_unfinished_code_is_a_problem_at_its_line(code, line):
    problem = infer_schema("php", code).problem

    assert problem is not None
    assert problem.line == line
    assert problem.message.endswith(".")


def test_a_slip_inside_a_body_leaves_the_form_as_it_is():
    assert list(arguments("<?php\nfunction main($x) {\n  $y = ;\n}\n")) == ["x"]


def test_line_endings_do_not_matter():
    code = "<?php\n\nfunction main(\n  string $x = 'a',\n  int $y = 2\n) {\n}\n"

    assert infer_schema("php", code.replace("\n", "\r\n")) == infer_schema("php", code)


PIECES = (
    "<?php|?>|function main(|$x|string|,|)|{|}|\n|\r\n|=|[|=>|]|'|\"|\\|enum E: string {|case A = 'a';|::|?|null|&|...|"
    "1|-|0x|0b2|09|1e9999|//|/*|\x00|\ufeff|\ud800|é|namespace A;|<<<A"
)
pieces = st.sampled_from(PIECES.split("|"))


@given(
    st.text()
    | st.lists(pieces, max_size=30).map(" ".join)
    | st.text().map("<?php function main($x = {}".format)
)
def test_no_text_raises(code):
    inference = infer_schema("php", code)

    assert inference.problem is None or inference.problem.line >= 1
