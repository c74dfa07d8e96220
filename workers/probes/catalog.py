"""The probes: what each tries, how it is contained, and what it has to be told about the place where it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

Theme = Literal["secrets", "other processes", "rights", "files", "limits", "shared", "network", "API"]
Guards = Literal["view", "limit", "user", "network", "server"]

_SCRIPTS = Path(__file__).parent / "scripts"
_ENDINGS = {"python3": "py", "bash": "sh", "bun": "ts"}
_MEMORY = r"memory|allocate"
# What a worker says of itself (sandbox.explanations) where the kernel or the machine does not give it all.
NO_SCOPES = "Abstract Unix sockets of this machine can be reached"
NO_FILTER = "System calls are not filtered"
NO_GROUPS = "no control groups"
NO_WALL = r"may get through|can reach JOB_BLOCKED_NETWORKS|No networks are kept from jobs"
_DISK = rf"{_MEMORY}|disk|space|No space"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What probes are told about the place: where the things are that they must not reach."""

    hidden: Sequence[str] = ()  # folders that no job may see
    shared: Sequence[str] = ()  # folders that jobs read and only the worker may change
    names: Sequence[str] = ()  # of abstract Unix sockets that somebody listens on
    target: int = 1  # a process to trace
    host: str = ""  # of the database; a folder: of its Unix socket
    port: int = 5432
    user: str = ""  # of the database
    database: str = ""
    address: str = ""  # that jobs must not reach
    address_port: int = 80
    other_workspace: str = ""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One hostile script."""

    subject: str  # names its script
    language: str  # python3, bash or bun
    theme: Theme
    tries: str  # for people: what it does
    # The job may fail instead, if its message says so (a regular expression): a bomb that was put out.
    message: str | None = None
    wants: Sequence[str] = ()  # of Surroundings; without them it cannot be tried
    may_want: Sequence[str] = ()  # of Surroundings; without them it tries less
    timeout_s: int = 60
    is_endless: bool = False  # it runs until its time is over, which is how it is contained
    needs_namespaces: bool = True  # False: it is contained wherever jobs run
    unless: str | None = (
        None  # a regular expression: a worker whose isolation note says this does not promise it
    )

    @property
    def name(self) -> str:
        """As in `fork_bomb.sh`."""
        return f"{self.subject}.{_ENDINGS[self.language]}"

    @cached_property
    def code(self) -> str:
        """The script."""
        return (_SCRIPTS / self.name).read_text(encoding="utf-8")

    def args(self, surroundings: Surroundings) -> Mapping[str, Any] | None:
        """The arguments of its job; None when something that it wants to know is not known."""
        told = {}
        for name in (*self.wants, *self.may_want):
            value = getattr(surroundings, name)
            if not value and name in self.wants:
                return None
            if isinstance(value, (list, tuple)):
                value = "\n".join(value) if self.language == "bash" else list(value)
            told["port" if name == "address_port" else name] = value
        return told


def _in(languages: str, subject: str, theme: Theme, tries: str, **given: Any) -> list[Probe]:
    return [
        Probe(subject=subject, language=language, theme=theme, tries=tries, **given)
        for language in languages.split()
    ]


_ALL = "python3 bash bun"
_DATABASE = ("host", "port", "user", "database")

PROBES: Sequence[Probe] = (
    *_in(_ALL, "environment", "secrets", "read the worker's variables from the processes in sight"),
    *_in(_ALL, "files", "secrets", "read hidden folders, write into the system", may_want=["hidden"]),
    *_in(_ALL, "descriptors", "secrets", "use descriptors that it was not given", needs_namespaces=False),
    *_in(_ALL, "processes", "other processes", "see other processes and look into the first one"),
    *_in("python3", "tracing", "other processes", "trace a process and read its memory", may_want=["target"]),
    *_in(_ALL, "signals", "other processes", "kill everything it can, three times"),
    *_in("python3", "guard", "other processes", "turn against the process that watches it", unless=NO_FILTER),
    *_in(
        "python3",
        "unix_sockets",
        "other processes",
        "connect to Unix sockets in sight",
        may_want=["names"],
        unless=NO_SCOPES,
    ),
    *_in(
        "python3 bash",
        "rights",
        "rights",
        "gain capabilities, namespaces, mounts, another user",
        unless=NO_FILTER,
    ),
    *_in(_ALL, "package_cache", "shared", "change what jobs have in common", may_want=["shared"]),
    *_in("python3 bun", "fork_bomb", "limits", "start processes without end"),
    *_in("bash", "fork_bomb", "limits", "start processes without end", timeout_s=2, is_endless=True),
    *_in(_ALL, "memory_bomb", "limits", "take memory without end", message=_MEMORY, needs_namespaces=False),
    *_in(
        "python3",
        "memory_of_many",
        "limits",
        "take memory with many processes",
        message=_MEMORY,
        needs_namespaces=False,
    ),
    *_in(
        "python3",
        "unreadable_memory",
        "limits",
        "take memory with processes that nobody may look at",
        message=_MEMORY,
        needs_namespaces=False,
    ),
    *_in(
        "python3",
        "hidden_memory",
        "limits",
        "take memory that no process shows",
        message=_MEMORY,
        unless=NO_GROUPS,
    ),
    *_in(_ALL, "disk_bomb", "limits", "fill the disk", message=_DISK),
    *_in("python3", "inode_bomb", "limits", "make files without end", message=_DISK),
    *_in("python3", "open_files_bomb", "limits", "open files without end", needs_namespaces=False),
    *_in("python3", "terminals", "limits", "open terminals without end"),
    *_in(_ALL, "output_bomb", "limits", "print a line of 100 MB", needs_namespaces=False),
    *_in(
        _ALL,
        "database",
        "network",
        "enter the database without a password",
        wants=_DATABASE,
        needs_namespaces=False,
    ),
    *_in(
        _ALL,
        "blocked_address",
        "network",
        "reach an address that is blocked",
        wants=["address", "address_port"],
        unless=NO_WALL,
    ),
    *_in(
        "python3",
        "token",
        "API",
        "use its token for the instance and for other workspaces",
        may_want=["other_workspace"],
        needs_namespaces=False,
    ),
)
