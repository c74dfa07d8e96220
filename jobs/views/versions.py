"""The history of a script or a flow as pages show it, and the difference between any two versions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse

from jobs.views.calling import RunnableKind
from workspaces import pages

MOST_VERSIONS = 200  # shown in the history


@dataclass(frozen=True, kw_only=True)
class Version:
    """A version in the history. `text`, `language` and `settings` are there for the two that are compared."""

    key: str  # in addresses and forms
    name: str  # as people read it
    by: str
    at: datetime
    message: str
    is_live: bool
    is_gone: bool = False  # its content was deleted
    text: str = ""
    language: str = ""
    settings: dict[str, Any] | None = None  # what else a version fixes, by name


@dataclass(frozen=True, kw_only=True)
class History:
    """What the page shows of one script or flow. `before` is None for the first version."""

    kind: RunnableKind
    path: str
    is_archived: bool
    may_write: bool
    versions: Sequence[Version]  # newest first
    before: Version | None
    after: Version


def versions_page(request: HttpRequest, history: History) -> HttpResponse:
    """The page, or when htmx asked the difference alone."""
    after = history.after
    context = {
        "history": history,
        "before": history.before,
        "after": after,
        "live": next((version for version in history.versions if version.is_live), None),
        "changes": _settings_changed(history.before, after) if history.before is not None else [],
        "may_restore": history.may_write and not after.is_gone and (history.is_archived or not after.is_live),
    }
    return pages.respond(request, "runnables/versions.html", context, fragment="runnables/_difference.html")


def _settings_changed(before: Version, after: Version) -> list[dict[str, Any]]:
    """The settings besides the content that differ between two versions."""
    was, now = before.settings or {}, after.settings or {}
    return [
        {"name": name, "before": was.get(name), "after": now.get(name)}
        for name in now
        if was.get(name) != now.get(name)
    ]
