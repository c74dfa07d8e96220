"""Probes on a live worker: one job after the other through the queue, as anybody's jobs come."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from jobs import canceling, queue
from jobs.models import CompletedJob, JobKind, JobStatus, QueuedJob, WorkerPing
from jobs.queue import JobRequest
from workers.probes.catalog import Probe, Surroundings
from workers.probes.judging import Judged, judge
from workspaces.models import Account, Workspace

WORKSPACE = "admins"
CHECKER = "isolation_check"  # who started the jobs
CLAIM_TIMEOUT_S = 30.0  # until a worker takes a job that waits
START_TIMEOUT_S = 60.0  # of a worker of our own
MOST_NAMED = 20  # workers in a sentence
_POLL_S = 0.02


class CannotCheck(Exception):
    """There is nothing to check; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One line of the table."""

    probe: Probe
    judged: Judged
    worker: str = ""  # that ran it; "" when none did
    isolation: str = ""
    job_id: UUID | None = None


def check(
    probes: Sequence[Probe], *, tags: Mapping[str, str], surroundings: Surroundings, reaches: Sequence[str]
) -> Iterator[Checked]:
    """Run `probes` one after the other and judge them. `tags` by language; without one a probe is not tried.

    `reaches`: the isolation of the workers that may take the jobs. Where one of them has none, probes that would harm the
    machine there are not tried.
    """
    email = _superadmin()
    for probe in probes:
        args = probe.args(surroundings)
        if probe.language not in tags:
            yield _untried(probe, f"no worker takes {probe.language}")
        elif args is None:
            yield _untried(probe, "it would have to be told " + ", ".join(probe.wants))
        elif probe.needs_namespaces and "none" in reaches:
            judged = Judged("not promised", "not tried: it would harm a machine whose jobs are not isolated")
            yield Checked(probe=probe, judged=judged, isolation="none")
        else:
            yield _checked(probe, args, tag=tags[probe.language], email=email)


def tags_of(workers: Sequence[WorkerPing], tag: str | None = None) -> dict[str, str]:
    """By language, a tag with which one of `workers` takes its jobs; `tag` for all of them, when it is given."""
    found: dict[str, str] = {}
    for worker in workers:
        for language in worker.languages:
            if tag is not None and tag in worker.custom_tags:
                found[language] = tag
            elif tag is None and language in worker.custom_tags:
                found.setdefault(language, language)
    return found


def live_workers(
    *, name: str | None = None, group: str | None = None, tag: str | None = None
) -> list[WorkerPing]:
    """Workers that take jobs now. Raises CannotCheck when there is none, or none as asked for."""
    rows = WorkerPing.objects.filter(state="running")
    if name is not None:
        rows = rows.filter(worker=name)
    if group is not None:
        rows = rows.filter(worker_group=group)
    if tag is not None:
        rows = rows.filter(custom_tags__contains=[tag])
    if found := list(rows):
        return found
    asked = [f"{what} {value}" for what, value in (("name", name), ("group", group), ("tag", tag)) if value]
    known = sorted(WorkerPing.objects.filter(state="running").values_list("worker", flat=True))
    if not known:
        raise CannotCheck("No worker is running. Start one, or let this command do it: --here")
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    raise CannotCheck(
        f"No running worker has the {' and the '.join(asked)}; running are {', '.join(known[:MOST_NAMED])}{more}"
    )


def surroundings_here(names: Sequence[str] = ()) -> Surroundings:
    """What the settings of this process say about the place. `names`: of abstract Unix sockets with a listener."""
    at = settings.DATABASES["default"]
    host = str(at.get("OPTIONS", {}).get("host") or at.get("HOST") or "127.0.0.1")
    blocked = [one.partition("/")[0] for one in settings.JOB_BLOCKED_NETWORKS]
    # Of a network its most famous address, else its first.
    address = "169.254.169.254" if "169.254.0.0" in blocked else next(iter(blocked), "")
    other = Workspace.objects.exclude(pk=WORKSPACE).filter(deleted=False).values_list("pk", flat=True).first()
    return Surroundings(
        hidden=[str(settings.DATA_DIR), *([host] if host.startswith("/") else [])],
        shared=[str(settings.WORKER_DIR / "cache")],
        names=names,
        host=host,
        port=int(at.get("PORT") or 5432),
        user=str(at.get("USER") or "postgres"),
        database=str(at.get("NAME")),
        address=address,
        other_workspace=other or "",
    )


@contextmanager
def abstract_listener() -> Iterator[str]:
    """The name of an abstract Unix socket that somebody, we, listens on."""
    name = f"windmill-isolation-check-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        yield name


@contextmanager
def worker_of_our_own() -> Iterator[str]:
    """A worker on this machine with the settings of this process, for the time of the block; its only tag.

    Raises CannotCheck when it does not start; what it says goes to our standard error.
    """
    tag = f"isolation-check-{secrets.token_hex(6)}"
    process = subprocess.Popen(
        [sys.executable, str(settings.BASE_DIR / "manage.py"), "runworker", "--slots", "1"],
        env={**os.environ, "FORCE_WORKER_TAGS": tag, "DATABASE_URL": settings.DATABASE_URL},
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not WorkerPing.objects.filter(state="running", custom_tags__contains=[tag]).exists():
            if process.poll() is not None:
                raise CannotCheck(
                    f"A worker does not start here (exit code {process.returncode}); see above why."
                )
            if time.monotonic() > deadline:
                raise CannotCheck(
                    f"A worker does not start here within {START_TIMEOUT_S:g} s; see above why."
                )
            time.sleep(_POLL_S)
        yield tag
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        process.wait()


def _checked(probe: Probe, args: Mapping[str, Any], *, tag: str, email: str) -> Checked:
    job = queue.push_job(
        JobRequest(
            workspace_id=WORKSPACE,
            kind=JobKind.PREVIEW,
            tag=tag,
            created_by=CHECKER,
            permissioned_as=f"u/{CHECKER}",
            permissioned_as_email=email,
            args=dict(args),
            runnable_path=f"isolation_check/{probe.subject}",
            raw_code=probe.code,
            raw_lock="",
            language=probe.language,
            timeout_s=probe.timeout_s,
        )
    )
    done = _wait(lambda: CompletedJob.objects.filter(pk=job).first(), job, probe.timeout_s)
    if done is None:
        canceling.cancel_job(job_id=job, workspace_id=WORKSPACE, username=CHECKER, reason="it did not end")
        judged = Judged("untried", "no worker took it in time, or it did not end")
        return Checked(probe=probe, judged=judged, job_id=job)
    worker = done.worker or ""
    ping = WorkerPing.objects.filter(pk=worker).first()
    isolation, note = (ping.job_isolation, ping.isolation_note) if ping is not None else ("", "")
    if done.status == JobStatus.SUCCESS:
        judged = judge(probe, result=done.result, isolation=isolation, note=note)
    else:
        told = done.result if isinstance(done.result, dict) else {}
        error = told.get("error") if isinstance(told.get("error"), dict) else {}
        judged = judge(probe, error=str((error or {}).get("message", told)), isolation=isolation, note=note)
    return Checked(probe=probe, judged=judged, worker=worker, isolation=isolation, job_id=job)


def _wait(ask: Callable[[], CompletedJob | None], job: UUID, timeout_s: float) -> CompletedJob | None:
    """The answer, once there is one; None when nobody takes the job, or it takes far longer than it may."""
    began = time.monotonic()
    while (answer := ask()) is None:
        waited = time.monotonic() - began
        if waited > CLAIM_TIMEOUT_S and not QueuedJob.objects.filter(pk=job, running=True).exists():
            return ask()
        if waited > CLAIM_TIMEOUT_S + timeout_s + CLAIM_TIMEOUT_S:
            return None
        time.sleep(_POLL_S)
    return answer


def _superadmin() -> str:
    """Whose rights the jobs have: those of the mightiest, so that it shows what a job may not do even then."""
    email = Account.objects.filter(super_admin=True, disabled=False).values_list("email", flat=True).first()
    if email is None:
        raise CannotCheck("There is no superadmin; ./windmill up or manage.py bootstrap makes one.")
    return str(email)


def _untried(probe: Probe, why: str) -> Checked:
    return Checked(probe=probe, judged=Judged("untried", why))
