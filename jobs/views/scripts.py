"""A script's own pages: what it is, how it was run lately, how to call it; its versions."""

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs import dedicated, drafts, listings, locks, run_list, scripts
from jobs.listings import JobFilters
from jobs.markup import render_markdown
from jobs.models import JobKind, Script
from jobs.views import calling, lock_state
from jobs.views.editor import CONCURRENCY, draft_from, near_scripts, script_value
from jobs.views.moving import move_page
from jobs.views.versions import MOST_VERSIONS, History, Version, versions_page
from workspaces import pages
from workspaces.access import Caller, Right
from workspaces.errors import NotFound

LAST_RUNS = 10
# Settings besides the code that the page of versions compares.
_COMPARED = ("summary", "description", "language", "kind", "tag", "timeout", "priority", "envs", "labels")


@require_safe
@pages.workspace_page(operators=True, near=near_scripts)
def script(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/W/scripts/<path>/: the overview. An archived script still has one, and can be brought back from it.

    As a fragment: the state of its dependencies, which the page asks for while they are being resolved.
    """
    found = scripts.get_newest(caller, path)
    may_write = not caller.is_operator and caller.right_on(path, found.extra_perms) >= Right.WRITE
    if pages.is_fragment(request):
        return _lock_state(request, found, may_write=may_write)
    if found.archived and (elsewhere := scripts.moved_to(caller, found)) is not None:
        return HttpResponseRedirect(pages.path_url("script", caller.workspace_id, elsewhere))
    recent = listings.list_jobs(caller, JobFilters(path_exact=path, kinds=[JobKind.SCRIPT]), limit=LAST_RUNS)
    draft = drafts.get_draft(caller, path) if may_write else None
    context = {
        "script": found,
        "lock": lock_state.of(found),
        "description": render_markdown(found.description, below=1) if found.description else "",
        "arguments": calling.arguments(found.schema),
        "runs": [run_list.Run(job) for job in recent],
        "may_write": may_write,
        "draft": draft,
        "calls": calling.calls(caller, "script", path, found.schema),
        "versions": len(found.parent_hashes) + 1,
        "dedicated_tag": dedicated.shown_tag(found.extra, found.workspace_id, found.path),
    }
    return render(request, "scripts/overview.html", context)


def _lock_state(request: HttpRequest, script: Script, *, may_write: bool) -> HttpResponse:
    context = {"script": script, "lock": lock_state.of(script), "may_write": may_write, "is_update": True}
    return render(request, "scripts/_lock_update.html", context)


@require_POST
@pages.workspace_page(near=near_scripts)
def relock(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """Resolve the dependencies of the live version again."""
    script = scripts.get_script(caller, path, right=Right.WRITE)
    locks.relock(caller, script)
    if pages.is_fragment(request):
        script.refresh_from_db()
        return _lock_state(request, script, may_write=True)
    return HttpResponseRedirect(pages.path_url("script", caller.workspace_id, path))


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
    found = History(
        kind="script",
        path=path,
        is_archived=head.archived,
        may_write=not caller.is_operator and caller.right_on(path, head.extra_perms) >= Right.WRITE,
        versions=[_version(version) for version in history],
        before=_version(before, whole=True) if before is not None else None,
        after=_version(to, whole=True),
    )
    return versions_page(request, found)


def _version(script: Script, *, whole: bool = False) -> Version:
    """A version for the page; `whole`: with its code and settings."""
    return Version(
        key=script.hash_hex,
        name=script.hash_hex[:8],
        by=script.created_by,
        at=script.created_at,
        message=script.deployment_message,
        is_live=not script.archived,
        is_gone=script.deleted,
        text=script.content if whole else "",
        language=script.language,
        settings=_settings(script) if whole else None,
    )


def _settings(script: Script) -> dict[str, Any]:
    limits = {name: script.extra.get(name) for name in CONCURRENCY}
    return {name: getattr(script, name) for name in _COMPARED} | limits


def _chosen(caller: Caller, path: str, hash_text: str | None) -> Script | None:
    if not hash_text:
        return None
    found = scripts.get_by_hash(caller, scripts.parse_hash(hash_text))
    if found.path != path:
        raise NotFound(f"version {found.hash_hex} is not one of {path}")
    return found


@require_POST
@pages.workspace_page
def restore(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """Deploy an old version's code and settings again, as a new version. Also brings an archived script back."""
    old = _chosen(caller, path, request.POST.get("version")) or scripts.get_newest(caller, path)
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
    return archived(request, pages.path_url("script", caller.workspace_id, path), path)


@require_http_methods(["GET", "HEAD", "POST"])
@pages.workspace_page(near=near_scripts)
def move(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """Another path for a script; its line of versions goes on there."""
    script = scripts.get_script(caller, path, right=Right.WRITE)

    def to(new_path: str) -> None:
        scripts.deploy_script(
            caller,
            draft_from(new_path, script_value(script), script),
            parent_hash=script.hash,
            deployment_message=f"Moved from {path}",
        )

    return move_page(request, caller, kind="script", path=path, move=to)


def archived(request: HttpRequest, url: str, path: str) -> HttpResponse:
    """The answer to archiving: from a list its row goes, from elsewhere on to the overview at `url`."""
    if pages.is_fragment(request):
        return pages.toast(HttpResponse(), f"Archived {path}")
    pages.say(request, f"{path} is archived; its versions and runs stay")
    return HttpResponseRedirect(url)
