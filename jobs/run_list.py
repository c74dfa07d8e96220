"""The runs as pages list them: what the query field means, a page by cursor, counts for the tabs, points of the chart."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from jobs import listings
from jobs.listings import Cursor, JobFilters
from jobs.models import Flow, JobKind, Script
from jobs.shapes import JobRow
from workspaces.access import Caller
from workspaces.errors import BadRequest
from workspaces.jsontext import parse_json

PAGE = 50  # runs shown at once
COUNTED = 1000  # counts stop here: "1000+" answers in milliseconds whatever the size of the table
CHARTED = 400  # newest runs drawn in the chart

# status word of the address -> label of its tab
TABS: Mapping[str, str] = {
    "": "All",
    "running": "Running",
    "suspended": "To approve",
    "waiting": "Queued",
    "failure": "Failed",
    "success": "Succeeded",
    "canceled": "Canceled",
}
RANGES: Mapping[str, tuple[str, timedelta]] = {
    "1h": ("Last hour", timedelta(hours=1)),
    "6h": ("Last 6 hours", timedelta(hours=6)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}
# Kinds of jobs that a flow or a deployment started, hardly ever a person.
STEP_KINDS = frozenset(
    {
        JobKind.FLOW_BODY,
        JobKind.FLOW_SCRIPT,
        JobKind.IDENTITY,
        JobKind.AI_AGENT,
        JobKind.DEPENDENCIES,
        JobKind.FLOW_DEPENDENCIES,
    }
)
KEYS = ("path", "user", "worker", "tag", "label", "trigger", "kind")
_JSON = ("args", "result")  # args.name:value, result.name:value
_TOKEN = re.compile(r'(?:([A-Za-z_][\w.]*):)?(?:"([^"]*)"|(\S+))')


@dataclass(frozen=True, kw_only=True)
class RunQuery:
    """What the runs list is asked for: the address of the page, parsed."""

    status: str = ""  # a key of TABS
    path: str | None = None  # this path, and everything below it
    user: str | None = None
    worker: str | None = None
    tag: str | None = None
    label: str | None = None
    trigger: str | None = None
    kind: str | None = None
    args: tuple[tuple[str, str], ...] = ()  # names of arguments with the value each must have
    result: tuple[tuple[str, str], ...] = ()  # the same of the result's fields
    text: str | None = None  # part of a path, user, tag, worker or id
    range: str = ""  # a key of RANGES
    since: datetime | None = None
    until: datetime | None = None
    steps: bool = False  # steps of flows, and jobs that look for dependencies, too
    problems: tuple[str, ...] = ()  # what of the query could not be understood, as sentences

    @property
    def is_filtered(self) -> bool:
        return any(
            getattr(self, field.name) for field in fields(self) if field.name not in ("problems", "steps")
        )

    def as_filters(self) -> JobFilters:
        """What `listings` understands."""
        return JobFilters(
            # Said about the queue alone or the outcome alone, so that an index of one table serves.
            statuses=None if self.status in ("", "waiting", "running", "suspended") else [self.status],
            only_queued=self.status in ("waiting", "running", "suspended"),
            running={"waiting": False, "running": True}.get(self.status),
            suspended={"running": False, "suspended": True}.get(self.status),
            path_like=_at_or_below(self.path),
            created_by=listings.patterns(self.user, allow_wildcards=True),
            worker=listings.patterns(self.worker, allow_wildcards=True),
            tag=listings.patterns(self.tag, allow_wildcards=True),
            label=listings.patterns(self.label, allow_wildcards=True),
            trigger_kinds=[self.trigger] if self.trigger else None,
            kinds=[self.kind] if self.kind else None,
            without_steps=not self.steps,
            args=_contained(self.args),
            result=_contained(self.result),
            search=self.text,
            created_after=timezone.now() - RANGES[self.range][1] if self.range else self.since,
            created_before=self.until,
        )

    def as_q(self) -> str:
        """The text of the query field that says this."""
        parts = [f"{key}:{_quoted(value)}" for key in KEYS if (value := getattr(self, key))]
        parts += [
            f"{field}.{name}:{_quoted(value)}" for field in _JSON for name, value in getattr(self, field)
        ]
        return " ".join([*parts, *([self.text] if self.text else [])])

    def as_params(self) -> dict[str, str]:
        """The parameters of the address that say this; only those that are set."""
        given = {
            "status": self.status,
            "q": self.as_q(),
            "range": self.range,
            "since": self.since.isoformat() if self.since and not self.range else "",
            "until": self.until.isoformat() if self.until else "",
            "steps": "1" if self.steps else "",
        }
        return {name: value for name, value in given.items() if value}

    def _with(self, name: str, value: Any) -> "RunQuery":
        changes: dict[str, Any] = {name: value}
        return replace(self, **changes)

    def chips(self) -> Iterator[tuple[str, "RunQuery"]]:
        """Each filter in words, with the query that remains without it."""
        if self.status:
            yield f"Status: {TABS[self.status]}", replace(self, status="")
        for key in KEYS:
            if value := getattr(self, key):
                yield f"{key}: {value}", self._with(key, None)
        for field in _JSON:
            for pair in getattr(self, field):
                rest = tuple(other for other in getattr(self, field) if other != pair)
                yield f"{field}.{pair[0]}: {pair[1]}", self._with(field, rest)
        if self.text:
            yield f"“{self.text}”", replace(self, text=None)
        if self.range:
            yield RANGES[self.range][0], replace(self, range="")
        if self.since and not self.range:
            yield f"From {self.since:%d %b %Y, %H:%M} UTC", replace(self, since=None)
        if self.until:
            yield f"Until {self.until:%d %b %Y, %H:%M} UTC", replace(self, until=None)
        if self.steps and self.kind not in STEP_KINDS:
            yield "Steps of flows too", replace(self, steps=False)


def _at_or_below(path: str | None) -> list[str] | None:
    """`f/billing` means it and everything below; a `*` in it stands for anything."""
    exact = listings.patterns(path, allow_wildcards=True)
    return exact and [*exact, *(f"{pattern.rstrip('/')}/%" for pattern in exact)]


def _contained(pairs: tuple[tuple[str, str], ...]) -> dict[str, Any] | None:
    """The JSON object that arguments or result must contain. `5` and `true` are a number and a boolean, unless quoted."""
    return {name: _json_or_text(value) for name, value in pairs} or None


def _json_or_text(value: str) -> Any:
    try:
        return parse_json(value)
    except BadRequest:
        return value


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value


def parse_query(params: Mapping[str, Any]) -> RunQuery:
    """The query that an address asks for. Never raises: what is wrong becomes a sentence in `problems`."""
    found: dict[str, Any] = {}
    words: list[str] = []
    problems: list[str] = []
    for key, quoted, plain in _TOKEN.findall(str(params.get("q") or "")[:1000]):
        value = quoted or plain
        if not key:
            words.append(value)
        elif key.lower() in KEYS:
            found[key.lower()] = value
        elif (field := key.partition(".")[0]) in _JSON and key.partition(".")[2]:
            found[field] = (*found.get(field, ()), (key.partition(".")[2], value))
        else:
            names = ", ".join(f"{name}:" for name in (*KEYS, "args.name", "result.name"))
            problems.append(f"“{key[:40]}:” is not a filter; the filters are {names}")
    status = str(params.get("status") or "")
    if status not in TABS:
        problems.append(f"status “{status[:40]}” is unknown; expected one of {', '.join(filter(None, TABS))}")
        status = ""
    chosen = str(params.get("range") or "")
    if chosen and chosen not in RANGES:
        problems.append(f"range “{chosen[:40]}” is unknown; expected one of {', '.join(RANGES)}")
        chosen = ""
    if found.get("kind") not in (None, *JobKind.values):
        problems.append(
            f"kind “{found['kind'][:40]}” is unknown; expected one of {', '.join(JobKind.values)}"
        )
        del found["kind"]
    return RunQuery(
        status=status,
        range=chosen,
        since=_moment(params, "since", problems),
        until=_moment(params, "until", problems),
        text=" ".join(words) or None,
        # A kind that only steps have is asked for: then hiding steps would hide everything.
        steps=params.get("steps") == "1" or found.get("kind") in STEP_KINDS,
        problems=tuple(problems),
        **found,
    )


def _moment(params: Mapping[str, Any], name: str, problems: list[str]) -> datetime | None:
    raw = str(params.get(name) or "").replace(" ", "+")  # a + of the zone arrives as a space
    if not raw:
        return None
    try:
        moment = parse_datetime(raw)
    except ValueError:
        moment = None
    if moment is None:
        problems.append(f"{name} is “{raw[:40]}”; expected a time such as 2026-01-31T08:30Z")
        return None
    if not 1970 <= moment.year <= 9000:  # at the ends of the calendar other zones have no such time
        problems.append(f"{name} is “{raw[:40]}”, which is out of range")
        return None
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)


# Jobs whose runnable_id is a script's hash; jobs whose runnable_path is a flow's; jobs whose runnable_path is below it.
_OF_SCRIPTS = frozenset({JobKind.SCRIPT, JobKind.SINGLE_STEP_FLOW, JobKind.DEPENDENCIES})
_OF_DEPLOYMENTS = frozenset({JobKind.DEPENDENCIES, JobKind.FLOW_DEPENDENCIES})
_OF_FLOWS = frozenset({JobKind.FLOW, JobKind.FLOW_DEPENDENCIES})
_INSIDE_FLOWS = frozenset({JobKind.FLOW_BODY, JobKind.FLOW_SCRIPT, JobKind.IDENTITY, JobKind.AI_AGENT})

_ICONS: Mapping[str, str] = {
    JobKind.FLOW: "workflow",
    JobKind.FLOW_PREVIEW: "workflow",
    JobKind.FLOW_BODY: "workflow",
    JobKind.SINGLE_STEP_FLOW: "rotate-ccw",
    JobKind.PREVIEW: "braces",
    JobKind.IDENTITY: "arrow-down",
    JobKind.AI_AGENT: "zap",
    JobKind.DEPENDENCIES: "package",
    JobKind.FLOW_DEPENDENCIES: "package",
}


@dataclass(frozen=True, slots=True)
class Run:
    """A run as lists and its own page show it."""

    job: JobRow
    summary: str = ""  # of the script version or flow that it ran

    @property
    def title(self) -> str:
        """What people call it: the summary, else the last part of the path; of a step also which one it is."""
        job = self.job
        name = self.summary or (job.runnable_path or "Code").rsplit("/", 1)[-1]
        if job.kind in (JobKind.PREVIEW, JobKind.FLOW_PREVIEW):
            return f"Test of {job.runnable_path}" if job.runnable_path else "Test"
        if job.kind in _OF_DEPLOYMENTS:
            return f"Dependencies of {name}"
        if job.kind in _INSIDE_FLOWS and job.flow_step_id:
            return f"{self.summary}, step {job.flow_step_id}" if self.summary else f"Step {job.flow_step_id}"
        return name

    @property
    def icon(self) -> str:
        """The icon of its kind; "" for a script, whose language has one."""
        return _ICONS.get(self.job.kind, "")

    @property
    def page_url(self) -> str:
        """The page of the script or flow that it ran; "" for code that has none."""
        job = self.job
        kind = "scripts" if job.kind in _OF_SCRIPTS else "flows" if job.kind in _OF_FLOWS else ""
        return f"/w/{job.workspace_id}/{kind}/{job.runnable_path}/" if kind and job.runnable_path else ""

    @property
    def status(self) -> str:
        """The job's status, with the reasons to wait told apart: queued, scheduled, suspended."""
        job = self.job
        if not job.is_completed and job.suspend:
            return "suspended"
        if job.status != "queued":
            return job.status
        if job.scheduled_for is not None and job.scheduled_for > timezone.now():
            return "scheduled"
        return "queued"

    @property
    def is_preview(self) -> bool:
        return self.job.kind in (JobKind.PREVIEW, JobKind.FLOW_PREVIEW)

    @property
    def source(self) -> str:
        """What started it, in a word or two."""
        kind = self.job.trigger_kind
        if self.job.flow_step_id:
            return "in a flow"
        if self.job.kind in _OF_DEPLOYMENTS:
            return "on deployment"
        return {None: "API", "ui": "by hand"}.get(kind, kind or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of the list. `next` is the cursor of the page after it, "" at the end; `newest` when its first run began."""

    runs: list[Run]
    next: str
    newest: str


def list_runs(caller: Caller, query: RunQuery, *, cursor: str = "", limit: int = PAGE) -> RunPage:
    """A page of runs, newest first. Raises BadRequest: a cursor that is not one, conditions that need too long."""
    place = Cursor.parse(cursor) if cursor else None
    jobs = listings.list_jobs(caller, query.as_filters(), limit=limit + 1, cursor=place)
    shown = jobs[:limit]
    newest = shown[0].created_at if shown else timezone.now()
    following = str(Cursor(shown[-1].created_at, shown[-1].id)) if len(jobs) > limit else ""
    return RunPage(runs=with_summaries(caller, shown), next=following, newest=newest.isoformat())


def with_summaries(caller: Caller, jobs: Iterable[JobRow]) -> list[Run]:
    """The jobs with the summaries of what they ran, looked up in one query for scripts and one for flows."""
    rows = list(jobs)
    hashes = {job.runnable_id for job in rows if job.kind in _OF_SCRIPTS and job.runnable_id is not None}
    flow_paths = {path for job in rows for path in _flow_paths(job)}
    of_scripts = Script.objects.filter(workspace_id=caller.workspace_id, hash__in=hashes)
    of_flows = Flow.objects.filter(workspace_id=caller.workspace_id, path__in=flow_paths)
    by_hash = dict(of_scripts.values_list("hash", "summary")) if hashes else {}
    by_path = dict(of_flows.values_list("path", "summary")) if flow_paths else {}

    def summary(job: JobRow) -> str:
        if job.kind in _OF_SCRIPTS:
            return by_hash.get(job.runnable_id or 0, "")
        path = next((path for path in _flow_paths(job) if path in by_path), "")
        # A flow without a summary still names its steps.
        return by_path.get(path) or (path.rsplit("/", 1)[-1] if job.kind in _INSIDE_FLOWS else "")

    return [Run(job, summary(job)) for job in rows]


def _flow_paths(job: JobRow) -> list[str]:
    """The paths at which the flow may be that a job ran or was a step of, the longest first."""
    path = job.runnable_path or ""
    if job.kind in _OF_FLOWS:
        return [path] if path else []
    if job.kind not in _INSIDE_FLOWS:
        return []
    # Code and bodies inside of a flow run at <flow>/<step>/<step>...: how many of the last parts are steps is not said.
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(len(parts), 2, -1)]


def count_newer(caller: Caller, query: RunQuery, *, newest: str) -> int:
    """How many runs of `query` came after `newest` (of a RunPage); at most 100 are counted. Raises BadRequest."""
    try:
        moment = datetime.fromisoformat(newest.replace(" ", "+"))
        if moment.tzinfo is None or not 1970 <= moment.year <= 9000:
            raise ValueError("no moment that a page has")
    except ValueError as exc:
        raise BadRequest(f"newest is {newest[:40]!r}; take it from the page") from exc
    # created_after takes the moment itself in: one microsecond later leaves out the run that the page has.
    later = moment + timedelta(microseconds=1)
    since = query.as_filters()
    return listings.count_jobs(
        caller, replace(since, created_after=max(filter(None, [since.created_after, later]))), most=100
    )


def count_tabs(caller: Caller, query: RunQuery) -> dict[str, int]:
    """How many runs each status tab would show, counted up to COUNTED + 1."""
    wanted = [replace(query, status=status).as_filters() for status in TABS]
    return dict(zip(TABS, listings.count_each(caller, wanted, most=COUNTED + 1), strict=True))


def matching_ids(caller: Caller, query: RunQuery, *, limit: int) -> list[UUID]:
    """The runs of `query`, newest first, at most `limit`: what a batch on "all matching" works on."""
    return listings.list_job_ids(caller, query.as_filters(), limit=limit)


def chart_points(jobs: Iterable[JobRow]) -> list[list[Any]]:
    """[[start in seconds since 1970, duration in ms, status, id], …] of the runs that began."""
    now = timezone.now()
    points = []
    for job in jobs:
        if job.started_at is not None:
            running_ms = (now - job.started_at).total_seconds() * 1000
            duration_ms = job.duration_ms if job.duration_ms is not None else running_ms
            points.append(
                [round(job.started_at.timestamp(), 3), max(1, round(duration_ms)), job.status, str(job.id)]
            )
    return points


def suggestions(jobs: Iterable[JobRow]) -> list[str]:
    """Filters worth offering in the query field, from runs that the page has read anyway."""
    rows = list(jobs)
    take = partial(_distinct, rows)
    offered = [
        *(f"path:{value}" for value in take("runnable_path")),
        *(f"user:{value}" for value in take("created_by")),
        *(f"tag:{value}" for value in take("tag")),
        *(f"worker:{value}" for value in take("worker")),
        *(f"trigger:{value}" for value in take("trigger_kind")),
        *(f"label:{value}" for value in dict.fromkeys(label for row in rows for label in row.labels or ())),
    ]
    return offered[:60]


def _distinct(rows: list[JobRow], column: str) -> list[str]:
    return list(dict.fromkeys(value for row in rows if (value := getattr(row, column))))[:12]
