"""What a job host says of itself to people: the isolation in force here, and what is missing."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from typing import Any

from workers.sandbox import cgroups
from workers.sandbox.cgroups import Groups
from workers.sandbox.programs import Isolation


def of_isolation(isolation: Isolation, refusals: Sequence[str], note: str | None) -> str:
    """What keeps jobs apart. `refusals`: why the kernel gave no more; `note`: what the fork server noted."""
    user = pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() else "root"
    if isolation == "namespaces":
        return "Each job has its own file system view, process and IPC namespace, and a user id of its own."
    why = "; ".join(refusals)
    if isolation == "user-namespaces":
        told = f" ({why})" if why else ""
        return f"Each job has its own file system view, process and IPC namespace, inside a user namespace{told}."
    return (
        f"Jobs are not isolated from each other or from this machine ({why or 'namespaces are turned off'}); they can "
        f"read what every local user can" + (f"; {note}." if note else f", and the worker runs as {user}.")
    )


def of_limits(groups: Groups | None, why_not: str) -> str:
    """What holds jobs to their limits. `why_not`: why there are no control groups."""
    if groups is None:
        return (
            "Memory is looked at four times a second, and limited for each process; processor time is not limited "
            f"(no control groups: {why_not})."
        )
    missing = [one for one in cgroups.CONTROLLERS if one not in groups.controllers]
    return (
        f"Memory is limited by control groups (version {groups.version}: {', '.join(groups.controllers)})"
        + (f"; not {', '.join(missing)}" if missing else "")
        + "."
    )


def of_confinement(hello: Mapping[str, Any], networks: Sequence[str]) -> str:
    """Which system calls and addresses are kept from jobs, by what the fork server said of itself when it started."""
    why = hello.get("calls_note")
    calls = f"System calls are not filtered ({why})." if why else "System calls are filtered."
    if not hello.get("keeps_sockets"):
        calls += " Abstract Unix sockets of this machine can be reached (that takes Linux 6.12 and Landlock)."
    if not networks:
        return f"{calls} No networks are kept from jobs: JOB_BLOCKED_NETWORKS is empty."
    why = hello.get("addresses_note")
    match hello.get("addresses"):
        case "kept":
            return f"{calls} Jobs cannot reach JOB_BLOCKED_NETWORKS" + (f" ({why})." if why else ".")
        case "refused":
            return (
                f"{calls} Jobs are refused JOB_BLOCKED_NETWORKS, but one that changes an address while it is looked at "
                f"may get through ({why})."
            )
        case _:
            return f"{calls} Jobs can reach JOB_BLOCKED_NETWORKS all the same ({why})."
