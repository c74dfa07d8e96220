"""A connection pooler, as far as clients can notice one: the server's process id that it tells them is made up."""

import contextlib
import socket
import threading
from collections.abc import Iterator

from psycopg.conninfo import conninfo_to_dict

_BACKEND_KEY = b"K"  # the message with the process id, in four bytes, and a secret


@contextlib.contextmanager
def pooler(url: str) -> Iterator[str]:
    """The address of a pooler before the database of `url`."""
    told = conninfo_to_dict(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, told), daemon=True).start()
        port = listener.getsockname()[1]
        password = f":{told['password']}" if told.get("password") else ""
        yield (
            f"postgres://{told.get('user', 'postgres')}{password}@127.0.0.1:{port}/{told['dbname']}"
            "?sslmode=disable&gssencmode=disable"
        )


def _accept(listener: socket.socket, told: dict[str, object]) -> None:
    with contextlib.suppress(OSError):  # closed: the end
        while True:
            client, _ = listener.accept()
            server = _server(told)
            threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()
            threading.Thread(target=_answer, args=(server, client), daemon=True).start()


def _server(told: dict[str, object]) -> socket.socket:
    host, port = str(told.get("host") or "127.0.0.1"), int(str(told.get("port") or 5432))
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server


def _answer(server: socket.socket, client: socket.socket) -> None:
    with contextlib.suppress(OSError), server.makefile("rb", buffering=0) as messages:
        kind = b""
        while kind != _BACKEND_KEY and (header := messages.read(5)):
            kind = header[:1]
            body = messages.read(int.from_bytes(header[1:], "big") - 4) or b""
            client.sendall(header + (b"\x00\x00\x00\x01" + body[4:] if kind == _BACKEND_KEY else body))
    _pass_on(server, client)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
