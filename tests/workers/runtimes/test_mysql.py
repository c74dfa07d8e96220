"""MySQL scripts, run for real on a MariaDB server of the tests' own."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from tests.workers.job_runs import Jobs, Ran
from tests.workers.runtimes import mariadb
from workers.runtimes import Limits

Resource = dict[str, Any]


@pytest.fixture(scope="module")
def database() -> Iterator[Resource]:
    with mariadb.started() as resource:
        yield resource


@pytest.fixture
def run(jobs: Jobs, database: Resource) -> Any:
    """Run SQL on the server; keywords are those of Execution, `args` besides the database."""

    def run(code: str, /, *, args: dict[str, Any] | None = None, **given: Any) -> Ran:
        return jobs("mysql", code, args={"database": database, **(args or {})}, **given)

    return run


def running(database: Resource, marker: str) -> int:
    """How many statements with `marker` in them the server executes."""
    connection = pymysql.connect(
        host="127.0.0.1", port=database["port"], user=database["user"], password=database["password"]
    )
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT info FROM information_schema.processlist WHERE id <> connection_id()")
        return sum(marker in (info or "") for (info,) in cursor.fetchall())


# --- results ---


def test_rows_are_objects_with_columns_in_their_order(run):
    assert run("SELECT 1 AS z, 'x' AS a, 2 AS a UNION ALL SELECT 2, NULL, 3").outcome.result_json == (
        '[{"z":1,"a":"x","a_2":2},{"z":2,"a":null,"a_2":3}]'
    )


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("18446744073709551615", "18446744073709551615"),
        ("CAST(1.10 AS DECIMAL(10, 2))", "1.10"),
        ("CAST('123456789012345678.5' AS DECIMAL(30, 1))", '"123456789012345678.5"'),
        ("1.5e0", "1.5"),
        ("TRUE", "1"),
        ("NULL", "null"),
        ("CAST('2024-01-02 03:04:05.5' AS DATETIME(1))", '"2024-01-02T03:04:05.5"'),
        ("CAST('2024-01-02' AS DATE)", '"2024-01-02"'),
        ("CAST('-838:59:59' AS TIME)", '"-838:59:59"'),
        ("x'deadbeef'", '"3q2+7w=="'),
        ("'é\"'", '"é\\""'),
        ("CONCAT('a', CHAR(0 USING utf8mb4), 'b')", '"ab"'),
    ],
)
def test_values_keep_what_they_say(run, expression, value):
    ran = run(f"-- result_collection=last_statement_first_row_scalar\nSELECT {expression}")

    assert ran.outcome is not None, ran.error
    assert ran.outcome.result_json == value


def test_columns_of_a_table_have_their_types(run):
    ran = run("""
        SET sql_mode = '';
        CREATE TABLE kinds (a DATETIME, b DATE, c BLOB, d BIT(10), e TINYINT UNSIGNED, f DECIMAL(6, 2) ZEROFILL,
                            g ENUM('x', 'y'), h YEAR, i TIMESTAMP NULL, j DOUBLE);
        INSERT INTO kinds VALUES ('0000-00-00', '0000-00-00', 'ab', 5, 255, 1.5, 'x', 1999, '2024-01-02 03:04:05', 1e-7);
        SELECT * FROM kinds
    """)

    assert ran.result == [
        {"a": None, "b": None, "c": "YWI=", "d": 5, "e": 255, "f": "0001.50", "g": "x", "h": 1999,
         "i": "2024-01-02T03:04:05", "j": 1e-07}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("collection", "result"),
    [
        ("last_statement_all_rows", [{"b": 2}, {"b": 3}]),
        ("last_statement_first_row_scalar", 2),
        ("all_statements_all_rows", [[{"a": 1}], [], [{"b": 2}, {"b": 3}]]),
        ("all_statements_first_row", [{"a": 1}, None, {"b": 2}]),
        ("legacy", [[{"a": 1}], [], [{"b": 2}, {"b": 3}]]),
    ],
)
def test_the_script_says_which_rows_are_its_result(run, collection, result):
    code = "SELECT 1 AS a; DO 1; SELECT 2 AS b UNION ALL SELECT 3"

    assert run(f"-- result_collection={collection}\n{code}").result == result


def test_procedures_are_written_with_and_without_the_clients_delimiter(run):
    run("DELIMITER //\nCREATE PROCEDURE one() BEGIN SELECT 1 AS a; SELECT 2 AS b; END//\nDELIMITER ;")
    run("CREATE PROCEDURE two() BEGIN IF 1 THEN SELECT 3 AS c; END IF; END; DO 1")

    assert run("CALL one()").result == [{"a": 1}]
    assert run("CALL two()").result == [{"c": 3}]


# --- arguments ---


def test_named_and_positional_parameters_have_their_declared_types(run):
    code = """
        -- ? n (int)
        -- ? t (text) = default
        -- :j (json)
        -- :at (datetime)
        -- :b (blob)
        -- :x (bool) = true
        SELECT ? AS n, ? AS t, JSON_VALUE(:j, '$.a') AS j,
            CAST(:at AS DATETIME) AS at, HEX(:b) AS b, :x AS x, :free AS free
    """.replace("        ", "")
    args = {"n": 5, "j": {"a": "é"}, "at": "2024-01-02T03:04:05+02:00", "b": "3q2+7w==", "free": 1.5}

    assert run(code, args=args).result == [
        {"n": 5, "t": "default", "j": "é", "at": "2024-01-02T01:04:05", "b": "DEADBEEF", "x": 1, "free": 1.5}
    ]


def test_question_marks_count_through_all_statements(run):
    code = "-- result_collection=all_statements_first_row_scalar\n-- ? a (int)\n-- ? b (int)\n"
    statements = "SELECT ?, '?'; SELECT ?; SELECT ?"

    assert run(code + statements, args={"a": 1, "b": 2, "arg3": "x"}).result == [1, 2, "x"]


@pytest.mark.parametrize("mode", ["", "NO_BACKSLASH_ESCAPES"])
@pytest.mark.parametrize(
    "evil", ["'; DROP TABLE x; -- ", "\\'; SELECT 2; -- ", "\\", '"', "a\nb", "%s %(a)s", "\u00bf'"]
)
def test_an_argument_is_never_part_of_the_statement(run, mode, evil):
    code = f"SET sql_mode = '{mode}'; -- \n-- :t (text)\nSELECT :t AS t"

    assert run(code, args={"t": evil}).result == [{"t": evil}]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("int", "abc", "should be a whole number, of type int; it is text ('abc')"),
        ("decimal", [], "should be a number"),
        ("bool", "perhaps", "should be true or false"),
        ("varchar", {"a": 1}, "should be text"),
        ("blob", "not base64!", "should be bytes in base64"),
    ],
)
def test_an_argument_of_the_wrong_type_is_named(run, kind, value, told):
    error = run(f"-- :thing ({kind})\nSELECT :thing", args={"thing": value}).error

    assert error["message"].startswith("The argument thing ")
    assert told in error["message"]


# --- errors ---


@pytest.mark.parametrize(
    ("code", "told", "line"),
    [
        ("SELECT 1;\n\nSELECT 2\nFRO m x", "error in your SQL syntax", 4),
        ("SELECT 1;\r\n\r\nSELECT * FROM nowhere", "Table 'shop.nowhere' doesn't exist", 3),
    ],
)
def test_errors_are_the_servers_own_with_the_authors_line(run, code, told, line):
    error = run(code).error

    assert told in error["message"]
    assert error["message"].endswith(f"(line {line})")
    assert error["extra"]["line"] == line


def test_files_of_the_worker_cannot_be_sent(run):
    run("CREATE TABLE stolen(line text)")

    assert "local infile" in run("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE stolen").error["message"]


def test_a_transaction_that_was_left_open_is_rolled_back_and_the_log_says_so(run):
    run("CREATE TABLE kept(a int) ENGINE=InnoDB")

    ran = run("BEGIN; INSERT INTO kept VALUES (1)")
    run("BEGIN; INSERT INTO kept VALUES (2); COMMIT")

    assert "left a transaction open" in ran.log.text
    assert run("SELECT a FROM kept").result == [{"a": 2}]


# --- the database resource ---


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"host": "/run/mysqld/mysqld.sock"}, "neither a name nor an address"),
        ({"host": ""}, "has no host"),
        ({"port": "x"}, "its port 'x' is no number"),
        ({"ssl": True, "root_certificate_pem": "nonsense"}, "is no certificate"),
    ],
)
def test_a_resource_that_cannot_be_used_says_why(jobs, database, changed, told):
    error = jobs("mysql", "SELECT 1", args={"database": {**database, **changed}}).error

    assert error["name"] == "BadResource"
    assert told in error["message"]


def test_a_wrong_password_names_the_host_and_not_the_password(jobs, database):
    error = jobs(
        "mysql", "SELECT 1", args={"database": {**database, "password": "wrong battery staple"}}
    ).error

    assert error["name"] == "ConnectionFailed"
    assert f"127.0.0.1:{database['port']}" in error["message"]
    assert "Access denied" in error["message"]
    assert "battery" not in json.dumps(error)


def test_a_host_that_does_not_answer_is_named(jobs, database):
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

        error = jobs("mysql", "SELECT 1", args={"database": {**database, "port": port}}).error

    assert f"127.0.0.1:{port}" in error["message"]


def test_encryption_that_the_server_does_not_have_is_no_plain_connection(jobs, database):
    error = jobs("mysql", "SELECT 1", args={"database": {**database, "ssl": True}}).error

    assert "SSL" in error["message"]


# --- stopping ---


def test_a_timeout_stops_the_statement_on_the_server(run, database):
    began = time.monotonic()

    error = run("SELECT SLEEP(60), 'stop_me_1'", timeout_s=0.3).error

    assert "timed out" in error["message"]
    assert time.monotonic() - began < 10
    assert running(database, "stop_me_1") == 0


def test_a_cancelled_job_stops_the_statement_and_those_after_it(jobs, run, database, wait_until):
    run("CREATE TABLE after_stop(a int)")
    code = "SELECT SLEEP(60), 'stop_me_2'; INSERT INTO after_stop VALUES (1)"

    async def cancelled() -> None:
        task = asyncio.create_task(jobs.run("mysql", code, args={"database": database}))
        await asyncio.to_thread(wait_until, lambda: running(database, "stop_me_2") == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    jobs.runner.run(cancelled())

    assert running(database, "stop_me_2") == 0
    assert run("SELECT a FROM after_stop").result == []


def test_a_server_that_hangs_does_not_hold_a_job_beyond_its_timeout(jobs):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        resource = {"host": "127.0.0.1", "port": silent.getsockname()[1], "user": "u", "password": "p"}
        began = time.monotonic()

        error = jobs("mysql", "SELECT 1", args={"database": resource}, timeout_s=0.3).error

    assert "timed out" in error["message"]
    assert time.monotonic() - began < 11


def test_a_result_that_is_too_large_is_refused(run):
    error = run("SELECT seq, 'x' FROM seq_1_to_1000000", limits=Limits(result_bytes=100_000)).error

    assert error["name"] == "ResultTooLarge"


def test_many_rows_are_read_in_batches(run):
    rows = run("SELECT seq, MD5(seq) AS m FROM seq_1_to_5001").result

    assert len(rows) == 5001
    assert rows[-1]["seq"] == 5001
