"""Talks to an address that jobs must not reach, over TCP and UDP, also written as an IPv6 address."""

import socket


def main(address: str = "169.254.169.254", port: int = 80) -> str:
    found = []
    if ":" in address:
        forms = [(socket.AF_INET6, address)]
    else:
        forms = [(socket.AF_INET, address), (socket.AF_INET6, f"::ffff:{address}")]
    for family, form in forms:
        for timeout_s in (3, 0.5, None):
            with socket.socket(family, socket.SOCK_STREAM) as one:
                one.settimeout(timeout_s)
                try:
                    one.connect((form, port))
                    found.append(f"TCP to {form}")
                except OSError:
                    pass
            if timeout_s == 3 and not found:
                break  # nobody answers: the other ways would only wait
        # A datagram may leave; what counts is that no answer comes.
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.settimeout(0.3)
            for send in (
                lambda one=one, to=(form, port): one.sendto(b"probe", to),
                lambda one=one, to=(form, port): one.sendmsg([b"probe"], [], 0, to),
            ):
                try:
                    send()
                    one.recv(100)
                    found.append(f"UDP to {form}")
                except OSError:
                    pass
    return f"exposed: {found}" if found else "contained"
