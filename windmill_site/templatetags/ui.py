"""Template tags of the design system: icons, status chips, times, durations, sizes.

Registered as builtins, so templates use them without `{% load %}`. docs/ui.md shows each one.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

# status word -> (icon, label). The words are those of SQL, API and CSS ([data-status]).
STATUSES: Mapping[str, tuple[str, str]] = {
    "success": ("circle-check", "Success"),
    "failure": ("circle-x", "Failed"),
    "running": ("loader", "Running"),
    "queued": ("circle-dashed", "Queued"),
    "scheduled": ("calendar-clock", "Scheduled"),
    "suspended": ("hand", "Waiting"),
    "skipped": ("circle-slash", "Skipped"),
    "canceled": ("square", "Canceled"),
}

LANGUAGES: Mapping[str, tuple[str, str]] = {
    "python3": ("file-code", "Python"),
    "bash": ("terminal", "Bash"),
    "powershell": ("terminal", "PowerShell"),
    "nu": ("terminal", "Nu"),
    "deno": ("braces", "TypeScript (Deno)"),
    "bun": ("braces", "TypeScript (Bun)"),
    "bunnative": ("braces", "TypeScript (Bun, native)"),
    "nativets": ("braces", "REST (TypeScript)"),
    "go": ("file-code", "Go"),
    "php": ("file-code", "PHP"),
    "rust": ("file-code", "Rust"),
    "csharp": ("file-code", "C#"),
    "java": ("file-code", "Java"),
    "ruby": ("file-code", "Ruby"),
    "rlang": ("file-code", "R"),
    "ansible": ("file-text", "Ansible"),
    "graphql": ("globe", "GraphQL"),
    "postgresql": ("database", "PostgreSQL"),
    "mysql": ("database", "MySQL"),
    "bigquery": ("database", "BigQuery"),
    "snowflake": ("database", "Snowflake"),
    "mssql": ("database", "SQL Server"),
    "oracledb": ("database", "Oracle"),
    "duckdb": ("database", "DuckDB"),
    "dbt": ("database", "dbt"),
}


@register.simple_tag
def icon(name: str, css_class: str = "") -> SafeString:
    """`{% icon "play" %}`: a decorative icon of the vendored sprite. Give the control around it a name."""
    classes = f"i {css_class}" if css_class else "i"
    return format_html(
        '<svg class="{}" aria-hidden="true"><use href="{}#{}"/></svg>',
        classes,
        static("vendor/icons.svg"),
        name,
    )


@register.simple_tag
def status(word: str, label: str = "") -> SafeString:
    """`{% status job.status %}`: icon, word and colour of a job status; `label` replaces the word."""
    name, default = STATUSES.get(word, ("circle-help", word.replace("_", " ").capitalize()))
    drawing = icon(name, "spin" if word == "running" else "")
    return format_html('<span class="status" data-status="{}">{}{}</span>', word, drawing, label or default)


@register.simple_tag
def dot(word: str, title: str = "") -> SafeString:
    """`{% dot run.status %}`: a run as a small square, with its word for screen readers."""
    label = STATUSES.get(word, ("", word.capitalize()))[1]
    return format_html(
        '<span class="dot" data-status="{}" title="{}"><span class="vh">{}</span></span>',
        word,
        title or label,
        label,
    )


@register.simple_tag
def ago(moment: datetime | None, empty: str = "never") -> SafeString | str:
    """`{% ago job.created_at %}`: "4 min ago", kept current in the browser; the exact time is its tooltip."""
    if moment is None:
        return empty
    utc = _aware(moment).astimezone(UTC)
    return format_html(
        '<time class="num" datetime="{}" data-ago title="{}">{}</time>',
        utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        utc.strftime("%d %b %Y, %H:%M:%S UTC"),
        relative((utc - timezone.now()).total_seconds()),
    )


@register.simple_tag
def elapsed(since: datetime | None) -> SafeString:
    """`{% elapsed job.started_at %}`: the time since, counting up every second in the browser."""
    if since is None:
        return SafeString("")
    utc = _aware(since).astimezone(UTC)
    seconds = max(0.0, (timezone.now() - utc).total_seconds())
    return format_html(
        '<time class="num" datetime="{}" data-elapsed>{}</time>',
        utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        duration(int(seconds) * 1000),
    )


@register.filter
def duration(milliseconds: float | None) -> str:
    """`{{ job.duration_ms|duration }}`: "8 ms", "1.2 s", "3 min 04 s", "2 h 05 min", "3 d 4 h" or ""."""
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{int(milliseconds) // 100 / 10:.1f} s"
    seconds = int(milliseconds // 1000)
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    if seconds < 86_400:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
    return f"{seconds // 86_400} d {seconds % 86_400 // 3600} h"


@register.filter(name="bytes")
def byte_size(count: float | None) -> str:
    """`{{ worker.memory|bytes }}`: "512 B", "1.4 MB" (powers of 1024); empty for None."""
    if count is None:
        return ""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return (
                f"{size:.0f} B"
                if unit == "B"
                else f"{size:.1f} {unit}"
                if size < 100
                else f"{size:.0f} {unit}"
            )
        size /= 1024
    return f"{size:.1f} TB"


@register.filter
def initials(name: str) -> str:
    """`{{ account.name|initials }}`: one or two capitals for an avatar."""
    words = [word for word in name.split("@")[0].replace(".", " ").replace("_", " ").split() if word]
    return "".join(word[0] for word in words[:2]).upper() or "?"


@register.filter
def language_icon(language: str) -> str:
    """`{% icon script.language|language_icon %}`."""
    return LANGUAGES.get(language, ("file-code", ""))[0]


@register.filter
def language_name(language: str) -> str:
    """`{{ script.language|language_name }}`: "Python" for python3."""
    return LANGUAGES.get(language, ("", language))[1]


def relative(seconds: float) -> str:
    """Say how far a moment is from now: "4 min ago" for negative `seconds`, "in 2 h" for positive."""
    distance = abs(seconds)
    if distance < 5:
        return "now"
    for limit, size, unit in (
        (60, 1, "s"),
        (3600, 60, "min"),
        (86_400, 3600, "h"),
        (float("inf"), 86_400, "d"),
    ):
        if distance < limit:
            amount = f"{int(distance // size)} {unit}"
            break
    return f"{amount} ago" if seconds < 0 else f"in {amount}"


def _aware(moment: datetime) -> datetime:
    return moment if timezone.is_aware(moment) else moment.replace(tzinfo=UTC)
