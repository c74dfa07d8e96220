"""PostgreSQL scripts, run for real on the tests' own server."""

import asyncio
import json
import os
import socket
import time
from collections.abc import Iterator
from hashlib import md5
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from bench.tcp_relay import tcp_address
from tests.workers.job_runs import Jobs, Ran
from workers.runtimes import Limits
from workers.runtimes.postgresql import Postgresql
from workers.runtimes.sql.postgres_pool import PostgresPool, _is_broken

Resource = dict[str, Any]
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def admin() -> str:
    return os.environ["DATABASE_URL"]


@pytest.fixture(scope="module")
def database(admin: str) -> Iterator[Resource]:
    """A database and a user of these tests' own."""
    name = f"jobs_{uuid4().hex[:12]}"
    with tcp_address(admin) as (host, port), psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
        connection.execute(f"CREATE DATABASE {name} OWNER {name}")
        yield {
            "host": host,
            "port": port,
            "user": name,
            "password": PASSWORD,
            "dbname": name,
        }
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        connection.execute(f"DROP ROLE {name}")


@pytest.fixture
def run(jobs: Jobs, database: Resource) -> Any:
    """Run SQL on the tests' database; keywords are those of Execution, `args` besides the database."""

    def run(code: str, /, *, args: dict[str, Any] | None = None, **given: Any) -> Ran:
        return jobs("postgresql", code, args={"database": database, **(args or {})}, **given)

    return run


@pytest.fixture(scope="module", autouse=True)
def closed_pool(jobs: Jobs, database: Resource) -> Iterator[None]:
    yield
    executor = jobs.executors["postgresql"]
    assert isinstance(executor, Postgresql)
    jobs.runner.run(executor.close())


# --- results ---


def test_rows_are_objects_with_columns_in_their_order(run):
    assert run("SELECT 1 AS z, 'x' AS a UNION ALL SELECT 2, NULL").outcome.result_json == (
        '[{"z":1,"a":"x"},{"z":2,"a":null}]'
    )


def test_columns_of_the_same_name_are_numbered(run):
    assert run("SELECT 1 AS id, 2 AS id, 3 AS id_2").result == [{"id": 1, "id_3": 2, "id_2": 3}]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("9007199254740993::int8", "9007199254740993"),
        ("1.10::numeric", "1.10"),
        ("-0.000000000000000001::numeric", "-0.000000000000000001"),
        ("123456789012345678.5::numeric", '"123456789012345678.5"'),
        ("'NaN'::numeric", "null"),
        ("'NaN'::float8", "null"),
        ("'-Infinity'::float4", "null"),
        ("0.1::float8", "0.1"),
        ("true", "true"),
        ("'é\"'", '"é\\""'),
        ("'2024-01-02 03:04:05.678'::timestamp", '"2024-01-02T03:04:05.678"'),
        ("'2024-01-02'::date", '"2024-01-02"'),
        ("'infinity'::date", '"infinity"'),
        ("'03:04:05'::time", '"03:04:05"'),
        ("'1 year 2 mons -3 days 04:05:06.7'::interval", '"P1Y2M-3DT4H5M6.7S"'),
        ("'-00:00:01.5'::interval", '"PT-1.5S"'),
        ("'0'::interval", '"PT0S"'),
        ("'{\"a\": [1, 2.50, null]}'::jsonb", '{"a": [1, 2.50, null]}'),
        ("'{\"a\": 1e400}'::json", '{"a":null}'),
        ("'\"\\u0000x\"'::json", '"x"'),
        ("ARRAY[1, NULL]", "[1,null]"),
        ("ARRAY[[1.5, 2], [3, 4]]", "[[1.5,2],[3,4]]"),
        ("ARRAY['a\"b', 'c,d']", '["a\\"b","c,d"]'),
        ("ARRAY['{\"a\":1}'::jsonb]", '[{"a": 1}]'),
        ("'{}'::int[]", "[]"),
        ("'\\xdeadbeef'::bytea", '"\\\\xdeadbeef"'),
        ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'),
        ("'10.0.0.1'::inet", '"10.0.0.1"'),
        ("'[1,5)'::int4range", '"[1,5)"'),
        ("ROW(1, 'x')", '"(1,x)"'),
        ("repeat('9', 5000)::json", '"' + "9" * 5000 + '"'),
    ],
)
def test_values_keep_what_they_say(run, expression, value):
    ran = run(f"-- result_collection=last_statement_first_row_scalar\nSELECT {expression}")

    assert ran.outcome is not None, ran.error
    assert ran.outcome.result_json == value


def test_json_that_is_too_deep_for_its_readers_says_so(run):
    error = run("SELECT (repeat('[', 2000) || repeat(']', 2000))::json").error

    assert error["message"] == "A JSON value in the result is nested too deeply."


def test_moments_with_a_zone_have_their_offset(run):
    code = "SET TIME ZONE 'Asia/Kolkata'; SELECT '2024-01-02T03:04:05Z'::timestamptz AS t"

    assert run(code).result == [{"t": "2024-01-02T08:34:05+05:30"}]


def test_enums_are_text(run):
    assert run("CREATE TYPE mood AS ENUM ('happy'); SELECT 'happy'::mood AS m").result == [{"m": "happy"}]


@pytest.mark.parametrize(
    ("collection", "result"),
    [
        (None, [{"b": 2}, {"b": 3}]),
        ("result_collection=last_statement_all_rows", [{"b": 2}, {"b": 3}]),
        ("result_collection=last_statement_first_row", {"b": 2}),
        ("result_collection=last_statement_all_rows_scalar", [2, 3]),
        ("result_collection=last_statement_first_row_scalar", 2),
        ("result_collection=all_statements_all_rows", [[{"a": 1}], [], [{"b": 2}, {"b": 3}]]),
        ("result_collection=all_statements_first_row", [{"a": 1}, None, {"b": 2}]),
        ("result_collection=all_statements_all_rows_scalar", [[1], [], [2, 3]]),
        ("result_collection=all_statements_first_row_scalar", [1, None, 2]),
        ("result_collection=legacy", [[{"a": 1}], [], [{"b": 2}, {"b": 3}]]),
        ("return_last_result", [{"b": 2}, {"b": 3}]),
    ],
)
def test_the_script_says_which_rows_are_its_result(run, collection, result):
    header = f"-- {collection}\n" if collection else ""
    code = "SELECT 1 AS a; SELECT 1 WHERE false; SELECT * FROM (VALUES (2), (3)) AS v(b);"

    assert run(header + code).result == result


def test_the_first_row_of_nothing_is_null_and_a_statement_without_rows_is_an_empty_list(run):
    assert run("-- result_collection=last_statement_first_row\nSELECT 1 WHERE false").result is None
    assert run("CREATE TEMP TABLE t(a int); INSERT INTO t VALUES (1)").result == []


def test_the_first_row_alone_does_not_stop_what_the_statement_does(run):
    run("CREATE TABLE many(a int)")

    first = run(
        "-- result_collection=last_statement_first_row\nINSERT INTO many SELECT generate_series(1, 5000) RETURNING a"
    )

    assert first.result == {"a": 1}
    assert run("SELECT count(*) FROM many; ").result == [{"count": 5000}]


def test_a_collection_that_does_not_exist_is_named(run):
    error = run("-- result_collection=first\nSELECT 1").error

    assert "result_collection=first does not exist" in error["message"]


# --- arguments ---


def test_arguments_have_their_declared_types(run):
    code = """
        -- $1 n (int)
        -- $2 t (text) = default text
        -- $3 ids (int[])
        -- $4 j (jsonb)
        -- $5 at (timestamptz)
        -- $6 b (bytea)
        -- $7 x (numeric)
        SELECT $1 AS n, $2 AS t, $3 AS ids, $4 AS j, $5 AT TIME ZONE 'UTC' AS at, $6 AS b, $7 AS x
    """.replace("        ", "")
    args = {
        "n": 5, "ids": [1, None], "j": {"a": [1]}, "at": "2024-01-02T03:04:05.000Z", "b": "3q2+7w==", "x": "1.10",
    }  # fmt: skip

    assert run(code, args=args).outcome.result_json == (
        '[{"n":5,"t":"default text","ids":[1,null],"j":{"a": [1]},"at":"2024-01-02T03:04:05",'
        '"b":"\\\\xdeadbeef","x":1.10}]'
    )


def test_each_statement_takes_its_own_parameters(run):
    code = "-- $1 a (int)\n-- $2 b (text)\nSELECT $1 AS a; SELECT $2 AS b, $2 || $1::text AS c"

    assert run(f"-- result_collection=all_statements_first_row\n{code}", args={"a": 1, "b": "x"}).result == [
        {"a": 1},
        {"b": "x", "c": "x1"},
    ]


def test_a_text_takes_the_type_of_its_place(run):
    run("CREATE TYPE size AS ENUM ('small'); CREATE TABLE things(id uuid, size size, at date)")
    code = "-- $1 id (text)\n-- $2 size (text)\n-- $3 at (text)\nINSERT INTO things VALUES ($1, $2, $3) RETURNING *"
    args = {"id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "size": "small", "at": "2024-01-02"}

    assert run(code, args=args).result == [args]


def test_undeclared_parameters_are_taken_as_they_come(run):
    assert run("SELECT 2 = ANY($1) AS there, $2 AS t", args={"$1": [1, 2], "$2": 5}).result == [
        {"there": True, "t": "5"}
    ]


def test_an_argument_is_never_part_of_the_statement(run):
    evil = "'; DROP TABLE x; -- \\"

    assert run("-- $1 t (text)\nSELECT $1 AS t, '$1' AS s", args={"t": evil}).result == [
        {"t": evil, "s": "$1"}
    ]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("int", "abc", "should be a whole number, of type int; it is text ('abc')"),
        ("int", 3.5, "should be a whole number"),
        ("int", True, "should be a whole number"),
        ("smallint", 100_000, "should be between -32768 and 32767"),
        ("bool", 1, "should be true or false"),
        ("numeric", [], "should be a number"),
        ("text", {"a": 1}, "should be text"),
        ("int[]", 3, "should be a list, of type int[]"),
        ("int[]", [1, "x"], "should be a whole number"),
        ("bytea", "not base64!", "should be bytes in base64"),
        ("timestamptz", 5, "should be text such as 2024-12-31T23:59:59Z"),
    ],
)
def test_an_argument_of_the_wrong_type_is_named_before_anything_is_sent(run, kind, value, told):
    error = run(f"-- $1 thing ({kind})\nSELECT $1", args={"thing": value}).error

    assert error["name"] == "BadArguments"
    assert error["message"].startswith("The argument thing ")
    assert told in error["message"]


def test_an_argument_that_only_the_server_can_judge_is_named_too(run):
    error = run("-- $1 day (date)\nSELECT 1, $1", args={"day": "someday"}).error

    assert error["message"].startswith('The argument day: invalid input syntax for type date: "someday"')


def test_names_are_put_into_the_text_when_they_are_names(run):
    code = (
        "-- %%column%% a/b\n-- %%alias%%\n"
        "SELECT %%column%% AS %%alias%% FROM (SELECT 1 AS a, 2 AS b) t WHERE 'x%%y%%' <> ''"
    )

    assert run(code, args={"column": "b", "alias": "c"}).result == [{"c": 2}]
    assert "should be one of a, b" in run(code, args={"column": "c", "alias": "c"}).error["message"]
    assert (
        "letters, digits and _ only" in run(code, args={"column": "a", "alias": "c; DROP"}).error["message"]
    )


def test_what_is_known_of_the_job_is_put_into_the_text(run):
    code = "SELECT '%%WM_WORKSPACE%%' AS w, '%%WM_EMAIL%%' AS e"

    assert run(code, env={"WM_WORKSPACE": "demo", "WM_EMAIL": "a@b.c"}).result == [
        {"w": "demo", "e": "a@b.c"}
    ]
    assert "cannot be put into SQL safely" in run(code, env={"WM_WORKSPACE": "';--"}).error["message"]


# --- errors ---


@pytest.mark.parametrize(
    ("code", "name", "message", "line"),
    [
        ("SELECT 1;\n\nSELEC 2", "SyntaxError", 'syntax error at or near "SELEC" (line 3)', 3),
        (
            "-- a comment\r\nSELECT 1,\r\n  nothing",
            "UndefinedColumn",
            'column "nothing" does not exist (line 3)',
            3,
        ),
        (
            "SELECT 1;\nSELECT *\nFROM nowhere",
            "UndefinedTable",
            'relation "nowhere" does not exist (line 3)',
            3,
        ),
        ("SELECT\n1/0", "DivisionByZero", "division by zero (line 1)", 1),
    ],
)
def test_errors_are_the_servers_own_with_the_authors_line(run, code, name, message, line):
    error = run(code).error

    assert (error["name"], error["message"], error["extra"]["line"]) == (name, message, line)


def test_details_and_hints_are_told(run):
    code = "DO $$ BEGIN RAISE EXCEPTION 'no' USING DETAIL = 'because', HINT = 'try yes', ERRCODE = 'P0042'; END $$"
    error = run(code).error

    assert error["message"] == "no (line 1)\nDETAIL: because\nHINT: try yes"
    assert error["extra"]["sqlstate"] == "P0042"


def test_notices_go_to_the_log(run):
    assert "NOTICE:  hello\n" in run("DO $$ BEGIN RAISE NOTICE 'hello'; END $$").log.text


@pytest.mark.parametrize("code", ["", "-- nothing", ";;"])
def test_a_script_without_statements_says_so(run, code):
    assert "no SQL statement" in run(code).error["message"]


@pytest.mark.parametrize("code", ["COPY (SELECT 1) TO STDOUT", "COPY x\n FROM stdin"])
def test_copy_to_a_client_is_refused(run, code):
    assert "COPY with STDIN or STDOUT (line 1)" in run(code).error["message"]


def test_object_storage_is_not_there(run):
    assert "object storage" in run("-- s3 prefix=x format=csv\nSELECT 1").error["message"]


# --- the database resource ---


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"host": "/var/run/postgresql"}, "neither a name nor an address"),
        ({"host": "@abstract"}, "neither a name nor an address"),
        ({"host": "a,b"}, "neither a name nor an address"),
        ({"host": ""}, "has no host"),
        ({"host": None}, "has no host"),
        ({"port": "x"}, "its port 'x' is no number"),
        ({"port": 0}, "its port 0 is no number"),
        ({"sslmode": "maybe"}, "its sslmode 'maybe' does not exist"),
        ({"sslmode": "verify-ca"}, "needs a root_certificate_pem"),
        ({"user": ["x"]}, "its user should be text"),
        (
            {"sslmode": "verify-ca", "root_certificate_pem": "/etc/passwd"},
            "root_certificate_pem is no certificate",
        ),
    ],
)
def test_a_resource_that_cannot_be_used_says_why(jobs, database, changed, told):
    error = jobs("postgresql", "SELECT 1", args={"database": {**database, **changed}}).error

    assert error["name"] == "BadResource"
    assert told in error["message"]
    assert PASSWORD not in json.dumps(error)


def test_options_of_the_connection_cannot_be_slipped_in(jobs, database):
    sly = {
        **database,
        "service": "x",
        "options": "-c search_path=evil",
        "sslcert": "/etc/passwd",
        "passfile": "/x",
    }
    value = f"dbname={database['dbname']} options=-csearch_path=evil"

    assert jobs("postgresql", "SHOW search_path", args={"database": sly}).result == [
        {"search_path": '"$user", public'}
    ]
    refused = jobs("postgresql", "SELECT 1", args={"database": {**database, "dbname": value}}).error
    assert f'database "{value}" does not exist' in refused["message"]


@pytest.mark.parametrize("given", [None, "f/ops/db", 5])
def test_no_database_says_how_to_name_one(jobs, given):
    error = jobs("postgresql", "SELECT 1", args={"database": given}).error

    assert error["name"] == "BadArguments"
    assert "$res:f/folder/name" in error["message"]


def test_a_wrong_password_names_the_host_and_not_the_password(jobs, database, admin):
    with psycopg.connect(admin) as connection:
        [hba] = connection.execute(
            "SELECT bool_or(auth_method = 'trust') FROM pg_hba_file_rules WHERE type = 'host'"
        ).fetchone()
    wrong = {**database, "password": "wrong battery staple"}
    if hba:  # this server believes everybody: a user that does not exist is as good
        wrong["user"] = "nobody_at_all"

    error = jobs("postgresql", "SELECT 1", args={"database": wrong}).error

    assert error["name"] == "ConnectionFailed"
    assert f"{database['host']}:{database['port']}" in error["message"]
    assert "battery" not in json.dumps(error)


@pytest.mark.parametrize("mode", ["require", "verify-full"])
def test_encryption_that_the_server_does_not_have_is_no_plain_connection(jobs, database, admin, mode):
    with psycopg.connect(admin) as connection:
        row = connection.execute("SHOW ssl").fetchone()
    if row == ("on",) and mode == "require":
        pytest.skip("this server has TLS")

    error = jobs("postgresql", "SELECT 1", args={"database": {**database, "sslmode": mode}}).error

    assert error["name"] == "ConnectionFailed"


def test_a_host_that_does_not_answer_is_named(jobs, database):
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

        error = jobs(
            "postgresql", "SELECT 1", args={"database": {**database, "host": "127.0.0.1", "port": port}}
        ).error

    assert error["name"] == "ConnectionFailed"
    assert f"127.0.0.1:{port}" in error["message"]


# --- sessions ---


def test_nothing_of_a_session_stays_for_the_next_job(run):
    run(
        "SET search_path = elsewhere; SET ROLE NONE; CREATE TEMP TABLE left_over(a int); PREPARE p AS SELECT 1;"
        "SELECT pg_advisory_lock(42); LISTEN news; SELECT set_config('my.secret', 'x', false)"
    )
    pid = "SELECT pg_backend_pid() AS pid, current_setting('my.secret', true) AS secret"

    first, second = run(pid).result, run(pid).result

    assert first == second, "the connection was not used again"
    assert first[0]["secret"] in (None, "")
    assert run("SHOW search_path").result == [{"search_path": '"$user", public'}]
    assert run("SELECT * FROM pg_prepared_statements").result == []
    assert run("SELECT * FROM pg_locks WHERE locktype = 'advisory'").result == []
    assert "does not exist" in run("SELECT * FROM left_over").error["message"]


def test_a_transaction_that_was_left_open_is_rolled_back_and_the_log_says_so(run):
    run("CREATE TABLE kept(a int)")

    ran = run("BEGIN; INSERT INTO kept VALUES (1)")
    run("BEGIN; INSERT INTO kept VALUES (2); COMMIT")

    assert "left a transaction open" in ran.log.text
    assert run("SELECT a FROM kept").result == [{"a": 2}]


def test_without_begin_every_statement_stands_for_itself(run):
    run("CREATE TABLE own(a int)")
    run("INSERT INTO own VALUES (1); SELECT 1/0")

    assert run("SELECT a FROM own").result == [{"a": 1}]


def test_a_connection_that_the_server_closed_is_replaced(jobs, database, admin, wait_until):
    def killed(pid: int) -> None:
        idle = [group.idle for group in jobs.executors["postgresql"]._pool._groups.values()]
        with psycopg.connect(admin, autocommit=True) as connection:
            tidy = (
                "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'idle' AND query = 'DISCARD ALL'"
            )
            wait_until(lambda: connection.execute(tidy, [pid]).fetchone())
            connection.execute("SELECT pg_terminate_backend(%s)", [pid])
            wait_until(
                lambda: (
                    connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone()
                    is None
                )
            )
            # The news must have reached our end of the connection.
            wait_until(lambda: any(_is_broken(one) for group in idle for one, _ in group))

    async def two_jobs() -> Ran:
        args = {"database": database}
        first = await jobs.run("postgresql", "SELECT pg_backend_pid() AS pid", args=args)
        await asyncio.to_thread(killed, first.result[0]["pid"])
        return await jobs.run("postgresql", "SELECT 1 AS a", args=args)

    assert jobs.runner.run(two_jobs()).result == [{"a": 1}]


def test_a_connection_that_is_lost_under_a_statement_fails_it_and_is_not_tried_again(run):
    run("CREATE SEQUENCE calls")
    error = run("SELECT nextval('calls'), pg_terminate_backend(pg_backend_pid())").error

    assert error["message"]
    assert run("SELECT last_value FROM calls").result == [{"last_value": 1}]


def test_workspaces_share_no_connection(jobs, database):
    def pid(workspace: str) -> int:
        code = "SELECT pg_backend_pid() AS pid"
        return int(
            jobs("postgresql", code, args={"database": database}, workspace_id=workspace).result[0]["pid"]
        )

    assert pid("a") == pid("a") != pid("b")


# --- stopping ---


def active(admin: str, marker: str) -> int:
    with psycopg.connect(admin, autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s AND pid <> pg_backend_pid()",
            [f"%{marker}%"],
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_timeout_stops_the_statement_on_the_server(run, admin):
    began = time.monotonic()

    error = run("SELECT 'stop_me_1', pg_sleep(60)", timeout_s=0.3).error

    assert "timed out" in error["message"]
    assert time.monotonic() - began < 10
    assert active(admin, "stop_me_1") == 0


def test_a_cancelled_job_stops_the_statement_on_the_server(jobs, database, admin, wait_until):
    async def cancelled() -> None:
        args = {"database": database}
        task = asyncio.create_task(jobs.run("postgresql", "SELECT 'stop_me_2', pg_sleep(60)", args=args))
        await asyncio.to_thread(wait_until, lambda: active(admin, "stop_me_2") == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    jobs.runner.run(cancelled())

    assert active(admin, "stop_me_2") == 0


def test_a_server_that_hangs_does_not_hold_a_job_beyond_its_timeout(jobs):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        resource = {"host": "127.0.0.1", "port": silent.getsockname()[1], "user": "u", "sslmode": "disable"}
        began = time.monotonic()

        error = jobs("postgresql", "SELECT 1", args={"database": resource}, timeout_s=0.5).error

    assert "timed out" in error["message"]
    assert time.monotonic() - began < 8


# --- large results ---


def test_a_result_that_is_too_large_is_refused_and_the_statement_stopped(run, admin):
    error = run(
        "SELECT 'too_large_1', i FROM generate_series(1, 10000000) i", limits=Limits(result_bytes=1_000_000)
    ).error

    assert error["name"] == "ResultTooLarge"
    assert active(admin, "too_large_1") == 0


def test_a_hundred_thousand_rows_do_not_hold_up_the_worker(jobs, database):
    longest_cpu = 0.0
    gaps: list[float] = []

    async def ticking() -> None:
        nonlocal longest_cpu
        while True:
            cpu, wall = time.thread_time(), time.monotonic()
            await asyncio.sleep(0.001)
            longest_cpu = max(longest_cpu, time.thread_time() - cpu)
            gaps.append(time.monotonic() - wall)

    async def measured() -> Ran:
        ticks = asyncio.create_task(ticking())
        try:
            code = "SELECT i, md5(i::text) AS m, i * 1.5 AS n FROM generate_series(1, 100000) i"
            return await jobs.run("postgresql", code, args={"database": database})
        finally:
            ticks.cancel()

    rows = jobs.runner.run(measured()).result

    assert len(rows) == 100_000
    assert rows[-1] == {"i": 100_000, "m": md5(b"100000").hexdigest(), "n": 150_000}
    assert longest_cpu < 0.02
    assert sorted(gaps)[int(len(gaps) * 0.9)] < 0.02  # the machine has other work, too


# --- the pool ---


class _Server:
    """Counts connections to a database through a pool of the test's own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.made = 0

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        self.made += 1
        return await psycopg.AsyncConnection.connect(self.address, autocommit=True, prepare_threshold=None)


def test_the_pool_keeps_its_limits_and_closes_what_nobody_uses(admin):
    server = _Server(admin)

    async def many() -> tuple[int, int]:
        pool = PostgresPool(per_key=2, total=3, idle_s=0.05)
        busy = most = 0

        async def one(key: str) -> None:
            nonlocal busy, most
            async with pool.connection(key, server.connect) as connection:
                busy += 1
                most = max(most, busy)
                await connection.execute("SELECT pg_sleep(0.01)")
                busy -= 1

        await asyncio.gather(*(one(key) for key in "aaaaabbbbbccccc"))
        async with asyncio.timeout(10):
            while pool.open_connections:
                await asyncio.sleep(0.01)
        await pool.close()
        return most, server.made

    most, made = asyncio.run(many())

    assert most == 3
    assert 3 <= made <= 15


def test_a_connection_that_cannot_be_made_leaves_its_place(admin):
    async def failing() -> None:
        raise OSError("no")

    async def tried() -> None:
        pool = PostgresPool(per_key=1, total=1)
        for _ in range(3):
            with pytest.raises(OSError, match="no"):
                async with asyncio.timeout(5), pool.connection("a", failing):  # type: ignore[arg-type]
                    pass
        async with asyncio.timeout(5), pool.connection("b", _Server(admin).connect) as connection:
            await connection.execute("SELECT 1")
        await pool.close()

    asyncio.run(tried())
