"""What pages show of the readers of dependency files: which scripts and flows, and whether they are locked again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import connection

from jobs import sql
from jobs.dependencies.files import edge
from jobs.models import WorkspaceDependencies
from workspaces.access import Caller, Right


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A script, or a flow with an inline script, that is locked with a file."""

    kind: str  # script, flow
    path: str
    state: str  # locking, failed or ready
    job_id: UUID | None  # that locks or locked it last


@dataclass(slots=True, kw_only=True)
class Readers:
    """The readers of one file: those that may be named, and how many there are in all."""

    named: list[Reader] = field(default_factory=list)
    count: int = 0
    locking_count: int = 0
    failed_count: int = 0

    @property
    def hidden_count(self) -> int:
        """Readers that whoever asks may not read."""
        return self.count - len(self.named)


def readers_of(caller: Caller, files: Sequence[WorkspaceDependencies]) -> dict[int, Readers]:
    """The readers of each of these files of the workspace, by the file's key. Importers of readers are not among them.

    One query; a row for each script that reads a default file.
    """
    by_edge = {edge(file.language, file.name): Readers() for file in files}
    with connection.cursor() as cursor:
        cursor.execute(
            sql.load("file_readers"), {"workspace_id": caller.workspace_id, "files": list(by_edge)}
        )
        rows = cursor.fetchall()
    for file_edge, kind, path, extra_perms, job_id, state in rows:
        readers = by_edge[file_edge]
        readers.count += 1
        readers.locking_count += state == "locking"
        readers.failed_count += state == "failed"
        rules = json.loads(extra_perms) if isinstance(extra_perms, str) else extra_perms
        if caller.right_on(path, rules) >= Right.READ:
            readers.named.append(
                Reader(kind=kind, path=path, state=state, job_id=UUID(job_id) if job_id else None)
            )
    return {file.pk: by_edge[edge(file.language, file.name)] for file in files}
