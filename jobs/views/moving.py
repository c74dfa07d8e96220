"""The page that gives a script or a flow another path: /w/W/move/scripts/<path>/, /w/W/move/flows/<path>/."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from jobs.views.calling import RunnableKind
from workspaces import pages
from workspaces.access import Caller
from workspaces.errors import DomainError
from workspaces.views.paths import PATH_HINTS, PathForm

_HINTS = {**PATH_HINTS, "conflict": "name", " is at ": "name"}


def move_page(
    request: HttpRequest, caller: Caller, *, kind: RunnableKind, path: str, move: Callable[[str], object]
) -> HttpResponse:
    """GET: the form. POST: `move` to the path chosen, and on to the overview there; 422 with what is wrong."""
    form = PathForm(request.POST if request.method == "POST" else None, caller=caller, path=path)
    if request.method == "POST" and form.is_valid():
        try:
            if form.path != path:
                move(form.path)
                pages.say(request, f"{path} is now {form.path}; links to the old path lead here")
            return pages.go(request, pages.path_url(kind, caller.workspace_id, form.path))
        except DomainError as exc:
            pages.add_error(form, exc, _HINTS)
    context = {"form": form, "kind": kind, "path": path}
    return render(request, "runnables/move.html", context, status=422 if form.errors else 200)
