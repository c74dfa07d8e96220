"""Values over SOCK_SEQPACKET sockets: packets keep their borders, so a writer that dies in the middle of one value
never shifts what is read next. One value is any number of part packets and one packet that ends it.

A packet is one byte of kind followed by its part; lower case says more parts follow, upper case ends the value.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

PART_BYTES = 60_000  # well below the kernel's limit for one packet (about 208 KiB)
PACKET_BYTES = PART_BYTES + 1
_MOST_FDS = 8  # that come with one packet


def packets(kind: str, value: bytes) -> Iterator[bytes]:
    """Cut `value` into packets. `kind` is one upper-case letter."""
    more, last = kind.lower().encode(), kind.encode()
    view = memoryview(value)
    end = max(0, (len(value) - 1) // PART_BYTES * PART_BYTES)
    for start in range(0, end, PART_BYTES):
        yield more + view[start : start + PART_BYTES]
    yield last + view[end:]


def send(sock: socket.socket, kind: str, value: bytes) -> None:
    """Send one value over a blocking socket. Raises OSError when the other side is gone."""
    for packet in packets(kind, value):
        sock.send(packet)


class Assembler:
    """Puts packets together again: call `feed` for each, `on_value(kind, value)` is called for each whole value.

    Values larger than `limit_bytes` are cut off there; `overflowed` then holds their kinds. `once`: only values of these
    kinds are taken, the first of each, so that whoever sends more, or never ends one, costs no memory.
    """

    def __init__(
        self, on_value: Callable[[str, bytes], None], limit_bytes: int, *, once: str | None = None
    ) -> None:
        self._on_value = on_value
        self._limit_bytes = limit_bytes
        self._expected = None if once is None else set(once)
        self._parts: dict[str, bytearray] = {}
        self.overflowed: set[str] = set()

    def feed(self, packet: bytes) -> None:
        letter = chr(packet[0])
        kind = letter.upper()
        if self._expected is not None and kind not in self._expected:
            return
        value = self._parts.setdefault(kind, bytearray())
        if len(value) + len(packet) - 1 > self._limit_bytes:
            self.overflowed.add(kind)
        else:
            value += memoryview(packet)[1:]
        if letter == kind:
            del self._parts[kind]
            if self._expected is not None:
                self._expected.remove(kind)
            self._on_value(kind, bytes(value))


def receive(sock: socket.socket, fds: list[int] | None = None) -> tuple[str, bytes] | None:
    """Read one value from a blocking socket; None when the other side closed before it was complete.

    Descriptors that come with it are added to `fds`; without, they are dropped.
    """
    value = bytearray()
    try:
        while packet := sock.recv(PACKET_BYTES) if fds is None else _received_with(sock, fds):
            value += memoryview(packet)[1:]
            letter = chr(packet[0])
            if letter.isupper():
                return letter, bytes(value)
    except ConnectionResetError:
        pass  # closed with something of ours unread: as gone as after an orderly end
    return None


def _received_with(sock: socket.socket, fds: list[int]) -> bytes:
    packet, received, _, _ = socket.recv_fds(sock, PACKET_BYTES, _MOST_FDS)
    for fd in received:
        os.set_inheritable(fd, False)  # recv_fds of Python 3.11 takes flags, and forgets them
    fds += received
    return packet
