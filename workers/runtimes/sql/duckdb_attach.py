"""ATTACH '$res:f/ops/db' AS db (TYPE postgres): the resource as the text that DuckDB connects with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jobs.signatures.sql import resource_literals
from workers.runtimes.base import ExecutionFailed
from workers.runtimes.sql.resources import host_of, port_of, text_of

_PORTS = {"postgres": 5432, "mysql": 3306}


def with_resources(text: str, line: int, args: Mapping[str, Any]) -> tuple[str, list[str]]:
    """An ATTACH statement with what its resources stand for, and the passwords among that. Raises ExecutionFailed.

    `args` holds the resources' values under "$res:path" (workers.arguments puts them there).
    """
    passwords: list[str] = []
    for literal, path in resource_literals(text):
        kind = "mysql" if "mysql" in text.lower().rpartition(literal.lower())[2] else "postgres"
        value = args.get(f"$res:{path}")
        if not isinstance(value, dict):
            raise ExecutionFailed(
                {
                    "name": "BadResource",
                    "message": f"The resource {path} (line {line}) is not a database: its value should be an object with "
                    "host, port, user and password.",
                }
            )
        connection = " ".join(_pairs(value, kind))
        text = text.replace(literal, "'" + connection.replace("'", "''") + "'")
        if isinstance(value.get("password"), str) and value["password"]:
            passwords += dict.fromkeys((value["password"], _escaped(value["password"])))
    return text, passwords


def _pairs(resource: Mapping[str, Any], kind: str) -> Iterator[str]:
    fields = {
        "host": host_of(resource, kind),
        "port": str(port_of(resource, _PORTS[kind])),
        "user": text_of(resource, "user"),
        "password": text_of(resource, "password"),
    }
    database = text_of(resource, "dbname") or text_of(resource, "database")
    fields["dbname" if kind == "postgres" else "database"] = database
    if kind == "postgres":
        fields["sslmode"] = text_of(resource, "sslmode")
    for key, value in fields.items():
        if value:
            yield f"{key}='{_escaped(value)}'"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
