"""The workers page."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from workers import worker_list
from workspaces import pages
from workspaces.access import Caller
from workspaces.pages import workspace_page


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
    }
    return pages.respond(request, "workers/workers.html", context, fragment="workers/_overview.html")
