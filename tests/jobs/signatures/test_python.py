"""Python source to signature: what each annotation and default becomes."""

import time

import pytest

from jobs.signatures import FUNCTION_CALL, Argument, infer_schema

ANY_OBJECT = {"object": {"name": None, "props": []}}


def arguments(code: str) -> dict[str, Argument]:
    inference = infer_schema("python3", code)
    assert inference.problem is None
    return {arg.name: arg for arg in inference.args}


def only_argument(parameter: str, *, before: str = "") -> Argument:
    [arg] = arguments(f"{before}\ndef main({parameter}):\n    pass\n").values()
    return arg


@pytest.mark.parametrize(
    ("annotation", "typ"),
    [
        ("int", "int"),
        ("float", "float"),
        ("bool", "bool"),
        ("str", {"str": None}),
        ("bytes", "bytes"),
        ("datetime", "datetime"),
        ("datetime.datetime", "datetime"),
        ("date", "date"),
        ("datetime.date", "date"),
        ("Sql", "sql"),
        ("list", {"list": {"str": None}}),
        ("List", {"list": {"str": None}}),
        ("list[int]", {"list": "int"}),
        ("typing.List[float]", {"list": "float"}),
        ("List[bytes]", {"list": "bytes"}),
        ("List[List[int]]", {"list": {"list": "int"}}),
        ("Sequence[str]", {"list": {"str": None}}),
        ("List[postgresql]", {"list": {"resource": "postgresql"}}),
        ("List[dict]", {"list": ANY_OBJECT}),
        ("List[Dict[str, int]]", {"list": ANY_OBJECT}),
        ('List[Literal["a", "b"]]', {"list": {"str": ["a", "b"]}}),
        ("dict", ANY_OBJECT),
        ("Dict[str, int]", "unknown"),
        ("dict[str, int]", "unknown"),
        ('Literal["a", "b"]', {"str": ["a", "b"]}),
        ("Literal[1, 2]", {"str": None}),
        ("Any", {"resource": "Any"}),
        ("postgresql", {"resource": "postgresql"}),
        ("c_openai", {"resource": "c_openai"}),
        ("S3Object", {"resource": "s3_object"}),
        ("wmill.S3Object", {"resource": "s3_object"}),
        ("wmill.PgDatabase", {"resource": "PgDatabase"}),
        ("DynSelect_city", {"dynselect": "city"}),
        ("DynMultiselect_city", {"dynmultiselect": "city"}),
        ("Union[int, str]", "int"),
        ("int | str", "int"),
        ("Annotated[int, 'positive']", "int"),
        ("pandas.DataFrame", "unknown"),
        ("tuple", "unknown"),
        ("'int'", "int"),
        ("'postgresql'", {"resource": "postgresql"}),
        ("'not an ( annotation'", "unknown"),
        ("3", "unknown"),
        ("make_type()", "unknown"),
    ],
)
def test_an_annotation_says_the_type(annotation, typ):
    assert only_argument(f"x: {annotation}").typ == typ


@pytest.mark.parametrize(
    "annotation",
    ["Optional[int]", "typing.Optional[int]", "int | None", "None | int", "Union[int, None]", "'int | None'"],
)
def test_a_type_that_admits_none_is_not_required_though_the_code_has_no_default(annotation):
    arg = only_argument(f"x: {annotation}")

    assert arg.typ == "int"
    assert arg.has_default
    assert not arg.has_code_default


@pytest.mark.parametrize(
    ("default", "typ", "value"),
    [
        ("1", "int", 1),
        ("-1", "int", -1),
        ("+1.5", "float", 1.5),
        ("60 * 60", "int", 3600),
        ("True", "bool", True),
        ("not True", "bool", False),
        ("'text'", {"str": None}, "text"),
        ("'a' 'b'", {"str": None}, "ab"),
        ("b'abc'", "bytes", "YWJj"),
        ("None", "unknown", None),
        ("[]", {"list": {"str": None}}, []),
        ("[-1, 2]", {"list": "int"}, [-1, 2]),
        (
            "[{'a': [1]}]",
            {"list": {"object": {"name": None, "props": [{"key": "a", "typ": {"list": "int"}}]}}},
            [{"a": [1]}],
        ),
        ("{}", ANY_OBJECT, {}),
        ("{'a': 1}", {"object": {"name": None, "props": [{"key": "a", "typ": "int"}]}}, {"a": 1}),
        ("datetime.now()", "unknown", FUNCTION_CALL),
        ("date(2024, 1, 31)", "unknown", FUNCTION_CALL),
    ],
)
def test_a_default_says_the_type_when_there_is_no_annotation(default, typ, value):
    arg = only_argument(f"x={default}")

    assert (arg.typ, arg.default, arg.has_default, arg.has_code_default) == (typ, value, True, True)


@pytest.mark.parametrize(
    "default",
    [
        "SOME_NAME",
        "module.NAME",
        "lambda: 1",
        "f'{x}'",
        "(1, 2)",
        "{1, 2}",
        "{1: 2}",
        "{**other}",
        "[f()]",
        "...",
        "3j",
        "1e400",
        "2 ** 100",
        "99999999999999999999",
        "'\\ud800'",
        "'nul\\x00'",
        "['nul\\x00']",
    ],
)
def test_a_default_json_cannot_hold_is_left_to_the_code(default):
    arg = only_argument(f"x: str = {default}")

    assert arg.default is None
    assert arg.has_default


def test_the_annotation_wins_over_the_default_and_an_open_one_is_completed_by_it():
    args = arguments(
        "def main(a: float = 1, b: list = [1], c: Dict[str, int] = {'k': 1}, d: str = None): ..."
    )

    assert args["a"].typ == "float"
    assert args["b"].typ == {"list": "int"}
    assert args["c"].typ == {"object": {"name": None, "props": [{"key": "k", "typ": "int"}]}}
    assert args["d"].typ == {"str": None}


ENUMS = """
import enum
from enum import Enum, IntEnum, StrEnum, auto

class Color(Enum):
    '''What to paint it.'''
    RED = "red"
    GREEN: str = "green"
    _ignore_ = ["x"]

class Level(str, enum.Enum):
    LOW = "low"

class Size(StrEnum):
    S = auto()
    M = "medium"

class Number(IntEnum):
    ONE = 1
"""


@pytest.mark.parametrize(
    ("parameter", "typ", "default"),
    [
        ("x: Color", {"str": ["red", "green"]}, None),
        ("x: Color = Color.GREEN", {"str": ["red", "green"]}, "green"),
        ("x: Color = Color.GREEN.value", {"str": ["red", "green"]}, "green"),
        ("x: Color = Color('red')", {"str": ["red", "green"]}, FUNCTION_CALL),
        ("x=Color.RED", {"str": None}, "red"),
        ("x: Level = Level.LOW", {"str": ["low"]}, "low"),
        ("x: Size = Size.S", {"str": ["s", "medium"]}, "s"),
        ("x: Number = Number.ONE", "int", 1),
        ("x: Optional[Color] = None", {"str": ["red", "green"]}, None),
        ("x: List[Color] = [Color.RED]", {"list": {"str": ["red", "green"]}}, ["red"]),
    ],
)
def test_an_enum_of_the_module_offers_its_values(parameter, typ, default):
    arg = only_argument(parameter, before=ENUMS)

    assert (arg.typ, arg.default) == (typ, default)


def test_a_plain_class_or_typed_dict_names_a_resource_type():
    before = "class postgresql(TypedDict):\n    host: str\nclass smtp:\n    port: int\nmysql = dict\n"

    assert only_argument("x: postgresql", before=before).typ == {"resource": "postgresql"}
    assert only_argument("x: smtp", before=before).typ == {"resource": "smtp"}
    assert only_argument("x: mysql", before=before).typ == {"resource": "mysql"}


def test_dataclasses_and_pydantic_models_show_their_fields():
    before = """
import dataclasses
from typing import ClassVar
from pydantic import BaseModel

@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    label: Literal["a", "b"] = "a"
    origin: ClassVar[int] = 0

class Shape(BaseModel):
    model_config = {}
    points: list[Point]
    _cache: dict = {}

class Named(Shape):
    name: Optional[str] = None
    parent: "Named"
"""
    point = {
        "object": {
            "name": "Point",
            "props": [{"key": "x", "typ": "int"}, {"key": "label", "typ": {"str": ["a", "b"]}}],
        }
    }

    assert only_argument("x: Point", before=before).typ == point
    assert only_argument("x: Named", before=before).typ == {
        "object": {
            "name": "Named",
            "props": [
                {"key": "points", "typ": {"list": point}},
                {"key": "name", "typ": {"str": None}},
                {"key": "parent", "typ": "unknown"},
            ],
        }
    }


def test_names_imported_under_another_name_are_understood():
    before = "import datetime as dt\nfrom typing import List as L\nimport wmill as w\n"

    assert only_argument("x: dt.date", before=before).typ == "date"
    assert only_argument("x: L[int]", before=before).typ == {"list": "int"}
    assert only_argument("x: w.S3Object", before=before).typ == {"resource": "s3_object"}


def test_every_kind_of_parameter_is_an_argument():
    code = "def main(a, /, b: int, *rest: int, c, d=1, **others: str): ..."
    inference = infer_schema("python3", code)

    assert [arg.name for arg in inference.args] == ["a", "b", "c", "d"]
    assert [arg.is_positional_only for arg in inference.args] == [True, False, False, False]
    assert [arg.name for arg in inference.args if not arg.has_default] == ["a", "b", "c"]
    assert inference.star_args
    assert inference.star_kwargs


@pytest.mark.parametrize(
    "code",
    [
        "async def main(x: int): ...",
        "@decorator(1)\ndef main(x: int): ...",
        "def helper(y): ...\ndef main(x: int): ...\ndef main(y): ...",
        "\ufeffdef main(x: int):\r\n\treturn x\r\n",
        "def main(\r\n    x: int,\r\n):\r\n    pass",
        "def main(x: int):\r    return x",
        "print('not executed', 1 / 0)\nimport does_not_exist\ndef main(x: int): ...",
    ],
)
def test_how_the_function_is_written_does_not_matter(code):
    assert [(name, arg.typ) for name, arg in arguments(code).items()] == [("x", "int")]


@pytest.mark.parametrize(
    "code", ["", "x = 1", "def other(): ...", "class A:\n    def main(self): ...", "main = lambda x: x"]
)
def test_a_script_without_an_entrypoint_is_a_library(code):
    inference = infer_schema("python3", code)

    assert inference.auto_kind == "lib"
    assert inference.args == ()


def test_another_entrypoint_and_a_preprocessor_are_found():
    code = "async def preprocessor(event: dict): ...\ndef main(x: int): ..."

    assert infer_schema("python3", code).has_preprocessor
    assert infer_schema("python3", code).auto_kind is None
    assert [arg.name for arg in infer_schema("python3", code, entrypoint="preprocessor").args] == ["event"]
    assert not infer_schema("python3", "def main(): ...").has_preprocessor


@pytest.mark.parametrize(
    "docstring",
    [
        """Do it.

    Args:
        x (list[int], optional): The x
            of it.
        *y: The y: with a colon

    Returns:
        z: nothing
    """,
        """Do it.

    Parameters
    ----------
    x : list of int
        The x
        of it.
    y
        The y: with a colon

    Returns
    -------
    z
        nothing
    """,
        """Do it.

    :param int x: The x
        of it.
    :type x: int
    :param y: The y: with a colon
    :returns z: nothing
    """,
        """Do it.
    @param x: The x of it.
    @param y: The y: with a colon
    """,
    ],
    ids=["Google", "NumPy", "reStructuredText", "Epytext"],
)
def test_the_docstring_describes_the_arguments(docstring):
    args = arguments(f'def main(x, y, z):\n    """{docstring}"""\n')

    assert [arg.description for arg in args.values()] == ["The x of it.", "The y: with a colon", ""]


@pytest.mark.parametrize(
    ("code", "line", "column"),
    [
        ("def main(x: int):\n    return x +\n", 2, 15),
        ("def main(", 1, 9),
        ("\r\n\r\ndef main(x y): ...", 3, 12),
        ("def main(x):\nreturn 3", 2, 1),
        ("x = 1\n  y = '\ud800'", 2, 8),
    ],
)
def test_a_syntax_error_is_told_at_the_authors_line(code, line, column):
    problem = infer_schema("python3", code).problem

    assert problem is not None
    assert (problem.line, problem.column) == (line, column)
    assert not problem.message[0].islower()
    assert problem.message.endswith(".")


@pytest.mark.parametrize(
    "code",
    [
        "x = 1\x00",
        "(" * 100_000,
        "def main(x=" + "-" * 50_000 + "1): ...",
        "def main(x: " + "a." * 50_000 + "b): ...",
        "def main(x: " + " | ".join(["a"] * 20_000) + "): ...",
        "def main(x=" + "1+" * 50_000 + "1): ...",
        "x = 1\n" * 500_000,
    ],
)
def test_hostile_sources_give_a_problem_and_no_exception(code):
    assert infer_schema("python3", code).problem is not None


def test_classes_that_use_each_other_many_times_do_not_explode():
    layers = ["@dataclass\nclass C0:\n    x: int\n"]
    for n in range(1, 40):
        fields = "".join(f"    f{i}: C{n - 1}\n" for i in range(5))
        layers.append(f"@dataclass\nclass C{n}:\n{fields}")
    started = time.process_time()

    inference = infer_schema("python3", "".join(layers) + "def main(x: C39): ...")

    assert inference.problem is None
    assert time.process_time() - started < 5
