"""The languages that the editors offer: name, group, starter, and whether a live worker can run them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from jobs.models import Language, WorkerPing
from jobs.starters import starters
from jobs.waiting import ALIVE_S

_GROUPS = {
    "Code": (
        Language.PYTHON3,
        Language.BUN,
        Language.DENO,
        Language.BUNNATIVE,
        Language.GO,
        Language.BASH,
        Language.PHP,
        Language.POWERSHELL,
    ),
    "SQL": (Language.POSTGRESQL, Language.MYSQL, Language.DUCKDB),
    "Web services": (Language.NATIVETS, Language.GRAPHQL),
}
NO_WORKER = "No worker is running: code can be written and deployed, and runs when one starts."

# By language: {"version": of what runs it} or {"missing": tool, "install": how to get it} (WorkerPing.runtimes).
Runtimes = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A language, as the pickers show it."""

    id: str
    name: str
    group: str
    starter: str
    problem: str = ""  # why no live worker can run it, and how to change that; "": one can


def offered(workers: Iterable[Runtimes] | None = None) -> list[Offered]:
    """All languages, group by group. `workers`: what each live worker can run; None asks the database."""
    told = live_runtimes() if workers is None else list(workers)
    texts = starters()
    return [
        Offered(
            id=language.value,
            name=language.label,
            group=group,
            starter=texts[language.value],
            problem=_problem(language, told),
        )
        for group, languages in _GROUPS.items()
        for language in languages
    ]


def for_page() -> dict[str, Any]:
    """What the element wm-language takes: the languages, and a note when there is no worker at all."""
    told = live_runtimes()
    return {"languages": [asdict(one) for one in offered(told)], "note": "" if told else NO_WORKER}


def live_runtimes() -> list[Runtimes]:
    """What every worker that is alive and takes jobs told of its languages."""
    alive = WorkerPing.objects.filter(ping_at__gte=Now() - timedelta(seconds=ALIVE_S)).exclude(
        state__in=["draining", "failed"]
    )
    # A worker of an earlier release names its languages only.
    return [
        {**{language: {} for language in languages}, **runtimes}
        for runtimes, languages in alive.values_list("runtimes", "languages")
    ]


def missing_tool(language: str, workers: Iterable[Runtimes]) -> tuple[str, str] | None:
    """(tool, how to install it), as a worker told, when none of `workers` can run `language` and one says why."""
    found = None
    for runtimes in workers:
        told = runtimes.get(language)
        if told is None:
            continue
        if not told.get("missing"):
            return None
        found = found or (told["missing"], told.get("install", ""))
    return found


def _problem(language: Language, workers: list[Runtimes]) -> str:
    told = [runtimes[language.value] for runtimes in workers if language.value in runtimes]
    if not workers or not all(one.get("missing") for one in told):
        return ""
    missing = missing_tool(language.value, workers)
    if missing is None:
        return f"No live worker can run {language.label}."
    tool, install = missing
    how = f" To install it: {install.rstrip('.')}." if install else ""
    return f"No live worker can run {language.label}: {tool} is missing.{how}"
