"""The workers page, and taking dead workers off it."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from workers.fleet import dead_workers, worker_list
from workspaces import alerts, pages
from workspaces.access import Caller
from workspaces.pages import workspace_page


def operates(caller: Caller) -> bool:
    """Whether the caller may change what concerns the whole instance: worker groups and the list of workers."""
    return caller.identity.super_admin or caller.identity.devops


@require_safe
@workspace_page
def workers(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/workers/?group=: groups, their workers, the queue. Asks for itself every few seconds."""
    overview = worker_list.overview(caller)
    names = [group.name for group in overview.groups]
    chosen = request.GET.get("group", "")
    if chosen not in names:
        chosen = ""
    context = {
        "overview": overview,
        "chosen": chosen,
        "shown": [group for group in overview.groups if not chosen or group.name == chosen],
        "base": f"/w/{caller.workspace_id}/",
        "address": request.path + pages.clean_query({"group": chosen}),
        "operates": operates(caller),
        "alerts": alerts.pending(caller.identity),
        "drawer": None,
        "workspace_id": caller.workspace_id,
    }
    return pages.respond(request, "workers/workers.html", context, fragment="workers/_overview.html")


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
