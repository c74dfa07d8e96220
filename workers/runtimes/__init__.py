"""One module per language. To add one: a module with its executor, an entry here, a test file (docs/runtimes.md)."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workers.runtimes import python_versions
from workers.runtimes.base import (
    Closing,
    Execution,
    ExecutionFailed,
    Executor,
    Imported,
    Installer,
    Limits,
    LogSink,
    Outcome,
    Registries,
    Resolver,
    SandboxUnavailable,
    Site,
)
from workers.runtimes.bash import Bash
from workers.runtimes.bun import BUN, Bun
from workers.runtimes.deno import DENO, Deno
from workers.runtimes.duckdb import Duckdb
from workers.runtimes.go import Go
from workers.runtimes.go_builds import GO
from workers.runtimes.graphql import Graphql
from workers.runtimes.mysql import Mysql
from workers.runtimes.php import PHP, Php
from workers.runtimes.postgresql import Postgresql
from workers.runtimes.powershell import POWERSHELL, PowerShell
from workers.runtimes.python3 import Python3
from workers.runtimes.python_uv import UV
from workers.runtimes.tools import Tool, ToolSpec, find

__all__ = [
    "RUNTIMES",
    "Available",
    "Closing",
    "Execution",
    "ExecutionFailed",
    "Executor",
    "Imported",
    "Installer",
    "Limits",
    "LogSink",
    "Outcome",
    "Registries",
    "Resolver",
    "Runtime",
    "SandboxUnavailable",
    "Site",
    "look_around",
]


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """How jobs of some languages are run, and with what."""

    languages: Sequence[str]
    make: Callable[[Site], Executor]
    tools: Sequence[ToolSpec] = ()  # all of them are needed
    versions: Callable[[], str] | None = None  # what else there is to tell people: "Python 3.11.7, 3.13.0"


def _driver(package: str) -> Callable[[], str]:
    return lambda: f"{package} {importlib.metadata.version(package)}"


BASH = ToolSpec(
    name="Bash", programs=("bash",), install="Debian, Ubuntu: apt install bash; Alpine: apk add bash"
)

RUNTIMES: Sequence[Runtime] = (
    Runtime(languages=("python3",), make=Python3, tools=(UV,), versions=python_versions.told),
    Runtime(languages=("bash",), make=Bash, tools=(BASH,)),
    Runtime(languages=("go",), make=Go, tools=(GO,)),
    Runtime(languages=("php",), make=Php, tools=(PHP,)),
    Runtime(languages=("powershell",), make=PowerShell, tools=(POWERSHELL,)),
    Runtime(languages=("bun", "bunnative", "nativets"), make=Bun, tools=(BUN,)),
    Runtime(languages=("deno",), make=Deno, tools=(DENO,)),
    Runtime(languages=("postgresql",), make=Postgresql, versions=_driver("psycopg")),
    Runtime(languages=("mysql",), make=Mysql, versions=_driver("PyMySQL")),
    Runtime(languages=("duckdb",), make=Duckdb, versions=_driver("duckdb")),
    Runtime(languages=("graphql",), make=Graphql, versions=_driver("httpx")),
)


@dataclass(frozen=True, kw_only=True)
class Available:
    """What of RUNTIMES this host can run."""

    runtimes: Sequence[Runtime]
    tools: Mapping[str, Tool]  # by name
    missing: Mapping[str, Sequence[ToolSpec]]  # by language

    @property
    def languages(self) -> list[str]:
        return [language for runtime in self.runtimes for language in runtime.languages]

    def as_json(self) -> dict[str, dict[str, str]]:
        """By language: {"version": "..."} of its tool, or {"missing": name, "install": how}. For people and the API."""
        told: dict[str, dict[str, str]] = {}
        for runtime in self.runtimes:
            versions = [f"{spec.name} {self.tools[spec.name].version}".strip() for spec in runtime.tools]
            if runtime.versions is not None:
                versions.insert(0, runtime.versions())
            version = ", ".join(versions)
            told |= {language: {"version": version} for language in runtime.languages}
        for language, specs in self.missing.items():
            told[language] = {
                "missing": ", ".join(spec.name for spec in specs),
                "install": "; ".join(spec.install for spec in specs),
            }
        return told


def look_around(runtimes: Sequence[Runtime] = RUNTIMES) -> Available:
    """Find the tools of all runtimes on this host. Starts each once, to ask for its version."""
    tools: dict[str, Tool] = {}
    missing: dict[str, Sequence[ToolSpec]] = {}
    there = []
    for runtime in runtimes:
        absent = []
        for spec in runtime.tools:
            tool = tools.get(spec.name) or find(spec)
            if tool is None:
                absent.append(spec)
            else:
                tools[spec.name] = tool
        if absent:
            missing |= dict.fromkeys(runtime.languages, absent)
        else:
            there.append(runtime)
    return Available(runtimes=there, tools=tools, missing=missing)
