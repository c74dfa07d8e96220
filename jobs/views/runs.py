"""The list of runs: /w/W/runs/ with filters in the address, new ones announced, batches, export."""

import csv
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from jobs import reruns, run_list, runs
from jobs.run_list import RANGES, TABS, RunQuery
from workspaces import pages
from workspaces.access import Caller
from workspaces.errors import BadRequest

MOST_EXPORTED = 10_000  # runs in one CSV file
MOST_BATCHED = runs.MAX_BATCH


@require_safe
@pages.workspace_page(operators=True)
def runs_page(request: HttpRequest, caller: Caller) -> HttpResponse:
    """The list. By htmx: itself, more rows (`after`), its first rows again (`rows`), how many are new (`newest`)."""
    query = run_list.parse_query(request.GET)
    if pages.is_fragment(request):
        if "newest" in request.GET:
            count = run_list.count_newer(caller, query, newest=request.GET["newest"])
            return render(
                request,
                "runs/_new.html",
                {"count": count, "newest": request.GET["newest"], "self_url": _url(caller, query)},
            )
        if "after" in request.GET or "rows" in request.GET:
            page = run_list.list_runs(caller, query, cursor=request.GET.get("after", ""))
            return render(
                request, "runs/_rows.html", {"page": page, "self_url": _url(caller, query), "caller": caller}
            )
    page = run_list.list_runs(caller, query)
    return pages.respond(request, "runs/runs.html", _context(caller, query, page), fragment="runs/_list.html")


def _context(caller: Caller, query: RunQuery, page: run_list.RunPage) -> dict[str, Any]:
    counts = run_list.count_tabs(caller, query)
    jobs = [run.job for run in page.runs]
    return {
        "query": query,
        "page": page,
        "tabs": [
            {
                "label": label,
                "url": _url(caller, query, status=status),
                "count": f"{run_list.COUNTED}+" if counts[status] > run_list.COUNTED else counts[status],
                "current": status == query.status,
            }
            for status, label in TABS.items()
        ],
        "ranges": [
            {"label": label, "url": _url(caller, query, range=key), "current": key == query.range}
            for key, label in (("", "Any time"), *((key, label) for key, (label, _) in RANGES.items()))
        ],
        "range_label": RANGES[query.range][0] if query.range else "Any time",
        "chips": [{"label": label, "url": _url(caller, rest)} for label, rest in query.chips()],
        "self_url": _url(caller, query),
        "steps_url": _url(caller, query, steps="" if query.steps else "1"),
        "clear_url": reverse("runs", kwargs={"workspace": caller.workspace_id}),
        "export_url": reverse("runs-export", kwargs={"workspace": caller.workspace_id})
        + pages.clean_query(query.as_params()),
        "points": run_list.chart_points(jobs),
        "suggestions": run_list.suggestions(jobs),
        "matching": counts[query.status],
        "matching_text": f"more than {run_list.COUNTED}"
        if counts[query.status] > run_list.COUNTED
        else counts[query.status],
        "operator": caller.is_operator,
    }


def _url(caller: Caller, query: RunQuery, **changes: str) -> str:
    """The address of the list with these filters."""
    params = query.as_params() | changes
    return reverse("runs", kwargs={"workspace": caller.workspace_id}) + pages.clean_query(params)


@require_POST
@pages.workspace_page(operators=True)
def batch(request: HttpRequest, caller: Caller) -> HttpResponse:
    """Cancel or run again: the runs ticked (`id`), or with `all=1` everything that the filters (`filters`) match."""
    deed = request.POST.get("deed")
    if request.POST.get("all") == "1":
        query = run_list.parse_query(QueryDict(request.POST.get("filters", "").lstrip("?")))
        if query.problems:
            raise BadRequest(query.problems[0])
        ids = run_list.matching_ids(caller, query, limit=MOST_BATCHED + 1)
        if len(ids) > MOST_BATCHED:
            raise BadRequest(f"more than {MOST_BATCHED} runs match; narrow the filters and try again")
    else:
        ids = _ids(request.POST.getlist("id"))
    if deed == "cancel":
        done = len(runs.cancel_selection(caller, ids, force=False))
        text = f"{_runs(done)} canceled" + (
            "" if done == len(ids) else f", {_runs(len(ids) - done)} had ended already"
        )
    elif deed == "again":
        answers = reruns.rerun_jobs(caller, ids, options=runs.RunOptions(trigger_kind="ui"))
        failures = [answer.removeprefix("Error: ") for answer in answers if answer.startswith("Error: ")]
        text = f"{_runs(len(answers) - len(failures))} queued again"
        if failures:
            text += f"; {len(failures)} could not: {pages.sentence(failures[0])}"
    else:
        raise BadRequest("deed should be cancel or again")
    return pages.trigger(pages.toast(HttpResponse(status=204), text), "wm-runs-changed")


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


def _ids(texts: list[str]) -> list[UUID]:
    try:
        return [UUID(text) for text in texts]
    except ValueError as exc:
        raise BadRequest("id should be the id of a run") from exc


_COLUMNS = (
    "id",
    "status",
    "path",
    "kind",
    "created_by",
    "trigger",
    "tag",
    "worker",
    "created_at",
    "started_at",
    "duration_ms",
)


@require_safe
@pages.workspace_page(operators=True)
def export(request: HttpRequest, caller: Caller) -> HttpResponseBase:
    """What the filters match as CSV, newest first."""
    query = run_list.parse_query(request.GET)
    cursor_runs = _exported(caller, query)
    response = StreamingHttpResponse(cursor_runs, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="runs.csv"'
    return response


class _Line:
    """What csv.writer writes to: keeps the line just written."""

    text = ""

    def write(self, text: str) -> None:
        self.text = text


def _exported(caller: Caller, query: RunQuery) -> Iterator[str]:
    line = _Line()
    writer = csv.writer(line)
    writer.writerow(_COLUMNS)
    yield line.text
    left, cursor = MOST_EXPORTED, ""
    while left > 0:
        page = run_list.list_runs(caller, query, cursor=cursor, limit=min(500, left))
        for run in page.runs:
            job = run.job
            times = [moment.isoformat() if moment else "" for moment in (job.created_at, job.started_at)]
            cells = [
                job.id,
                run.status,
                job.runnable_path,
                job.kind,
                job.created_by,
                job.trigger_kind,
                job.tag,
                job.worker,
            ]
            writer.writerow([_harmless(cell) for cell in [*cells, *times, job.duration_ms]])
            yield line.text
        left -= len(page.runs)
        cursor = page.next
        if not cursor:
            return


def _harmless(cell: Any) -> Any:
    """Spreadsheets run cells that begin like a formula; a quote before makes them text."""
    if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{cell}"
    return "" if cell is None else cell
