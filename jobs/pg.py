"""Connections to PostgreSQL outside Django's ORM: how the listener and the worker open theirs."""

from typing import Any

from django.conf import settings
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
