"""The script editor: write, test, keep as a draft, compare, deploy. The page, and what its script calls."""

import secrets
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from jobs import dedicated, drafts, languages, listings, path_completion, runs, scripts, tags
from jobs.listings import JobFilters
from jobs.models import Draft, JobKind, Language, Script, ScriptKind
from jobs.shapes import JobRow, hash_hex
from jobs.signatures import infer_schema
from jobs.starters import starters
from jobs.views import lock_state
from jobs.views.endpoints import Answer, endpoint, number_of, object_of, text_of, texts_of
from workspaces import pages
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, NotFound
from workspaces.models import Resource, Variable
from workspaces.names import parse_path

MOST_PICKS = 1000  # variables or resources offered by the picker
LAST_TESTS = 10
CONCURRENCY = ("concurrent_limit", "concurrency_time_window_s", "concurrency_key")  # of Script.extra
LAST_LANGUAGE = "language"  # cookie, written by the editor's script: the language chosen last


# --- the page ---------------------------------------------------------------------------------------------------------


def near_scripts(caller: Caller, path: str = "", **parts: Any) -> list[pages.Near]:
    """Scripts whose path resembles one that does not exist."""
    found = pages.nearest(
        path, scripts.list_paths(caller), lambda p: pages.path_url("script", caller.workspace_id, p)
    )
    return found


@require_safe
@pages.workspace_page
def new_script(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/W/scripts/new/?language=&from=: the editor with a starter, or with a copy of another script."""
    caller.identity.require_scope(scripts.SCOPE, "write")
    source = request.GET.get("from")
    if source:
        script = scripts.get_script(caller, source)
        value = script_value(script)
        name = f"{script.path.rsplit('/', 1)[-1]}_copy"
    else:
        language = request.GET.get("language") or _last_language(request)
        if language not in Language.values:
            raise BadRequest(
                f"language {language[:40]!r} cannot be written here; expected one of {', '.join(Language.values)}"
            )
        value = {"language": language, "content": starters()[language], "summary": ""}
        name = f"script_{secrets.token_hex(3)}"
    return _editor(request, caller, path=f"u/{user_part(caller)}/{name}", value=value, head=None, draft=None)


def _last_language(request: HttpRequest) -> str:
    """What this browser wrote last, else Python."""
    last = request.COOKIES.get(LAST_LANGUAGE, "")
    return last if last in Language.values else Language.PYTHON3.value


@require_safe
@pages.workspace_page(near=near_scripts)
def edit_script(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/W/scripts/<path>/edit/: the draft when there is one, else the live version."""
    draft = drafts.get_draft(caller, path)
    try:
        head: Script | None = scripts.get_script(caller, path, right=Right.WRITE)
    except NotFound:
        if draft is None:
            raise
        head = None
    value = draft.value if draft is not None else script_value(head) if head is not None else {}
    return _editor(request, caller, path=path, value=value, head=head, draft=draft)


def _editor(
    request: HttpRequest,
    caller: Caller,
    *,
    path: str,
    value: dict[str, Any],
    head: Script | None,
    draft: Draft | None,
) -> HttpResponse:
    language = value.get("language") or Language.PYTHON3
    inference = infer_schema(language, value.get("content") or "", previous=value.get("schema"))
    base = draft.base_hash if draft is not None else head.hash if head is not None else None
    at = {"workspace": caller.workspace_id}
    lock = lock_state.of(head) if head is not None else None
    state = {
        "path": path,
        "isNew": head is None,
        "value": value,
        "base": hash_hex(base),
        "head": head_of(head) if head is not None else None,
        "deployed": script_value(head) if head is not None else None,
        "draftSavedAt": iso(draft.edited_at) if draft is not None else None,
        "lockProblem": {"line": lock.line, "message": lock.summary}
        if lock is not None and lock.line
        else None,
        "username": caller.username,
        "urls": {
            "signature": reverse("editor-signature", kwargs=at),
            "draft": reverse("editor-draft", kwargs=at),
            "discard": reverse("editor-discard", kwargs=at),
            "test": reverse("editor-test", kwargs=at),
            "tests": reverse("editor-tests", kwargs=at),
            "deploy": reverse("editor-deploy", kwargs=at),
            "picks": reverse("editor-picks", kwargs=at),
            "paths": reverse("editor-paths", kwargs=at),
            "scripts": f"/w/{caller.workspace_id}/scripts/",
            "runs": reverse("runs", kwargs=at),
            "socket": f"/ws/w/{caller.workspace_id}/jobs/",
        },
    }
    context = {
        "state": state,
        "path": path,
        "head": head,
        "value": value,
        "language": language,
        "languages": languages.for_page(),
        "language_name": Language(language).label if language in Language.values else language,
        "lock": lock,
        "kinds": ScriptKind.choices,
        "owners": owners_for(caller, path),
        "owner": "/".join(path.split("/")[:2]),
        "name": path.split("/", 2)[-1],
        "schema": inference.schema,
        "problem": inference.problem,
        "draft": draft,
        "is_stale": head is not None and base is not None and base != head.hash,
        "tests": last_tests(caller, path),
        "custom_tags": tags.custom_tags_for(caller.workspace_id),
    }
    return render(request, "scripts/edit.html", context)


def script_value(script: Script) -> dict[str, Any]:
    """A version as the editor holds it."""
    return {
        "language": script.language,
        "content": script.content,
        "summary": script.summary,
        "description": script.description,
        "schema": script.schema,
        "kind": script.kind,
        "tag": script.tag,
        "timeout": script.timeout,
        "priority": script.priority,
        "envs": script.envs,
        "labels": script.labels,
        "dedicated_worker": dedicated.is_dedicated(script.extra) or None,
        **{name: script.extra.get(name) for name in CONCURRENCY},
    }


def head_of(script: Script) -> dict[str, Any]:
    """What the editor says of the live version: name, author, time."""
    return {"hash": script.hash_hex, "by": script.created_by, "at": iso(script.created_at)}


def owners_for(caller: Caller, path: str = "") -> list[str]:
    """The beginnings of paths below which this caller may make something new: u/me, f/folder, g/group."""
    found = [f"u/{user_part(caller)}", *(f"f/{name}" for name in caller.folders_write)]
    found += [f"g/{name}" for name in sorted(caller.groups) if name != "all"]
    current = "/".join(path.split("/")[:2])
    return list(dict.fromkeys([*found, current] if current else found))


def draft_exists(caller: Caller, path: str) -> bool:
    """Has this caller unfinished work at `path`?"""
    return drafts.get_draft(caller, path) is not None


def user_part(caller: Caller) -> str:
    """The name below u/ where this person's own things are."""
    return (
        caller.permissioned_as.removeprefix("u/")
        if caller.permissioned_as.startswith("u/")
        else caller.username
    )


def iso(moment: datetime) -> str:
    """A moment as pages' scripts read it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def last_tests(caller: Caller, path: str) -> list[JobRow]:
    """The newest tests that this person ran at `path`."""
    mine = JobFilters(path_exact=path, kinds=[JobKind.PREVIEW], created_by=listings.patterns(caller.username))
    return listings.list_jobs(caller, mine, limit=LAST_TESTS)


# --- what its script calls --------------------------------------------------------------------------------------------


@endpoint
def signature(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """The form of the code as typed so far, or where it cannot be read."""
    found = infer_schema(
        text_of(body, "language"), text_of(body, "content"), previous=object_of(body, "schema") or None
    )
    problem = found.problem
    return {
        "schema": found.schema,
        "isSupported": found.is_supported,
        "isLibrary": found.auto_kind == "lib",
        "problem": problem and {"line": problem.line, "column": problem.column, "message": problem.message},
    }


@endpoint
def save_draft(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """Keep what is in the editor."""
    saved_at = drafts.save_draft(
        caller,
        text_of(body, "path"),
        object_of(body, "value"),
        base_hash=_hash_of(body, "base"),
        was=text_of(body, "was") or None,
    )
    return {"savedAt": iso(saved_at)}


@endpoint
def discard_draft(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """Forget what was kept."""
    drafts.discard_draft(caller, text_of(body, "path"))
    return {}


@endpoint
def test(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """Run the code as it stands in the editor."""
    preview = runs.Preview(
        content=text_of(body, "content"),
        language=text_of(body, "language"),
        path=text_of(body, "path") or None,
        args=object_of(body, "args"),
        tag=text_of(body, "tag") or None,
    )
    job_id = runs.run_preview(caller, preview, runs.RunOptions(trigger_kind="ui"))
    return {"id": str(job_id)}


@endpoint(method="GET")
def tests(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """The list of the last tests, as the page draws it."""
    path = request.GET.get("path", "")
    parse_path(path)
    return render(request, "scripts/_tests.html", {"tests": last_tests(caller, path)})


@endpoint
def deploy(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """Make the editor's content the live version. 409 with the other version when somebody was faster."""
    path = text_of(body, "path")
    base = _hash_of(body, "base")
    newest = Script.objects.filter(
        workspace=caller.workspace, path=path, archived=False, deleted=False
    ).first()
    if newest is not None and newest.hash != base:
        caller.get(
            Script.objects.filter(pk=newest.pk), path, what="script"
        )  # only who may read it is shown it
        other = {"head": head_of(newest), "content": newest.content, "message": newest.deployment_message}
        return JsonResponse(other, status=409)
    script = scripts.deploy_script(
        caller,
        draft_from(path, object_of(body, "value"), newest),
        parent_hash=base if newest is not None else None,
        deployment_message=text_of(body, "message"),
    )
    drafts.discard_draft(caller, path)
    pages.say(
        request, f"Deployed {script.path}, version {script.hash_hex[:8]}{lock_state.after_deployment(script)}"
    )
    return {"hash": script.hash_hex, "url": pages.path_url("script", caller.workspace_id, script.path)}


def draft_from(path: str, value: dict[str, Any], live: Script | None) -> scripts.ScriptDraft:
    """The version that the editor's state means; settings that the editor does not show stay as `live` has them.

    Raises BadRequest: a setting of the wrong kind.
    """
    parse_path(path)
    return scripts.ScriptDraft(
        path=path,
        content=text_of(value, "content"),
        language=text_of(value, "language"),
        summary=text_of(value, "summary"),
        description=text_of(value, "description"),
        kind=text_of(value, "kind") or ScriptKind.SCRIPT,
        schema=infer_schema(
            text_of(value, "language"), text_of(value, "content"), previous=object_of(value, "schema") or None
        ).schema,
        tag=text_of(value, "tag") or None,
        timeout_s=number_of(value, "timeout"),
        priority=number_of(value, "priority"),
        envs=texts_of(value, "envs"),
        labels=texts_of(value, "labels"),
        is_template=live.is_template if live else False,
        visible_to_runner_only=live.visible_to_runner_only if live else None,
        on_behalf_of_email=live.on_behalf_of_email if live else None,
        extra=dedicated.wished(
            _with_concurrency(live.extra if live else {}, value), value.get("dedicated_worker")
        ),
    )


def _with_concurrency(extra: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """These further settings with the concurrency limit that the editor holds; a draft of before it had one says nothing.

    Raises BadRequest: it makes no sense.
    """
    wished = {name: extra.get(name) for name in CONCURRENCY if name not in value}
    for name, least in (("concurrent_limit", 1), ("concurrency_time_window_s", 0)):
        if name in value:
            number = wished[name] = number_of(value, name)
            if number is not None and number < least:
                raise BadRequest(f"{name} is {number}; expected {least} or more, or nothing")
    if "concurrency_key" in value:
        wished["concurrency_key"] = text_of(value, "concurrency_key").strip() or None
    if wished["concurrent_limit"] is None and any(name in value for name in CONCURRENCY):
        wished = {}  # nothing to be counted in a window or by a key
    kept = {name: given for name, given in extra.items() if name not in CONCURRENCY}
    return kept | {name: given for name, given in wished.items() if given is not None}


def _hash_of(body: dict[str, Any], name: str) -> int | None:
    text = text_of(body, name)
    return scripts.parse_hash(text) if text else None


@endpoint(method="GET")
def picks(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """Paths of variables or resources to insert a call for; never a value."""
    kind = request.GET.get("kind")
    if kind == "variable":
        variables = caller.readable(
            Variable.objects.only("path", "description", "is_secret"), scope="variables"
        )
        found = [
            {"path": row.path, "note": row.description, "type": "secret" if row.is_secret else ""}
            for row in variables.order_by("path")[:MOST_PICKS]
        ]
    elif kind == "resource":
        resources = caller.readable(
            Resource.objects.only("path", "description", "resource_type"), scope="resources"
        )
        found = [
            {"path": row.path, "note": row.description, "type": row.resource_type}
            for row in resources.order_by("path")[:MOST_PICKS]
        ]
    else:
        raise BadRequest("kind should be variable or resource")
    return {"items": found}


@endpoint(method="GET")
def paths(request: HttpRequest, caller: Caller, body: dict[str, Any]) -> Answer:
    """?prefix=&kind=&language=&resource_type=: paths to complete in code, at most 50; kind and language may repeat."""
    query = request.GET
    found = path_completion.complete(
        caller,
        query.get("prefix", ""),
        kinds=query.getlist("kind") or path_completion.KINDS,
        languages=query.getlist("language"),
        resource_type=query.get("resource_type", ""),
    )
    return {"items": [asdict(item) for item in found.items], "isWhole": found.is_whole}
