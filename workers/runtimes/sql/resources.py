"""Fields of database resources, checked: anybody may have written them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from workers.runtimes.base import ExecutionFailed

CONNECT_S = 20
_HOST = re.compile(r"[^\W_][\w.-]*|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%\w+)?\]?")


def host_of(resource: Mapping[str, Any], kind: str) -> str:
    """The host's name or address. Raises ExecutionFailed for none, for several, and for a path."""
    host = resource.get("host")
    if not isinstance(host, str) or not host.strip():
        raise bad_resource(f"it has no host, as a {kind} resource should")
    host = host.strip()
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise bad_resource(
            f"its host {host[:80]!r} is neither a name nor an address; sockets and lists are not allowed"
        )
    return host.strip("[]")


def port_of(resource: Mapping[str, Any], default: int) -> int:
    """Raises ExecutionFailed for what is no port."""
    port = resource.get("port")
    if port is None or port == "":
        return default
    if isinstance(port, str) and re.fullmatch(r"\d{1,5}", port.strip()):
        port = int(port)
    if isinstance(port, float) and port.is_integer():
        port = int(port)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise bad_resource(f"its port {port!r} is no number between 1 and 65535")
    return port


def text_of(resource: Mapping[str, Any], key: str) -> str:
    """A field of text; "" when it is not there. Raises ExecutionFailed for anything else."""
    value = resource.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or "\0" in value:
        raise bad_resource(f"its {key} should be text")
    return value


def bad_resource(what: str) -> ExecutionFailed:
    """The failure for a database resource that cannot be used."""
    return ExecutionFailed(
        {"name": "BadResource", "message": f"The database resource cannot be used: {what}."}
    )
