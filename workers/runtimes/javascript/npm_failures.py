"""Why packages from npm cannot be had, in a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from workers.runtimes.base import ExecutionFailed, Registries

_LAST_LINES = 15
_SECRET = re.compile(r"(?:_authToken|_auth|_password|:password)\s*=\s*\"?([^\s\"]+)")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")

_URL = r"https?://(?:[^/\s@]*@)?(?P<host>[^/\s]+)(?P<path>\S*)"
_STATUS = re.compile(rf"GET {_URL} - (?P<status>\d+)")
_NO_VERSION = re.compile(
    r'No version matching "(?P<version>[^"]*)" found for specifier "(?P<name>[^"]+)"'
    r'|Package "(?P<tagged>[^"]+)" with tag "(?P<tag>[^"]*)" not found'
)
_NETWORK = re.compile(
    r"error: (?P<why>[A-Z]\w+) (?:downloading|extracting) (?:package manifest|tarball) (?P<name>\S+)"
)
_INTEGRITY = re.compile(r"Integrity check failed[^\n]*?(?P<name>\S+)\s*$", re.MULTILINE | re.IGNORECASE)
_FROZEN = re.compile(r"lockfile had changes, but lockfile is frozen")
_NETWORK_WORDS = {
    "Timeout": "does not answer in time",
    "ConnectionRefused": "cannot be reached: it refuses the connection",
    "DNSResolveFailed": "cannot be reached: its name is unknown",
    "ConnectionClosed": "closes the connection",
}


def dependency_error(message: str) -> ExecutionFailed:
    """A script's dependencies cannot be had, because of `message`."""
    return ExecutionFailed({"name": "DependencyError", "message": message})


def failed(output: str, registries: Registries) -> ExecutionFailed:
    """The error for the author of a script: what cannot be had, why, and the last lines of `output`."""
    output = without_secrets(output, registries)
    last = "\n".join(output.strip().splitlines()[-_LAST_LINES:])
    return dependency_error(f"{_sentence(output, registry_host(registries))}\n\n{last}")


def registry_host(registries: Registries) -> str:
    """The registry as it is called in messages."""
    return urlsplit(registries.npm_registry or "").hostname or "the npm registry"


def without_secrets(text: str, registries: Registries) -> str:
    """`text` without passwords and tokens of registries."""
    for secret in _secrets(registries):
        text = text.replace(secret, "***")
    return _CREDENTIALS.sub("***@", text)


def _secrets(registries: Registries) -> Sequence[str]:
    found = _SECRET.findall(f"{registries.npmrc or ''}\n{registries.npm_registry or ''}")
    password = urlsplit(registries.npm_registry or "").password
    return [one for one in (*found, password) if one]


def _sentence(output: str, host: str) -> str:
    for status in _STATUS.finditer(output):
        name = status["path"].rpartition("/")[2].replace("%2f", "/").replace("%2F", "/")
        place = "the npm registry" if status["host"] == "registry.npmjs.org" else status["host"]
        if status["status"] == "404":
            return f"There is no package {name} on {place}; is its name spelled like that?"
        if status["status"] in ("401", "403"):
            return (
                f"The registry {place} refuses access to {name} ({status['status']}): check the token or the password "
                "for it in the settings of the instance."
            )
        return f"The registry {place} answered {status['status']} when asked for {name}; try again later."
    if version := _NO_VERSION.search(output):
        name = version["name"] or version["tagged"]
        wanted = version["version"] if version["name"] else version["tag"]
        return f"{name} has no version {wanted}; look up which ones there are, or leave the version out."
    if network := _NETWORK.search(output):
        words = _NETWORK_WORDS.get(network["why"], f"cannot be reached ({network['why']})")
        return f"{host[0].upper()}{host[1:]}, asked for {network['name']}, {words}."
    if integrity := _INTEGRITY.search(output):
        return f"{integrity['name']} is not what the lock says it is: its checksum differs. Deploy the script again."
    if _FROZEN.search(output):
        return "The lock of this script does not fit its package.json. Deploy the script again."
    return "The packages cannot be installed."
