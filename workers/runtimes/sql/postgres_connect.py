"""From a `postgresql` resource to a connection. Nothing but the resource decides where it goes and how."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap

from workers.networks import BlockedNetworks
from workers.runtimes.base import ExecutionFailed
from workers.runtimes.sql.resources import CONNECT_S, bad_resource, host_of, port_of, text_of

_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
# A path where no file is: libpq then uses none, instead of the worker's own certificates and passwords.
_NO_FILE = "/nonexistent/windmill"


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect, and as whom."""

    host: str
    port: int
    user: str
    password: str
    dbname: str
    sslmode: str
    root_certificate_pem: str

    @property
    def address(self) -> str:
        """For messages."""
        return f"{self.host}:{self.port}"

    @property
    def key(self) -> str:
        """The same for the same target, and does not tell the password."""
        parts = [getattr(self, name) for name in self.__slots__]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def target_of(resource: Mapping[str, Any]) -> Target:
    """Raises ExecutionFailed for a resource that cannot be connected to, or that names a file or a socket."""
    host = host_of(resource, "postgresql")
    sslmode = resource.get("sslmode") or "prefer"
    if sslmode not in _SSL_MODES:
        raise bad_resource(f"its sslmode {sslmode!r} does not exist; it is one of {', '.join(_SSL_MODES)}")
    if sslmode == "verify-ca" and not resource.get("root_certificate_pem"):
        raise bad_resource("its sslmode verify-ca needs a root_certificate_pem")
    return Target(
        host=host,
        port=port_of(resource, 5432),
        user=text_of(resource, "user") or "postgres",
        password=text_of(resource, "password"),
        dbname=text_of(resource, "dbname") or text_of(resource, "database") or "postgres",
        sslmode=sslmode,
        root_certificate_pem=text_of(resource, "root_certificate_pem"),
    )


async def connected(
    target: Target, adapters: AdaptersMap, blocked: BlockedNetworks
) -> psycopg.AsyncConnection[Any]:
    """A new connection in autocommit mode, to no address of `blocked`.

    Raises ExecutionFailed that names the host and never the password.
    """
    certificate = await _certificate_file(target)
    try:
        addresses = await _addresses(target, blocked)
        return await psycopg.AsyncConnection.connect(
            "",
            autocommit=True,
            prepare_threshold=None,  # a pooler on the way may not know what was prepared
            context=adapters,
            # One of each for every address: libpq tries them in turn.
            host=",".join([target.host] * len(addresses)),
            hostaddr=",".join(addresses),
            port=",".join([str(target.port)] * len(addresses)),
            user=target.user,
            password=target.password,
            dbname=target.dbname,
            sslmode=target.sslmode,
            sslrootcert=certificate or ("system" if target.sslmode == "verify-full" else _NO_FILE),
            sslcertmode="disable",
            sslcert=_NO_FILE,
            sslkey=_NO_FILE,
            passfile=_NO_FILE,
            gssencmode="disable",
            options="",
            target_session_attrs="any",
            client_encoding="utf8",
            application_name="windmill",
            connect_timeout=CONNECT_S,
            keepalives_idle=30,
        )
    except (psycopg.Error, OSError) as error:
        message = " ".join(str(error).split()).removeprefix("connection failed: ")
        message = re.sub(
            r"^connection to server at .*? failed: |Multiple connection attempts failed.*", "", message
        )
        raise ExecutionFailed(
            {
                "name": "ConnectionFailed",
                "message": f"Cannot connect to PostgreSQL at {target.address}, database {target.dbname}, as "
                f"{target.user}: {message or error}",
            }
        ) from None
    finally:
        if certificate:
            os.unlink(certificate)


async def _addresses(target: Target, blocked: BlockedNetworks) -> list[str]:
    """Raises OSError."""
    try:
        return await blocked.resolve(target.host, target.port)
    except socket.gaierror as error:
        raise OSError(f"failed to resolve host {target.host!r}: {error}") from error


async def _certificate_file(target: Target) -> str | None:
    """libpq reads certificates from files only."""
    if not target.root_certificate_pem or target.sslmode in ("disable", "allow", "prefer"):
        return None
    if "-----BEGIN CERTIFICATE-----" not in target.root_certificate_pem:
        raise bad_resource("its root_certificate_pem is no certificate (-----BEGIN CERTIFICATE-----)")
    handle, path = tempfile.mkstemp(suffix=".pem")
    with os.fdopen(handle, "w") as file:
        file.write(target.root_certificate_pem)
    return path
