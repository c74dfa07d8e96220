"""Why a job waits: the question everybody asks of a queue, answered in one sentence.

`look` gathers the facts in one query, `explain` decides without I/O; pages, API and admin show the same answer.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from jobs import sql, tags
from jobs.dedicated import Dedicated, is_entry
from jobs.errors import JobNotFound

ALIVE_S = 30  # a worker that reported within this time counts as alive


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about one job's place in the queue at one moment."""

    now: datetime
    tag: str
    scheduled_for: datetime
    running: bool
    worker: str | None
    suspend: int  # approvals it waits for
    canceled_by: str | None
    workers_for_tag: int  # alive and taking jobs of this tag
    free_slots: int  # of those workers
    draining_workers: int  # alive, listening to this tag, but about to leave
    silent_workers: int  # listened to this tag and have not reported since
    starting_workers: int = 0  # alive, will listen to this tag
    failed_workers: int = 0  # would listen to this tag, but their init script failed
    ahead: int  # due jobs of this tag that are before it in the queue
    ahead_of_workspace: int = 0  # those of its own workspace
    running_with_tag: int
    held_back_by: str | None = None  # the concurrency key whose places are all taken
    running_with_key: int = 0
    ahead_with_key: int = 0  # held back too, for longer
    language: str | None = None  # of its code
    missing_tool: str | None = None  # what a live worker says is not installed for this language
    install: str | None = None  # and how to install it
    workspace_id: str = ""
    path: str | None = None  # of the script or flow; of a step, that of its flow with the step's id
    has_begun: bool = False  # a flow that sleeps or waits for an approval
    is_parked: bool = False  # a flow that waits for its steps
    places: int | None = None  # its concurrency limit
    window_s: int | None = None  # in which jobs that have ended still take a place
    silent_since: datetime | None = None  # the last report of a silent worker
    tag_setting: str | None = None  # the tag of its script or flow, as written there
    args: str | None = None  # JSON text; only when that tag is made of arguments
    groups: Sequence[str] = ()  # whose configuration names its tag
    native_groups: Sequence[str] = ()  # those of them that have live native workers
    tags_before: Sequence[str] = ()  # what the workers of this tag take first


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The answer. `reason` is stable for programs, `sentence` is for people."""

    # running, canceled, steps, suspended, asleep, limited, scheduled, no_worker, behind, busy, soon
    reason: str
    sentence: str
    ahead: int = 0  # jobs that come first


def explain(facts: Facts) -> Waiting:
    """Why the job has not started, most decisive reason first."""
    if facts.canceled_by is not None:
        return Waiting(
            reason="canceled", sentence=f"{facts.canceled_by} has canceled it; it is being stopped."
        )
    if facts.is_parked:
        return Waiting(reason="steps", sentence="It waits for its steps, which say themselves why they wait.")
    if facts.running:
        return Waiting(reason="running", sentence=f"It is running on worker {facts.worker}.")
    if facts.suspend > 0:
        return Waiting(reason="suspended", sentence="It waits for an approval or an event.")
    if facts.held_back_by is not None and facts.scheduled_for > facts.now:
        return Waiting(reason="limited", sentence=_limited(facts), ahead=facts.ahead_with_key)
    if facts.scheduled_for > facts.now:
        when = _when(facts.scheduled_for)
        if facts.has_begun:
            return Waiting(reason="asleep", sentence=f"It sleeps until {when}.")
        return Waiting(reason="scheduled", sentence=f"It is scheduled for {when}.")
    if facts.workers_for_tag == 0:
        return Waiting(reason="no_worker", sentence=_no_worker(facts), ahead=facts.ahead)
    if facts.free_slots == 0:
        ahead = f" and {_jobs(facts.ahead)} with this tag {_in_front(facts)}" if facts.ahead else ""
        workers = f"{facts.workers_for_tag} worker{'s' if facts.workers_for_tag > 1 else ''}"
        return Waiting(
            reason="busy",
            sentence=f"All slots of the {workers} for tag {facts.tag} are busy{ahead}.{_ranks(facts)}",
            ahead=facts.ahead,
        )
    if facts.ahead:
        return Waiting(
            reason="behind",
            sentence=f"{_jobs(facts.ahead)} with tag {facts.tag} {_in_front(facts)}.",
            ahead=facts.ahead,
        )
    return Waiting(reason="soon", sentence="A worker is about to take it.")


def _in_front(facts: Facts) -> str:
    if facts.ahead == facts.ahead_of_workspace:
        return "comes first" if facts.ahead == 1 else "come first"
    # Where workspaces take turns (jobs.turns), those of others need not come first.
    if facts.ahead == 1:
        return "is before it in the queue, of another workspace"
    return f"are before it in the queue, {facts.ahead_of_workspace} of them of this workspace"


def _ranks(facts: Facts) -> str:
    """That its workers take jobs of other tags before it, whatever their priority."""
    if not facts.tags_before:
        return ""
    word = "tag" if len(facts.tags_before) == 1 else "tags"
    return f" They take jobs with {word} {_listed(facts.tags_before)} first."


def _limited(facts: Facts) -> str:
    line = f"; held back for longer: {_jobs(facts.ahead_with_key)}" if facts.ahead_with_key else ""
    window = f" and in any {facts.window_s} s" if facts.window_s else ""
    limit = f" of {_jobs(facts.places)} at once{window}" if facts.places is not None else ""
    return (
        f"Its concurrency limit{limit} is reached (key {facts.held_back_by}); "
        f"running with this key: {_jobs(facts.running_with_key)}{line}. "
        f"It is looked at again when a place is left, {_when(facts.scheduled_for)} at the latest."
    )


def _no_worker(facts: Facts) -> str:
    return f"No live worker listens to tag {facts.tag}. {_remedy(facts)}{_made_of(facts)}"


def _remedy(facts: Facts) -> str:
    # A tag of somebody's own may be a typo; that of the language, also one of a workspace (php-acme), is not.
    if facts.missing_tool and facts.tag.split("-", 1)[0] == facts.language:
        return (
            f"{facts.missing_tool}, which {facts.language} needs, is not installed where the workers run; "
            f"install it there ({facts.install}) and restart them."
        )
    if facts.starting_workers:
        return f"{facts.starting_workers} that will {_are(facts.starting_workers)} starting."
    if facts.draining_workers:
        return f"{facts.draining_workers} that did {_are(facts.draining_workers)} shutting down."
    if facts.native_groups:
        return (
            f"Group {_listed(facts.native_groups)} has this tag in its configuration, but its workers are native and "
            "leave it out: switch native_mode off there, or give the tag to another group."
        )
    if facts.silent_workers:
        since = f" (last report {_when(facts.silent_since)})" if facts.silent_since is not None else ""
        return f"{facts.silent_workers} that did stopped reporting{since}: start a worker again, or choose another tag."
    if facts.failed_workers:
        return f"The init script of {facts.failed_workers} that should failed; the workers page has its log."
    if (entry := _dedicated_entry(facts)) is not None:
        return f"It is dedicated: add {entry} to dedicated_workers of a worker group with running workers."
    if facts.groups:
        return (
            f"Group {_listed(facts.groups)} has this tag in its configuration, but no worker of it runs that could take "
            f"it: start one (WORKER_GROUP={facts.groups[0]}), or choose another tag."
        )
    return "Start one with this tag (WORKER_TAGS), add it to a worker group, or choose another tag."


def _made_of(facts: Facts) -> str:
    """How a tag came about that nobody has written so."""
    setting = facts.tag_setting
    if setting is None or setting == facts.tag or "$" not in setting:
        return ""
    args = json.loads(facts.args) if facts.args is not None else None
    known = args if isinstance(args, dict) else {}
    missing = [path for path in tags.arguments_in(setting) if not tags.has_argument(known, path)]
    lacking = f", and this run has no argument {_listed(missing)}" if missing else ""
    return f" The tag is made of {setting}{lacking}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _when(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _dedicated_entry(facts: Facts) -> str | None:
    """What a worker group's dedicated_workers must name for workers to listen to this tag, if it is a dedicated one."""
    path = facts.path or ""
    outer = path.rpartition("/")[0]  # of a step
    for at, is_flow in ((path, False), (path, True), (outer, True)):
        dedicated = Dedicated(facts.workspace_id, at, is_flow)
        if at and dedicated.tag == facts.tag:
            return str(dedicated)
    return facts.tag if is_entry(facts.tag) and "#" not in facts.tag else None


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _jobs(count: int) -> str:
    return (
        f"{count} job{'s' if count != 1 else ''}" if count < MOST_COUNTED else f"{MOST_COUNTED} or more jobs"
    )


MOST_COUNTED = 1000  # counting stops here


def look(job_ids: Sequence[UUID], *, workspace_id: str | None = None) -> dict[UUID, Facts]:
    """The facts about these jobs, as far as they are in the queue (of this workspace; None: of any), in one query."""
    with connection.cursor() as cursor:
        cursor.execute(
            sql.load("explain_waiting"),
            {"ids": list(job_ids), "workspace_id": workspace_id, "alive_s": ALIVE_S, "most": MOST_COUNTED},
        )
        names = [column.name for column in cursor.description]
        rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return {row.pop("id"): Facts(**row) for row in rows}


def why_waiting(job_id: UUID, *, workspace_id: str) -> Waiting:
    """Why this job has not started. Raises JobNotFound when it is not in the queue (any more)."""
    facts = look([job_id], workspace_id=workspace_id).get(job_id)
    if facts is None:
        raise JobNotFound(
            f"job {job_id} is not in the queue of workspace {workspace_id}; it has ended, or never was there"
        )
    return explain(facts)
