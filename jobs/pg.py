"""Connections to PostgreSQL outside Django's ORM, as the listener and the worker open theirs; prepared statements."""

import contextlib
import functools
import logging
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

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
NOTIFY = "SELECT pg_notify(%(channel)s, %(payload)s)"
_BACKEND = "SELECT pg_backend_pid()"
# Whether each of Django's connections reaches the server itself; asked once.
_direct: "WeakKeyDictionary[psycopg.Connection[Any], bool]" = WeakKeyDictionary()


def connection_parameters(url: str, *, application_name: str) -> dict[str, Any]:
    """What psycopg needs to connect to `url`. Settings in the URL itself win over ours."""
    return {"application_name": application_name, **_PATIENCE, **conninfo_to_dict(url)}


def is_pooled() -> bool:
    """Whether DATABASE_URL is likely a transaction-mode pooler: nothing may outlive a transaction there."""
    return bool(settings.DATABASE_DIRECT_URL != settings.DATABASE_URL)


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


def _raw() -> psycopg.Connection[Any]:
    """Django's connection without Django, ready for statements that ask to be prepared."""
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    if not is_pooled():
        with connection.wrap_database_errors:
            if not _is_direct(raw):
                warn_of_pooler()
    return raw


class _PreparedCursor(psycopg.Cursor[Any]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> "_PreparedCursor":
        return super().execute(query, params, prepare=True, **options)


def execute_prepared(statement: str, parameters: Mapping[str, Any]) -> int:
    """Run one statement on Django's connection, in its transaction; answers how many rows it concerned.

    Each connection parses and plans it once: of a large statement that is most of its time. Behind a pooler nothing is
    prepared: the next statement may meet another server process. Raises django.db's errors.
    """
    raw = _raw()
    prepare: Any = connection._prepare_cursor  # type: ignore[attr-defined]  # Django's own: errors, debugging, transactions
    with prepare(_PreparedCursor(raw)) as cursor:
        cursor.execute(statement, parameters)
        return int(cursor.rowcount)


def can_notify_at_once() -> bool:
    """Whether `execute_and_notify` may be used: there is no transaction of a caller, and no pooler."""
    if connection.in_atomic_block or not connection.get_autocommit() or is_pooled():
        return False
    return _is_direct(_raw())


def execute_and_notify(statement: str, parameters: Mapping[str, Any], *, channel: str, payload: str) -> int:
    """What `execute_prepared` does, with a notification right behind it: all sent at once, so in one round trip.

    In two transactions, because NOTIFY takes a lock of the whole database while its own one commits. It is sent, for
    nothing, also when the statement concerned no row. Raises django.db's errors, of the statement alone.
    """
    raw = _raw()
    cursor, end, others = psycopg.Cursor(raw), psycopg.Cursor(raw), psycopg.Cursor(raw)
    with connection.wrap_database_errors:
        try:
            with raw.pipeline():
                others.execute("BEGIN", prepare=True)
                cursor.execute(statement, parameters, prepare=True)
                end.execute("COMMIT", prepare=True)
                others.execute(NOTIFY, {"channel": channel, "payload": payload}, prepare=True)
        except psycopg.Error as error:
            if end.statusmessage == "COMMIT":
                logger.warning("notification not sent channel=%s: %s", channel, error)
                return cursor.rowcount
            with contextlib.suppress(psycopg.Error):  # of a connection that is lost
                raw.rollback()
            raise
    return cursor.rowcount
