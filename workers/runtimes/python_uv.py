"""Running uv, which resolves and installs packages, and saying in a sentence why it could not."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from workers.runtimes.base import ExecutionFailed, LogSink, Registries
from workers.runtimes.tool_runs import network_environment
from workers.runtimes.tools import ToolSpec

UV = ToolSpec(name="uv", programs=("uv",), install="pip install uv (it is in requirements.txt)")

REGISTRY_TIMEOUT_S = 20.0  # for one answer, or a piece of a download; asked twice at most
_RETRIES = 1
_LAST_LINES = 15
_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_NEEDS_BUILD = re.compile(
    r"building (?:from source|source distributions)[^\n]* is disabled|no usable wheels|`--no-build`", re.I
)

_HOST = r"https?://(?:[^/\s@]*@)?(?P<host>[^/\s)`]+)"
_NO_ANSWER = re.compile(rf"Failed to (?:fetch|download)[^\n]*?{_HOST}.*?operation timed out", re.S)
_NOT_REACHED = re.compile(
    rf"Failed to (?:fetch|download)[^\n]*?{_HOST}.*?(?:client error \(Connect\)|dns error).*cause: (?P<why>[^\n]+)",
    re.S,
)
_STATUS = re.compile(rf"HTTP status (?:server|client) error \((?P<status>\d+[^)]*)\) for url \({_HOST}")
_REFUSED = re.compile(rf"\({_HOST}[^)]*\) (?:could not be queried|returned)[^\n]*?(?P<status>40[13] \w+)")
_UNKNOWN = re.compile(r"Because (?P<name>\S+) was not found in the package registry")
_NO_VERSION = re.compile(r"there (?:is|are) no versions? of (?P<what>\S+)")
_PYTHON = (
    re.compile(r"does not satisfy Python(?P<want>\S+) and (?P<what>[^\s,]+)"),
    re.compile(r"Because (?P<what>\S+) requires Python (?P<want>\S+) and"),
)
_NO_WHEEL_FOR_PYTHON = re.compile(r"of (?P<what>\S+) ha(?:s|ve) no wheels with a matching Python")
_BUILD = re.compile(r"Failed to (?:download and )?build `(?P<what>[^`]+)`")
_HASH = re.compile(r"Hash mismatch for `(?P<what>[^`]+)`")
_NO_SOLUTION = re.compile(r"No solution found when resolving")


def arguments(uv: Path, *command: str) -> list[str]:
    """The beginning of a command line: `arguments(uv, "pip", "compile")`."""
    common = ["--no-config", "--no-progress", "--color", "never", "--no-python-downloads"]
    if os.environ.get("SSL_CERT_FILE") or any(os.path.exists(path) for path in _CERTIFICATES):
        common.append("--system-certs")  # so that the certificates of a company's proxy count
    return [str(uv), *command, *common]


def environment(registries: Registries, *, timeout_s: float, cache: str) -> dict[str, str]:
    """The environment of uv: where packages come from, and how long it waits for them. `cache` is its own folder."""
    env = network_environment() | {
        "UV_HTTP_TIMEOUT": str(max(1, round(timeout_s))),
        "UV_HTTP_CONNECT_TIMEOUT": str(max(1, round(timeout_s))),
        "UV_HTTP_RETRIES": str(_RETRIES),
        "UV_CACHE_DIR": cache,
    }
    if registries.pip_index_url:
        env["UV_DEFAULT_INDEX"] = registries.pip_index_url
    if registries.pip_extra_index_urls:
        env["UV_INDEX"] = " ".join(registries.pip_extra_index_urls)
    if registries.uv_index_strategy:
        env["UV_INDEX_STRATEGY"] = registries.uv_index_strategy
    return env


def needs_build(output: str) -> bool:
    """Whether uv failed only because it was not allowed to build a package from its source."""
    return bool(_NEEDS_BUILD.search(output))


def failed(output: str, registries: Registries, *, python: str, timeout_s: float) -> ExecutionFailed:
    """The error for the author of a script: what cannot be had, why, and the last lines of `output`.

    `python` is the version that packages were wanted for, `timeout_s` that of `environment`.
    """
    output = without_secrets(output, registries)
    last = "\n".join(output.strip().splitlines()[-_LAST_LINES:])
    return dependency_error(f"{_sentence(output, registries, python, timeout_s)}\n\n{last}")


def dependency_error(message: str) -> ExecutionFailed:
    """A script's dependencies cannot be had, because of `message`."""
    return ExecutionFailed({"name": "DependencyError", "message": message})


def without_secrets(text: str, registries: Registries) -> str:
    """`text` without names and passwords that addresses carry."""
    for url in (registries.pip_index_url, *registries.pip_extra_index_urls):
        password = urlsplit(url).password if url else None
        if password:
            text = text.replace(password, "***")
    return _CREDENTIALS.sub("***@", text)


class CleanLog:
    """Passes what uv prints on to a job's log, whole lines, without secrets."""

    def __init__(self, log: LogSink, registries: Registries) -> None:
        self._log = log
        self._registries = registries
        self._held = ""

    def write(self, text: str) -> None:
        """See LogSink."""
        lines, newline, self._held = (self._held + text).rpartition("\n")
        if newline:
            self._log.write(without_secrets(lines + newline, self._registries))

    def stream(self, text: str) -> None:
        """See LogSink."""
        self.write(text)

    def close(self) -> None:
        """Pass on the last line, when it has no end."""
        if self._held:
            self.write("\n")


def _sentence(output: str, registries: Registries, python: str, timeout_s: float) -> str:
    def found(pattern: re.Pattern[str]) -> Mapping[str, str] | None:
        match = pattern.search(output)
        return None if match is None else match.groupdict()

    if told := found(_NO_ANSWER):
        return f"The package registry {told['host']} does not answer within {timeout_s:g} seconds."
    if told := found(_NOT_REACHED):
        return f"The package registry {told['host']} cannot be reached: {told['why']}."
    if told := found(_REFUSED):
        return (
            f"The package registry {told['host']} refuses access ({told['status']}): check the name and the password in "
            "its address, in the settings of the instance."
        )
    if told := found(_STATUS):
        return f"The package registry {told['host']} answered {told['status']}."
    if told := found(_UNKNOWN):
        return (
            f"There is no package {told['name']} in {_indexes(registries)}. When its name differs from the name that is "
            f"imported, say so behind the import: # pin: name-of-the-package"
        )
    if told := found(_PYTHON[0]) or found(_PYTHON[1]):
        return (
            f"{told['what']} needs Python {told['want']}; this is {python}. Ask for another one with a line # py: "
            f"{told['want']}"
        )
    if told := found(_NO_WHEEL_FOR_PYTHON):
        return f"There is no release of {told['what']} for Python {python}."
    if told := found(_HASH):
        return f"What the registry has as {told['what']} is not what the lock was made of: its hash differs."
    if told := found(_BUILD):
        return f"{told['what']} has to be built from its source, and that fails."
    if told := found(_NO_VERSION):
        return f"There is no version {told['what']} in {_indexes(registries)}."
    if _NO_SOLUTION.search(output):
        return "The requirements contradict each other."
    return "The packages could not be resolved or installed."


def _indexes(registries: Registries) -> str:
    urls = [registries.pip_index_url or "https://pypi.org/simple", *registries.pip_extra_index_urls]
    hosts = dict.fromkeys(urlsplit(url).netloc.rpartition("@")[2] or url for url in urls)
    return "the package index " + " or ".join(hosts)
