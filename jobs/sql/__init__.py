"""SQL of the queue's hot path: one statement a file, read once, run as written by sync and async callers alike.

Rules that all of them keep: one clock (the database's, `statement_timestamp()`), named parameters, and every write of a
worker names its claim as (id, attempt) and matches nothing when that claim is over.

A worker prepares them once and keeps the plan, perhaps one that was made while the queue was empty and any way to read it
seemed as good. So what a statement looks for is said twice, `queue.id = found.id AND queue.id = ANY(...)`: whichever is
read first, it is read by index. And `running IS TRUE` keeps the partial indexes out of it: a condition on the row, not a
way to find it (tests/jobs/test_queue_claims.py holds the plans).
"""

import re
from pathlib import Path

_COMMENTS_AND_INDENTATION = re.compile(r"^\s*--.*\n?|^\s+", re.MULTILINE)


def load(name: str) -> str:
    """The text of jobs/sql/<name>.sql, with psycopg's %(name)s parameters.

    Without comments and indentation: psycopg parses a statement of more than 4,096 characters again at each call.
    """
    return _STATEMENTS[name]


# All at once, when the process starts: a release that is unpacked under a running one must not mix with it.
_STATEMENTS = {
    path.stem: _COMMENTS_AND_INDENTATION.sub("", path.read_text())
    for path in Path(__file__).parent.glob("*.sql")
}
