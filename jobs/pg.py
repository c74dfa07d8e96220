"""Connections to PostgreSQL outside Django's ORM, as the listener and the worker open theirs; prepared statements."""

import functools
import logging
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import django.db
import psycopg
from django.conf import settings
from django.db import connection
from psycopg.conninfo import conninfo_to_dict

logger = logging.getLogger(__name__)

# A peer that vanished without a word (power, network, failover) is noticed within half a minute.
_PATIENCE = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_BACKEND = "SELECT pg_backend_pid()"
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

# Whether each of Django's connections reaches the server itself; asked once.
_direct: "WeakKeyDictionary[psycopg.Connection[Any], bool]" = WeakKeyDictionary()


def connection_parameters(url: str, *, application_name: str) -> dict[str, Any]:
    """What psycopg needs to connect to `url`. Settings in the URL itself win over ours."""
    return {"application_name": application_name, **_PATIENCE, **conninfo_to_dict(url)}


def is_pooled() -> bool:
    """Whether DATABASE_URL is likely a transaction-mode pooler: nothing may outlive a transaction there."""
    return bool(settings.DATABASE_DIRECT_URL != settings.DATABASE_URL)


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


async def is_direct(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether this connection reaches the server itself, not a pooler: poolers make up the process id that they tell."""
    row = await (await connection.execute(_BACKEND, prepare=False)).fetchone()
    return row is not None and bool(row[0] == connection.info.backend_pid)


def _is_direct(connection: psycopg.Connection[Any]) -> bool:
    known = _direct.get(connection)
    if known is None:
        row = connection.execute(_BACKEND, prepare=False).fetchone()
        known = _direct[connection] = row is not None and bool(row[0] == connection.info.backend_pid)
        if not known:
            connection.prepare_threshold = None  # overrules `prepare`
    return known


@functools.cache
def warn_of_pooler() -> None:
    """Tell the operator, once a process, what to set."""
    logger.warning(
        "a connection pooler stands between us and PostgreSQL, and DATABASE_DIRECT_URL does not lead past it: nothing is "
        "prepared and notifications are not awaited, which is slower. Set DATABASE_DIRECT_URL to that of PostgreSQL"
    )


class _PreparedCursor(psycopg.Cursor[Any]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> "_PreparedCursor":
        return super().execute(query, params, prepare=True, **options)


def execute_prepared(statement: str, parameters: Mapping[str, Any]) -> int:
    """Run one statement on Django's connection, in its transaction; answers how many rows it concerned.

    Each connection parses and plans it once: of a large statement that is most of its time. Behind a pooler nothing is
    prepared: the next statement may meet another server process. Raises django.db's errors.
    """
    connection.ensure_connection()
    raw: Any = connection.connection
    if not is_pooled():
        with connection.wrap_database_errors:
            if not _is_direct(raw):
                warn_of_pooler()
    prepare: Any = connection._prepare_cursor  # type: ignore[attr-defined]  # Django's own: errors, debugging, transactions
    with prepare(_PreparedCursor(raw)) as cursor:
        cursor.execute(statement, parameters)
        return int(cursor.rowcount)
