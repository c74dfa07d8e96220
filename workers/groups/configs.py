"""The configurations of worker groups: the only module that writes them. For superadmins and devops.

A group exists because workers name it (WORKER_GROUP); a configuration may be there before the first worker, and may be
missing. Stored in the table `config` as `worker__<group>`.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from jobs import dedicated, wakeups
from jobs.models import Flow, Script
from workers.groups import schema
from workers.groups.schema import Difference
from workers.models import Config
from workspaces import audit
from workspaces.access import Identity
from workspaces.errors import BadRequest, Conflict, NotFound
from workspaces.models import ActionKind, AuditEntry

PREFIX = schema.CONFIG_PREFIX
MAX_NAME = 60  # characters; the name becomes a part of each worker's
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LONGEST_AUDITED = 4000  # characters of one value in the audit log


@dataclass(frozen=True, kw_only=True)
class Change:
    """What an update did."""

    name: str
    config: dict[str, Any]
    differences: list[Difference]  # none: it was like this already, and nothing was written
    warnings: list[str]  # sentences on what has no effect, or not yet

    @property
    def restarts_workers(self) -> bool:
        """Whether the group's workers finish what they run and start again."""
        return any(found.effect == schema.Effect.RESTART for found in self.differences)


difference = schema.difference


def list_groups() -> list[dict[str, Any]]:
    """[{name, config}] of the groups that are configured, by name. Whoever shows them decides what may be seen."""
    rows = Config.objects.filter(name__startswith=PREFIX).order_by("name")
    return [{"name": row.name.removeprefix(PREFIX), "config": row.config} for row in rows]


def list_names() -> list[str]:
    """Names of the groups that are configured."""
    keys = Config.objects.filter(name__startswith=PREFIX).order_by("name").values_list("name", flat=True)
    return [key.removeprefix(PREFIX) for key in keys]


def get(name: str) -> dict[str, Any] | None:
    """The configuration of one group; None: it has none, and its workers follow their own settings."""
    row = Config.objects.filter(pk=PREFIX + name).first()
    if row is None:
        return None
    return row.config if isinstance(row.config, dict) else {}  # somebody may have written it by hand


def preview(*, name: str, config: object, actor: Identity) -> Change:
    """What `update` would do, and nothing written. Raises as `update` does."""
    actor.require_devops()
    check_name(name)
    wanted = schema.checked(config)
    return _change(name, wanted, difference(get(name), wanted))


def update(*, name: str, config: object, actor: Identity, seen: str | None = None) -> Change:
    """Make `config` (a JSON object) the configuration of group `name`, and tell its workers.

    `seen` is the `fingerprint` of the configuration that the change was made from; None takes whatever is there.
    Raises BadRequest, which names the field that is wrong; Conflict: it is not what was seen any more;
    PermissionDenied.
    """
    actor.require_devops()
    check_name(name)
    wanted = schema.checked(config)
    with transaction.atomic():
        row, is_new = _locked(PREFIX + name)
        if seen is not None and seen != fingerprint(None if is_new else get(name)):
            raise changed_meanwhile(name)
        differences = difference(row.config, wanted)
        if is_new or row.config != wanted:
            Config.objects.filter(pk=row.pk).update(config=wanted)
            audit.record(
                actor,
                "worker_config.update",
                ActionKind.CREATE if is_new else ActionKind.UPDATE,
                resource=PREFIX + name,
                parameters={"changes": [audited(found) for found in differences]},
            )
            wakeups.group_changed(name)
    return _change(name, wanted, differences)


def changed_meanwhile(name: str) -> Conflict:
    """What is raised when a change was made from a configuration that is not the present one any more."""
    return Conflict(
        f"worker group {name} was changed by somebody else since you opened it; load it and apply your change to that"
    )


def _change(name: str, wanted: dict[str, Any], differences: list[Difference]) -> Change:
    return Change(
        name=name,
        config=wanted,
        differences=differences,
        warnings=[*schema.warnings(wanted), *_idle_runnables(wanted)],
    )


def fingerprint(config: Mapping[str, Any] | None) -> str:
    """What tells one configuration from another; "" of none."""
    if config is None:
        return ""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def delete(*, name: str, actor: Identity) -> None:
    """Forget the configuration of group `name`: its workers follow their own settings. NotFound, PermissionDenied."""
    actor.require_devops()
    with transaction.atomic():
        row = Config.objects.select_for_update().filter(pk=PREFIX + name).first()
        if row is None:
            raise NotFound(f"worker group {name[:MAX_NAME]} has no configuration")
        row.delete()
        audit.record(
            actor,
            "worker_config.delete",
            ActionKind.DELETE,
            resource=PREFIX + name,
            parameters={"changes": [audited(found) for found in difference(row.config, None)]},
        )
        wakeups.group_changed(name)


def clear_caches(*, name: str, actor: Identity) -> Change:
    """Have the group's workers leave, and start again with an empty cache folder. Raises as `update` does."""
    config = get(name)
    count = (config or {}).get("cache_clear")
    count = count + 1 if isinstance(count, int) else 1
    return update(
        name=name, config={**(config or {}), "cache_clear": count}, actor=actor, seen=fingerprint(config)
    )


def reveal_variables(*, name: str, actor: Identity) -> dict[str, str]:
    """The values of the group's static variables, for somebody who looks at them. NotFound, PermissionDenied."""
    actor.require_devops()
    config = get(name)
    if config is None:
        raise NotFound(f"worker group {name[:MAX_NAME]} has no configuration")
    audit.record(actor, "worker_config.reveal", ActionKind.EXECUTE, resource=PREFIX + name)
    values = config.get("env_vars_static")
    return dict(values) if isinstance(values, dict) else {}


def history(name: str, *, limit: int = 50) -> list[AuditEntry]:
    """The last changes of the group's configuration, newest first; `parameters` as `audited` keeps them.

    Whoever shows them decides who may see them.
    """
    # In this order the partial index audit_worker_config_idx has them, between millions of job entries.
    rows = AuditEntry.objects.filter(
        resource=PREFIX + name, operation__in=["worker_config.update", "worker_config.delete"]
    )
    return list(rows.order_by("-id")[:limit])


def _locked(key: str) -> tuple[Config, bool]:
    """The row, locked, and whether it was made for it: of two who write at once the second sees what the first wrote."""
    while True:
        row = Config.objects.select_for_update().filter(pk=key).first()
        if row is not None:
            return row, False
        row, is_new = Config.objects.get_or_create(pk=key)
        if is_new:
            return row, True


def check_name(name: str) -> str:
    """Raises BadRequest unless `name` can be a group's."""
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise BadRequest(
            f"worker group {name[:MAX_NAME]!r} is not valid; use at most {MAX_NAME} letters, digits, -, _ and ., "
            "such as gpu"
        )
    return name


def audited(found: Difference) -> dict[str, Any]:
    """A difference as the audit log keeps it: {field, before, after, effect}; of variables the names only."""
    before, after = found.before, found.after
    if found.field == "env_vars_static":
        before, after = _names(before, after), _names(after, before)
    return {
        "field": found.field,
        "before": _shortened(before),
        "after": _shortened(after),
        "effect": str(found.effect),
    }


def _names(variables: Any, others: Any) -> dict[str, str] | None:
    """Which variables there are, and whether the other side has another value for them."""
    if not isinstance(variables, Mapping):
        return None
    others = others if isinstance(others, Mapping) else {}
    return {
        name: "same value" if others.get(name) == value else "hidden" for name, value in variables.items()
    }


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_AUDITED:
        return f"{value[:_LONGEST_AUDITED]} ... ({len(value):,} characters)"
    return value


def _idle_runnables(config: Mapping[str, Any]) -> list[str]:
    """Sentences on dedicated scripts and flows that bring no jobs. They may later: clients push in any order."""
    said = []
    wanted = [config.get("dedicated_worker") or "", *(config.get("dedicated_workers") or ())]
    for entry in dict.fromkeys(filter(None, wanted)):
        workspace_id, _, path = entry.partition(":")
        model, what = (Flow, "flow") if path.startswith("flow/") else (Script, "script")
        rows = model._default_manager.filter(
            workspace_id=workspace_id, path=path.removeprefix("flow/"), archived=False
        )
        held = rows.values_list("extra", flat=True).first()
        if held is None:
            said.append(
                f"dedicated {what} {entry} does not exist yet: its workers have nothing to do until it is deployed"
            )
        elif not dedicated.is_dedicated(held):
            said.append(
                f"{what} {entry} has no dedicated worker, so its jobs do not come to this group: set dedicated_worker "
                "on it and deploy it"
            )
    return said
