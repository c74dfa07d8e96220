"""Results are text that a job wrote: whatever passes can be stored, and searched afterwards."""

import asyncio

import pytest
from django.db import connection

from workers.runtimes.results import checked


@pytest.mark.django_db
@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1e-20000}',
        '{"a": 1E+20000}',
        '{"a": 0.' + "1" * 20_000 + "}",
        '{"a": ' + "9" * 4_000 + "}",
        '{"a": "\\u0000"}',
        '{"a": "\\ud800"}',
        "[NaN]",
        "[" * 500 + "]" * 500,
    ],
    ids=lambda text: text[:16],
)
def test_a_result_that_passes_can_be_searched(text: str) -> None:
    result = asyncio.run(checked(text.encode(), what="the result"))

    with connection.cursor() as cursor:
        cursor.execute("SELECT jsonb_typeof((%s::json)::jsonb)", [result])
        assert cursor.fetchone()[0] in ("object", "array")
