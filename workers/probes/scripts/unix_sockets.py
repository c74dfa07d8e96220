"""Connects to every Unix socket that it can see: those with a path, and those that have a name only."""

import socket


def main(names: list[str] | None = None) -> str:
    addresses = {"\0" + name for name in names or []}
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as table:
        for line in list(table)[1:]:
            fields = line.rstrip("\n").split(" ", 7)
            path = fields[7] if len(fields) > 7 else ""
            if path:
                addresses.add("\0" + path[1:] if path.startswith("@") else path)
    found = []
    for address in addresses:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            with socket.socket(socket.AF_UNIX, kind) as one:
                try:
                    one.connect(address.encode("utf-8", "surrogateescape"))
                    found.append(address.replace("\0", "@"))
                except OSError:
                    pass
    return f"exposed: {found[:5]}" if found else "contained"
