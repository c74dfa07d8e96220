"""The code that a new script begins with runs as it is, with what its form starts from."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from bench.tcp_relay import tcp_address
from jobs.signatures import infer_schema
from jobs.starters import starters
from tests.workers.job_runs import Jobs

HELLO = ["Hello world, number 1", "Hello world, number 2", "Hello world, number 3"]
ROWS = [{"number": number, "greeting": "Hello world"} for number in (1, 2, 3)]


def defaults(language: str) -> dict[str, Any]:
    """What the form of the starter holds at first."""
    properties = infer_schema(language, starters()[language]).schema["properties"]
    return {name: field["default"] for name, field in properties.items() if field["default"] is not None}


@pytest.fixture(scope="module")
def database() -> Iterator[dict[str, Any]]:
    """The tests' PostgreSQL, as the value of a resource."""
    url = os.environ["DATABASE_URL"]
    told = conninfo_to_dict(url)
    with tcp_address(url) as (host, port):
        yield {
            "host": host,
            "port": port,
            "user": told.get("user"),
            "password": told.get("password", ""),
            "dbname": told.get("dbname") or "postgres",
            "sslmode": "disable",
        }


@pytest.mark.parametrize(
    ("language", "args", "expected"),
    [
        ("python3", {}, {"greetings": HELLO}),
        ("bun", {}, {"greetings": HELLO}),
        ("deno", {}, {"greetings": HELLO}),
        ("php", {}, {"greetings": HELLO}),
        ("go", {"name": "world", "times": 3}, {"lines": HELLO}),
        ("bash", {}, HELLO[-1]),
        ("powershell", {}, HELLO[-1]),
        ("duckdb", {}, ROWS),
        ("postgresql", {}, ROWS),
    ],
)
def test_a_starter_runs_with_the_defaults_of_its_form(
    jobs: Jobs, language: str, args: dict[str, Any], expected: object, database: dict[str, Any]
) -> None:
    if language not in jobs.executors:
        pytest.skip(f"what runs {language} is not installed here")
    given = args | ({"database": database} if language == "postgresql" else {})

    ran = jobs(language, starters()[language], args={**defaults(language), **given}, lock="")

    assert ran.result == expected
