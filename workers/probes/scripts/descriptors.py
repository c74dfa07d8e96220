"""Looks for descriptors that it was not given: files, pipes and sockets of the worker or of the fork server."""

import os
import socket
import stat


def main() -> str:
    found, sockets = [], 0
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            link = os.readlink(f"/proc/self/fd/{fd}")
            kind = os.fstat(fd).st_mode
        except OSError:
            continue  # the one that lists
        if stat.S_ISSOCK(kind):
            # Its own one, for its result: nothing but another end of it is behind it.
            sockets += 1
            with socket.socket(fileno=os.dup(fd)) as one:
                if sockets > 1 or (one.family, one.type) != (socket.AF_UNIX, socket.SOCK_SEQPACKET):
                    found.append(f"{fd} {link}")
        elif not (fd <= 2 and (link == "/dev/null" or link.startswith("pipe:"))):
            found.append(f"{fd} {link}")
    return f"exposed: {found[:5]}" if found else "contained"
