"""Guessing passwords: how often an address may fail before it has to wait. The state is the audit log.

Failures count per pair of account and address, and per address for all accounts together. There is deliberately no
count per account alone: with one, a stranger could keep anybody out by failing in their name.
"""

import ipaddress
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, Min, Q
from django.http import HttpRequest
from django.utils import timezone

from workspaces.errors import DomainError
from workspaces.models import AuditEntry

FAILURE = "users.login_failure"
WINDOW = timedelta(minutes=15)
MAX_PER_ACCOUNT = 10  # failures of one address on one account within the window
MAX_PER_ADDRESS = 100  # failures of one address on all accounts

_PROXIES = [
    ipaddress.ip_network(network)
    for network in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
]


class TooManyAttempts(DomainError):
    """Too many wrong passwords from one address; waiting helps."""

    code, http_status, prefix = "too_many_attempts", 429, "Too many attempts"


def check_may_try(*, email: str, address: str | None) -> None:
    """Raises TooManyAttempts with the time to wait. Asked before the password is looked at."""
    since = timezone.now() - WINDOW
    failures = AuditEntry.objects.filter(
        operation=FAILURE, timestamp__gt=since, parameters__address=address or ""
    )
    on_account = Q(username=email)
    counted = failures.aggregate(
        account=Count("id", filter=on_account),
        address=Count("id"),
        first_on_account=Min("timestamp", filter=on_account),
        first=Min("timestamp"),
    )
    if counted["account"] >= MAX_PER_ACCOUNT or counted["address"] >= MAX_PER_ADDRESS:
        first = counted["first_on_account"] if counted["account"] >= MAX_PER_ACCOUNT else counted["first"]
        minutes = max(1, round((first + WINDOW - timezone.now()).total_seconds() / 60))
        raise TooManyAttempts(
            f"too many wrong passwords from your address; try again in {minutes} minute{'' if minutes == 1 else 's'}"
        )


def address_of(request: HttpRequest) -> str:
    """Where a sign-in comes from. X-Forwarded-For is believed only from a proxy on this machine or a private network,
    and only its last entry, which that proxy wrote itself: the others are whatever the client sent.

    Under TRUST_PROXY_HEADERS the server has put the first entry in place of the peer, so the peer says nothing."""
    peer = request.META.get("REMOTE_ADDR") or ""
    forwarded = request.headers.get("X-Forwarded-For", "").rsplit(",", 1)[-1].strip()
    try:
        if forwarded and (
            settings.TRUST_PROXY_HEADERS or any(ipaddress.ip_address(peer) in network for network in _PROXIES)
        ):
            return str(ipaddress.ip_address(forwarded))
    except ValueError:
        pass
    return peer[:60]
