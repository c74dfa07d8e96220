"""A TCP address for a PostgreSQL that listens on a Unix socket only, which scripts are not allowed to name."""

import contextlib
import socket
import threading
from collections.abc import Iterator

from psycopg.conninfo import conninfo_to_dict


@contextlib.contextmanager
def tcp_address(url: str) -> Iterator[tuple[str, int]]:
    """Host and port at which the PostgreSQL of `url` can be reached by TCP."""
    told = conninfo_to_dict(url)
    host, port = str(told.get("host") or "127.0.0.1"), int(told.get("port") or 5432)
    if not host.startswith("/"):
        yield host, port
        return
    with tcp_relay(f"{host}/.s.PGSQL.{port}") as relayed:
        yield "127.0.0.1", relayed


@contextlib.contextmanager
def tcp_relay(socket_path: str) -> Iterator[int]:
    """Pass connections to a port of 127.0.0.1 on to the socket at `socket_path`; gives the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener, socket_path), daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def _accept(listener: socket.socket, socket_path: str) -> None:
    with contextlib.suppress(OSError):  # closed: the end
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server = socket.socket(socket.AF_UNIX)
            server.connect(socket_path)
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=_pass_on, args=(source, target), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
