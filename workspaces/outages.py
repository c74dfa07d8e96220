"""Which errors of PostgreSQL pass by themselves."""

import django.db
import psycopg

# SQLSTATEs of errors that pass although psycopg does not count them among the operational ones.
_PASSING = frozenset(
    {
        "25006",  # read-only: a standby, or a primary that is about to become one
        "42501",  # a right was taken from our account: nothing is wrong with what we write
        "26000",  # a prepared statement is not there: somebody put a pooler in between, or said DEALLOCATE
        "42P05",  # the same: it is another client's
    }
)
_TOO_COMPLEX = (
    "54"  # the class of errors that psycopg counts among the operational ones, and that do not pass
)


def is_away(error: Exception) -> bool:
    """Whether the database could not do at this time what may work later, unchanged: it is gone, starting, full, locked,
    read-only. False: it refuses the statement or its values. Knows errors of psycopg and of django.db.
    """
    if isinstance(error, django.db.Error) and isinstance(error.__cause__, psycopg.Error):
        error = error.__cause__
    if isinstance(error, psycopg.Error):
        if error.sqlstate in _PASSING:
            return True
        if error.sqlstate is not None and error.sqlstate.startswith(_TOO_COMPLEX):
            return False
    return isinstance(
        error,
        (
            psycopg.OperationalError,
            psycopg.InterfaceError,
            django.db.OperationalError,
            django.db.InterfaceError,
        ),
    )
