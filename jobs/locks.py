"""Locks of scripts: what a version depends on, pinned by a dependency job. The only writer of locks and dependency_map.

A version whose code depends on nothing is ready as soon as it is deployed. For any other a job of kind `dependencies`
(tag `dependency`) computes the lock; until it is there the version before it goes on running. When a script or a
dependency file of the workspace changes, whatever reaches it, directly or through others, is locked again: what it needs
may have changed with it.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from jobs import queue, sql, tags
from jobs.dependencies.files import file_language, reached
from jobs.dependencies.needs import needs_nothing
from jobs.dependencies.wanted import LANGUAGES_WITH_LOCKS
from jobs.models import (
    CachedLock,
    CompletedJob,
    DependencyEdge,
    Flow,
    FlowVersion,
    JobKind,
    QueuedJob,
    Script,
    WorkspaceDependencies,
    new_job_id,
)
from workspaces import audit
from workspaces.access import Caller
from workspaces.errors import Conflict
from workspaces.models import ActionKind, Member

logger = logging.getLogger(__name__)

DEPENDENCY_TAG = "dependency"
STATUS = "Successful lock file generation"
MAX_ERROR = 20_000  # characters of lock_error_logs
CACHED_LOCK_LIFE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Author:
    """As whom a dependency job runs: it reads the scripts that are imported with these rights."""

    username: str
    permissioned_as: str
    email: str

    @classmethod
    def of(cls, caller: Caller) -> "Author":
        return cls(caller.username, caller.permissioned_as, caller.email)


# --- deploying ---


def needs_job(workspace_id: str, language: str, content: str) -> bool:
    """Whether a dependency job has to find out what `content` depends on."""
    if language not in LANGUAGES_WITH_LOCKS:
        return False
    if not needs_nothing(language, content):
        return True
    # A default dependency file is for all scripts that say nothing of their own.
    files = WorkspaceDependencies.objects.filter(workspace=workspace_id, name="", archived=False)
    return files.filter(language=file_language(language)).exists()


def deployed(caller: Caller, script: Script, *, moved_from: str | None) -> None:
    """Follow up on a version that was just written: remember its imports, lock it or, when it is ready, its dependents.

    In the transaction of the deployment. A version that waits for its lock has `lock` None.
    """
    remember_imports(script, moved_from=moved_from)
    if script.lock is None:
        script.lock_job = _push(script, Author.of(caller), _tag(script.workspace_id))
        Script.objects.filter(pk=script.pk).update(lock_job=script.lock_job)
    else:
        lock_dependents(script, author=Author.of(caller), besides=moved_from)


def remember_imports(script: Script, *, moved_from: str | None = None) -> None:
    """Write down which scripts the live version at a path imports, and which dependency files it reads."""
    importers = DependencyEdge.objects.filter(
        workspace=script.workspace_id,
        importer_kind="script",
        importer_path__in=[script.path, moved_from or script.path],
    )
    importers.delete()
    DependencyEdge.objects.bulk_create(
        [
            DependencyEdge(
                workspace_id=script.workspace_id,
                importer_kind="script",
                importer_path=script.path,
                imported_path=path,
            )
            for path in reached(script.language, script.content, script.path)
        ],
        ignore_conflicts=True,
    )


def remember_imports_of_flow(workspace_id: str, path: str, imports: Mapping[str, Iterable[str]]) -> None:
    """Write down what the inline scripts of a flow reach (`jobs.dependencies.files.reached`), by module id."""
    with transaction.atomic():
        DependencyEdge.objects.filter(
            workspace=workspace_id, importer_kind="flow", importer_path=path
        ).delete()
        DependencyEdge.objects.bulk_create(
            [
                DependencyEdge(
                    workspace_id=workspace_id,
                    importer_kind="flow",
                    importer_path=path,
                    importer_node=node,
                    imported_path=imported,
                )
                for node, paths in imports.items()
                for imported in dict.fromkeys(paths)
            ],
            ignore_conflicts=True,
        )


def forget_imports(workspace_id: str, path: str, *, kind: str = "script") -> None:
    """Nothing is at this path any more."""
    DependencyEdge.objects.filter(workspace=workspace_id, importer_kind=kind, importer_path=path).delete()


def _push(script: Script, author: Author, tag: str) -> UUID:
    return queue.push_job(
        queue.JobRequest(
            job_id=new_job_id(),
            workspace_id=script.workspace_id,
            kind=JobKind.DEPENDENCIES,
            runnable_id=script.hash,
            runnable_path=script.path,
            language=script.language,
            tag=tag,
            args={},
            created_by=author.username,
            permissioned_as=author.permissioned_as,
            permissioned_as_email=author.email,
        )
    )


def _tag(workspace_id: str) -> str:
    return tags.choose_tag(workspace_id=workspace_id, asked=None, language=DEPENDENCY_TAG, args={})


# --- the job's end ---


def record(hash: int, *, job_id: UUID, lock: str, author: Author) -> dict[str, Any]:
    """What a dependency job, run as `author`, found; answers its result. May run twice. Only the job asked for last has
    a say.
    """
    with transaction.atomic():
        script = Script.objects.select_for_update().filter(pk=hash, lock_job=job_id).first()
        if script is not None:
            was = script.lock
            Script.objects.filter(pk=hash).update(lock=lock, lock_error_logs=None)
            script.lock = lock
            # Locked again because an import changed: whoever did that has the others locked again too.
            if was is None and not script.archived:
                lock_dependents(script, author=author)
    return {"status": STATUS, "lock": lock}


def record_failure(hash: int, *, job_id: UUID, message: str) -> None:
    """A dependency job that failed says why. A version that has a lock from before keeps it, and keeps running."""
    Script.objects.filter(pk=hash, lock_job=job_id, lock=None).update(lock_error_logs=message[:MAX_ERROR])


# --- again ---


def relock(caller: Caller, script: Script) -> UUID:
    """Compute the lock of a live version anew; answers the job's id. Raises PermissionDenied, Conflict."""
    caller.require_write(script.path, script.extra_perms)
    if script.archived or script.deleted:
        raise Conflict(f"version {script.hash_hex} of {script.path} is not the live one")
    with transaction.atomic():
        job_id = _push(script, Author.of(caller), _tag(script.workspace_id))
        Script.objects.filter(pk=script.pk).update(lock_job=job_id, lock_error_logs=None)
        audit.record(
            caller, "scripts.relock", ActionKind.UPDATE, resource=script.path, parameters={"job": str(job_id)}
        )
    return job_id


def lock_dependents(script: Script, *, author: Author, besides: str | None = None) -> int:
    """Have everything that imports `script` (or the path it had before), at any distance, locked again; how many.

    Each as its own author, who may read what it imports; as `author` when that one has left.
    """
    paths = [script.path] if besides is None else [script.path, besides]
    return lock_importers(script.workspace_id, paths, author=author)


def lock_importers(workspace_id: str, paths: Sequence[str], *, author: Author) -> int:
    """The same for all that reaches one of `paths`: of scripts, or as `jobs.dependencies.files.edge` writes files.

    In a transaction: what is to be locked again waits until the change is there to be read.
    """
    importers = _importers(workspace_id, paths)
    if not importers:
        return 0
    live = Script.objects.filter(
        workspace=workspace_id,
        archived=False,
        deleted=False,
        language__in=LANGUAGES_WITH_LOCKS,
        path__in=[path for kind, path, _ in importers if kind == "script" and path not in paths],
    ).defer("content", "schema", "lock")
    nodes: dict[str, list[str]] = {}
    for kind, path, node in importers:
        if kind == "flow":
            nodes.setdefault(path, []).append(node)
    # A default dependency file may have thousands of readers: one statement each, not four.
    tag, member = _tag(workspace_id), cache(partial(_member, workspace_id))
    with transaction.atomic():
        pending = _not_begun([dependent.lock_job for dependent in live if dependent.lock_job is not None])
        again = [dependent for dependent in live if dependent.lock_job not in pending]
        for dependent in again:
            by = dependent.on_behalf_of_email  # whom a version belongs to; else who deployed it
            owner = member(email=by) if by else member(username=dependent.created_by)
            dependent.lock_job = _push(dependent, owner or author, tag)
            dependent.lock_error_logs = None
        Script.objects.bulk_update(again, ["lock_job", "lock_error_logs"], batch_size=500)
        flows = Flow.objects.filter(workspace=workspace_id, path__in=nodes, archived=False)
        for flow in flows:
            _push_flow(flow, nodes[flow.path], member(username=flow.edited_by) or author, tag)
    count = len(again) + len(flows)
    logger.info("locking again workspace=%s imported=%s dependents=%s", workspace_id, paths[0], count)
    return count


def _not_begun(job_ids: Sequence[UUID]) -> set[UUID]:
    """Those of these jobs that no worker has begun, nor will before this transaction ends: they read what it writes."""
    waiting = QueuedJob.objects.select_for_update(skip_locked=True).filter(pk__in=job_ids, running=False)
    return set(waiting.values_list("pk", flat=True))


def _push_flow(flow: Flow, nodes: Sequence[str], author: Author, tag: str) -> None:
    job_id = queue.push_job(
        queue.JobRequest(
            job_id=new_job_id(),
            workspace_id=flow.workspace_id,
            kind=JobKind.FLOW_DEPENDENCIES,
            runnable_id=flow.version_id,
            runnable_path=flow.path,
            tag=tag,
            args={"nodes": sorted(set(nodes))},
            created_by=author.username,
            permissioned_as=author.permissioned_as,
            permissioned_as_email=author.email,
        )
    )
    FlowVersion.objects.filter(pk=flow.version_id).update(dependency_job=job_id)


def _importers(workspace_id: str, paths: Sequence[str]) -> list[tuple[str, str, str]]:
    """(kind, path, module id) of all that reaches one of `paths` by imports."""
    rows = DependencyEdge.objects.raw(
        sql.load("importers"), {"workspace_id": workspace_id, "paths": list(paths)}
    )
    return [(row.importer_kind, row.importer_path, row.importer_node) for row in rows]


def _member(workspace_id: str, **by: str) -> Author | None:
    """A member as an author; None when they have left."""
    member = Member.objects.filter(workspace=workspace_id, disabled=False, **by).first()
    return None if member is None else Author(member.username, f"u/{member.username}", member.email)


# --- reading ---


def state_of(script: Script) -> tuple[str, str | None]:
    """("ready", "locking" or "failed", and why it failed). It failed too when its job was canceled before its end."""
    if script.lock is not None:
        return "ready", None
    if script.lock_error_logs is not None:
        return "failed", script.lock_error_logs
    job_id = script.lock_job
    if job_id is None:
        return "ready", None
    ended = CompletedJob.objects.filter(pk=job_id).values_list("status", flat=True).first()
    if ended is None:
        return "locking", None
    return (
        "failed",
        f"the dependency job {job_id} ended ({ended}) before it found the dependencies; start it again",
    )


# --- the cache of locks of code that is not deployed ---


def prune_cache() -> int:
    """Forget locks that were computed long ago. Answers how many."""
    return CachedLock.objects.filter(created_at__lt=Now() - CACHED_LOCK_LIFE).delete()[0]
