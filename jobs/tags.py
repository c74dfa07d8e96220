"""Tags: which workers may take a job. Chosen once, when the job is queued (reference/queue.md section 4)."""

import json
import re
import time
from typing import Any

from django.conf import settings

from workspaces import custom_tags as grammar
from workspaces.custom_tags import CustomTag
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
TAG_FORM = (
    f"at most {MAX_TAG} characters, no comma, no $, no parentheses (which workspaces may use a tag is said in the "
    "instance's custom tags), no blanks around it"
)
# Workers name their tags in a list with commas; parentheses and $ have a meaning of their own.
_NOT_IN_TAGS = re.compile(r"[\x00-\x1f\x7f,()$]")
_ARGUMENT = re.compile(r"\$args\[([^\]]*)\]")
_SETTINGS = ("default_tags_per_workspace", "default_tags_workspaces", grammar.SETTING)
_SETTINGS_AGE_S = 5.0  # how long a change of these settings may take to reach every server

_cached: tuple[float, dict[str, Any]] = (-_SETTINGS_AGE_S, {})


def choose_tag(*, workspace_id: str, asked: str | None, language: str, args: dict[str, Any]) -> str:
    """The tag of a new job: the one asked for (by the run, else by the script), else the language's own.

    In a tag asked for, `$workspace` and `$args[a.b]` stand for the workspace id and the value of an argument.
    Raises BadRequest: no worker can listen to it, or it is reserved for other workspaces.
    """
    if asked:
        tag = interpolate(asked, workspace_id=workspace_id, args=args)
        if tag:
            _require_tag(tag, asked)
            _require_available(tag, workspace_id)
            return tag
    tag = "nativets" if language == "bunnative" else language
    return f"{tag}-{workspace_id}" if has_own_default_tags(workspace_id) else tag


def interpolate(text: str, *, workspace_id: str, args: dict[str, Any]) -> str:
    """`$workspace` and `$args[a.b]` in a tag or a concurrency key, replaced."""
    return _ARGUMENT.sub(lambda match: _argument(args, match[1]), text.replace("$workspace", workspace_id))


def arguments_in(text: str) -> list[str]:
    """The arguments that a tag is made of: `a.b` of `$args[a.b]`."""
    return _ARGUMENT.findall(text)


def has_argument(args: dict[str, Any], path: str) -> bool:
    """Whether there is a value at `a.b`; where there is none, nothing stands for it."""
    return _argument(args, path) != ""


def has_own_default_tags(workspace_id: str) -> bool:
    """Does the instance give this workspace default tags of its own (`python3-acme`)?"""
    values = _instance_settings()
    only = values.get("default_tags_workspaces") or []
    return bool(values.get("default_tags_per_workspace")) and (not only or workspace_id in only)


def are_default_tags_per_workspace() -> bool:
    """Does the instance give workspaces default tags of their own, at least some of them?"""
    return bool(_instance_settings().get("default_tags_per_workspace"))


def custom_tags() -> list[CustomTag]:
    """The instance's custom tags, with their restrictions, in the order of the setting."""
    return grammar.parse_known(_instance_settings().get(grammar.SETTING))


def custom_tags_for(workspace_id: str) -> list[str]:
    """The names of the custom tags that jobs of this workspace may ask for."""
    return [tag.name for tag in custom_tags() if tag.admits(workspace_id)]


def require_available(asked: str | None, workspace_id: str) -> None:
    """Raises BadRequest when a tag of a script or flow can never be asked for in this workspace, or by anybody.

    What depends on the arguments of a run is decided when they are known (`choose_tag`).
    """
    if not asked:
        return
    depends_on_arguments = _ARGUMENT.search(asked) is not None
    tag = interpolate(_ARGUMENT.sub("x", asked), workspace_id=workspace_id, args={})
    _require_tag(tag, asked)
    if not depends_on_arguments:
        _require_available(tag, workspace_id)


def is_tag(text: str) -> bool:
    """Whether a worker can listen to it (TAG_FORM says what that takes)."""
    return 0 < len(text) <= MAX_TAG and text == text.strip() and not _NOT_IN_TAGS.search(text)


def _require_tag(tag: str, asked: str) -> None:
    if not is_tag(tag):
        became = "" if tag == asked else f", which becomes {tag[:60]!r},"
        raise BadRequest(
            f"no worker can listen to tag {asked[:60]!r}{became}; expected {TAG_FORM}; $workspace and $args[name] may "
            "be in it"
        )


def _require_available(tag: str, workspace_id: str) -> None:
    restricted = grammar.find(custom_tags(), tag)
    if restricted is not None and not restricted.admits(workspace_id):
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
