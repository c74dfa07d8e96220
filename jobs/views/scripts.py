"""A script's own pages: what it is, how it was run lately, how to call it; its versions."""

import json
import shlex
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from jobs import drafts, listings, run_list, scripts
from jobs.listings import JobFilters
from jobs.markup import render_markdown
from jobs.models import Script
from jobs.views.editor import draft_from, near_scripts, script_value
from workspaces import pages
from workspaces.access import Caller, Right
from workspaces.errors import NotFound

LAST_RUNS = 10
MOST_VERSIONS = 200  # shown in the history


@require_safe
@pages.workspace_page(operators=True, near=near_scripts)
def script(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/W/scripts/<path>/: the overview. An archived script still has one, and can be brought back from it."""
    found = scripts.get_newest(caller, path)
    recent = listings.list_jobs(caller, JobFilters(path_exact=path, kinds=["script"]), limit=LAST_RUNS)
    may_write = not caller.is_operator and caller.right_on(path, found.extra_perms) >= Right.WRITE
    draft = drafts.get_draft(caller, path) if may_write else None
    context = {
        "script": found,
        "description": render_markdown(found.description, below=1) if found.description else "",
        "arguments": _arguments(found.schema),
        "runs": [run_list.Run(job) for job in recent],
        "may_write": may_write,
        "draft": draft,
        "calls": _calls(caller, found),
        "versions": len(found.parent_hashes) + 1,
    }
    return render(request, "scripts/overview.html", context)


def _arguments(schema: Any) -> list[dict[str, Any]]:
    """The parameters, in order, as a short table."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return []
    order = schema.get("order")
    names = [name for name in order if name in properties] if isinstance(order, list) else []
    required = schema.get("required") if isinstance(schema.get("required"), list) else []
    rows = []
    for name in [*names, *(name for name in properties if name not in names)]:
        field = properties[name] if isinstance(properties[name], dict) else {}
        kind = field.get("format") or field.get("type") or "any"
        default = field.get("default")
        rows.append(
            {
                "name": name,
                "kind": kind if isinstance(kind, str) else " or ".join(map(str, kind)),
                "required": name in required,
                "default": "" if default is None else json.dumps(default, ensure_ascii=False)[:80],
                "description": field.get("description") or "",
            }
        )
    return rows


def _calls(caller: Caller, found: Script) -> list[dict[str, str]]:
    """The same run asked for in three ways, with example arguments from the schema."""
    args = example_args(found.schema)
    url = f"{settings.BASE_URL}/api/w/{caller.workspace_id}/jobs/run/p/{found.path}"
    body = json.dumps(args, ensure_ascii=False)
    curl = (
        f'curl -X POST {shlex.quote(url)} \\\n  -H "Authorization: Bearer $TOKEN" \\\n'
        f"  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"
    )
    waiting = curl.replace("/jobs/run/p/", "/jobs/run_wait_result/p/")
    python = (
        "import wmill\n\n"
        f'client = wmill.Windmill(base_url="{settings.BASE_URL}", workspace="{caller.workspace_id}", token="…")\n'
        f"result = client.run_script_by_path({found.path!r}, args={args!r})\n"
    )
    return [
        {"id": "curl", "label": "curl", "note": "Starts a run and answers its id.", "code": curl},
        {
            "id": "wait",
            "label": "curl, with result",
            "note": "Waits for the end and answers the result.",
            "code": waiting,
        },
        {"id": "python", "label": "Python", "note": "pip install wmill", "code": python},
    ]


def example_args(schema: Any) -> dict[str, Any]:
    """Arguments that fit a schema roughly: defaults, else a value of the type."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    examples = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    found = {}
    for name, field in properties.items() if isinstance(properties, dict) else ():
        given = field if isinstance(field, dict) else {}
        kind = given.get("type")
        choices = given.get("enum")
        if given.get("default") is not None:
            found[name] = given["default"]
        elif isinstance(choices, list) and choices:
            found[name] = choices[0]
        else:
            found[name] = examples.get(kind if isinstance(kind, str) else "")
    return found


@require_safe
@pages.workspace_page(operators=True, near=near_scripts)
def versions(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/W/scripts/<path>/versions/?from=&to=: the history, and the difference between any two versions."""
    head = scripts.get_newest(caller, path)
    history = list(scripts.history(caller, path)[:MOST_VERSIONS])
    to = _chosen(caller, path, request.GET.get("to")) or head
    before = _chosen(caller, path, request.GET.get("from"))
    if before is None:
        older = to.parent_hashes[0] if to.parent_hashes else None
        before = (
            Script.objects.filter(workspace=caller.workspace, hash=older).first()
            if older is not None
            else None
        )
        if before is not None and caller.right_on(before.path, before.extra_perms) < Right.READ:
            before = None
    context = {
        "script": head,
        "history": history,
        "before": before,
        "after": to,
        "changes": _settings_changed(before, to) if before is not None else [],
        "may_write": not caller.is_operator and caller.right_on(path, head.extra_perms) >= Right.WRITE,
    }
    return pages.respond(request, "scripts/versions.html", context, fragment="scripts/_difference.html")


def _chosen(caller: Caller, path: str, hash_text: str | None) -> Script | None:
    if not hash_text:
        return None
    found = scripts.get_by_hash(caller, scripts.parse_hash(hash_text))
    if found.path != path:
        raise NotFound(f"version {found.hash_hex} is not one of {path}")
    return found


def _settings_changed(before: Script, after: Script) -> list[dict[str, Any]]:
    """The settings besides the code that differ between two versions."""
    names = ("summary", "description", "language", "kind", "tag", "timeout", "priority", "envs", "labels")
    return [
        {"name": name, "before": getattr(before, name), "after": getattr(after, name)}
        for name in names
        if getattr(before, name) != getattr(after, name)
    ]


@require_POST
@pages.workspace_page
def restore_version(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """Deploy an old version's code and settings again, as a new version. Also brings an archived script back."""
    old = _chosen(caller, path, request.POST.get("hash")) or scripts.get_newest(caller, path)
    live = Script.objects.filter(workspace=caller.workspace, path=path, archived=False, deleted=False).first()
    restored = scripts.deploy_script(
        caller,
        draft_from(path, script_value(old), old),
        auto_parent=True,
        parent_hash=live.hash if live is not None else None,
        deployment_message=f"Restored {old.hash_hex[:8]}",
    )
    pages.say(
        request, f"{path} is back at the code of {old.hash_hex[:8]}, as version {restored.hash_hex[:8]}"
    )
    return HttpResponseRedirect(pages.path_url("script", caller.workspace_id, path))


@require_POST
@pages.workspace_page
def archive(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """Take a script out of use."""
    scripts.archive_path(caller, path)
    pages.say(request, f"{path} is archived; its versions and runs stay")
    return HttpResponseRedirect(pages.path_url("script", caller.workspace_id, path))
