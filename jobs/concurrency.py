"""Concurrency limits: at most N jobs of a key at once, those that ended in the last W seconds counted in.

The key is chosen once, when the job is queued. A worker that has claimed a job with a limit asks for a place (the SQL
function take_place, under a lock of the key) and runs it only then; otherwise the job is back in the queue, held back.
Whoever leaves a place offers it to the next in line (offer_place.sql), so that nobody has to ask again and again; what is
held back looks again by itself too, at growing intervals, for places that were left without a word.

A place counts as long as its job is in the queue with a started_at. A job whose worker died loses it when it goes back
into the queue, a flow keeps it while it waits for its steps.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection

from jobs import sql, tags
from jobs.listings import get_job
from jobs.models import ConcurrencyPlace, Job, QueuedJob
from workspaces.access import Identity, enter_workspace
from workspaces.errors import BadRequest, NotFound

MAX_KEY = 255
_LARGEST = 2_147_483_647
_DEFAULT_KEY = re.compile(r"([^/]+)/(script|flow)/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most `places` jobs of `key` at once, and in any `window_s` seconds."""

    key: str
    places: int
    window_s: int = 0

    def request_fields(self) -> dict[str, Any]:
        """As the fields of JobRequest that say so."""
        return {
            "concurrency_key": self.key,
            "concurrent_limit": self.places,
            "concurrency_window_s": self.window_s,
        }


def limit_of(
    *,
    workspace_id: str,
    kind: str,
    path: str | None,
    args: Mapping[str, Any],
    places: int | None,
    window_s: int | None = None,
    key: str | None = None,
) -> Limit | None:
    """The limit of a new job; None when there is none (`places` missing or not above 0, or nothing to name it by).

    `kind` is "script" or "flow". In `key`, `$workspace` and `$args[a.b]` stand for the workspace and an argument. A key
    without `$workspace` is shared by all workspaces, so that they can share what has a limit of its own; it cannot be
    the default key of something in another workspace.
    """
    if not places or places <= 0:
        return None
    if key:
        key = tags.interpolate(key, workspace_id=workspace_id, args=dict(args))
        named = _DEFAULT_KEY.match(key)
        if named is not None and named[1] != workspace_id:
            key = f"{workspace_id}/{key}"
    elif path:
        key = f"{workspace_id}/{kind}/{path}"
    if not key:
        return None
    if len(key) > MAX_KEY:
        key = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return Limit(key=key, places=min(places, _LARGEST), window_s=min(max(window_s or 0, 0), _LARGEST))


def limit_of_extra(
    extra: Mapping[str, Any], *, workspace_id: str, kind: str, path: str | None, args: Mapping[str, Any]
) -> Limit | None:
    """The limit that the settings of a deployed script or flow (`Script.extra`, FlowValue) give its jobs."""
    return limit_of(
        workspace_id=workspace_id,
        kind=kind,
        path=path,
        args=args,
        places=extra.get("concurrent_limit"),
        window_s=extra.get("concurrency_time_window_s"),
        key=extra.get("concurrency_key"),
    )


def list_groups() -> list[dict[str, Any]]:
    """Every key in use: [{concurrency_key, total_running}], by key. For operators of the instance."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("list_places"))
        return [{"concurrency_key": key, "total_running": running} for key, running in cursor.fetchall()]


def prune_group(key: str) -> None:
    """Forget what a key remembers of jobs that have ended. Raises BadRequest while some run, NotFound."""
    if QueuedJob.objects.filter(concurrency_key=key, started_at__isnull=False).exists():
        raise BadRequest(f"jobs of concurrency key {key} are running; try again when they have ended")
    deleted, _ = ConcurrencyPlace.objects.filter(key=key).delete()
    if not deleted and not QueuedJob.objects.filter(concurrency_key=key).exists():
        raise NotFound(f"concurrency key {key} is not in use")


def key_of_job(identity: Identity, job_id: UUID) -> str | None:
    """The key of a job that this identity may see; None when it has no limit. Raises NotFound."""
    job = Job.objects.filter(pk=job_id).values("workspace_id", "concurrency_key").first()
    if job is None:
        raise NotFound(f"job {job_id} does not exist, or you may not see it")
    caller = enter_workspace(identity, job["workspace_id"])
    get_job(caller, workspace_id=job["workspace_id"], job_id=job_id)
    key: str | None = job["concurrency_key"]
    return key


def prune_places() -> int:
    """Forget places that no longer count. Answers how many."""
    with connection.cursor() as cursor:
        cursor.execute(sql.load("prune_places"))
        return cursor.rowcount
