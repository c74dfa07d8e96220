"""The instance's custom tags: who uses them, which workers take them, and changing one without losing another."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from django.db import connection, transaction

from jobs.models import Script
from workers.fleet import live_workers
from workspaces import custom_tags, instance_settings
from workspaces.access import Identity
from workspaces.custom_tags import SETTING, CustomTag
from workspaces.errors import Conflict, NotFound
from workspaces.models import InstanceSetting, Workspace

_VARIABLE_PART = re.compile(r"\$workspace|\$args\[[^\]]*\]")


@dataclass(frozen=True, kw_only=True)
class ShownTag:
    """A tag and what is known of its use."""

    tag: CustomTag
    script_count: int  # deployed scripts that ask for it
    flow_count: int  # deployed flows that ask for it, themselves or in a step
    worker_count: int  # live workers that take it; of a tag with variable parts: one like it
    worker_groups: tuple[str, ...]  # theirs

    def matches(self, search: str) -> bool:
        """Whether its entry holds `search` (lower case): the tag, or a workspace that it is kept for."""
        return search in self.tag.text.lower()

    @property
    def is_variable(self) -> bool:
        """Whether the tag of a job is only known when it is run."""
        return "$" in self.tag.name


@dataclass(frozen=True, kw_only=True)
class Use:
    """A deployed script or flow that asks for a tag."""

    kind: str  # script, flow
    workspace_id: str
    path: str


def list_tags() -> list[ShownTag]:
    """All custom tags, in the order of the setting. Whoever shows them decides who may see them."""
    tags = custom_tags.parse_known(_value())
    names = [tag.name for tag in tags]
    scripts = _count(Script.objects.filter(archived=False, deleted=False, tag__in=names).values_list("tag"))
    flows = _flows_by_tag(names)
    groups_by_tag: defaultdict[str, list[tuple[str, str]]] = defaultdict(
        list
    )  # live workers with their group
    for worker, group, taken in live_workers.live().values_list("worker", "worker_group", "custom_tags"):
        for name in set(taken):
            groups_by_tag[name].append((worker, group))
    shown = []
    for tag in tags:
        alike = filter(_pattern(tag.name).fullmatch, groups_by_tag) if "$" in tag.name else [tag.name]
        takers = dict(pair for name in alike for pair in groups_by_tag.get(name, ()))
        groups = list(takers.values())
        shown.append(
            ShownTag(
                tag=tag,
                script_count=scripts[tag.name],
                flow_count=flows[tag.name],
                worker_count=len(groups),
                worker_groups=tuple(sorted(set(groups))),
            )
        )
    return shown


def uses(name: str, *, limit: int = 200) -> list[Use]:
    """Scripts, then flows, that ask for this tag, by workspace and path. Whoever shows them decides who may see them."""
    scripts = Script.objects.filter(archived=False, deleted=False, tag=name).order_by("workspace_id", "path")
    found = [
        Use(kind="script", workspace_id=workspace_id, path=path)
        for workspace_id, path in scripts.values_list("workspace_id", "path")[:limit]
    ]
    with connection.cursor() as cursor:
        cursor.execute(_FLOWS_BY_TAG, {"names": [name]})
        flows = sorted((workspace_id, path) for _, workspace_id, path in cursor.fetchall())
    found += [Use(kind="flow", workspace_id=workspace_id, path=path) for workspace_id, path in flows]
    return found[:limit]


def get(name: str) -> CustomTag:
    """The tag of that name. NotFound."""
    tag = custom_tags.find(custom_tags.parse_known(_value()), name)
    if tag is None:
        raise NotFound(f"there is no custom tag {name[:60]!r}")
    return tag


def add(tag: CustomTag, *, actor: Identity) -> None:
    """Offer one more tag. For superadmins. BadRequest (it is not valid), Conflict (there is one), PermissionDenied."""

    def with_it(tags: list[CustomTag]) -> list[CustomTag]:
        if custom_tags.find(tags, tag.name) is not None:
            raise Conflict(f"custom tag {tag.name} exists already; change that one")
        return [*tags, tag]

    _change(with_it, actor)


def replace(name: str, tag: CustomTag, *, actor: Identity) -> None:
    """Make the tag `name` this one. Raises as `add` does, and NotFound."""

    def with_it_instead(tags: list[CustomTag]) -> list[CustomTag]:
        if custom_tags.find(tags, name) is None:
            raise NotFound(f"there is no custom tag {name[:60]!r} any more")
        if tag.name != name and custom_tags.find(tags, tag.name) is not None:
            raise Conflict(f"custom tag {tag.name} exists already; change that one")
        return [tag if held.name == name else held for held in tags]

    _change(with_it_instead, actor)


def remove(name: str, *, actor: Identity) -> None:
    """Offer a tag no more. Jobs may still ask for it by name, everywhere. NotFound, PermissionDenied."""

    def without_it(tags: list[CustomTag]) -> list[CustomTag]:
        if custom_tags.find(tags, name) is None:
            raise NotFound(f"there is no custom tag {name[:60]!r} any more")
        return [held for held in tags if held.name != name]

    _change(without_it, actor)


def unknown_workspaces(tag: CustomTag) -> list[str]:
    """Workspaces of a restriction that do not exist: they may come later, or be misspelt."""
    known = set(Workspace.objects.filter(pk__in=tag.workspaces).values_list("pk", flat=True))
    return [name for name in tag.workspaces if name not in known]


def _change(decide: Callable[[list[CustomTag]], list[CustomTag]], actor: Identity) -> None:
    actor.require_super_admin()
    with transaction.atomic():
        InstanceSetting.objects.get_or_create(pk=SETTING, defaults={"value": []})
        row = InstanceSetting.objects.select_for_update().get(pk=SETTING)
        tags = decide(custom_tags.parse_known(row.value))
        instance_settings.set_setting(actor, SETTING, [tag.text for tag in tags])


def _value() -> object:
    row = InstanceSetting.objects.filter(pk=SETTING).first()
    return None if row is None else row.value


def _count(rows: Iterable[tuple[str | None]]) -> Counter[str]:
    return Counter(tag for (tag,) in rows if tag is not None)


def _flows_by_tag(names: list[str]) -> Counter[str]:
    """Live flows by the tags that they ask for, each flow once a tag."""
    if not names:
        return Counter()
    with connection.cursor() as cursor:
        cursor.execute(_FLOWS_BY_TAG, {"names": names})
        return Counter(tag for tag, _, _ in cursor.fetchall())


_FLOWS_BY_TAG = """
SELECT DISTINCT asked.tag, flow.workspace_id, flow.path
  FROM flow
  JOIN flow_version AS version ON version.id = flow.version_id
 CROSS JOIN LATERAL (
       SELECT flow.tag
        UNION SELECT found #>> '{}' FROM jsonb_path_query(version.value::jsonb, '$.**.tag') AS found
        UNION SELECT found #>> '{}' FROM jsonb_path_query(version.value::jsonb, '$.**.tag_override') AS found
       ) AS asked
 WHERE NOT flow.archived AND asked.tag = ANY(%(names)s::text[])
"""


@lru_cache(maxsize=1024)
def _pattern(name: str) -> re.Pattern[str]:
    """What the tags of workers look like that take jobs with this tag."""
    return re.compile(".+".join(re.escape(part) for part in _VARIABLE_PART.split(name)))
