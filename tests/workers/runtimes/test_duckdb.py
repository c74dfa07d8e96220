"""DuckDB scripts, run for real in sandboxes."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.workers.job_runs import Jobs
from workers.runtimes import Limits


@pytest.fixture
def run(jobs: Jobs) -> Any:
    def run(code: str, /, **given: Any) -> Any:
        return jobs("duckdb", code, **given)

    return run


def test_rows_are_objects_with_columns_in_their_order(run):
    assert run(
        "SELECT 1 AS z, 'x' AS a, 2 AS a UNION ALL SELECT 2, NULL, 3 ORDER BY z"
    ).outcome.result_json == ('[{"z":1,"a":"x","a_2":2},{"z":2,"a":null,"a_2":3}]')


def test_values_keep_what_they_say(run):
    ran = run("""
        SET TimeZone = 'Asia/Kolkata';
        SELECT 170141183460469231731687303715884105727::HUGEINT AS a, 1.10::DECIMAL(10, 2) AS b, 'NaN'::DOUBLE AS c,
               TIMESTAMPTZ '2024-01-02 03:04:05Z' AS d, DATE '2024-01-02' AS e, TIME '01:02:03' AS f,
               INTERVAL '1 day 2 seconds' AS g, '\\xDE\\xAD'::BLOB AS h, [1, NULL] AS i, {'a': 1, 'b': 'é'} AS j,
               MAP {'k': 1.5} AS k, '{"x": [1, 2.50]}'::JSON AS l, TIMESTAMP '2024-01-02 03:04:05.5' AS m,
               12345678901234567.5::DECIMAL(20, 1) AS n, NULL AS o, true AS p, 18446744073709551615::UBIGINT AS q,
               'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::UUID AS r, TIMETZ '01:02:03+02' AS s
    """)

    assert ran.outcome is not None, ran.error
    row = json.loads(ran.outcome.result_json, parse_float=str, parse_int=str)[0]
    assert row == {
        "a": "170141183460469231731687303715884105727", "b": "1.10", "c": None, "d": "2024-01-02T08:34:05+05:30",
        "e": "2024-01-02", "f": "01:02:03", "g": "P1DT2S", "h": "3q0=", "i": ["1", None], "j": {"a": "1", "b": "é"},
        "k": {"k": "1.5"}, "l": {"x": ["1", "2.50"]}, "m": "2024-01-02T03:04:05.500000", "n": "12345678901234567.5",
        "o": None, "p": True, "q": "18446744073709551615", "r": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "s": "01:02:03+02:00",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("collection", "result"),
    [
        ("last_statement_all_rows", [{"b": 2}, {"b": 3}]),
        ("last_statement_first_row", {"b": 2}),
        ("last_statement_all_rows_scalar", [2, 3]),
        ("last_statement_first_row_scalar", 2),
        ("all_statements_all_rows", [[{"a": 1}], [], [{"b": 2}, {"b": 3}]]),
        ("all_statements_first_row", [{"a": 1}, None, {"b": 2}]),
        ("all_statements_first_row_scalar", [1, None, 2]),
        ("legacy", [[{"a": 1}], [], [{"b": 2}, {"b": 3}]]),
    ],
)
def test_the_script_says_which_rows_are_its_result(run, collection, result):
    code = "SELECT 1 AS a; CREATE TABLE t (x INT); SELECT * FROM (VALUES (2), (3)) AS v(b) ORDER BY b;"

    assert run(f"-- result_collection={collection}\n{code}").result == result


def test_arguments_have_their_declared_types(run):
    code = """
        -- $name (text) = bob
        -- $ids (int[])
        -- $at (timestamptz)
        -- $doc (json)
        -- $raw (blob)
        -- $n (bigint)
        SELECT $name AS name, list_sum($ids) AS total, $at AS at, $doc->>'a' AS a, hex($raw) AS raw, $n + 1 AS n,
            $free AS free
    """.replace("        ", "")
    args = {
        "ids": [1, 2],
        "at": "2024-01-02T03:04:05Z",
        "doc": {"a": "é"},
        "raw": "3q0=",
        "n": 5,
        "free": "'x",
    }

    assert run(code, args=args).result == [
        {
            "name": "bob",
            "total": 3,
            "at": "2024-01-02T03:04:05+00:00",
            "a": "é",
            "raw": "DEAD",
            "n": 6,
            "free": "'x",
        }
    ]


def test_each_statement_takes_its_own_parameters(run):
    header = "-- result_collection=all_statements_first_row_scalar\n"

    assert run(header + "SELECT $a; SELECT $b || $a; SELECT 3", args={"a": "x", "b": "y"}).result == [
        "x",
        "yx",
        3,
    ]
    assert run(header + "SELECT ?; SELECT ?", args={"arg1": 1, "arg2": 2}).result == [1, 2]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("int", "abc", "should be a whole number"),
        ("double", "abc", "should be a number"),
        ("boolean", 1, "should be true or false"),
        ("int[]", 1, "should be a list"),
        ("blob", "?", "should be bytes in base64"),
        ("text", [], "should be text"),
        ("s3object", {"s3": "x"}, "object storage"),
    ],
)
def test_an_argument_of_the_wrong_type_is_named(run, kind, value, told):
    error = run(f"-- $thing ({kind})\nSELECT $thing", args={"thing": value}).error

    assert "The argument thing " in error["message"]
    assert told in error["message"]


@pytest.mark.parametrize(
    ("code", "name", "told", "line"),
    [
        ("SELECT 1;\n\nSELECT 2 FROM a b c", "ParserException", 'syntax error at or near "c" (line 3)', 3),
        (
            "SELECT 1;\r\nSELECT *\r\nFROM nowhere",
            "CatalogException",
            "Table with name nowhere does not exist",
            3,
        ),
        ("SELECT\n  b\nFROM (SELECT 1 AS a)", "BinderException", 'Referenced column "b" not found', 2),
        ("-- $d (date)\nSELECT $d", "ConversionException", "someday", 2),
    ],
)
def test_errors_are_duckdbs_own_with_the_authors_line(run, code, name, told, line):
    error = run(code, args={"d": "someday"}).error

    assert error["name"] == name
    assert told in error["message"]
    assert error["extra"]["line"] == line
    assert "stack" not in error


def test_files_in_the_jobs_folder_are_read_and_written(run):
    code = """
        COPY (SELECT i, 'x' AS t FROM range(3) r(i)) TO 'a.parquet';
        COPY (SELECT i FROM range(3) r(i)) TO 'a.csv' (HEADER);
        COPY (SELECT i FROM range(3) r(i)) TO 'a.json';
        SELECT (SELECT count(*) FROM 'a.parquet') AS p, (SELECT sum(i) FROM read_csv('a.csv')) AS c,
               (SELECT max(i) FROM read_json('a.json')) AS j
    """

    assert run(code).result == [{"p": 3, "c": 3, "j": 2}]


def test_a_script_sees_nothing_of_the_worker(run):
    packages = os.path.dirname(os.path.dirname(pytest.__file__))
    code = f"SELECT count(*) AS n FROM glob('{packages}/*')"

    assert run(code).result == [{"n": 0}]


def test_a_script_cannot_write_its_own_result(run):
    assert run("COPY (SELECT 666 AS x) TO 'duckdb_result.json'; SELECT 1 AS a").result == [{"a": 1}]


def test_another_database_needs_an_extension_and_its_password_stays_unsaid(run):
    resource = {"host": "127.0.0.1", "port": 1, "user": "u", "password": "it's a secret", "dbname": "d"}
    code = "SELECT 1;\nATTACH '$res:f/ops/db' AS db (TYPE postgres); SELECT * FROM db.t"

    error = run(code, args={"$res:f/ops/db": resource}).error

    assert "postgres" in error["message"].lower()
    assert "a secret" not in json.dumps(error)


def test_what_is_attached_has_to_be_a_database(run):
    error = run("ATTACH '$res:f/ops/db' AS db (TYPE postgres)", args={"$res:f/ops/db": "text"}).error

    assert "The resource f/ops/db (line 1) is not a database" in error["message"]


def test_a_timeout_ends_the_script(run):
    code = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range * b.range % 7 = 3"

    assert "timed out" in run(code, timeout_s=1).error["message"]


def users_of(folder: str) -> list[int]:
    """Pids of the processes that have loaded DuckDB from below `folder`."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            lines = (process / "maps").read_text().splitlines() if process.name.isdigit() else []
        except OSError:
            continue
        if any("_duckdb" in line and folder in line for line in lines):
            found.append(int(process.name))
    return found


def test_a_cancelled_script_leaves_no_process(jobs, wait_until, tmp_path_factory):
    packages = str(tmp_path_factory.getbasetemp())  # where these jobs find DuckDB, and no others
    code = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range * b.range % 7 = 3"

    async def cancelled() -> None:
        task = asyncio.create_task(jobs.run("duckdb", code))
        await asyncio.to_thread(wait_until, lambda: users_of(packages))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    jobs.runner.run(cancelled())

    assert users_of(packages) == []


def test_a_result_that_is_too_large_is_refused(run):
    assert (
        run("SELECT * FROM range(1000000)", limits=Limits(result_bytes=100_000)).error["name"]
        == "ResultTooLarge"
    )


def test_memory_has_a_limit(run):
    code = "SELECT list(range) AS l FROM range(100000000)"

    error = run(code, limits=Limits(memory_bytes=200 << 20)).error

    assert "memory" in error["message"].lower()
