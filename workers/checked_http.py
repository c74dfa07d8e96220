"""HTTP from the worker itself for jobs: with connections only to addresses that jobs may reach."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from workers.networks import AddressBlocked, BlockedNetworks


class CheckedTransport(httpx.AsyncHTTPTransport):
    """Connects to an address that was looked at, whatever the name means a moment later. TLS still asks for the name.

    A blocked one is an httpx.ConnectError whose message says so; see is_blocked.
    """

    def __init__(self, blocked: BlockedNetworks) -> None:
        super().__init__(trust_env=False)
        # httpx has no way to give a backend to its pool; this is the pool that it would have made.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(trust_env=False),
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=_CheckedBackend(blocked),
        )


def is_blocked(error: httpx.ConnectError) -> bool:
    """Whether there was no connection because there must be none; trying again is no use."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, AddressBlocked):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    def __init__(self, blocked: BlockedNetworks) -> None:
        self._blocked = blocked
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            addresses = await self._blocked.resolve(host, port)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        for address in addresses[:-1]:
            try:
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._backend.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)
