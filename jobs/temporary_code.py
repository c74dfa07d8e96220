"""Scripts as a client has them on disk: sent to compute locks that count with them, kept for a day, deployed never.

A text is named by its SHA-256, so that sending one twice keeps it once. Whoever names a text in a dependency job knows
it, or was told its name by somebody who does.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Func, Sum, TextField, Value
from django.db.models.functions import Now

from jobs.models import Script, TemporaryCode, WorkspaceDependencies
from jobs.scripts import MAX_CONTENT, SCOPE
from workspaces.access import Caller
from workspaces.errors import BadRequest, Conflict

LIFE = timedelta(days=1)  # after a text was last sent
MAX_KEPT = 200_000_000  # characters a workspace
MAX_COMPARED = 50_000  # scripts and files in one request


@dataclass(frozen=True, kw_only=True)
class LocalFile:
    """A dependency file as a client has it on disk."""

    path: str  # as the client calls it: dependencies/requirements.in
    language: str
    name: str  # "": the default one
    hash: str  # SHA-256 of its content, hex


def store(caller: Caller, content: str) -> str:
    """Keep a text for a day; answers its name. Raises BadRequest (too long), Conflict (too many), PermissionDenied."""
    caller.require_not_operator()
    caller.identity.require_scope(SCOPE, "write")
    if len(content) > MAX_CONTENT:
        raise BadRequest(f"the script has {len(content)} characters; at most {MAX_CONTENT} fit")
    hash = hashlib.sha256(content.encode()).hexdigest()
    kept = TemporaryCode.objects.filter(workspace=caller.workspace)
    if kept.filter(hash=hash).update(created_at=Now()):
        return hash
    total = kept.aggregate(total=Sum("size"))["total"] or 0
    if total + len(content) > MAX_KEPT:
        raise Conflict(
            f"workspace {caller.workspace_id} keeps {total} characters of scripts sent for computing locks; at most "
            f"{MAX_KEPT} fit. They are forgotten {LIFE.days} day after they were sent"
        )
    # Somebody may have sent the same text meanwhile: then it is there.
    row = TemporaryCode(workspace=caller.workspace, hash=hash, content=content, size=len(content))
    TemporaryCode.objects.bulk_create([row], ignore_conflicts=True)
    return hash


def read(workspace_id: str, hashes: Sequence[str]) -> dict[str, str]:
    """The texts of these names that are still kept."""
    rows = TemporaryCode.objects.filter(workspace=workspace_id, hash__in=hashes)
    return dict(rows.values_list("hash", "content"))


def mismatched(caller: Caller, scripts: Mapping[str, str], files: Sequence[LocalFile]) -> list[str]:
    """Which of these are not what is deployed: paths of `scripts` (SHA-256 of the content by path) and of `files`.

    What the caller may not read counts as not deployed. Raises BadRequest (too many).
    """
    if len(scripts) + len(files) > MAX_COMPARED:
        raise BadRequest(f"{len(scripts) + len(files)} scripts and files at once; at most {MAX_COMPARED}")
    live = Script.objects.filter(archived=False, deleted=False, path__in=list(scripts))
    deployed = dict(
        caller.readable(live, scope=SCOPE).annotate(sha=_sha256("content")).values_list("path", "sha")
    )
    own = WorkspaceDependencies.objects.filter(workspace=caller.workspace, archived=False)
    deployed_files = {
        (language, name): sha
        for language, name, sha in own.annotate(sha=_sha256("content")).values_list("language", "name", "sha")
    }
    return [
        *(path for path, hash in scripts.items() if deployed.get(path) != hash),
        *(one.path for one in files if deployed_files.get((one.language, one.name)) != one.hash),
    ]


def prune() -> int:
    """Forget texts whose day is over. Answers how many."""
    return TemporaryCode.objects.filter(created_at__lt=Now() - LIFE).delete()[0]


def _sha256(column: str) -> Func:
    in_utf8 = Func(F(column), Value("UTF8"), function="convert_to")
    return Func(Func(in_utf8, function="sha256"), Value("hex"), function="encode", output_field=TextField())
