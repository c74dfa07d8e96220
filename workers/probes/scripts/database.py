"""Asks the platform's database to let it in without a password."""

import socket
import struct


def main(host: str = "", port: int = 5432, user: str = "postgres", database: str = "postgres") -> str:
    try:
        if host.startswith("/"):
            one = socket.socket(socket.AF_UNIX)
            one.settimeout(5)
            one.connect(f"{host}/.s.PGSQL.{port}")
        else:
            one = socket.create_connection((host, port), timeout=5)
    except OSError as error:
        return f"contained: not reached ({error.strerror or error})"
    with one:
        parameters = f"user\0{user}\0database\0{database}\0\0".encode()
        one.sendall(struct.pack("!II", len(parameters) + 8, 196608) + parameters)
        answer = one.recv(9)
    if answer[:1] == b"R" and struct.unpack("!I", answer[5:9])[0] == 0:
        return f"exposed: {user} needs no password"
    return "contained: it asks for a password, or refuses"
