"""The workers page, and taking dead workers off it."""

from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from workers.fleet import dead_workers, worker_list
from workers.fleet.worker_list import Overview, ShownGroup, ShownWorker
from workspaces import alerts, pages
from workspaces.access import Caller
from workspaces.pages import workspace_page

FEW_GROUPS = 8  # up to so many are shown with their workers, one below the other
PAGE_SIZE = 30  # rows of a list, before somebody asks for more
_MOST_ROWS = 1000
_LONGEST_SEARCH = 100  # characters


class ListedGroup(NamedTuple):
    """A group and those of its workers that are listed."""

    group: ShownGroup
    workers: list[ShownWorker]
    more: int  # workers that match and are not listed


@require_safe
@workspace_page
def workers(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/workers/?group=&q=&limit=: groups, their workers, the queue. Asks for itself every few seconds.

    Where there are many groups or workers, groups have a row each, and a page of their own with their workers.
    """
    overview = worker_list.overview(caller)
    search = request.GET.get("q", "").strip()[:_LONGEST_SEARCH].lower()
    limit = _limit(request)
    chosen = request.GET.get("group", "")
    if chosen not in {group.name for group in overview.groups}:
        chosen = ""
    is_large = _is_large(overview)
    in_rows = is_large and not chosen
    found = [
        group for group in overview.groups if group.name == chosen or (not chosen and group.matches(search))
    ]
    context = {
        "overview": overview,
        "chosen": chosen,
        "search": search,
        "is_large": is_large,
        "rows": found[:limit] if in_rows else [],
        "more_rows": max(0, len(found) - limit) if in_rows else 0,
        "shown": [] if in_rows else [_listed(group, search, limit) for group in found],
        "queue": overview.queue[:limit],
        "more_queue": max(0, len(overview.queue) - limit),
        "more_limit": min(2 * limit, _MOST_ROWS),
        "base": f"/w/{caller.workspace_id}/",
        "list_url": request.path,
        # Where there is a search, its form says what is looked for at that moment, and in which group.
        "address": request.path
        + pages.clean_query(
            {"group": "" if is_large else chosen, "limit": limit if limit > PAGE_SIZE else ""}
        ),
        "operates": caller.identity.operates,
        "alerts": alerts.pending(caller.identity),
        "drawer": None,
        "workspace_id": caller.workspace_id,
    }
    return pages.respond(request, "workers/workers.html", context, fragment="workers/_overview.html")


def _is_large(overview: Overview) -> bool:
    return (
        len(overview.groups) > FEW_GROUPS or sum(len(group.workers) for group in overview.groups) > PAGE_SIZE
    )


def _limit(request: HttpRequest) -> int:
    asked = request.GET.get("limit", "")
    is_number = asked.isascii() and asked.isdigit() and len(asked) < 6
    return min(max(int(asked), PAGE_SIZE), _MOST_ROWS) if is_number else PAGE_SIZE


def _listed(group: ShownGroup, search: str, limit: int) -> ListedGroup:
    found = [worker for worker in group.workers if worker.matches(search)]
    return ListedGroup(group, found[:limit], max(0, len(found) - limit))


@require_POST
@workspace_page
def forget_workers(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/workers/forget/: take dead workers off the list: `worker`, those of `group`, or all."""
    names = dead_workers.forget(
        actor=caller.identity,
        worker=request.POST.get("worker") or None,
        group=request.POST.get("group") or None,
    )
    count = len(names)
    said = f"{names[0]} is off the list" if count == 1 else f"{count} workers are off the list"
    if not pages.is_fragment(request):
        pages.say(request, said)
        return pages.go(request, reverse("workers", kwargs={"workspace": caller.workspace_id}))
    return pages.toast(pages.trigger(HttpResponse(status=204), "wm-saved"), said)


@require_POST
@workspace_page
def acknowledge_alert(request: HttpRequest, caller: Caller, alert_id: int) -> HttpResponse:
    """/w/<workspace>/workers/alerts/<id>/: somebody has seen it."""
    alerts.acknowledge(caller.identity, alert_id)
    if not pages.is_fragment(request):
        return pages.go(request, reverse("workers", kwargs={"workspace": caller.workspace_id}))
    return pages.toast(pages.trigger(HttpResponse(status=204), "wm-saved"), "Acknowledged")
