"""Where a sign-in comes from: what the client itself says about that must not free it from waiting."""

from typing import Any

import pytest
from django.test import RequestFactory

from workspaces.sign_in_limits import address_of

PROXY, CLIENT, CLAIMED = "10.0.0.2", "203.0.113.7", "198.51.100.1"


@pytest.mark.parametrize(
    ("trusts", "peer", "forwarded", "address"),
    [
        (False, CLIENT, None, CLIENT),
        (False, CLIENT, CLAIMED, CLIENT),
        (False, PROXY, f"{CLAIMED}, {CLIENT}", CLIENT),
        (False, PROXY, "nonsense", PROXY),
        # The server has taken the first entry, which is the client's word, for the peer.
        (True, CLAIMED, f"{CLAIMED}, {CLIENT}", CLIENT),
        (True, CLIENT, CLIENT, CLIENT),
    ],
)
def test_only_what_the_nearest_proxy_wrote_is_believed(
    trusts: bool, peer: str, forwarded: str | None, address: str, settings: Any
) -> None:
    settings.TRUST_PROXY_HEADERS = trusts
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}

    assert address_of(RequestFactory().post("/", REMOTE_ADDR=peer, headers=headers)) == address
