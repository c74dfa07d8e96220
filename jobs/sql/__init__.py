"""SQL of the queue's hot path: one statement a file, read once, run as written by sync and async callers alike.

Rules that all of them keep: one clock (the database's, `statement_timestamp()`), named parameters, and every write of a
worker names its claim as (id, attempt) and matches nothing when that claim is over.
"""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def load(name: str) -> str:
    """The text of jobs/sql/<name>.sql, with psycopg's %(name)s parameters."""
    return (_FOLDER / f"{name}.sql").read_text()
