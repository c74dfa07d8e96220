"""The code that a new script begins with runs as it is, with what its form starts from."""

import os
from typing import Any
from urllib.parse import urlsplit

import pytest

from jobs.signatures import infer_schema
from jobs.starters import starters
from tests.workers.job_runs import Jobs

HELLO = ["Hello world, number 1", "Hello world, number 2", "Hello world, number 3"]
ROWS = [{"number": number, "greeting": "Hello world"} for number in (1, 2, 3)]


def defaults(language: str) -> dict[str, Any]:
    """What the form of the starter holds at first."""
    properties = infer_schema(language, starters()[language]).schema["properties"]
    return {name: field["default"] for name, field in properties.items() if field["default"] is not None}


def database() -> dict[str, Any]:
    """The tests' PostgreSQL, as the value of a resource."""
    url = urlsplit(os.environ["DATABASE_URL"])
    parts = {
        "host": url.hostname,
        "port": url.port or 5432,
        "user": url.username,
        "password": url.password or "",
    }
    return {**parts, "dbname": "postgres", "sslmode": "disable"}


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
        ("postgresql", {"database": database}, ROWS),
    ],
)
def test_a_starter_runs_with_the_defaults_of_its_form(
    jobs: Jobs, language: str, args: dict[str, Any], expected: object
) -> None:
    if language not in jobs.executors:
        pytest.skip(f"what runs {language} is not installed here")
    given = {name: value() if callable(value) else value for name, value in args.items()}

    ran = jobs(language, starters()[language], args={**defaults(language), **given}, lock="")

    assert ran.result == expected
