"""Locking flows: what the inline scripts of a version depend on, pinned when it is deployed.

The work of `flowdependencies` jobs (jobs.flows.deployed), in three parts: `begin` reads, the worker resolves the
dependencies of one script after the other (none of their code is run), `finish` or `fail` writes. A script without
dependencies gets no lock, so that what was pushed and what is pulled stay the same.

Any number of them may be at work on one version, as it is written down when something that they import changes meanwhile:
of each script only the job that was asked for last has a say.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Subquery

from jobs import locks
from jobs.dependencies.files import reached
from jobs.flows import deployed
from jobs.models import CompletedJob, Flow, FlowVersion, Job, JobKind, JobStatus
from workspaces.errors import NotFound

STATUS = locks.STATUS


@dataclass(frozen=True, slots=True)
class InlineScript:
    """An inline script whose dependencies are to be resolved."""

    id: str  # of its module
    path: str | None  # at which it runs: relative imports start there
    language: str
    content: str


@dataclass(frozen=True, slots=True)
class Begun:
    """A flow that is being locked."""

    job_id: UUID
    value: dict[str, Any]  # FlowValue
    version: int | None  # None: a flow that is not deployed, which is only answered
    workspace_id: str
    path: str | None
    scripts: Sequence[InlineScript]


def begin(job_id: UUID, workspace_id: str) -> Begun:
    """What a `flowdependencies` job asks for. Raises NotFound: the version was deleted.

    The argument `nodes` names modules whose scripts are locked again although they have a lock.
    """
    job = Job.objects.get(pk=job_id, workspace_id=workspace_id)
    if job.runnable_id is None:
        value, version, path = job.raw_flow or {}, None, job.runnable_path
    else:
        found = FlowVersion.objects.filter(pk=job.runnable_id, workspace_id=workspace_id).first()
        if found is None:
            raise NotFound(f"version {job.runnable_id} of flow {job.runnable_path} was deleted")
        value, version, path = found.value, found.pk, found.path
    again = frozenset((job.args or {}).get("nodes") or ())
    scripts = [
        script
        for script in _scripts_to_lock(value, path, again)
        if script.id in again or locks.needs_job(workspace_id, script.language, script.content)
    ]
    return Begun(
        job_id=job_id, value=value, version=version, workspace_id=workspace_id, path=path, scripts=scripts
    )


def finish(begun: Begun, found: Mapping[str, str]) -> dict[str, Any]:
    """Write the locks, by module id; answers the job's result. May be done twice.

    They are put into the version as it is now: another job may have locked other modules of it meanwhile.
    """
    if begun.version is None:
        value, changed = with_locks(begun.value, found)
        return {"status": STATUS, "updated_flow_value": value, "modified_ids": changed}
    with transaction.atomic():
        version = FlowVersion.objects.select_for_update().filter(pk=begun.version).first()
        if version is None:
            return {"status": STATUS, "modified_ids": []}
        later = _asked_again(begun)
        found = {id: lock for id, lock in found.items() if id not in later}
        value, changed = with_locks(version.value, found)
        deployed.record_locks(
            version.pk,
            value=value if changed else None,
            error_logs=version.lock_error_logs if later else None,
        )
        path = version.path
        if Flow.objects.filter(workspace=begun.workspace_id, path=path, version_id=version.pk).exists():
            imports = {
                id: reached(str(script.get("language")), str(script.get("content")), f"{path}/{id}")
                for id, script in _inline_scripts(value)
            }
            locks.remember_imports_of_flow(begun.workspace_id, path, imports)
    return {"status": STATUS, "modified_ids": changed}


def fail(begun: Begun, id: str, message: str) -> None:
    """Say in the version why the script of module `id` could not be locked."""
    if begun.version is None:
        return
    with transaction.atomic():
        FlowVersion.objects.select_for_update().filter(pk=begun.version).first()
        if id not in _asked_again(begun):
            deployed.record_locks(begun.version, value=None, error_logs=f"step {id}: {message}")


def _asked_again(begun: Begun) -> set[str]:
    """Modules that a later job was asked to lock: what this one found of them may be of yesterday."""
    begun_at = Job.objects.filter(pk=begun.job_id).values("created_at")
    later = Job.objects.filter(
        workspace_id=begun.workspace_id,
        kind=JobKind.FLOW_DEPENDENCIES,
        runnable_id=begun.version,
        flow_step_id=None,  # as the index of recent jobs has it
        created_at__gt=Subquery(begun_at),
    )
    canceled = CompletedJob.objects.filter(pk__in=later.values("pk"), status=JobStatus.CANCELED).values("pk")
    asked = later.exclude(pk__in=canceled).values_list("args", flat=True)
    return {id for args in asked for id in (args or {}).get("nodes") or ()}


def with_locks(value: dict[str, Any], found: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The FlowValue with these locks, by module id; ids of the modules that are different now.

    The value given is not changed.
    """
    value = deepcopy(value)
    changed = []
    for id, script in _inline_scripts(value):
        if id in found and (script.get("lock") or "") != found[id]:
            script["lock"] = found[id]
            changed.append(id)
    return value, changed


def _scripts_to_lock(
    value: dict[str, Any], path: str | None, again: frozenset[str]
) -> Iterator[InlineScript]:
    for id, script in _inline_scripts(value):
        if script.get("lock") is None or id in again:
            place = None if path is None else f"{path}/{id}"
            yield InlineScript(id, place, str(script.get("language")), str(script.get("content")))


def _inline_scripts(value: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(module id, rawscript) wherever they stand in a FlowValue."""
    pending: list[Any] = [value.get("preprocessor_module"), value.get("failure_module")]
    pending += reversed(value.get("modules") or [])
    while pending:
        module = pending.pop()
        if not isinstance(module, dict) or not isinstance(module.get("value"), dict):
            continue
        inner = module["value"]
        if inner.get("type") == "rawscript":
            yield str(module.get("id")), inner
        pending += inner.get("modules") or []
        pending += inner.get("default") or []
        pending += inner.get("tools") or []
        for branch in inner.get("branches") or []:
            pending += branch.get("modules") or []
