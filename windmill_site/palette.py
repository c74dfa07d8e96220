"""The palette (Ctrl-K): pages, scripts, flows, variables, resources and actions whose name or path matches.

A first character asks for something else: `>` runs, `#` code, `@` people.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NotRequired, TypedDict
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from jobs import run_list, scripts
from jobs.flows import deployed
from windmill_site.context import may_create_workspace, navigation, workspace_url
from windmill_site.templatetags.ui import language_icon, relative
from workspaces import access, resources, variables
from workspaces.access import Caller, Identity
from workspaces.errors import DomainError
from workspaces.models import Member
from workspaces.pages import page

MOST_HITS = 20
_MOST_OF_A_KIND = 8


class Hit(TypedDict):
    """One line of the palette. `words`: what it is also found by, not shown."""

    icon: str
    title: str
    hint: str
    url: str
    kind: str
    words: NotRequired[str]


@require_safe
@page
def palette(request: HttpRequest, identity: Identity) -> HttpResponse:
    """/palette/?q=&w=: the fragment under the search field, for workspace `w`."""
    text = request.GET.get("q", "").strip()[:100]
    caller: Caller | None = None
    if wanted := request.GET.get("w"):
        try:
            caller = access.enter_workspace(identity, wanted)
        except DomainError:  # archived or left since the page was loaded
            caller = None
    hits = list(find(identity, caller, text))[:MOST_HITS]
    return render(request, "partials/palette_results.html", {"hits": hits, "q": text})


def find(identity: Identity, caller: Caller | None, text: str) -> Iterator[Hit]:
    """Hits for `text`, best kind first. Without text: where one can go, then what was deployed last."""
    words = text.lower().split()
    if caller is not None:
        base = workspace_url(caller.workspace_id)
        if text[:1] in _PREFIXES:
            yield from _PREFIXES[text[0]](caller, text[1:].strip(), base)
            return
        if run := _run_id(text):
            yield Hit(icon="activity", title="Run", hint=str(run), url=f"{base}runs/{run}/", kind="Run")
        if words:
            yield from _items(caller, words, base)
        yield from _matching(words, _pages(caller, base))
        if not words:
            yield from _items(caller, words, base)
    yield from _matching(words, _places(identity))


def _run_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _matching(words: list[str], hits: Iterable[Hit]) -> Iterator[Hit]:
    for hit in hits:
        looked_at = f"{hit['title']} {hit['hint']} {hit.get('words', '')}".lower()
        if all(word in looked_at for word in words):
            yield hit


def _items(caller: Caller, words: list[str], base: str) -> Iterator[Hit]:
    by_path, by_summary = Q(), Q()
    for word in words:
        by_path &= Q(path__icontains=word)
        by_summary &= Q(path__icontains=word) | Q(summary__icontains=word)
    for script in scripts.list_scripts(caller).filter(by_summary)[:_MOST_OF_A_KIND]:
        yield Hit(
            icon=language_icon(script.language),
            title=script.summary or script.path.rsplit("/", 1)[-1],
            hint=script.path,
            url=f"{base}scripts/{script.path}/" + ("run/" if caller.is_operator else ""),
            kind="Script",
        )
    for flow in deployed.list_flows(caller).filter(by_summary)[:_MOST_OF_A_KIND]:
        yield Hit(
            icon="workflow",
            title=flow.summary or flow.path.rsplit("/", 1)[-1],
            hint=flow.path,
            url=f"{base}flows/{flow.path}/" + ("run/" if caller.is_operator else ""),
            kind="Flow",
        )
    if not words or caller.is_operator:
        return
    for kind, icon, rows in (
        ("Variable", "key-round", variables.list_variables(caller)),
        ("Resource", "boxes", resources.list_resources(caller)),
    ):
        for path in rows.filter(by_path).values_list("path", flat=True)[:_MOST_OF_A_KIND]:
            yield Hit(
                icon=icon,
                title=path.rsplit("/", 1)[-1],
                hint=path,
                url=f"{base}{kind.lower()}s/?edit={path}",
                kind=kind,
            )


def _runs(caller: Caller, text: str, base: str) -> Iterator[Hit]:
    """`>`: the newest runs that the words, or filters such as path:f/billing, match."""
    found = run_list.list_runs(caller, run_list.parse_query({"q": text}), limit=MOST_HITS).runs
    if not found:  # of steps of flows there are so many that they come only when there is nothing else
        query = run_list.parse_query({"q": text, "steps": "1"})
        found = run_list.list_runs(caller, query, limit=MOST_HITS).runs
    for run in found:
        yield Hit(
            icon=run.icon or language_icon(run.job.script_lang or ""),
            title=run.title,
            hint=f"{run.job.created_by}, {relative((run.job.created_at - timezone.now()).total_seconds())}",
            url=f"{base}runs/{run.job.id}/",
            kind=run.status.capitalize(),
        )


def _code(caller: Caller, text: str, base: str) -> Iterator[Hit]:
    """`#`: scripts, and flows with inline scripts, whose code holds the text; with the first line that does."""
    if len(text) < 2 or caller.is_operator:
        return
    for path, language, line in scripts.search_code(caller, text, limit=_MOST_OF_A_KIND):
        yield Hit(
            icon=language_icon(language),
            title=line,
            hint=path,
            url=f"{base}scripts/{path}/",
            kind="Script",
        )
    for path, step, line in deployed.search_code(caller, text, limit=_MOST_OF_A_KIND):
        yield Hit(
            icon="workflow",
            title=line,
            hint=f"{path}, step {step}",
            url=f"{base}flows/{path}/#step-{step}",
            kind="Flow",
        )


def _people(caller: Caller, text: str, base: str) -> Iterator[Hit]:
    """`@`: members of the workspace."""
    if caller.is_operator:
        return
    members = Member.objects.filter(workspace=caller.workspace)
    for member in members.filter(Q(username__icontains=text) | Q(email__icontains=text))[:MOST_HITS]:
        yield Hit(icon="user", title=member.username, hint=member.email, url=f"{base}users/", kind="Person")


_PREFIXES: dict[str, Callable[[Caller, str, str], Iterator[Hit]]] = {">": _runs, "#": _code, "@": _people}


def _pages(caller: Caller, base: str) -> Iterator[Hit]:
    for group in navigation(caller, ""):
        for item in group["items"]:
            yield Hit(
                icon=item["icon"], title=item["name"], hint=f"g {item['key']}", url=item["url"], kind="Page"
            )
    if caller.is_operator:
        return
    yield Hit(icon="boxes", title="Resource types", hint="", url=f"{base}resource-types/", kind="Page")
    yield Hit(icon="users", title="Groups", hint="", url=f"{base}groups/", kind="Page")
    yield Hit(
        icon="plus",
        title="New Python script",
        hint="",
        url=f"{base}scripts/new/?language=python3",
        kind="Action",
        words="create",
    )
    yield Hit(
        icon="plus",
        title="New Bash script",
        hint="",
        url=f"{base}scripts/new/?language=bash",
        kind="Action",
        words="create",
    )
    yield Hit(icon="plus", title="New flow", hint="", url=f"{base}flows/new/", kind="Action", words="create")
    yield Hit(
        icon="upload",
        title="Import a flow",
        hint="",
        url=f"{base}flows/import/",
        kind="Action",
        words="yaml json paste create",
    )
    yield Hit(
        icon="plus",
        title="New variable",
        hint="",
        url=f"{base}variables/?new=1",
        kind="Action",
        words="create secret",
    )
    yield Hit(
        icon="plus",
        title="New resource",
        hint="",
        url=f"{base}resources/?new=1",
        kind="Action",
        words="create",
    )


def _places(identity: Identity) -> Iterator[Hit]:
    yield Hit(icon="user", title="Account", hint="", url="/account/", kind="Page", words="name password")
    yield Hit(
        icon="key-round", title="Tokens", hint="", url="/account/tokens/", kind="Page", words="api token"
    )
    yield Hit(icon="building-2", title="Switch workspace", hint="", url="/workspaces/", kind="Action")
    if may_create_workspace(identity):
        yield Hit(icon="plus", title="Create a workspace", hint="", url="/workspaces/new/", kind="Action")
    if identity.super_admin:
        yield Hit(
            icon="shield-check", title="Administration", hint="", url="/admin/", kind="Page", words="admin"
        )
