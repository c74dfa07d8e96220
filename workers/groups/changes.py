"""How changes of a group's configuration are shown, before they are saved and in the history. Pure."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.groups.schema import Effect

TITLES = {
    "worker_tags": "Tags",
    "priority_tags": "Priority of tags",
    "dedicated_worker": "Dedicated to (one)",
    "dedicated_workers": "Dedicated to",
    "native_mode": "Native workers",
    "init_bash": "Init script",
    "periodic_script_bash": "Periodic script",
    "periodic_script_interval_seconds": "Seconds between runs of the periodic script",
    "env_vars_static": "Variables with a value",
    "env_vars_allowlist": "Variables of the worker that jobs see",
    "additional_python_paths": "Further folders of Python modules",
    "pip_local_dependencies": "Python packages that the host has",
    "job_limits": "Limits of a job",
    "network": "Network of jobs",
    "cache_clear": "Caches cleared",
    "min_alive_workers_alert_threshold": "Alert when fewer workers are alive than",
    "autoscaling": "Autoscaling",
}
EFFECTS = {
    Effect.LIVE: "At once; running jobs go on",
    Effect.NEXT_JOB: "For jobs that start from now on",
    Effect.RESTART: "Its workers finish what they run and start again",
    Effect.NONE: "Kept; nothing reads it",
}
UNSET = "not set"
_SECRET = "env_vars_static"
_SAME = "same value"  # what the audit log says of a variable that kept its value


@dataclass(frozen=True, kw_only=True)
class ShownChange:
    """One field's change. Either `lines`, or entries added, removed and changed, or `before` and `after`."""

    field: str
    title: str
    effect: str  # of Effect
    effect_words: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()  # ("+", "-" or " ", text)
    before: str = ""
    after: str = ""


def shown(field: str, before: Any, after: Any, effect: str) -> ShownChange:
    """A difference for people. Of variables only the names are told."""
    base: dict[str, Any] = {
        "field": field,
        "title": TITLES.get(field, field),
        "effect": str(effect),
        "effect_words": EFFECTS.get(Effect(effect), "") if effect in list(Effect) else "",
    }
    if isinstance(before, Mapping | None) and isinstance(after, Mapping | None):
        return ShownChange(**base, **_entries(field, before or {}, after or {}))
    if isinstance(before, list | None) and isinstance(after, list | None):
        old, new = _texts(before), _texts(after)
        if set(old) == set(new):
            return ShownChange(**base, before=", ".join(old), after=", ".join(new))  # another order
        return ShownChange(
            **base,
            added=tuple(text for text in new if text not in old),
            removed=tuple(text for text in old if text not in new),
        )
    if "\n" in f"{before}{after}" and isinstance(before, str | None) and isinstance(after, str | None):
        return ShownChange(**base, lines=_lines(before or "", after or ""))
    return ShownChange(**base, before=_text(before), after=_text(after))


def _entries(field: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    def told(name: str, value: Any) -> str:
        return name if field == _SECRET else f"{name}: {_text(value)}"

    if field == _SECRET:
        # In the audit log a value that changed is "hidden" on both sides.
        differing = [
            name
            for name in after
            if name in before
            and after[name] != _SAME
            and (before[name] != after[name] or after[name] == "hidden")
        ]
    else:
        differing = [name for name in after if name in before and before[name] != after[name]]
    return {
        "added": tuple(told(name, value) for name, value in after.items() if name not in before),
        "removed": tuple(told(name, value) for name, value in before.items() if name not in after),
        "changed": tuple(
            name if field == _SECRET else f"{name}: {_text(before[name])} → {_text(after[name])}"
            for name in differing
        ),
    }


def _lines(before: str, after: str) -> tuple[tuple[str, str], ...]:
    """The lines that differ, with two of those around them."""
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    return tuple(
        ("…", "") if line.startswith("@@") else (line[0], line[1:])
        for index, line in enumerate(found)
        if index >= 2 and not (index == 2 and line.startswith("@@"))
    )


def _texts(values: list[Any] | None) -> list[str]:
    return [_text(value) for value in values or ()]


def _text(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return UNSET
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
