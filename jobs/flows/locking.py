"""Locking flows: what the inline scripts of a version depend on, pinned when it is deployed.

The work of `flowdependencies` jobs (jobs.flows.deployed). They run in the worker itself: nothing of the user's is run.
A script without dependencies gets no lock, so that what was pushed and what is pulled stay the same.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any
from uuid import UUID

from jobs.flows import deployed
from jobs.models import FlowVersion, Job
from workspaces.errors import DomainError, NotFound

STATUS = "Successful lock file generation"

# (language, code) -> lock, "" when there is nothing to pin. Raises DomainError with what the author can do about it.
Resolve = Callable[[str, str], str]


def no_dependencies(language: str, content: str) -> str:
    """Scripts of today's runtimes use what the worker has installed: nothing is resolved, as for deployed scripts."""
    return ""


def locked(value: dict[str, Any], resolve: Resolve = no_dependencies) -> tuple[dict[str, Any], list[str]]:
    """The FlowValue with a lock for each inline script that has dependencies and none yet; ids of those that got one.

    The value given is not changed. Raises DomainError: the first script whose dependencies cannot be resolved.
    """
    value = deepcopy(value)
    changed = []
    for id, script in _inline_scripts(value):
        if script.get("lock") is None:
            lock = resolve(str(script.get("language")), str(script.get("content")))
            if lock:
                script["lock"] = lock
                changed.append(id)
    return value, changed


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


def run(job_id: UUID, workspace_id: str) -> dict[str, Any]:
    """Do what a `flowdependencies` job asks for; answers its result. May run twice. Raises DomainError: it failed.

    A job of a version writes the locks into that version; one with a flow of its own only answers it.
    """
    job = Job.objects.get(pk=job_id, workspace_id=workspace_id)
    if job.runnable_id is None:
        value, changed = locked(job.raw_flow or {})
        return {"status": STATUS, "updated_flow_value": value, "modified_ids": changed}
    version = FlowVersion.objects.filter(pk=job.runnable_id, workspace_id=workspace_id).first()
    if version is None:
        raise NotFound(f"version {job.runnable_id} of flow {job.runnable_path} was deleted")
    try:
        value, changed = locked(version.value)
    except DomainError as exc:
        deployed.record_locks(version.pk, value=None, error_logs=exc.message)
        raise
    deployed.record_locks(version.pk, value=value if changed else None, error_logs=None)
    return {"status": STATUS, "modified_ids": changed}
