"""Bring the database up to date before anything uses it: `python -m windmill_site.prepare migrate|wait`.

One process for what would be three manage.py calls: importing Django costs more than the work itself.
Progress goes to stderr; the last line of stdout is a JSON object for the supervisor.
"""

import json
import os
import sys
import time

import django
import psycopg
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict

OLDEST_SERVER = 14
WAIT_S = 60.0  # a database that starts together with us (compose, Kubernetes) gets this long
# Any number of servers may start at once; this advisory lock lets one migrate while the others wait.
_MIGRATION_LOCK = 0x57494E444D494C4C
_LOCK_POLL_S = 0.2


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "windmill_site.settings")
    try:
        django.setup()
        from django.conf import settings

        with _connect(settings.DATABASE_DIRECT_URL) as connection:
            report = _migrate(connection) if sys.argv[1:] != ["wait"] else _wait_for_migrations()
    except ImproperlyConfigured as exc:
        print(exc, file=sys.stderr)
        return 2
    except psycopg.OperationalError as exc:
        print(f"The database was lost while it was being prepared: {str(exc).strip()}", file=sys.stderr)
        return 2
    print(json.dumps({**report, "version": settings.VERSION}))
    return 0


def _connect(url: str) -> psycopg.Connection:
    """An open connection to a server that is new enough; waits for it. Raises ImproperlyConfigured."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error as exc:
        raise ImproperlyConfigured(f"DATABASE_URL is no PostgreSQL address: {str(exc).strip()}") from exc
    where = f"{parts.get('host') or 'the local socket'}, database {parts.get('dbname') or parts.get('user')}"
    deadline = time.monotonic() + WAIT_S
    announced = False
    while True:
        try:
            connection = psycopg.connect(url, autocommit=True, connect_timeout=5)
            break
        except psycopg.OperationalError as exc:
            reason = str(exc).strip().splitlines()[-1]
            # A wrong password or a missing database does not mend itself; a server that is not there yet may.
            hopeless = "authentication failed" in reason or ("role" in reason and "does not exist" in reason)
            if hopeless or time.monotonic() > deadline:
                raise ImproperlyConfigured(f"PostgreSQL at {where} does not let us in: {reason}") from exc
            if not announced:
                print(f"Waiting for PostgreSQL at {where} ({reason}) ...", file=sys.stderr, flush=True)
                announced = True
            time.sleep(0.5)
    major = connection.info.server_version // 10_000
    if major < OLDEST_SERVER:
        raise ImproperlyConfigured(
            f"PostgreSQL at {where} is version {major}; Windmill needs {OLDEST_SERVER} or newer."
        )
    return connection


def _migrate(connection: psycopg.Connection) -> dict[str, object]:
    from django.core.management import call_command

    from workspaces.accounts import bootstrap
    from workspaces.models import Account

    # The lock is that of a connection, so a killed process gives it back; migrate uses connections of its own. It is not
    # that of a transaction, and who waits for it asks again and again: CREATE INDEX CONCURRENTLY waits for every
    # transaction and statement that is under way, and would wait for these for ever.
    while connection.execute("SELECT pg_try_advisory_lock(%s)", [_MIGRATION_LOCK]).fetchone() != (True,):
        time.sleep(_LOCK_POLL_S)
    applied = _unapplied_count()
    if applied:
        call_command("migrate", interactive=False, verbosity=0)
    email, _made = bootstrap()
    return {
        "applied": applied,
        "superadmin": email,
        "has_default_password": Account.objects.filter(email=email, must_change_password=True).exists(),
    }


def _wait_for_migrations() -> dict[str, object]:
    """A worker does not migrate: it waits for a server of its own release to have done so."""
    announced = False
    while _unapplied_count():
        if not announced:
            print("Waiting for a server to migrate the database ...", file=sys.stderr, flush=True)
            announced = True
        time.sleep(1.0)
    return {"applied": 0}


def _unapplied_count() -> int:
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


if __name__ == "__main__":
    sys.exit(main())
