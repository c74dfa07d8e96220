"""Networks that jobs must not reach (JOB_BLOCKED_NETWORKS), and how the worker itself keeps away from them.

Jobs in sandboxes are held by job_process/address_guard.py. Database, GraphQL and AI agent jobs connect from the worker: a
host is resolved here, all its addresses are looked at, and the connection goes to one that was looked at, so that a name
server that says something else the second time changes nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable, Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Gateways that translate reach IPv4 addresses under this prefix (RFC 6052).
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")


class AddressBlocked(OSError):
    """A host is, or is called by the address of, one that jobs must not reach. The message is for the author."""


class BlockedNetworks:
    """What is blocked. `networks` are texts such as "169.254.0.0/16", "100.100.100.200"; ValueError for others."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._named: dict[_Network, str] = {}  # how it was spelled
        for text in networks:
            network = _network(text)
            self._named[network] = text
            if isinstance(network, ipaddress.IPv4Network):
                self._named[_translated(network)] = text

    def __bool__(self) -> bool:
        return bool(self._named)

    @property
    def spelled(self) -> list[str]:
        """All of them, in the one spelling that jobs' guards read: address/bits."""
        return [str(network) for network in self._named]

    def blocking(self, address: Address) -> str | None:
        """The network for which `address` is blocked, as it was spelled; None when it may be reached."""
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return next((text for network, text in self._named.items() if address in network), None)

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of `host`, best first. Raises AddressBlocked when one of them is, OSError when it has none."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return self._checked(host, [str(where[4][0]) for where in found])

    def resolve_here(self, host: str, port: int) -> list[str]:
        """The same in a thread that may wait."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return self._checked(host, [str(where[4][0]) for where in found])

    def _checked(self, host: str, addresses: Sequence[str]) -> list[str]:
        for address in addresses:
            network = self.blocking(ipaddress.ip_address(address.partition("%")[0]))
            if network is not None:
                who = address if address == host else f"{host} ({address})"
                raise AddressBlocked(
                    f"{who} cannot be reached from jobs: {network} is among the JOB_BLOCKED_NETWORKS of this worker"
                )
        return list(dict.fromkeys(addresses))


def _network(text: str) -> _Network:
    try:
        if "%" in text:
            raise ValueError("a network belongs to no interface")
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is no network: {error}; expected an address or a range such as 169.254.0.0/16 or fe80::/10"
        ) from None
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:  # its packets are IPv4's
            return ipaddress.IPv4Network((mapped, network.prefixlen - 96))
    return network


def _translated(network: ipaddress.IPv4Network) -> ipaddress.IPv6Network:
    first = int(_TRANSLATED.network_address) + int(network.network_address)
    return ipaddress.IPv6Network((first, 96 + network.prefixlen))
