"""Scripts: deploy versions, find them, archive and delete them. The only writer of the `script` table.

A script is a line of versions at a path: each names the one before it as its parent, the newest is the head, and only
the head is live. Whoever deploys says which version they started from, so nobody overwrites work they have not seen.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import BigIntegerField, F, Func, QuerySet

from jobs import dedicated, locks, tags
from jobs.models import ALL_LANGUAGES, Draft, Script, ScriptKind
from jobs.signatures import infer_schema
from workspaces import audit
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, Conflict, NotFound
from workspaces.jsontext import check_storable
from workspaces.labels import check_labels
from workspaces.models import ActionKind

SCOPE = "scripts"
MAX_CONTENT = 10_000_000  # characters
MAX_TAG = 50
MAX_ENVS = 100
MAX_SHOWN_LINE = 160
MAX_TIMEOUT_S = 2_147_483_647
DEPLOYERS = "wm_deployers"  # the group that may deploy under another person's identity

# Fields of Windmill's scripts that are kept and given back as sent (`Script.extra`), with the JSON types they may have.
EXTRA_FIELDS: dict[str, tuple[type, ...]] = {
    "assets": (list,),
    "cache_ignore_s3_path": (bool,),
    "cache_ttl": (int,),
    "codebase": (str,),
    "concurrency_key": (str,),
    "concurrency_time_window_s": (int,),
    "concurrent_limit": (int,),
    "debounce_args_to_accumulate": (list,),
    "debounce_delay_s": (int,),
    "debounce_key": (str,),
    "dedicated_worker": (bool,),
    "delete_after_secs": (int,),
    "delete_after_use": (bool,),
    "max_total_debounces_amount": (int,),
    "max_total_debouncing_time": (int,),
    "modules": (dict,),
    "restart_unless_cancelled": (bool,),
    "ws_error_handler_muted": (bool,),
}

# A file's extension in raw routes and exports.
EXTENSIONS: dict[str, str] = {
    "python3": "py",
    "bash": "sh",
    "deno": "ts",
    "bun": "ts",
    "bunnative": "ts",
    "nativets": "ts",
    "go": "go",
    "powershell": "ps1",
    "php": "php",
    "rust": "rs",
    "ansible": "yml",
    "csharp": "cs",
    "nu": "nu",
    "java": "java",
    "ruby": "rb",
    "rlang": "r",
    "graphql": "gql",
}
_SQL_LANGUAGES = ("postgresql", "mysql", "bigquery", "snowflake", "mssql", "oracledb", "duckdb", "dbt")
EXTENSIONS.update(dict.fromkeys(_SQL_LANGUAGES, "sql"))


@dataclass(frozen=True, kw_only=True)
class ScriptDraft:
    """A version as its author wants it. Checked by `deploy_script`."""

    path: str
    content: str
    language: str
    summary: str = ""
    description: str = ""
    schema: dict[str, Any] | None = None  # None: read from the code
    kind: str = ScriptKind.SCRIPT
    lock: str | None = None
    tag: str | None = None
    envs: list[str] | None = None  # ["KEY=value"]
    timeout_s: int | None = None
    priority: int | None = None  # 1..100
    is_template: bool = False
    visible_to_runner_only: bool | None = None
    on_behalf_of_email: str | None = None
    labels: list[str] | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # EXTRA_FIELDS


def deploy_script(
    caller: Caller,
    draft: ScriptDraft,
    *,
    parent_hash: int | None = None,
    auto_parent: bool = False,
    skip_if_noop: bool = False,
    deployment_message: str = "",
) -> Script:
    """Make `draft` the live version at its path; the version before it is archived in the same transaction.

    `parent_hash` is the version that the author started from: the head, at this path or (a move) at another one.
    `auto_parent` takes the head, whatever it is. `skip_if_noop` answers the head when it is the same already.
    Raises BadRequest (a value, an unknown language), Conflict (path taken, parent is not the head), PermissionDenied.
    """
    caller.require_new_path(draft.path, scope=SCOPE)
    values = _checked_values(caller, draft)
    live = _live(caller)
    head = live.filter(path=draft.path).first()
    parent = _parent(caller, head, path=draft.path, parent_hash=parent_hash, auto_parent=auto_parent)
    if skip_if_noop and head is not None and _is_same(head, draft, values):
        return head
    script = Script(
        workspace=caller.workspace,
        path=draft.path,
        parent_hashes=[parent.hash, *parent.parent_hashes] if parent else [],
        created_by=caller.username,
        extra_perms=parent.extra_perms if parent else {},
        deployment_message=deployment_message[:10_000],
        **values,
    )
    script.hash = _hash(script)
    try:
        with transaction.atomic():
            # Only whoever archives the parent may follow it: of two deployments at once the second finds it archived.
            if parent is not None and not parent.archived:
                archived = live.filter(hash=parent.hash).update(archived=True)
                if not archived:
                    raise _lost_race(draft.path)
            script.save(force_insert=True)
            moved_from = parent.path if parent is not None and parent.path != draft.path else None
            locks.deployed(caller, script, moved_from=moved_from)
            Draft.objects.filter(
                workspace=caller.workspace, email=caller.email, kind="script", path=draft.path
            ).delete()
            audit.record(
                caller,
                "scripts.update" if parent else "scripts.create",
                ActionKind.UPDATE if parent else ActionKind.CREATE,
                resource=script.path,
                parameters={"hash": script.hash_hex, "summary": script.summary[:200]},
            )
    except IntegrityError as exc:
        if Script.objects.filter(pk=script.hash).exists():
            raise Conflict(
                f"a version of {draft.path} with this content, parent and settings exists already ({script.hash_hex}); "
                "change something, or send skip_if_noop=true"
            ) from exc
        raise _lost_race(draft.path) from exc
    script.refresh_from_db(fields=["created_at"])
    return script


def _lost_race(path: str) -> Conflict:
    return Conflict(f"somebody deployed another version of {path} at the same time; load it and try again")


def _live(caller: Caller) -> QuerySet[Script]:
    return Script.objects.filter(workspace=caller.workspace, archived=False, deleted=False)


def _parent(
    caller: Caller, head: Script | None, *, path: str, parent_hash: int | None, auto_parent: bool
) -> Script | None:
    """The version that the new one follows; None for the first at a path."""
    if parent_hash is None:
        if head is not None and not auto_parent:
            raise Conflict(
                f"Path conflict for {path} with non-archived hash {head.hash_hex}; "
                "send it as parent_hash to deploy a new version, or choose another path"
            )
        return head or _newest_archived(caller, path)
    parent = Script.objects.filter(workspace=caller.workspace, hash=parent_hash).first()
    if parent is None or caller.right_on(parent.path, parent.extra_perms) < Right.READ:
        raise BadRequest(
            f"parent_hash {_hex(parent_hash)} is no version of a script in workspace {caller.workspace_id}"
        )
    if parent.path != path:  # a move: the line goes on at another path
        if head is not None:
            raise Conflict(
                f"Path conflict for {path} with non-archived hash {head.hash_hex}; choose another path"
            )
        caller.require_write(parent.path, parent.extra_perms)
        head = _live(caller).filter(path=parent.path).first()
    newest = head or _newest_archived(caller, parent.path)
    if newest is not None and newest.hash != parent.hash:
        if auto_parent:
            return newest
        raise Conflict(
            f"the lineage must be linear: {_hex(parent_hash)} is not the newest version of {parent.path}, "
            f"{newest.hash_hex} is; load that one and apply your change to it"
        )
    return parent


def _newest_archived(caller: Caller, path: str) -> Script | None:
    """The version that a path ended with when it was archived: a script that comes back goes on from there."""
    return Script.objects.filter(workspace=caller.workspace, path=path).order_by("-created_at").first()


def _checked_values(caller: Caller, draft: ScriptDraft) -> dict[str, Any]:
    """The columns of the new version, checked. Raises BadRequest naming the field."""
    if draft.language not in ALL_LANGUAGES:
        raise BadRequest(
            f"language {draft.language[:40]!r} is unknown; expected one of {', '.join(ALL_LANGUAGES)}"
        )
    if draft.kind not in ScriptKind.values:
        raise BadRequest(
            f"kind {draft.kind[:40]!r} is unknown; expected one of {', '.join(ScriptKind.values)}"
        )
    if len(draft.content) > MAX_CONTENT:
        raise BadRequest(f"content has {len(draft.content)} characters; at most {MAX_CONTENT} fit")
    if draft.tag is not None and len(draft.tag) > MAX_TAG:
        raise BadRequest(f"tag is longer than {MAX_TAG} characters")
    tags.require_available(draft.tag, caller.workspace_id)
    if draft.timeout_s is not None and not 0 < draft.timeout_s <= MAX_TIMEOUT_S:
        raise BadRequest(f"timeout is {draft.timeout_s}; expected a number of seconds above 0")
    if draft.priority is not None and not 0 <= draft.priority <= 100:
        raise BadRequest(f"priority is {draft.priority}; expected 0 to 100")
    _check_envs(draft.envs)
    for name, value in draft.extra.items():
        allowed = EXTRA_FIELDS[name]
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise BadRequest(
                f"{name} is a {type(value).__name__}; expected {' or '.join(t.__name__ for t in allowed)}"
            )
    check_storable(draft.extra)
    if dedicated.is_dedicated(draft.extra):
        dedicated.check_language(draft.language)
    inference = infer_schema(draft.language, draft.content, previous=draft.schema)
    schema = draft.schema if draft.schema is not None else inference.schema
    check_storable(schema)
    return {
        "content": draft.content,
        "language": draft.language,
        "summary": draft.summary,
        "description": draft.description,
        "schema": schema,
        "kind": draft.kind,
        # What the author sent is theirs; None: a dependency job finds out.
        "lock": _lock(caller, draft),
        "tag": draft.tag or None,
        "envs": draft.envs,
        "timeout": draft.timeout_s,
        "priority": draft.priority or None,
        "is_template": draft.is_template,
        "visible_to_runner_only": draft.visible_to_runner_only,
        "auto_kind": inference.auto_kind,
        "has_preprocessor": inference.has_preprocessor,
        "on_behalf_of_email": checked_on_behalf_of(caller, draft.on_behalf_of_email),
        "labels": None if draft.labels is None else check_labels(draft.labels),
        "extra": draft.extra,
    }


def _lock(caller: Caller, draft: ScriptDraft) -> str | None:
    if draft.lock is not None:
        return draft.lock
    return None if locks.needs_job(caller.workspace_id, draft.language, draft.content) else ""


def _check_envs(envs: list[str] | None) -> None:
    if envs is not None and len(envs) > MAX_ENVS:
        raise BadRequest(f"envs has {len(envs)} entries; at most {MAX_ENVS} fit")
    for entry in envs or ():
        name, separator, _ = entry.partition("=")
        if not separator or not name.isidentifier() or not name.isascii():
            raise BadRequest(f"envs holds {entry[:40]!r}; expected NAME=value")


def checked_on_behalf_of(caller: Caller, email: str | None) -> str | None:
    """Whom a new version runs as: only admins and deployers may name somebody else, others name themselves."""
    if email is None or caller.is_admin or DEPLOYERS in caller.groups:
        return email
    return caller.email


# What makes two versions the same. auto_kind, has_preprocessor follow from the content.
_IDENTITY_COLUMNS = [
    "content",
    "language",
    "summary",
    "description",
    "schema",
    "kind",
    "lock",
    "tag",
    "envs",
    "timeout",
    "priority",
    "is_template",
    "visible_to_runner_only",
    "auto_kind",
    "has_preprocessor",
    "on_behalf_of_email",
    "labels",
    "extra",
]


def _identity(script: Script) -> dict[str, Any]:
    return {"path": script.path, **{name: getattr(script, name) for name in _IDENTITY_COLUMNS}}


def _is_same(head: Script, draft: ScriptDraft, values: dict[str, Any]) -> bool:
    """Whether deploying `values` would change nothing. A lock that the author leaves to us is no difference."""
    ours = {} if draft.lock is not None else {"lock": head.lock}
    return _identity(head) == {"path": draft.path, **values, **ours}


def _hash(script: Script) -> int:
    """63 bits that name this version: workspace, path, parent, content and settings."""
    what = [script.workspace_id, script.parent_hashes[:1], _identity(script)]
    digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _hex(hash: int) -> str:
    return f"{hash & 0xFFFFFFFFFFFFFFFF:016x}"


def parse_hash(text: str) -> int:
    """A version's name (16 hex digits) as the number it stands for. Raises BadRequest."""
    try:
        if not 1 <= len(text) <= 16 or not text.isascii() or not text.isalnum():
            raise ValueError
        value = int(text, 16)
    except ValueError:
        raise BadRequest(f"script hash {text[:40]!r} is not valid; expected 16 hex digits") from None
    return value - (1 << 64) if value >= 1 << 63 else value


# --- reading ---


def get_script(caller: Caller, path: str, *, right: Right = Right.READ) -> Script:
    """The live version at `path`. Raises NotFound, PermissionDenied."""
    return caller.get(_live(caller), path, right=right, what="script", scope=SCOPE)


def get_newest(caller: Caller, path: str) -> Script:
    """The newest version at `path`, archived or not: what a client compares with. Raises NotFound."""
    versions = Script.objects.filter(deleted=False).order_by("archived", "-created_at")
    return caller.get(versions, path, what="script", scope=SCOPE)


def moved_to(caller: Caller, script: Script) -> str | None:
    """The path at which an archived version's line goes on, when it was moved there and the caller may read it."""
    heads = caller.readable(_live(caller), scope=SCOPE).exclude(path=script.path)
    return heads.filter(parent_hashes__contains=[script.hash]).values_list("path", flat=True).first()


def get_by_hash(caller: Caller, hash: int, *, right: Right = Right.READ, scope: str | None = SCOPE) -> Script:
    """One version, live or not. Raises NotFound, PermissionDenied."""
    script = Script.objects.filter(workspace=caller.workspace, hash=hash).first()
    if script is None or caller.right_on(script.path, script.extra_perms) < Right.READ:
        raise NotFound(
            f"script version {_hex(hash)} does not exist in workspace {caller.workspace_id}, or you may not read it"
        )
    if scope is not None:
        caller.identity.require_scope(scope, "read" if right <= Right.READ else "write", script.path)
    if right > Right.READ:
        caller.require_write(script.path, script.extra_perms, right=right)
    return script


def get_to_run(caller: Caller, *, path: str | None = None, hash: int | None = None) -> Script:
    """The version that a run of this path or hash executes. Operators may; the token needs jobs:run for it.

    At a path whose live version has no lock yet (or none at all: it could not be computed), the newest one before it
    that has one. Raises NotFound (also archived ones, and when no version is ready), PermissionDenied.
    """
    if path is not None:
        script = caller.get(_live(caller), path, what="script")
    else:
        assert hash is not None
        script = get_by_hash(caller, hash, scope=None)
        if script.deleted:
            raise NotFound(f"script version {script.hash_hex} was deleted")
    caller.identity.require_scope("jobs", "run", f"scripts/{script.path}")
    state, why = ("ready", None) if script.lock is not None else locks.state_of(script)
    if state == "ready":
        return script
    before = None if path is None else _newest_with_lock(script)
    if before is not None:
        return before
    if state == "locking":
        raise NotFound(
            f"the deployment of {script.path} is in progress: job {script.lock_job} is resolving its dependencies; "
            "try again when it is done"
        )
    raise NotFound(
        f"the deployment of {script.path} failed, because its dependencies could not be resolved: {why}"
    )


def _newest_with_lock(script: Script) -> Script | None:
    """The version before `script`, nearest first, that can run."""
    before = Script.objects.filter(
        workspace=script.workspace_id, hash__in=script.parent_hashes, path=script.path, deleted=False
    )
    return before.exclude(lock=None).order_by("-created_at").first()


def readable_at(caller: Caller, paths: Sequence[str]) -> list[Script]:
    """The live scripts at these paths that the caller may read, in one query."""
    return list(caller.readable(_live(caller), scope=SCOPE).filter(path__in=paths))


def script_exists(caller: Caller, path: str) -> bool:
    """Is there a live script at `path`, readable or not? Says whether the path is free; tells nothing else."""
    return _live(caller).filter(path=path).exists()


def list_scripts(
    caller: Caller,
    *,
    show_archived: bool = False,
    include_without_main: bool = True,
    created_by: str | None = None,
    path_start: str | None = None,
    path_exact: str | None = None,
    first_parent_hash: int | None = None,
    last_parent_hash: int | None = None,
    parent_hash: int | None = None,
    is_template: bool | None = None,
    kinds: list[str] | None = None,
    languages: list[str] | None = None,
    label: str | None = None,
    dedicated_worker: bool | None = None,
    order_desc: bool = True,
) -> QuerySet[Script]:
    """The newest version of each path that the caller may read, without content, lock and schema; newest first."""
    rows = caller.readable(Script.objects.filter(deleted=False), scope=SCOPE)
    if show_archived:
        # A path is archived when no live version is left; its newest one stands for it.
        live_paths = _live(caller).values("path")
        rows = rows.filter(archived=True).exclude(path__in=live_paths)
        rows = rows.filter(pk__in=rows.order_by("path", "-created_at").distinct("path").values("pk"))
    elif first_parent_hash is parent_hash is last_parent_hash is None:
        rows = rows.filter(archived=False)
    for condition in (
        {} if include_without_main else {"auto_kind__isnull": True},
        {} if created_by is None else {"created_by": created_by},
        {} if path_start is None else {"path__startswith": path_start},
        {} if path_exact is None else {"path": path_exact},
        {} if first_parent_hash is None else {"parent_hashes__0": first_parent_hash},
        {} if parent_hash is None else {"parent_hashes__contains": [parent_hash]},
        {} if is_template is None else {"is_template": is_template},
        {} if not kinds else {"kind__in": kinds},
        {} if not languages else {"language__in": languages},
        {} if label is None else {"labels__contains": [label]},
        {} if dedicated_worker is None else {"extra__dedicated_worker": dedicated_worker},
    ):
        rows = rows.filter(**condition)
    if last_parent_hash is not None:
        oldest = Func(
            F("parent_hashes"),
            template="(%(expressions)s)[array_upper(%(expressions)s, 1)]",
            output_field=BigIntegerField(),
        )
        rows = rows.annotate(oldest=oldest).filter(oldest=last_parent_hash)
    order = ("-created_at", "-hash") if order_desc else ("created_at", "hash")
    return rows.defer("content", "lock", "lock_error_logs", "schema").order_by(*order)


def list_paths(caller: Caller) -> list[str]:
    """Every readable live path, in order."""
    return list(caller.readable(_live(caller), scope=SCOPE).order_by("path").values_list("path", flat=True))


def list_contents(caller: Caller) -> list[tuple[str, str]]:
    """(path, content) of every readable live script: what a search over code looks at."""
    rows = caller.readable(_live(caller), scope=SCOPE).order_by("path")
    return list(rows.values_list("path", "content"))


def search_code(caller: Caller, text: str, *, limit: int) -> list[tuple[str, str, str]]:
    """(path, language, line) of readable live scripts whose code holds `text`, whatever its case: the first such line."""
    rows = caller.readable(_live(caller), scope=SCOPE).filter(content__icontains=text).order_by("path")
    found = rows.values_list("path", "language", "content")[:limit]
    return [(path, language, first_line_with(content, text)) for path, language, content in found]


def first_line_with(code: str, text: str) -> str:
    """The first line of `code` that holds `text`, whatever its case, cut to a length that a list shows."""
    lines = (line.strip() for line in code.splitlines() if text.lower() in line.lower())
    return next(lines, text)[:MAX_SHOWN_LINE]


def history(caller: Caller, path: str) -> QuerySet[Script]:
    """All versions at `path`, newest first, without content. Raises NotFound."""
    get_newest(caller, path)
    rows = Script.objects.filter(workspace=caller.workspace, path=path).order_by("-created_at", "-hash")
    return rows.defer("content", "lock", "lock_error_logs", "schema")


def raw_path(path: str) -> str:
    """The script path in a raw address: without the extension of a source file, if it has one."""
    stem, dot, extension = path.rpartition(".")
    return stem if dot and extension in EXTENSIONS.values() else path


def get_raw(caller: Caller, path: str) -> str:
    """The code of the live script at `path`, given with or without its file extension. Raises NotFound."""
    stem = raw_path(path)
    if stem != path and script_exists(caller, path):
        stem = path
    return get_script(caller, stem).content


# --- archive, delete, switches ---


def archive_path(caller: Caller, path: str) -> None:
    """Take a script out of use; its versions stay. Raises NotFound, PermissionDenied."""
    script = get_script(caller, path, right=Right.WRITE)
    _archive(caller, script)


def archive_version(caller: Caller, hash: int) -> Script:
    """Take one version out of use. Raises NotFound, PermissionDenied."""
    script = get_by_hash(caller, hash, right=Right.WRITE)
    _archive(caller, script)
    script.archived = True
    return script


def _archive(caller: Caller, script: Script) -> None:
    with transaction.atomic():
        Script.objects.filter(pk=script.pk).update(archived=True)
        if not script.archived:
            locks.forget_imports(script.workspace_id, script.path)
        audit.record(
            caller,
            "scripts.archive",
            ActionKind.DELETE,
            resource=script.path,
            parameters={"hash": script.hash_hex},
        )


def delete_path(caller: Caller, path: str) -> None:
    """Forget a script with all its versions and drafts. Admins only. Raises NotFound, PermissionDenied."""
    caller.require_admin()
    caller.identity.require_scope(SCOPE, "write", path)
    with transaction.atomic():
        deleted, _ = Script.objects.filter(workspace=caller.workspace, path=path).delete()
        if not deleted:
            raise NotFound(f"script {path[:255]} does not exist in workspace {caller.workspace_id}")
        Draft.objects.filter(workspace=caller.workspace, kind="script", path=path).delete()
        locks.forget_imports(caller.workspace_id, path)
        audit.record(caller, "scripts.delete", ActionKind.DELETE, resource=path)


def delete_version(caller: Caller, hash: int) -> Script:
    """Empty one version: its place in the line stays. Admins only. Raises NotFound, PermissionDenied."""
    caller.require_admin()
    script = get_by_hash(caller, hash, right=Right.WRITE)
    with transaction.atomic():
        Script.objects.filter(pk=script.pk).update(
            content="", lock="", schema=None, archived=True, deleted=True
        )
        audit.record(
            caller,
            "scripts.delete",
            ActionKind.DELETE,
            resource=script.path,
            parameters={"hash": script.hash_hex},
        )
    script.refresh_from_db()
    return script


def mute_error_handler(caller: Caller, path: str, *, muted: bool) -> None:
    """Switch the workspace's error handler off (or on) for a script. Raises NotFound, PermissionDenied."""
    script = get_script(caller, path, right=Right.WRITE)
    script.extra["ws_error_handler_muted"] = muted
    with transaction.atomic():
        script.save(update_fields=["extra"])
        audit.record(
            caller,
            "scripts.update",
            ActionKind.UPDATE,
            resource=path,
            parameters={"ws_error_handler_muted": muted},
        )


def set_deployment_message(caller: Caller, hash: int, path: str, message: str) -> None:
    """Say afterwards what a version changed. Raises NotFound, PermissionDenied."""
    script = get_by_hash(caller, hash, right=Right.WRITE)
    if script.path != path:
        raise NotFound(f"script version {script.hash_hex} is not at {path[:255]}")
    Script.objects.filter(pk=script.pk).update(deployment_message=message[:10_000])
