"""Go source to signature: what each type becomes."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.signatures import Argument, go, infer_schema

TEXT = {"str": None}


def arguments(code: str) -> dict[str, Argument]:
    inference = infer_schema("go", code)
    assert inference.problem is None
    return {arg.name: arg for arg in inference.args}


def typ_of(written: str, *, before: str = "") -> object:
    return arguments(f"package inner\n{before}\nfunc main(x {written}) (any, error) {{ return x, nil }}\n")[
        "x"
    ].typ


def an_object(**props: object) -> object:
    return {"object": {"name": None, "props": [{"key": key, "typ": typ} for key, typ in props.items()]}}


@pytest.mark.parametrize(
    ("written", "typ"),
    [
        ("string", TEXT),
        ("int", "int"),
        ("int64", "int"),
        ("uint8", "int"),
        ("float64", "float"),
        ("float32", "float"),
        ("bool", "bool"),
        ("*int", "int"),
        ("[]string", {"list": TEXT}),
        ("[]float64", {"list": "float"}),
        ("[3]int", {"list": "int"}),
        ("[][]int", {"list": {"list": "int"}}),
        ("[]byte", "bytes"),
        ("time.Time", "datetime"),
        ("interface{}", "unknown"),
        ("any", "unknown"),
        ("map[string]interface{}", an_object()),
        ("map[string]int", an_object()),
        ("func()", "unknown"),
        ("chan int", "unknown"),
        ("other.Type", "unknown"),
        ("Undeclared", "unknown"),
        ("struct{}", an_object()),
        ('struct{ Name string `json:"name"`; N int }', an_object(name=TEXT, N="int")),
        ('[]struct{ N int `json:"n"` }', {"list": an_object(n="int")}),
    ],
)
def test_a_type_says_what_the_form_shows(written, typ):
    assert typ_of(written) == typ


def test_a_declared_struct_is_read_as_json_reads_it():
    before = """
type Base struct { ID int `json:"id"` }
type Alias = Address
type Address struct {
    Base
    Street string `json:"street,omitempty"`
    X, Y float64
    Secret string `json:"-"`
    hidden bool
    Tags []string "json:\\"tags\\""
}
"""

    assert typ_of("Alias", before=before) == an_object(
        id="int", street=TEXT, X="float", Y="float", tags={"list": TEXT}
    )


def test_a_struct_of_its_own_type_ends():
    assert typ_of("Node", before="type Node struct { Next *Node; N int }") == an_object(
        Next="unknown", N="int"
    )


def test_structs_that_use_each_other_twice_do_not_explode():
    before = "\n".join(f"type T{n} struct {{ A T{n + 1}; B T{n + 1} }}" for n in range(60))

    began = time.process_time()
    typ_of("T0", before=before)

    assert time.process_time() - began < 2


def test_parameters_keep_their_order_and_share_types():
    found = arguments("package inner\nfunc main(a, b string, _ int, c ...int) error { return nil }")

    assert [(arg.name, arg.typ, arg.has_default) for arg in found.values()] == [
        ("a", TEXT, False),
        ("b", TEXT, False),
        ("c", {"list": "int"}, True),
    ]


def test_a_pointer_may_be_left_out():
    schema = infer_schema("go", "package inner\nfunc main(p *string, s string) {}").schema

    assert schema["required"] == ["s"]


def test_another_function_can_be_the_entrypoint():
    code = "package inner\nfunc main() {}\nfunc other(n int) {}"

    assert [arg.name for arg in infer_schema("go", code, entrypoint="other").args] == ["n"]


def test_a_file_without_main_is_a_library():
    assert infer_schema("go", "package inner\nfunc helper(n int) {}").auto_kind == "lib"


def test_methods_named_main_do_not_count():
    code = "package inner\ntype T struct{}\nfunc (t T) main(x int) {}\nfunc main(y int) {}"

    assert list(arguments(code)) == ["y"]


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("package inner\n\nfunc main(x string, ", 3),
        ("package inner\n\nfunc main(x string {\n\treturn 1\n}\n", 3),
        ("package inner\n\nfunc main(x string) (int, error) {\n\ty := 3\n", 3),
        ("package inner\n\nfunc main(x string) (int, error) {\n\ty := ", 3),
        ("package inner\n\nfunc main(x int)\n", 3),
        ("package inner\nfunc main(x \ud800) {}", 2),
    ],
)
def test_unfinished_code_is_a_problem_at_its_line(code, line):
    problem = infer_schema("go", code).problem

    assert problem is not None
    assert problem.line == line
    assert problem.message.endswith(".")


def test_a_slip_inside_a_body_leaves_the_form_as_it_is():
    assert list(arguments("package inner\nfunc main(x string) {\n\ty := \n}\n")) == ["x"]


def test_columns_count_characters():
    problem = infer_schema("go", "package inner\n/* é */ func main(x string, ").problem

    assert problem is not None
    assert (problem.line, problem.column) == (2, 18)


def test_line_endings_do_not_matter():
    code = (
        'package inner\n\ntype T struct {\n\tA string `json:"a"`\n}\n\nfunc main(\n\tx T,\n\ty int,\n) {\n}\n'
    )

    assert infer_schema("go", code.replace("\n", "\r\n")) == infer_schema("go", code)
    assert infer_schema("go", "\ufeff" + code) == infer_schema("go", code)


def test_a_very_long_source_is_refused():
    problem = infer_schema("go", "x" * 1_000_001).problem

    assert problem is not None
    assert "longer than 1,000,000 characters" in problem.message


def test_imports_are_told_once_in_their_order():
    code = 'package inner\nimport "fmt"\nimport (\n\ta "github.com/x/y"\n\t_ `example.org/z/v2`\n\t"fmt"\n)\n'

    assert go.imported_packages(code) == ["fmt", "github.com/x/y", "example.org/z/v2"]


PIECES = (
    'package inner|func main(|x|string|,|)|{|}|\n|\r\n|type T struct|`json:"a"`|[]|*|map[string]|interface{}|...|=|'
    '"|`|//|/*|import|(|\x00|\ufeff|\ud800|é|chan|func|[T any]|T'
)
pieces = st.sampled_from(PIECES.split("|"))


@given(st.text() | st.lists(pieces, max_size=30).map(" ".join))
def test_no_text_raises(code):
    inference = infer_schema("go", code)

    assert inference.problem is None or inference.problem.line >= 1
    go.imported_packages(code)
