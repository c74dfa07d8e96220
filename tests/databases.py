"""Addresses of databases on the server that the tests use."""

from urllib.parse import quote

from django.db import connection


def address(name: str | None = None) -> str:
    """A DATABASE_URL for a process of its own: of the database `name`, or of the one that this test is in.

    The server may be behind a Unix socket, so the host goes into the query.
    """
    at = connection.get_connection_params()
    login = quote(at.get("user") or "", safe="")
    if at.get("password"):
        login += f":{quote(at['password'], safe='')}"
    place = f"host={quote(at.get('host') or '', safe='')}" + (f"&port={at['port']}" if at.get("port") else "")
    return f"postgres://{login}@/{quote(name or at['dbname'], safe='')}?{place}"
