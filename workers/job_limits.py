"""What one job is held to: the smallest of what its instance, its worker group and its script ask for. Pure."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Literal

from jobs.limits import NOTHING, AskedLimits, Header, WrongHeader, header_of
from jobs.models import Language
from jobs.queue import Claim
from workers.runtimes import ExecutionFailed, Limits

# These have no process of their own: the worker sends what they say to a server, over its own network.
RUN_BY_WORKER = (Language.POSTGRESQL, Language.MYSQL, Language.GRAPHQL)


def header_for(claim: Claim) -> Header:
    """What the job's code says above its first line. Raises ExecutionFailed: it cannot be understood, or not be kept."""
    language = claim.language or ""
    try:
        said = header_of(claim.code or "", language)
    except WrongHeader as error:
        raise ExecutionFailed({"name": "WrongHeader", "message": str(error)}) from None
    if language not in RUN_BY_WORKER or not said.lines:
        return said
    problem = "limits cannot be kept" if said.network else "network: none cannot be kept"
    message = (
        f"line {said.lines[0]}: {problem} for {language}: the worker itself sends such a script to its server, and no "
        "process of the job is there to be limited. Remove the line."
    )
    raise ExecutionFailed({"name": "WrongHeader", "message": message})


def has_network(said: Header, *, group_network: str, language: str) -> bool:
    """Whether the job may use the network. Raises ExecutionFailed: it may not, and is nothing without."""
    if group_network != "none":
        return said.network
    if language in RUN_BY_WORKER:
        raise ExecutionFailed({"name": "NoNetwork", "message": nothing_without_network(language)})
    return False


def nothing_without_network(what: str) -> str:
    """Why `what` cannot be run in a group whose jobs have no network."""
    return (
        f"Jobs of this worker group have no network, and {what} is nothing without. Give it a tag that workers of "
        "another group take."
    )


def without_network_namespaces(policy: Literal["refuse", "warn"]) -> str:
    """The line for the log of a job that shall have no network where it cannot be taken away. Raises ExecutionFailed."""
    if policy == "warn":
        return "this job shall have no network, and this machine cannot take it away: it has the machine's\n"
    message = (
        "This job shall have no network (network: none), and this machine cannot take it away: the kernel gives the "
        "worker no network namespaces. docs/limits.md says what it needs."
    )
    raise ExecutionFailed({"name": "NoIsolation", "message": message})


def limits_of(base: Limits, asked: Sequence[AskedLimits]) -> Limits:
    """`base` with what is asked for, as far as it is smaller."""
    smallest = NOTHING
    for one in asked:
        smallest = smallest.and_also(one)
    if smallest == NOTHING:
        return base
    changes = {
        one.name: said if (own := getattr(base, one.name)) is None else min(own, said)
        for one in fields(smallest)
        if (said := getattr(smallest, one.name)) is not None
    }
    return replace(base, **changes)
