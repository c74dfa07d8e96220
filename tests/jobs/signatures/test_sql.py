"""The arguments of SQL scripts, in every dialect."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.signatures import infer_schema
from jobs.signatures.sql import DIALECTS, pinned_database, read, resource_literals
from jobs.signatures.sql_tokens import Dialect, tokens

TEXT = {"str": None}
OBJECT = {"object": {"name": None, "props": []}}


def arguments(language: str, code: str) -> dict[str, Any]:
    """Types by name, without the argument `database`."""
    inference = infer_schema(language, code)
    assert inference.problem is None
    return {arg.name: arg.typ for arg in inference.args if arg.name != "database"}


def defaults(language: str, code: str) -> dict[str, Any]:
    inference = infer_schema(language, code)
    return {arg.name: arg.default for arg in inference.args if arg.has_default}


# --- PostgreSQL ---


def test_postgresql_parameters_are_declared_in_comments():
    code = '-- $1 name (text) = bob\n-- $2 age (int)\n-- $3 tags (text[]) = ["a"]\nSELECT $1, $2, $3'

    assert arguments("postgresql", code) == {"name": TEXT, "age": "int", "tags": {"list": TEXT}}
    assert defaults("postgresql", code) == {"name": "bob", "tags": ["a"]}


@pytest.mark.parametrize(
    ("cast", "typ"),
    [
        ("int", "int"),
        ("BIGINT", "int"),
        ("int8", "int"),
        ("numeric(10, 2)", "float"),
        ("double precision", "float"),
        ("boolean", "bool"),
        ("text", TEXT),
        ("varchar(10)", TEXT),
        ("character varying", TEXT),
        ("uuid", TEXT),
        ("jsonb", OBJECT),
        ("bytea", "bytes"),
        ("date", "date"),
        ("timestamptz", "datetime"),
        ("timestamp with time zone", "datetime"),
        ("int[]", {"list": "int"}),
        ("text[][]", {"list": "unknown"}),
        ("my_schema.mood", TEXT),
    ],
)
def test_a_cast_says_what_a_parameter_is(cast, typ):
    assert arguments("postgresql", f"SELECT $1::{cast}") == {"$1": typ}
    assert arguments("postgresql", f"SELECT $1 :: {cast}, 2") == {"$1": typ}
    assert arguments("postgresql", f"SELECT CAST($1 AS {cast})") == {"$1": typ}


def test_a_parameter_that_nothing_is_said_about_is_text_named_after_its_place():
    assert arguments("postgresql", "-- $1 a (int)\nSELECT $3, $1, $2 AS int") == {
        "a": "int",
        "$2": TEXT,
        "$3": TEXT,
    }


def test_a_name_without_a_type_takes_the_type_of_the_cast_and_a_remark_is_none():
    assert arguments("postgresql", "-- $1 age = 3\n-- $2 remark\nSELECT $1::int") == {"age": "int"}
    assert defaults("postgresql", "-- $1 age = 3\nSELECT $1::int") == {"age": 3}


def test_types_as_they_are_written_and_positions_are_told_to_clients():
    [_, arg] = infer_schema("postgresql", "SELECT $2::VARCHAR(10)").as_json()["args"]

    assert (arg["name"], arg["otyp"], arg["oidx"]) == ("$2", "varchar", 2)


@pytest.mark.parametrize(
    "hidden",
    [
        "'$1'", "'it''s $1'", "E'\\'$1'", "$$ $1 $$", "$a$ $$ $1 $a$", '"$1"', "/* $1 */", "/* /* */ $1 */",
        "-- $1", "col$1", "'open $1", "$tag$ open $1", "$0", "$99999999999", "U&'$1'",
    ],
)  # fmt: skip
def test_what_is_in_strings_comments_and_names_is_no_parameter(hidden):
    assert arguments("postgresql", f"SELECT {hidden}") == {}


@pytest.mark.parametrize(
    ("written", "default"),
    [
        ("(int) = 3", 3), ("(int) = x", None), ("(int) = 99999999999999999999", None), ("(int) = null", None),
        ("(bool) = true", True), ("(bool) = yes", None), ("(float8) = 1e999", None), ("(float8) = -1.5", -1.5),
        ("(text) = 'quoted'", "quoted"), ("(text) =", ""), ("(text) = a = b", "a = b"),
        ("(jsonb) = {\"a\": [1]}", {"a": [1]}),
        ("(int[]) = 3", None), ("(text) = \x00", None),
    ],
)  # fmt: skip
def test_defaults_are_json_of_the_parameters_type(written, default):
    assert defaults("postgresql", f"-- $1 a {written}\nSELECT $1") == {"a": default}


def test_line_endings_do_not_matter():
    code = "-- database f/ops/db\n-- $1 a (int) = 3\nSELECT $1,\n$2::text"

    assert infer_schema("postgresql", code.replace("\n", "\r\n")) == infer_schema("postgresql", code)
    assert read(code.replace("\n", "\r\n"), "postgresql").database == "f/ops/db"


# --- the database ---


@pytest.mark.parametrize(
    ("language", "resource"),
    [("postgresql", "postgresql"), ("mysql", "mysql"), ("mssql", "ms_sql_server"), ("bigquery", "bigquery"),
     ("snowflake", "snowflake"), ("oracledb", "oracledb")],
)  # fmt: skip
def test_the_first_argument_is_the_database_unless_the_code_pins_it(language, resource):
    schema = infer_schema(language, "SELECT 1").schema

    assert schema["properties"]["database"]["format"] == f"resource-{resource}"
    assert schema["required"] == ["database"]
    assert infer_schema(language, "-- database u/alice/db\nSELECT 1").schema["order"] == []


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("-- database f/ops/db", "f/ops/db"), ("--database $res:f/ops/db  ", "f/ops/db"),
        ("  -- database u/alice/db", "u/alice/db"), ("-- database of users", None), ("-- the database f/ops/db", None),
        ("SELECT 1 -- database f/ops/db", None), ("/* -- database f/ops/db */", None),
        ("'\n-- database f/ops/db\n'", None),
    ],
)  # fmt: skip
def test_a_line_of_its_own_pins_the_database(line, path):
    assert pinned_database(line, "postgresql") == path


def test_a_parameter_may_not_take_the_name_of_the_database():
    inference = infer_schema("postgresql", "SELECT 1;\n-- $1 database (text)\nSELECT $1")

    assert inference.problem is not None
    assert inference.problem.line == 2
    assert "another name" in inference.problem.message


# --- the other dialects ---


def test_mysql_has_positional_and_named_parameters():
    code = "-- ? id (bigint) = 3\n-- :name (varchar)\nSELECT ?, :name, :other, ?"

    assert arguments("mysql", code) == {"id": "int", "name": TEXT, "other": TEXT, "arg2": TEXT}
    assert defaults("mysql", code) == {"id": 3}


@pytest.mark.parametrize("hidden", ["'\\'?'", '":a"', "`:a`", "# ?", "-- :a", "/* ? */", "@v := 1", "'?"])
def test_mysql_strings_names_and_comments_hold_no_parameters(hidden):
    assert arguments("mysql", f"SELECT {hidden}") == {}


def test_two_minus_signs_without_a_space_are_arithmetic_in_mysql():
    assert arguments("mysql", "SELECT 1--:a") == {"a": TEXT}


def test_duckdb_parameters_have_names_and_it_needs_no_database():
    code = "-- $name (text) = bob\n-- $ids (int[])\nSELECT $name, $ids, $age::int, '$x', $$ $y $$"

    assert arguments("duckdb", code) == {"name": TEXT, "ids": {"list": "int"}, "age": "int"}
    assert infer_schema("duckdb", "SELECT 1").schema["order"] == []


def test_bigquery_parameters_begin_with_an_at_sign():
    code = "-- @name (string[]) = [\"x\"]\nSELECT @name, @other, @@system, '''@no''', `@no`, \"@no\" # @no"

    assert arguments("bigquery", code) == {"name": {"list": TEXT}, "other": TEXT}


def test_snowflake_parameters_are_question_marks():
    assert arguments("snowflake", "-- ? a (varchar) = x\n-- ? n (int)\nSELECT ?, ?, '?', $1 // ?") == {
        "a": TEXT,
        "n": "int",
    }


def test_sql_server_parameters_have_numbers():
    code = "-- @p1 a (varchar)\n-- @P2 n (bit) = true\nDECLARE @x int; SELECT @P1, @P2, @x, [@P3]"

    assert arguments("mssql", code) == {"a": TEXT, "n": "bool"}


def test_oracle_parameters_begin_with_a_colon():
    code = "-- :a (number)\nSELECT :a, :b, q'[it's :c]', :new.x FROM dual; x := 1"

    assert arguments("oracledb", code) == {"a": "float", "b": TEXT}


def test_names_put_into_the_text_are_arguments():
    code = "-- %%table_name%% fruits/cereals\n-- %%column%%\nSELECT %%column%% FROM %%table_name%%"

    assert arguments("postgresql", code) == {"table_name": {"str": ["fruits", "cereals"]}, "column": TEXT}


def test_directives_are_lines_of_their_own():
    script = read("-- result_collection=legacy\n-- return_last_result\nSELECT '-- s3 prefix=x'", "postgresql")

    assert (script.result_collection, script.return_last_result, script.s3) == ("legacy", True, False)
    assert read("-- s3 prefix=a format=csv\nSELECT 1", "mysql").s3


def test_resources_that_duckdb_attaches_are_found():
    code = "-- '$res:f/no/comment'\nATTACH '$res:f/ops/db' AS db (TYPE postgres); SELECT 'x $res:u/no/text'"

    assert resource_literals(code) == [("'$res:f/ops/db'", "f/ops/db")]


# --- every text ---

pieces = st.sampled_from(
    ["'", '"', "`", "$", "$$", "$a$", "--", "-- ? ", "-- $1 ", "a", " (int)", " = ", "\n", "\r\n", "/*", "*/", "?", ":",
     ":a", "$1", "$b", "@", "@P1", "::", "int", "[]", "(", ")", ";", "\\", "#", "//", "q'[", "%%", "-- database f/a/b",
     "\x00", "\ud800", "é", "{", "3", "E'", "[", "]", "-- result_collection=", "''' "]
)  # fmt: skip


@given(code=st.text() | st.lists(pieces, max_size=40).map("".join), dialect=st.sampled_from(DIALECTS))
def test_no_text_raises_and_tokens_lie_side_by_side(code: str, dialect: Dialect):
    infer_schema(dialect, code)
    end = 0
    for token in tokens(code, dialect):
        assert token.start >= end
        assert not code[end : token.start].strip()
        assert token.text == code[token.start : token.end] != ""
        end = token.end
    assert not code[end:].strip()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "piece",
    ["-- $1 a (" + " " * 100_000, "'" * 100_001, "/*" * 50_000, "$a$ " * 25_000, "-- %%a%%" + " " * 100_000 + "x",
     "q'[ " * 25_000, "-- ? a (int)\n" * 8_000, "$1::numeric(" + " " * 100_000, "\\'" * 50_000],
)  # fmt: skip
def test_hostile_text_is_read_in_linear_time(dialect: Dialect, piece):
    began = time.process_time()
    infer_schema(dialect, piece)

    assert time.process_time() - began < 3
