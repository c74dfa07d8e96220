"""PowerShell source to signature: what each parameter of the param block becomes."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.signatures import FUNCTION_CALL, Argument, infer_schema

TEXT = {"str": None}
ANY_OBJECT = {"object": {"name": None, "props": []}}


def arguments(code: str) -> dict[str, Argument]:
    inference = infer_schema("powershell", code)
    assert inference.problem is None, inference.problem
    return {arg.name: arg for arg in inference.args}


def only_argument(parameter: str) -> Argument:
    [arg] = arguments(f"param({parameter})\nWrite-Output $x").values()
    return arg


@pytest.mark.parametrize(
    ("written", "typ"),
    [
        ("[string]", TEXT),
        ("[guid]", TEXT),
        ("", TEXT),
        ("[int]", "int"),
        ("[Int64]", "int"),
        ("[long]", "int"),
        ("[double]", "float"),
        ("[decimal]", "float"),
        ("[bool]", "bool"),
        ("[switch]", "bool"),
        ("[datetime]", "datetime"),
        ("[System.DateTime]", "datetime"),
        ("[PSCustomObject]", ANY_OBJECT),
        ("[hashtable]", ANY_OBJECT),
        ("[System.Collections.Hashtable]", ANY_OBJECT),
        ("[array]", {"list": TEXT}),
        ("[string[]]", {"list": TEXT}),
        ("[int[]]", {"list": "int"}),
        ("[byte[]]", "bytes"),
        ("[System.Collections.Generic.List[int]]", {"list": "int"}),
        ("[Nullable[int]]", "int"),
        ("[object]", "unknown"),
        ("[scriptblock]", "unknown"),
        ("[ValidateSet('a', \"b\")][string]", {"str": ["a", "b"]}),
        ("[string][ValidateSet('a')]", {"str": ["a"]}),
        ("[ValidateSet('a', 'b')]", {"str": ["a", "b"]}),
        ("[ValidateSet('a', 'b')][string[]]", {"list": {"str": ["a", "b"]}}),
        ("[ValidateSet(1, 2)][int]", "int"),
        ("[ValidateRange(1, 10)][int]", "int"),
        ("[Parameter(Mandatory)] [int]", "int"),
    ],
)
def test_a_type_says_what_the_form_shows(written, typ):
    assert only_argument(f"{written}$x").typ == typ


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("3", 3),
        ("-1.5", -1.5),
        ("0x1F", 31),
        ("$true", True),
        ("$null", None),
        ("'it''s $x'", "it's $x"),
        ('"a`n""b"""', 'a\n"b"'),
        ("@(1, 2)", [1, 2]),
        ("@()", []),
        ("@{a = 1; 'b c' = $false}", {"a": 1, "b c": False}),
        ("(Get-Date)", FUNCTION_CALL),
        ('"hi $name"', FUNCTION_CALL),
        ('"$(Get-Item ")")"', FUNCTION_CALL),
        ("10kb", FUNCTION_CALL),
        ("$env:HOME", FUNCTION_CALL),
    ],
)
def test_a_default_is_shown_as_it_is_or_left_to_powershell(written, value):
    arg = only_argument(f"$x = {written}")

    assert arg.default == value
    assert type(arg.default) is type(value)
    assert arg.has_default


def test_an_untyped_parameter_takes_the_type_of_its_default():
    found = arguments("param($a = 1, $b = 1.5, $c = $true, $d = @(1), $e = @{k = 1}, $f = 'x')")

    assert [arg.typ for arg in found.values()] == ["int", "float", "bool", {"list": "int"}, ANY_OBJECT, TEXT]


def test_required_are_those_without_a_default():
    schema = infer_schema(
        "powershell",
        "param([string]$a, [int]$b = 1, [switch]$c, [Nullable[int]]$d, [Parameter(Mandatory=$true)][int]$e = 5)",
    ).schema

    assert schema["required"] == ["a", "e"]
    assert schema["properties"]["c"]["default"] is False


def test_a_help_message_is_the_description():
    assert only_argument('[Parameter(Mandatory, HelpMessage="Who it is")]$x').description == "Who it is"


def test_what_may_precede_the_block_is_passed_over():
    code = """#requires -Version 7
using namespace System.Text
<# a comment with ) and param( #>
[CmdletBinding(DefaultParameterSetName = ')')]
PARAM (
    [string]$a,  # a comment with )
    <# another ) #> [int]$b = 3
)
if ( {   # the rest is not looked at
"""

    assert list(arguments(code)) == ["a", "b"]


@pytest.mark.parametrize(
    "code", ["", "Write-Output 1", "function f { param($x) }", "$x = 1\nparam($a)", "# param($a)", "param"]
)
def test_a_script_without_a_block_has_no_arguments(code):
    assert arguments(code) == {}


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("param([string]$a, [int", 1),
        ("# first\n\nparam(\n  $a,\n  $b = )", 3 + 2),
        ("\nparam($a = 'open)", 2),
        ("param($a) <#".replace(")", "\ud800)"), 1),
    ],
)
def test_unfinished_code_is_a_problem_at_its_line(code, line):
    problem = infer_schema("powershell", code).problem

    assert problem is not None
    assert problem.line == line
    assert problem.message.endswith(".")


def test_line_endings_do_not_matter():
    code = "using namespace System\n\nparam(\n  [string]$a = 'x',\n  [int]$b\n)\nls\n"

    assert infer_schema("powershell", code.replace("\n", "\r\n")) == infer_schema("powershell", code)


@pytest.mark.parametrize(
    "text", ["param(" + "${" * 100_000, "param(" + "${" * 9000 + ")", "param(" + "[(" * 100_000]
)
def test_nonsense_takes_no_time(text):
    began = time.process_time()
    infer_schema("powershell", text)

    assert time.process_time() - began < 5


PIECES = (
    "param(|$x|[string]|,|)|(|{|}|\n|\r\n|=|[|]|'|\"|`|$(|${|@(|@{|@'\n|\n'@|#|<#|#>|1|-|0x|1e999|$null|;|"
    "[ValidateSet(|[Parameter(|Mandatory|\x00|\ufeff|\ud800|é|using namespace A|[Nullable["
)
pieces = st.sampled_from(PIECES.split("|"))


@given(st.text() | st.lists(pieces, max_size=30).map(" ".join) | st.text().map("param($x = {})".format))
def test_no_text_raises(code):
    inference = infer_schema("powershell", code)

    assert inference.problem is None or inference.problem.line >= 1
