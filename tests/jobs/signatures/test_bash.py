"""Bash source to signature: variables set from positional parameters."""

import subprocess
import time

import pytest

from jobs.signatures import infer_schema
from jobs.signatures.bash import positional_order


def test_variables_set_from_positions_are_the_arguments_in_that_order():
    code = 'second="$2"\nfirst="$1"\nthird="${3:-a default}"\necho "$first"\n'
    inference = infer_schema("bash", code)

    assert [(arg.name, arg.typ, arg.default, arg.has_default) for arg in inference.args] == [
        ("first", {"str": None}, None, False),
        ("second", {"str": None}, None, False),
        ("third", {"str": None}, "a default", True),
    ]
    assert inference.schema["required"] == ["first", "second"]
    assert inference.auto_kind is None


@pytest.mark.parametrize(
    ("line", "default"),
    [
        ("x=$1", None),
        ("x=${1}", None),
        ('x="${1}"', None),
        ('  x="$1"', None),
        ('x="$1" # comment', None),
        ('x="$1"; echo', None),
        ('local x="$1"', None),
        ('export x="$1"', None),
        ('declare -r x="$1"', None),
        ('readonly x="$1"', None),
        ('if true; then x="$1"; fi', None),
        ('x="${1:?must be given}"', None),
        ("x=${1:-text}", "text"),
        ('x="${1-text}"', "text"),
        ('x="${1:=two words}"', "two words"),
        ("x=${1:-two words}", "two words"),
        ('x="${1:-}"', ""),
        ('x="${1:-"two words"}"', "two words"),
        ("x=\"${1:-'q'}\"", "'q'"),
        ("x=${1:-'a b'}", "a b"),
        (r'x="${1:-a \"b\" \$c}"', 'a "b" $c'),
        ('x="${1:-https://a.b/c?d=#e}"', "https://a.b/c?d=#e"),
    ],
)
def test_ways_to_write_an_argument(line, default):
    assert positional_order(line) == [("x", default)]


@pytest.mark.parametrize(
    "default", ["text", "two words", "'q'", r"a \"b\" \$c", "'}'", '"quoted"', r"back\slash", r"\\"]
)
def test_a_default_reads_as_bash_itself_reads_it(default):
    line = f'x="${{1:-{default}}}"'
    printed = subprocess.run(
        ["bash", "-c", f'{line}\nprintf %s "$x"'], capture_output=True, text=True, check=True
    )

    assert positional_order(line) == [("x", printed.stdout)]


@pytest.mark.parametrize(
    "line",
    [
        '# x="$1"',
        "x='$1'",
        'x="a$1"',
        'x="$1b"',
        'x="$*"',
        'x="$@"',
        'x="$#"',
        'x="$0"',
        'echo "$1"',
        'x = "$1"',
        'x="${1:+other}"',
        'x="${1:-a}b}"',
        'echo x="$1"',
        'x="${99999999999}"',
        'cat <<EOF\nx="$1"\nEOF',
        "cat <<-'END' | sort\n\tx=\"$1\"\n\tEND",
        "python -c '\nx=\"$1\"\n'",
    ],
)
def test_what_is_not_an_argument(line):
    assert infer_schema("bash", line).args == ()


@pytest.mark.parametrize("default", ["$HOME", "$(date)", "`date`", "${OTHER:-x}"])
def test_a_default_that_bash_computes_stays_in_bash(default):
    code = f'x="${{1:-{default}}}"'
    [arg] = infer_schema("bash", code).args

    assert (arg.name, arg.default, arg.has_default) == ("x", None, True)
    assert positional_order(code) == [("x", None)]


def test_a_function_has_positions_of_its_own_unless_it_is_given_all_arguments():
    helper = 'log() {\n  local message="$1"\n  echo "$message"\n}\n'
    entry = 'main() { local name="$1"; log "$name"; }\n'

    assert positional_order(helper + 'x="$1"\nlog "$x"\n') == [("x", None)]
    assert positional_order(helper + entry + 'main "$@"\n') == [("name", None)]
    assert positional_order('function main {\n local name="$1"\n}\nmain "$@"') == [("name", None)]
    assert positional_order('function main() {\n local name="$1"\n}\nmain $@') == [("name", None)]
    assert positional_order('main()\n{\n local name="$1"\n}\nx="$2"\n') == [("", None), ("x", None)]


def test_positions_without_a_name_keep_their_place():
    code = 'a="$1"\nc="$3"\nk="${10:-z}"\n'

    assert [arg.name for arg in infer_schema("bash", code).args] == ["a", "c", "k"]
    assert positional_order(code) == [
        ("a", None),
        ("", None),
        ("c", None),
        *[("", None)] * 6,
        ("k", "z"),
    ]


def test_the_last_assignment_names_a_position_and_a_name_keeps_its_first_position():
    assert positional_order('a="$1"\nb="$1"\n') == [("b", None)]
    assert positional_order('a="$1"\na="$2"\nb="$3"') == [("a", None), ("", None), ("b", None)]


def test_line_endings_do_not_matter():
    code = 'a="$1"\nb="${2:-x}"\ncat <<EOF\nc="$3"\nEOF\nd="$4"\n'

    assert positional_order("\ufeff" + code.replace("\n", "\r\n")) == positional_order(code)
    assert [name for name, _ in positional_order(code)] == ["a", "b", "", "d"]


@pytest.mark.parametrize(
    "code",
    [
        'echo it\'s\nx="$1"',
        'y=${unclosed\nx="$1"',
        'n=$((1 << 3))\nx="$1"',
        "printf $'it\\'s'\nx=\"$1\"",
        'case "$y" in\n  a) echo 1 ;;\nesac\nx="$1"',
        'y="$(dirname "$0")"\nx="$1"',
        'y="$(echo " # ")"\nx="$1"',
        'arr=("a" "b")\n[[ $a =~ ^x ]] && echo\nx="$1"',
    ],
)
def test_the_rest_of_the_script_does_not_confuse(code):
    assert [name for name, _ in positional_order(code)] == ["x"]


@pytest.mark.parametrize(
    "piece", ["'", '"', "${", '"${', "$(", "<<a\n", "{\n", "}\n", "f() {\n", "\\", "x=${1:-${", "$'"]
)
def test_reading_takes_time_with_the_length_only(piece):
    started = time.process_time()

    positional_order(piece * 50_000)

    assert time.process_time() - started < 5
