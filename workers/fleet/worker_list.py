"""What the workers page shows: groups, workers as they last reported, and the queue of each tag."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from jobs import dedicated, tags
from jobs.languages import missing_tool
from jobs.models import Flow, Language, Script, WorkerPing
from workers.fleet.dead_workers import GONE
from workers.groups import configs
from workspaces.access import Caller
from workspaces.errors import BadRequest

LATE = timedelta(seconds=20)  # pings come every few seconds; after this one something is wrong
_MOST_TAGS = 200
_MOST_WORKERS = 1000


class RunsLanguage(NamedTuple):
    """A language that a worker can run."""

    name: str
    version: str  # of what runs it; "" when it does not tell


class LacksTool(NamedTuple):
    """What a worker would need to run some languages."""

    tool: str
    install: str
    languages: list[str]  # their names


class Occupancy(NamedTuple):
    """How busy a worker was over a span of time."""

    span: str
    percent: int


@dataclass(kw_only=True)
class ShownWorker:
    """A worker and what to say about it."""

    ping: WorkerPing
    health: str  # live, starting, draining, late, gone, failed
    last_job_url_id: str | None  # last job, where the reader may open it from this workspace

    @property
    def occupancy(self) -> list["Occupancy"]:
        """Share of slot time spent on jobs, over three spans; those measured so far."""
        rates = (
            ("15 seconds", self.ping.occupancy_rate_15s),
            ("5 minutes", self.ping.occupancy_rate_5m),
            ("30 minutes", self.ping.occupancy_rate_30m),
        )
        return [Occupancy(span, round(100 * min(rate, 1.0))) for span, rate in rates if rate is not None]

    @property
    def takes_jobs(self) -> bool:
        return self.health in ("live", "late", "starting")

    def matches(self, search: str) -> bool:
        """Whether its name, its host or one of its tags holds `search` (lower case)."""
        texts = (self.ping.worker, self.ping.worker_instance, *self.ping.custom_tags)
        return any(search in text.lower() for text in texts)

    def takes(self, tag: str) -> bool:
        """Whether jobs of `tag` come here; the tag of a language it lacks the tool for is listed, but not taken."""
        return self.takes_jobs and tag in self.ping.custom_tags and not _is_missing(self.ping, tag)

    @property
    def runs(self) -> list[RunsLanguage]:
        """Languages that it can run, in the usual order."""
        told = self.ping.runtimes or {language: {} for language in self.ping.languages}
        return [
            RunsLanguage(language.label, told[language.value].get("version", ""))
            for language in Language
            if language.value in told and not told[language.value].get("missing")
        ]

    @property
    def lacks(self) -> list[LacksTool]:
        """Tools that it did not find, with the languages that need them."""
        found: dict[tuple[str, str], LacksTool] = {}
        for language in Language:
            told = self.ping.runtimes.get(language.value, {})
            if tool := told.get("missing"):
                install = told.get("install", "")
                found.setdefault((tool, install), LacksTool(tool, install, [])).languages.append(
                    language.label
                )
        return list(found.values())


@dataclass(kw_only=True)
class TagQueue:
    """What waits for one tag."""

    tag: str
    waiting: int
    running: int
    scheduled: int
    oldest_at: datetime | None  # when the one that waits longest could have started
    workers: int = 0  # live workers that take this tag
    is_dedicated: bool = False  # it is the name of a script or flow that has a dedicated worker
    missing: str = ""  # of the tag of a language: the tool that no live worker has
    install: str = ""  # how to get it


@dataclass(kw_only=True)
class ShownGroup:
    """A worker group, summed up."""

    name: str
    is_configured: bool = False
    workers: list[ShownWorker] = field(default_factory=list)
    waiting: int = 0  # jobs whose tag this group takes

    @property
    def has_page(self) -> bool:
        """Whether the group can be configured: WORKER_GROUP may say anything, a configuration's name may not."""
        try:
            configs.check_name(self.name)
        except BadRequest:
            return False
        return True

    @property
    def live_count(self) -> int:
        return sum(worker.takes_jobs for worker in self.workers)

    @property
    def gone_count(self) -> int:
        return self.count("gone")

    @property
    def failed_count(self) -> int:
        return self.count("failed")

    def count(self, health: str) -> int:
        """How many of its workers are in this state."""
        return sum(worker.health == health for worker in self.workers)

    def matches(self, search: str) -> bool:
        """Whether its name, or something that one of its workers is found by, holds `search` (lower case)."""
        return search in self.name.lower() or any(worker.matches(search) for worker in self.workers)

    @property
    def slots(self) -> int:
        return sum(worker.ping.slots for worker in self.workers if worker.takes_jobs)

    @property
    def busy_slots(self) -> int:
        return sum(worker.ping.busy_slots for worker in self.workers if worker.takes_jobs)

    @property
    def tags(self) -> list[str]:
        return sorted(
            {tag for worker in self.workers if worker.takes_jobs for tag in worker.ping.custom_tags}
        )


@dataclass(kw_only=True)
class Overview:
    """All of the page. `uncovered`: tags that jobs wait for and no live worker takes."""

    groups: list[ShownGroup]
    queue: list[TagQueue]

    @property
    def has_workers(self) -> bool:
        return any(group.workers for group in self.groups)

    @property
    def uncovered(self) -> list[TagQueue]:
        return [row for row in self.queue if row.waiting and not row.workers]


def overview(caller: Caller) -> Overview:
    """Workers serve every workspace; the queue shown is that of the caller's (superadmins: of all). Three queries."""
    now = timezone.now()
    shown: dict[str, ShownGroup] = {
        name: ShownGroup(name=name, is_configured=True) for name in configs.list_names()
    }
    for ping in WorkerPing.objects.order_by("worker_group", "worker")[:_MOST_WORKERS]:
        may_open = ping.last_job_id is not None and ping.last_job_workspace_id == caller.workspace_id
        shown.setdefault(ping.worker_group, ShownGroup(name=ping.worker_group)).workers.append(
            ShownWorker(
                ping=ping,
                health=_health(ping, now),
                last_job_url_id=str(ping.last_job_id) if may_open else None,
            )
        )
    queue = _queue_by_tag(None if caller.is_super_admin else caller.workspace_id)
    live = [worker for group in shown.values() for worker in group.workers if worker.takes_jobs]
    takers = _takers(live, {row.tag for row in queue})
    for row in queue:
        row.workers = takers[row.tag].total()
        for name in takers[row.tag]:
            shown[name].waiting += row.waiting
        if not row.workers and (missing := missing_tool(row.tag, (worker.ping.runtimes for worker in live))):
            row.missing, row.install = missing
    in_order = sorted(shown.values(), key=lambda group: group.name)
    return Overview(groups=in_order, queue=queue)


def known_tags() -> list[str]:
    """Tags to suggest for a group: the default ones, the instance's own, those that jobs wait for."""
    waiting = [row.tag for row in _queue_by_tag(None)]
    own = [tag.name for tag in tags.custom_tags() if "$" not in tag.name]
    return list(dict.fromkeys([*own, *tags.DEFAULT_TAGS, *waiting]))


def dedicated_entries(search: str, *, limit: int = 20) -> list[str]:
    """Scripts and flows that have a dedicated worker, as a group names them, whose name holds `search`."""
    found: list[str] = []
    for model, is_flow in ((Script, False), (Flow, True)):
        rows = model._default_manager.filter(archived=False, extra__contains={"dedicated_worker": True})
        for word in search.replace(":flow/", ":").split(":", 1):
            rows = rows.filter(Q(path__icontains=word) | Q(workspace__id__icontains=word))
        pairs = rows.order_by("workspace_id", "path").values_list("workspace_id", "path")[:limit]
        found += [str(dedicated.Dedicated(workspace_id, path, is_flow)) for workspace_id, path in pairs]
    return found[:limit]


def _takers(live: Iterable[ShownWorker], wanted: set[str]) -> defaultdict[str, Counter[str]]:
    """For each tag how many workers of which group take it."""
    takers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for worker in live:
        for tag in wanted.intersection(worker.ping.custom_tags):
            if worker.takes(tag):
                takers[tag][worker.ping.worker_group] += 1
    return takers


def _is_missing(ping: WorkerPing, language: str) -> bool:
    return bool(ping.runtimes.get(language, {}).get("missing"))


def _health(ping: WorkerPing, now: datetime) -> str:
    silent_for = now - ping.ping_at
    if ping.state == "failed":
        return "failed"
    if silent_for > GONE:
        return "gone"
    if silent_for > LATE:
        return "late"
    return "live" if ping.state == "running" else ping.state


def _queue_by_tag(workspace_id: str | None) -> list[TagQueue]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT tag,
                   count(*) FILTER (WHERE is_due),
                   count(*) FILTER (WHERE running),
                   count(*) FILTER (WHERE NOT running AND NOT is_due),
                   min(scheduled_for) FILTER (WHERE is_due)
              FROM queue
             CROSS JOIN LATERAL (
                   SELECT NOT running AND suspend <= 0 AND scheduled_for <= statement_timestamp() AS is_due
                   ) AS state
             WHERE %(workspace_id)s::text IS NULL OR workspace_id = %(workspace_id)s
             GROUP BY tag
             ORDER BY 2 DESC, tag
             LIMIT %(limit)s
            """,
            {"workspace_id": workspace_id, "limit": _MOST_TAGS},
        )
        return [
            TagQueue(
                tag=tag,
                waiting=waiting,
                running=running,
                scheduled=scheduled,
                oldest_at=oldest_at,
                is_dedicated=dedicated.is_entry(tag),
            )
            for tag, waiting, running, scheduled, oldest_at in cursor.fetchall()
        ]
