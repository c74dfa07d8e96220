"""Dependency files that scripts of a workspace share: requirements.in, package.json, go.mod, composer.json.

A file has a language and a name ("" for the default one). Replacing it writes a new version and archives the one before;
whatever reads it (jobs.dependencies.files) is locked again. Admins and deployers write, members read.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from django.db.models import QuerySet

from jobs import locks
from jobs.dependencies.files import DEFAULT, FILE_NAMES, edge, file_path
from jobs.dependencies.python_comments import WrongRequirement, read_file
from jobs.models import WorkspaceDependencies
from jobs.scripts import DEPLOYERS
from workspaces import audit
from workspaces.access import Caller
from workspaces.errors import BadRequest, NotFound, PermissionDenied
from workspaces.jsontext import check_storable, parse_json
from workspaces.models import ActionKind, Workspace

SCOPE = "workspaces"  # of tokens: the files are settings of the workspace
MAX_CONTENT = 500_000  # characters
MAX_DESCRIPTION = 10_000
MAX_NAME = 60  # characters
_NAME = re.compile(r"[a-z0-9_-]+")


def may_write(caller: Caller) -> bool:
    """Whether this caller may create, replace and delete dependency files."""
    return not caller.is_operator and (caller.is_admin or DEPLOYERS in caller.groups)


def list_files(caller: Caller) -> QuerySet[WorkspaceDependencies]:
    """The live files of the workspace, those of a language together, the default one first."""
    live = WorkspaceDependencies.objects.filter(workspace=caller.workspace, archived=False)
    return live.order_by("language", "name")


def get_latest(caller: Caller, language: str, name: str) -> WorkspaceDependencies:
    """The live version of a file. Raises BadRequest (an unknown language, a name that none can have), NotFound."""
    _check_address(language, name)
    found = list_files(caller).filter(language=language, name=name).first()
    if found is None:
        raise NotFound(f"{file_path(language, name)} does not exist in workspace {caller.workspace_id}")
    return found


def create(
    caller: Caller, *, language: str, name: str, content: str, description: str = ""
) -> WorkspaceDependencies:
    """Make this the live version of the file; whatever reads it is locked again. Answers the live version as it is when
    it says the same already.

    Raises BadRequest (a value, naming the line of the content), PermissionDenied.
    """
    _require_may_write(caller)
    _check_address(language, name)
    check_content(language, name, content)
    if len(description) > MAX_DESCRIPTION:
        raise BadRequest(f"description is longer than {MAX_DESCRIPTION} characters")
    check_storable(description)
    with _one_at_a_time(caller):
        live = list_files(caller).filter(language=language, name=name)
        before = live.first()
        if before is not None and (before.content, before.description) == (content, description):
            return before
        live.update(archived=True)
        made = WorkspaceDependencies.objects.create(
            workspace=caller.workspace,
            language=language,
            name=name,
            content=content,
            description=description,
            created_by=caller.username,
        )
        _audit(caller, "create" if before is None else "update", language, name)
        if before is None or before.content != content:
            _lock_readers(caller, language, name)
    made.refresh_from_db(fields=["created_at"])
    return made


def archive(caller: Caller, language: str, name: str) -> None:
    """Take a file out of use; its versions stay. Raises BadRequest, NotFound, PermissionDenied."""
    _require_may_write(caller)
    _check_address(language, name)
    with _one_at_a_time(caller):
        get_latest(caller, language, name)
        list_files(caller).filter(language=language, name=name).update(archived=True)
        _audit(caller, "archive", language, name)
        _lock_readers(caller, language, name)


def delete(caller: Caller, language: str, name: str) -> None:
    """Forget a file and its versions, archived ones too. Raises BadRequest, NotFound, PermissionDenied."""
    _require_may_write(caller)
    _check_address(language, name)
    versions = WorkspaceDependencies.objects.filter(workspace=caller.workspace, language=language, name=name)
    with _one_at_a_time(caller):
        was_live = versions.filter(archived=False).exists()
        if not versions.delete()[0]:
            raise NotFound(f"{file_path(language, name)} does not exist in workspace {caller.workspace_id}")
        _audit(caller, "delete", language, name)
        if was_live:
            _lock_readers(caller, language, name)


def check_content(language: str, name: str, content: str) -> None:
    """Raises BadRequest, with a sentence that says where, when no script could be locked with this content."""
    path = file_path(language, name)
    if len(content) > MAX_CONTENT:
        raise BadRequest(f"content of {path} has {len(content)} characters; at most {MAX_CONTENT} fit")
    check_storable(content)
    if language == "python3":
        try:
            read_file(content, name)
        except WrongRequirement as exc:
            raise BadRequest(f"content is not valid: {exc}") from exc
    elif FILE_NAMES[language].endswith(".json"):
        try:
            value = parse_json(content)
        except BadRequest as exc:
            raise BadRequest(f"content of {path}: {exc.message.replace('the body', 'it')}") from exc
        if not isinstance(value, dict):
            raise BadRequest(
                f'content of {path} is no JSON object; expected one such as {{"dependencies": {{}}}}'
            )


def _check_address(language: str, name: str) -> None:
    if language not in FILE_NAMES:
        raise BadRequest(
            f"language {language[:40]!r} has no dependency files; expected one of {', '.join(FILE_NAMES)}"
        )
    if name == DEFAULT:
        raise BadRequest(
            f"name {DEFAULT!r} is how scripts call the file without a name; send an empty name instead"
        )
    if name and (len(name) > MAX_NAME or not _NAME.fullmatch(name)):
        raise BadRequest(
            f"name {name[:80]!r} is not valid; expected small letters, digits, - and _, at most {MAX_NAME}, or nothing"
        )


def _require_may_write(caller: Caller) -> None:
    caller.identity.require_scope(SCOPE, "write")
    if not may_write(caller):
        raise PermissionDenied(
            f"dependency files of workspace {caller.workspace_id} are changed by its admins and by members of the group "
            f"{DEPLOYERS}"
        )


@contextmanager
def _one_at_a_time(caller: Caller) -> Iterator[None]:
    """A transaction in which nobody else changes files of the workspace: one live version each, whoever comes second."""
    with transaction.atomic():
        Workspace.objects.select_for_update(no_key=True).get(pk=caller.workspace_id)
        yield


def _lock_readers(caller: Caller, language: str, name: str) -> None:
    locks.lock_importers(caller.workspace_id, [edge(language, name)], author=locks.Author.of(caller))


def _audit(caller: Caller, operation: str, language: str, name: str) -> None:
    kinds = {"create": ActionKind.CREATE, "update": ActionKind.UPDATE}
    audit.record(
        caller,
        f"workspace_dependencies.{operation}",
        kinds.get(operation, ActionKind.DELETE),
        resource=file_path(language, name),
    )
