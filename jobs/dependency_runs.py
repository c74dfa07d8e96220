"""Dependency jobs for what is not deployed: what a client has on disk is locked as it would be if it were.

The job's arguments carry what stands in for deployed things (`StandIns`); a worker reads them back (workers.pg_runtimes).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jobs import locks, queue, tags
from jobs.dependencies.files import parse_file_path
from jobs.models import ALL_LANGUAGES, JobKind
from jobs.runs import MAX_PREVIEW_PATH, RunOptions, push
from jobs.scripts import MAX_CONTENT
from jobs.workspace_dependencies import check_content
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest
from workspaces.jsontext import check_storable

MAX_STAND_INS = 10_000
_FILES, _SCRIPTS = "raw_workspace_dependencies", "temp_script_refs"


@dataclass(frozen=True, kw_only=True)
class StandIns:
    """What counts instead of what is deployed."""

    files: Mapping[str, str] = field(default_factory=dict)  # content by path (dependencies/requirements.in)
    scripts: Mapping[str, str] = field(default_factory=dict)  # name in jobs.temporary_code by path

    def files_of(self, language: str) -> dict[str, str]:
        """Content by name of the files of `language`; "" is the default one."""
        found = ((parse_file_path(path), content) for path, content in self.files.items())
        return {place[1]: content for place, content in found if place is not None and place[0] == language}

    def as_args(self) -> dict[str, Any]:
        """As the arguments of a job; none when nothing is replaced."""
        given = {_FILES: dict(self.files), _SCRIPTS: dict(self.scripts)}
        return {name: value for name, value in given.items() if value}

    @classmethod
    def from_args(cls, args: Mapping[str, Any] | None) -> "StandIns":
        """What `as_args` made."""
        given = args or {}
        return cls(files=given.get(_FILES) or {}, scripts=given.get(_SCRIPTS) or {})


def checked_stand_ins(files: Any, scripts: Any) -> StandIns:
    """What a client sends: {path: content} and {path: name}, either may be None. Raises BadRequest."""
    for name, given in ((_FILES, files), (_SCRIPTS, scripts)):
        if given is None:
            continue
        if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
            raise BadRequest(f"{name} must be an object of texts by path")
        if len(given) > MAX_STAND_INS:
            raise BadRequest(f"{name} has {len(given)} entries; at most {MAX_STAND_INS} fit")
        check_storable(given)
    for path, content in (files or {}).items():
        if (place := parse_file_path(path)) is not None:
            check_content(*place, content)
    return StandIns(files=files or {}, scripts=scripts or {})


def run_dependencies(
    caller: Caller,
    *,
    code: str,
    language: str,
    path: str | None,
    stand_ins: StandIns,
    options: RunOptions,
) -> UUID:
    """Queue a job that finds out what `code` at `path` depends on, answer its id. Not for operators.

    Its result is {lock: ...}. Raises BadRequest, PermissionDenied.
    """
    caller.require_not_operator()
    caller.identity.require_scope("jobs", "run", "preview")
    if language not in ALL_LANGUAGES:
        raise BadRequest(f"language {language[:40]!r} is unknown; expected one of {', '.join(ALL_LANGUAGES)}")
    if len(code) > MAX_CONTENT:
        raise BadRequest(f"raw_code has {len(code)} characters; at most {MAX_CONTENT} fit")
    if path is not None and len(path) > MAX_PREVIEW_PATH:
        raise BadRequest(f"script_path is longer than {MAX_PREVIEW_PATH} characters")
    check_storable([code, path])
    request = queue.JobRequest(
        workspace_id=caller.workspace_id,
        kind=JobKind.DEPENDENCIES,
        raw_code=code,
        runnable_path=path,
        language=language,
        tag=tags.choose_tag(
            workspace_id=caller.workspace_id, asked=options.tag, language=locks.DEPENDENCY_TAG, args={}
        ),
        args=stand_ins.as_args(),
        created_by=caller.username,
        permissioned_as=caller.permissioned_as,
        permissioned_as_email=caller.email,
        visible_to_owner=options.visible_to_owner
        and bool(path)
        and caller.right_on(path or "") >= Right.READ,
    )
    return push(caller, request, options, operation="jobs.dependencies")
