"""Connections to PostgreSQL outside Django's ORM, as the listener and the worker open theirs; prepared statements."""

from collections.abc import Mapping
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection
from psycopg.conninfo import conninfo_to_dict

# A peer that vanished without a word (power, network, failover) is noticed within half a minute.
_PATIENCE = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def connection_parameters(url: str, *, application_name: str) -> dict[str, Any]:
    """What psycopg needs to connect to `url`. Settings in the URL itself win over ours."""
    return {"application_name": application_name, **_PATIENCE, **conninfo_to_dict(url)}


def is_pooled() -> bool:
    """Whether DATABASE_URL is likely a transaction-mode pooler: nothing may outlive a transaction there."""
    return bool(settings.DATABASE_DIRECT_URL != settings.DATABASE_URL)


class _PreparedCursor(psycopg.Cursor[Any]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> "_PreparedCursor":
        return super().execute(query, params, prepare=True, **options)


def execute_prepared(statement: str, parameters: Mapping[str, Any]) -> int:
    """Run one statement on Django's connection, in its transaction; answers how many rows it concerned.

    Each connection parses and plans it once: of a large statement that is most of its time. Behind a pooler nothing is
    prepared (settings: prepare_threshold). Raises django.db's errors.
    """
    connection.ensure_connection()
    raw: Any = connection.connection
    prepare: Any = connection._prepare_cursor  # type: ignore[attr-defined]  # Django's own: errors, debugging, transactions
    with prepare(_PreparedCursor(raw)) as cursor:
        cursor.execute(statement, parameters)
        return int(cursor.rowcount)
