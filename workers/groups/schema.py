"""What the configuration of a worker group may say: checked when somebody writes it, read forgivingly by workers.

A configuration is a JSON object (reference/worker.md section 1). Null, "" and an empty list say the same as a field that
is not there. Fields that we do not know are kept, so that clients of newer versions lose nothing; they have no effect.
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from jobs import dedicated, tags
from workspaces.errors import BadRequest
from workspaces.job_limits import NOTHING, AskedLimits, limits_from_json
from workspaces.jsontext import check_storable

MAX_NAME = 255  # characters of a variable's or a package's name
# The table `config` holds by name what a group is configured to, and when its workers were last told to start again.
CONFIG_PREFIX, RESTART_PREFIX = "worker__", "restart__"
MAX_ITEMS = 1000  # of a list or an object
MAX_SCRIPT = 1_000_000  # characters of an init or periodic script
MAX_TEXT = 100_000  # characters of one variable's value
LEAST_INTERVAL_S, LONGEST_INTERVAL_S = 60, 31_536_000  # between runs of the periodic script
MOST_PRIORITY = 255

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The name of a distribution as PEP 508 has it, perhaps with the version that the host has.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]*\])?\s*(?:[<>=!~].*)?"
)


class Effect(StrEnum):
    """When workers that run already follow a change of a field."""

    LIVE = "live"  # at once
    NEXT_JOB = "next job"  # jobs that start from now on
    RESTART = "restart"  # they finish what they run, leave, and are started again
    NONE = "none"  # nothing in this version reads the field


@dataclass(frozen=True, kw_only=True)
class GroupConfig:
    """A configuration as workers follow it."""

    worker_tags: Sequence[str] | None = None
    priority_tags: Mapping[str, int] = field(default_factory=dict)  # 1..255, highest first
    dedicated: Sequence[str] = ()  # "workspace:path", "workspace:flow/path"
    init_bash: str = ""
    periodic_script_bash: str = ""
    periodic_interval_s: int | None = None
    env_vars_static: Mapping[str, str] = field(default_factory=dict)
    env_vars_allowlist: Sequence[str] = ()
    cache_clear: int = 0  # grows each time that the cache shall be wiped
    additional_python_paths: Sequence[str] = ()
    pip_local_dependencies: Sequence[str] = ()
    native_mode: bool = False
    min_alive_workers: int | None = None  # fewer are an alert
    job_limits: AskedLimits = NOTHING
    network: str = ""  # "none": jobs have no network
    restart_asked_at: str = ""  # when they were last told to start again
    # Sentences on what it says and cannot be followed: somebody wrote it by hand.
    problems: Sequence[str] = ()


class Difference(NamedTuple):
    """What one field said, and says now; None: nothing."""

    field: str
    before: Any
    after: Any
    effect: str  # of Effect


def checked(config: object) -> dict[str, Any]:
    """The configuration as it was given. BadRequest names the field, what is wrong, what would be right."""
    if not isinstance(config, dict):
        raise BadRequest(f"a worker group's configuration is a JSON object, got {_kind(config)}")
    check_storable(config)
    for name, value in config.items():
        if name in FIELDS and value is not None:
            FIELDS[name].check(value, name)
    if config.get("periodic_script_bash") and config.get("periodic_script_interval_seconds") is None:
        raise BadRequest(
            "periodic_script_interval_seconds is missing: say every how many seconds periodic_script_bash runs "
            f"({LEAST_INTERVAL_S} or more)"
        )
    return config


def read(config: object) -> GroupConfig:
    """What of a configuration can be followed; the rest is named in `problems`."""
    if not isinstance(config, dict):
        return GroupConfig(problems=[f"the configuration is {_kind(config)}; expected a JSON object"])
    problems: list[str] = []
    usable: dict[str, Any] = {}
    for name, value in config.items():
        if name not in FIELDS or value is None:
            continue
        try:
            FIELDS[name].check(value, name)
        except BadRequest as exc:
            problems.append(exc.message)
        else:
            usable[name] = value
    entries = [usable.get("dedicated_worker") or "", *(usable.get("dedicated_workers") or ())]
    return GroupConfig(
        worker_tags=usable.get("worker_tags") or None,
        priority_tags={tag: rank for tag, rank in (usable.get("priority_tags") or {}).items() if rank},
        dedicated=[entry for entry in dict.fromkeys(entries) if entry],
        init_bash=usable.get("init_bash") or "",
        periodic_script_bash=usable.get("periodic_script_bash") or "",
        periodic_interval_s=usable.get("periodic_script_interval_seconds"),
        env_vars_static=usable.get("env_vars_static") or {},
        env_vars_allowlist=usable.get("env_vars_allowlist") or (),
        cache_clear=usable.get("cache_clear") or 0,
        additional_python_paths=usable.get("additional_python_paths") or (),
        pip_local_dependencies=usable.get("pip_local_dependencies") or (),
        native_mode=usable.get("native_mode") or False,
        min_alive_workers=usable.get("min_alive_workers_alert_threshold"),
        job_limits=limits_from_json(usable.get("job_limits")),
        network=usable.get("network") or "",
        problems=problems,
    )


def difference(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[Difference]:
    """The fields in which two configurations differ, in the order of the form, those that we do not know last."""
    # What somebody wrote into the table by hand may be no object.
    old = old if isinstance(old, Mapping) else {}
    new = new if isinstance(new, Mapping) else {}
    names = [*FIELDS, *sorted((old.keys() | new.keys()) - FIELDS.keys())]
    return [
        Difference(name, old.get(name), new.get(name), FIELDS[name].effect if name in FIELDS else Effect.NONE)
        for name in names
        if _said(old.get(name)) != _said(new.get(name))
    ]


def restart_reasons(old: GroupConfig, new: GroupConfig) -> list[str]:
    """The fields whose change a worker cannot follow while it runs."""
    return [
        shown
        for shown, name in _RESTARTING.items()
        if _comparable(getattr(old, name)) != _comparable(getattr(new, name))
    ]


def restart_note(old: GroupConfig, new: GroupConfig) -> str:
    """Why a worker that follows `old` has to start again for `new`, for people; "" when it need not."""
    if reasons := restart_reasons(old, new):
        return f"restarting to apply {', '.join(reasons)}"
    return "restarting, as its group was told to" if new.restart_asked_at != old.restart_asked_at else ""


def warnings(config: Mapping[str, Any]) -> list[str]:
    """Sentences on what is allowed, and probably not meant."""
    said = []
    for name in sorted(config.keys() - FIELDS.keys()):
        likely = difflib.get_close_matches(name, FIELDS, n=1)
        hint = f"; did you mean {likely[0]}?" if likely else ""
        said.append(f"{name[:60]} is not a field of this version: it is kept and has no effect{hint}")
    said += [
        f"env_vars_static.{name} has no effect: the platform sets {name} for every job"
        for name in config.get("env_vars_static") or {}
        if name.startswith("WM_") or name in ("BASE_URL", "BASE_INTERNAL_URL")
    ]
    listed = config.get("worker_tags") or []
    said += [
        f"priority_tags.{tag} has no effect: {tag} is not in worker_tags"
        for tag in config.get("priority_tags") or {}
        if listed and tag not in listed
    ]
    if config.get("init_bash") and not config["init_bash"].strip():
        said.append("init_bash holds blanks only: no init script runs")
    if config.get("autoscaling"):
        said.append("autoscaling is kept; this version does not start or stop workers by itself")
    return said


def without_secrets(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration for everybody: no values of variables, no scripts that prepare the host, no paths of scripts."""
    shown = dict(config)
    for name in ("init_bash", "periodic_script_bash"):
        if shown.get(name):
            shown[name] = HIDDEN
    if isinstance(shown.get("env_vars_static"), dict):
        shown["env_vars_static"] = dict.fromkeys(shown["env_vars_static"], HIDDEN)
    if isinstance(shown.get("worker_tags"), list):
        shown["worker_tags"] = [tag for tag in shown["worker_tags"] if ":" not in str(tag)]
    names_paths = ("dedicated_worker", "dedicated_workers", "autoscaling")
    return {name: value for name, value in shown.items() if name in FIELDS and name not in names_paths}


def hide_variables(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with HIDDEN for each value of a variable, to be changed and given to `keep_hidden`."""
    held = config.get("env_vars_static")
    return (
        {**config, "env_vars_static": dict.fromkeys(held, HIDDEN)} if isinstance(held, dict) else dict(config)
    )


def keep_hidden(config: dict[str, Any], held: Mapping[str, Any] | None) -> dict[str, Any]:
    """A `checked` configuration in which HIDDEN stands for the value that the variable has in `held`.

    Raises BadRequest: it has none.
    """
    given = config.get("env_vars_static") or {}
    there = (held or {}).get("env_vars_static")
    there = there if isinstance(there, Mapping) else {}
    for name, value in given.items():
        if value == HIDDEN and name not in there:
            raise BadRequest(
                f"env_vars_static.{name} is {HIDDEN}, which stands for the value that it has; it has none yet: say one"
            )
    if HIDDEN not in given.values():
        return config
    return {
        **config,
        "env_vars_static": {name: there[name] if value == HIDDEN else value for name, value in given.items()},
    }


HIDDEN = "********"

# --- what each field may hold -----------------------------------------------------------------------------------------


def check_tag(value: object, where: str) -> None:
    """A tag that a worker can listen to. Raises BadRequest."""
    if not isinstance(value, str):
        raise BadRequest(f"{where} is {_kind(value)}; expected a tag, such as gpu")
    if not tags.is_tag(value):
        raise BadRequest(f"{where} is {value[:60]!r}; expected a tag: {tags.TAG_FORM}")


def check_dedicated(value: object, where: str) -> None:
    """`workspace:path` of a script, `workspace:flow/path` of a flow. Raises BadRequest."""
    if not isinstance(value, str):
        raise BadRequest(f"{where} is {_kind(value)}; expected a text such as acme:f/team/script")
    try:
        dedicated.parse(value)
    except BadRequest as exc:
        raise BadRequest(f"{where}: {exc.message}") from exc


def _text(limit: int) -> Callable[[object, str], None]:
    def check(value: object, where: str) -> None:
        if not isinstance(value, str):
            raise BadRequest(f"{where} is {_kind(value)}; expected a text")
        if len(value) > limit:
            raise BadRequest(f"{where} has {len(value):,} characters; the most are {limit:,}")

    return check


def _whole(least: int, most: int, unit: str = "") -> Callable[[object, str], None]:
    def check(value: object, where: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            shown = value if isinstance(value, int | float) else _kind(value)
            raise BadRequest(f"{where} is {shown}; expected a whole number from {least} to {most}{unit}")

    return check


def _switch(value: object, where: str) -> None:
    if not isinstance(value, bool):
        raise BadRequest(f"{where} is {_kind(value)}; expected true or false")


def _list_of(check_item: Callable[[object, str], None]) -> Callable[[object, str], None]:
    def check(value: object, where: str) -> None:
        if not isinstance(value, list):
            raise BadRequest(f"{where} is {_kind(value)}; expected a list of texts")
        if len(value) > MAX_ITEMS:
            raise BadRequest(f"{where} has {len(value):,} entries; the most are {MAX_ITEMS:,}")
        for index, item in enumerate(value):
            check_item(item, f"{where}[{index}]")

    return check


def _map_of(
    check_name: Callable[[object, str], None], check_value: Callable[[object, str], None]
) -> Callable[[object, str], None]:
    def check(value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise BadRequest(f"{where} is {_kind(value)}; expected a JSON object")
        if len(value) > MAX_ITEMS:
            raise BadRequest(f"{where} has {len(value):,} entries; the most are {MAX_ITEMS:,}")
        for name, item in value.items():
            check_name(name, f"a name in {where}")
            check_value(item, f"{where}.{name[:60]}")

    return check


def _dedicated_or_nothing(value: object, where: str) -> None:
    if value != "":
        check_dedicated(value, where)


def _variable_name(value: object, where: str) -> None:
    if not isinstance(value, str) or len(value) > MAX_NAME or not _VARIABLE.fullmatch(value):
        shown = repr(value[:60]) if isinstance(value, str) else _kind(value)
        raise BadRequest(
            f"{where} is {shown}; expected the name of a variable: letters, digits and _, no digit first"
        )


def _absolute_path(value: object, where: str) -> None:
    if not isinstance(value, str) or not value.startswith("/") or ".." in value.split("/") or ":" in value:
        shown = repr(value[:120]) if isinstance(value, str) else _kind(value)
        raise BadRequest(
            f"{where} is {shown}; expected the absolute path of a folder, without .. and without a colon"
        )
    if len(value) > 4096 or not value.strip("/"):
        raise BadRequest(f"{where} is {value[:120]!r}; expected a folder below /")


def _requirement(value: object, where: str) -> None:
    if not isinstance(value, str) or len(value) > MAX_NAME or not _REQUIREMENT.fullmatch(value):
        shown = repr(value[:60]) if isinstance(value, str) else _kind(value)
        raise BadRequest(f"{where} is {shown}; expected the name of a Python package, such as numpy")


def _job_limits(value: object, where: str) -> None:
    try:
        limits_from_json(value)
    except (ValueError, OverflowError) as exc:
        raise BadRequest(str(exc)) from exc


def _network(value: object, where: str) -> None:
    if value not in ("", "none"):
        shown = repr(value[:60]) if isinstance(value, str) else _kind(value)
        raise BadRequest(f'{where} is {shown}; expected "none" (jobs without network), or no such field')


_INTEGRATIONS = ("dryrun", "script", "kubernetes")
_AUTOSCALING: dict[str, Callable[[object, str], None]] = {
    "enabled": _switch,
    "min_workers": _whole(0, 10_000),
    "max_workers": _whole(0, 10_000),
    "custom_tags": _list_of(check_tag),
    "cooldown_seconds": _whole(0, 86_400),
    "full_scale_cooldown_seconds": _whole(0, 86_400),
    "full_scale_jobs_waiting": _whole(0, 1_000_000),
    "inc_scale_num_jobs_waiting": _whole(0, 1_000_000),
    "inc_num_workers": _whole(0, 10_000),
    "inc_percent_occupancy": _whole(0, 100),
    "dec_percent_occupancy": _whole(0, 100),
}


def _autoscaling(value: object, where: str) -> None:
    if not isinstance(value, dict):
        raise BadRequest(f"{where} is {_kind(value)}; expected a JSON object")
    for name, check in _AUTOSCALING.items():
        if value.get(name) is not None:
            check(value[name], f"{where}.{name}")
    least, most = value.get("min_workers"), value.get("max_workers")
    if least is not None and most is not None and least > most:
        raise BadRequest(f"{where}.min_workers is {least}, more than {where}.max_workers, which is {most}")
    integration = value.get("integration")
    if integration is None:
        return
    if not isinstance(integration, dict) or not isinstance(integration.get("type"), str):
        raise BadRequest(
            f'{where}.integration is not valid; expected an object with a "type": {", ".join(_INTEGRATIONS)}'
        )
    for name in ("path", "tag"):
        if integration.get(name) is not None and not isinstance(integration[name], str):
            raise BadRequest(f"{where}.integration.{name} is {_kind(integration[name])}; expected a text")


class _Field(NamedTuple):
    check: Callable[[object, str], None]
    effect: Effect


FIELDS: dict[str, _Field] = {
    "worker_tags": _Field(_list_of(check_tag), Effect.LIVE),
    "priority_tags": _Field(_map_of(check_tag, _whole(0, MOST_PRIORITY)), Effect.LIVE),
    "dedicated_worker": _Field(_dedicated_or_nothing, Effect.RESTART),
    "dedicated_workers": _Field(_list_of(check_dedicated), Effect.RESTART),
    "native_mode": _Field(_switch, Effect.RESTART),
    "init_bash": _Field(_text(MAX_SCRIPT), Effect.RESTART),
    "periodic_script_bash": _Field(_text(MAX_SCRIPT), Effect.RESTART),
    "periodic_script_interval_seconds": _Field(
        _whole(LEAST_INTERVAL_S, LONGEST_INTERVAL_S, " seconds"), Effect.RESTART
    ),
    "env_vars_static": _Field(_map_of(_variable_name, _text(MAX_TEXT)), Effect.NEXT_JOB),
    "env_vars_allowlist": _Field(_list_of(_variable_name), Effect.NEXT_JOB),
    # What jobs see of the file system is settled when the worker starts.
    "additional_python_paths": _Field(_list_of(_absolute_path), Effect.RESTART),
    "pip_local_dependencies": _Field(_list_of(_requirement), Effect.NEXT_JOB),
    "job_limits": _Field(_job_limits, Effect.NEXT_JOB),
    "network": _Field(_network, Effect.NEXT_JOB),
    "cache_clear": _Field(_whole(0, 2**31 - 1), Effect.RESTART),
    "min_alive_workers_alert_threshold": _Field(_whole(0, 10_000), Effect.LIVE),
    "autoscaling": _Field(_autoscaling, Effect.NONE),
}

# By what the worker says why it leaves: the part of GroupConfig that it would need anew.
_RESTARTING = {
    "dedicated_workers": "dedicated",
    "init_bash": "init_bash",
    "cache_clear": "cache_clear",
    "periodic_script_bash": "periodic_script_bash",
    "periodic_script_interval_seconds": "periodic_interval_s",
    "native_mode": "native_mode",
    "additional_python_paths": "additional_python_paths",
}


def _comparable(value: object) -> object:
    return tuple(value) if isinstance(value, list | tuple) else value


def _said(value: object) -> object:
    """One value for all ways to say nothing."""
    return None if value in ("", [], {}) or value is False else value


def _kind(value: object) -> str:
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "an object"
