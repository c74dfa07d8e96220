"""Tags: which workers may take a job. Chosen once, when the job is queued (reference/queue.md section 4)."""

import json
import re
import time
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from workspaces.errors import BadRequest
from workspaces.models import InstanceSetting

MAX_TAG = 255  # characters, after interpolation
# What a worker of group `default` listens to when nothing else is said.
DEFAULT_TAGS = [
    "deno",
    "python3",
    "go",
    "bash",
    "powershell",
    "nativets",
    "mysql",
    "oracledb",
    "bun",
    "postgresql",
    "bigquery",
    "snowflake",
    "mssql",
    "graphql",
    "php",
    "rust",
    "ansible",
    "csharp",
    "nu",
    "java",
    "ruby",
    "rlang",
    "duckdb",
    "dependency",
    "flow",
    "other",
]
_ARGUMENT = re.compile(r"\$args\[([^\]]*)\]")
_CUSTOM_TAG = re.compile(r"(?P<tag>[^()]+)\((?P<not>\^?)(?P<workspaces>[^()]*)\)")
_SETTINGS = ("default_tags_per_workspace", "default_tags_workspaces", "custom_tags")
_SETTINGS_AGE_S = 5.0  # how long a change of these settings may take to reach every server

_cached: tuple[float, dict[str, Any]] = (-_SETTINGS_AGE_S, {})


def choose_tag(*, workspace_id: str, asked: str | None, language: str, args: dict[str, Any]) -> str:
    """The tag of a new job: the one asked for (by the run, else by the script), else the language's own.

    In a tag asked for, `$workspace` and `$args[a.b]` stand for the workspace id and the value of an argument.
    Raises BadRequest: too long, or reserved for other workspaces.
    """
    if asked:
        tag = interpolate(asked, workspace_id=workspace_id, args=args)
        if len(tag) > MAX_TAG or "\x00" in tag:
            raise BadRequest(f"tag {tag[:40]!r} is longer than {MAX_TAG} characters")
        if tag:
            _require_available(tag, workspace_id)
            return tag
    tag = "nativets" if language == "bunnative" else language
    return f"{tag}-{workspace_id}" if has_own_default_tags(workspace_id) else tag


def interpolate(text: str, *, workspace_id: str, args: dict[str, Any]) -> str:
    """`$workspace` and `$args[a.b]` in a tag or a concurrency key, replaced."""
    return _ARGUMENT.sub(lambda match: _argument(args, match[1]), text.replace("$workspace", workspace_id))


def has_own_default_tags(workspace_id: str) -> bool:
    """Does the instance give this workspace default tags of its own (`python3-acme`)?"""
    values = _instance_settings()
    only = values.get("default_tags_workspaces") or []
    return bool(values.get("default_tags_per_workspace")) and (not only or workspace_id in only)


def custom_tags() -> list[str]:
    """The instance's custom tags as configured, with their restrictions: `gpu`, `big(acme+umbra)`, `slow(^acme)`."""
    tags = _instance_settings().get("custom_tags")
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def custom_tags_for(workspace_id: str) -> list[str]:
    """The custom tags that jobs of this workspace may ask for, without restrictions."""
    parsed = [parse_custom_tag(tag) for tag in custom_tags()]
    return [
        tag for tag, workspaces, is_excluding in parsed if _admits(workspaces, is_excluding, workspace_id)
    ]


def parse_custom_tag(text: str) -> tuple[str, frozenset[str] | None, bool]:
    """`gpu(a+b)` -> ("gpu", {a, b}, False); `gpu(^a)` -> ("gpu", {a}, True); `gpu` -> ("gpu", None, False)."""
    match = _CUSTOM_TAG.fullmatch(text)
    if match is None:
        return text, None, False
    names = re.split(r"[+^]", match["workspaces"])
    return match["tag"], frozenset(name for name in names if name), bool(match["not"])


def _admits(workspaces: Iterable[str] | None, is_excluding: bool, workspace_id: str) -> bool:
    return workspaces is None or (workspace_id in workspaces) is not is_excluding


def _require_available(tag: str, workspace_id: str) -> None:
    for name, workspaces, is_excluding in map(parse_custom_tag, custom_tags()):
        if name == tag and not _admits(workspaces, is_excluding, workspace_id):
            raise BadRequest(
                f"tag {tag} is not available in workspace {workspace_id}; a superadmin decides where it is"
            )


def settings_are_known() -> bool:
    """Whether `choose_tag` answers without a query at this moment."""
    return time.monotonic() - _cached[0] < _SETTINGS_AGE_S and not settings.TESTING


def _argument(args: dict[str, Any], path: str) -> str:
    value: Any = args
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _instance_settings() -> dict[str, Any]:
    global _cached
    read_at, values = _cached
    now = time.monotonic()
    if now - read_at >= _SETTINGS_AGE_S or settings.TESTING:
        values = dict(InstanceSetting.objects.filter(name__in=_SETTINGS).values_list("name", "value"))
        _cached = (now, values)
    return values
