"""The home page of a workspace: its scripts and flows in one list, and the first steps when there are none."""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from jobs import runnable_list
from jobs.models import ScriptKind
from windmill_site import samples
from windmill_site.context import workspace_url
from workspaces import pages
from workspaces.access import Caller
from workspaces.pages import workspace_page

# The choices of the filter "kind", in words for many of them.
KINDS = {
    ScriptKind.SCRIPT: "Scripts",
    runnable_list.FLOW: "Flows",
    ScriptKind.FAILURE: "Error handlers",
    ScriptKind.TRIGGER: "Triggers",
    ScriptKind.COMMAND: "Commands",
    ScriptKind.APPROVAL: "Approvals",
    ScriptKind.PREPROCESSOR: "Preprocessors",
}


@require_safe
@workspace_page(operators=True)
def home(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/?q=&kind=&language=&owner=&label=&archived=&cursor=: the list, its next page, or all around it."""
    given = request.GET
    filters = runnable_list.Filters(
        search=given.get("q", "").strip()[:200],
        kind=given.get("kind", ""),
        language=given.get("language", ""),
        owner=given.get("owner", ""),
        label=given.get("label", ""),
        archived=given.get("archived") == "1",
    )
    page = runnable_list.list_page(caller, filters, cursor=given.get("cursor"))
    query = _query(filters)
    context = {
        "page": page,
        "filters": filters,
        "query": query,
        "base": workspace_url(caller.workspace_id),
        "may_create": not caller.is_operator,
        "caller": caller,
    }
    if given.get("cursor") and pages.is_fragment(request):
        return render(request, "home/_rows.html", context)
    choices = runnable_list.choices(caller, archived=filters.archived)
    context["chips"] = _chips(filters, choices)
    context["is_empty"] = not page.rows and not filters.are_set
    response = pages.respond(request, "home/home.html", context, fragment="home/_list.html")
    if pages.is_fragment(request):
        response.headers["HX-Replace-Url"] = request.path + query
    return response


def _query(filters: runnable_list.Filters, **changed: str | bool) -> str:
    """The query string of these filters with some of them changed."""
    values: dict[str, str | bool] = {
        "q": filters.search,
        "kind": filters.kind,
        "language": filters.language,
        "owner": filters.owner,
        "label": filters.label,
        "archived": filters.archived,
    }
    return pages.clean_query({**values, **changed})


def _chips(filters: runnable_list.Filters, choices: runnable_list.Choices) -> list[dict[str, object]]:
    """Groups of chips; what tells nothing (a single choice, languages of flows) is left out."""
    groups = (
        ("kind", "Kind", filters.kind, [(kind, KINDS.get(kind, kind)) for kind in choices.kinds]),
        ("language", "Language", filters.language, [(language, "") for language in choices.languages]),
        ("owner", "Folder or owner", filters.owner, [(owner, owner) for owner in choices.owners]),
    )
    shown = []
    for name, label, chosen, options in groups:
        if (len(options) < 2 and not chosen) or (name == "language" and filters.kind == runnable_list.FLOW):
            continue
        if chosen and chosen not in dict(options):
            options = [*options, (chosen, chosen)]
        shown.append(
            {
                "name": name,
                "label": label,
                "all_query": _query(filters, **{name: ""}) or "?",
                "is_all": not chosen,
                "as_menu": len(options) > 6,
                "options": [
                    {
                        "value": value,
                        "text": text,
                        "current": value == chosen,
                        "query": _query(filters, **_with(name, value)),
                    }
                    for value, text in options
                ],
            }
        )
    return shown


def _with(name: str, value: str) -> dict[str, str]:
    """A filter set; flows have no language, so choosing them forgets it."""
    return {name: value, **({"language": ""} if (name, value) == ("kind", runnable_list.FLOW) else {})}


@require_POST
@workspace_page
def run_sample(request: HttpRequest, caller: Caller) -> HttpResponse:
    """Make the sample script and run it: from an empty workspace to a result in one click."""
    return HttpResponseRedirect(f"{workspace_url(caller.workspace_id)}runs/{samples.run_sample(caller)}/")
