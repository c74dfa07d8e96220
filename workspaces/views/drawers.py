"""Forms in the drawer beside a list: asked for and sent by htmx, with an address of their own that works without it.

The list page holds `<dialog class="drawer" id="drawer">`; a button `hx-get`s the form into it, and
static/js/pages/drawer.js opens it. A wrong form comes back with 422 into the drawer; a saved one closes it and has the
list ask for itself again.
"""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render

from workspaces import pages


def show_form(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    title: str,
    list_url: str,
    status: int = 200,
) -> HttpResponse:
    """The form `template` for the drawer, or as a page titled `title` when its address was opened."""
    values = {**context, "title": title, "list_url": list_url, "form_template": template}
    name = template if pages.is_fragment(request) else "assets/form_page.html"
    return render(request, name, values, status=status)


def saved(request: HttpRequest, text: str, *, list_url: str) -> HttpResponse:
    """Say what was done, close the drawer, show the list anew."""
    if request.headers.get("HX-Request") == "true":
        response = pages.trigger(HttpResponse(status=204), "wm-saved", {"url": list_url})
        return pages.toast(response, text)
    pages.say(request, text)
    return HttpResponseRedirect(list_url)
