"""The tags that a superadmin adds to the default ones, and in which workspaces jobs may ask for each. Pure.

As kept in the instance setting `custom_tags`, a list of texts: `gpu` (everywhere), `gpu(acme+umbra)` (only there),
`gpu(^acme^umbra)` (everywhere but there). `$workspace` and `$args[a.b]` in a tag without a restriction stand for what a
run says, so one entry suggests a tag for each workspace or argument.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from workspaces.errors import BadRequest

SETTING = "custom_tags"
MAX_TAG = 50  # characters: what the tag of a script or flow may have
MAX_TAGS = 1_000
_RESTRICTED = re.compile(r"([\w-]+)\(((?:[\w-]+\+)*[\w-]+|(?:\^[\w-]+)+)\)", re.ASCII)
_PLAIN = re.compile(r"(?:[\w.:/#@+-]|\$workspace|\$args\[[^\[\]\s,()]+\])+", re.ASCII)
_FORMS = "expected gpu, gpu(acme+umbra), gpu(^acme^umbra), or a tag with $workspace or $args[name]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomTag:
    """A tag and where it may be asked for."""

    name: str
    workspaces: tuple[str, ...] = ()  # ids; empty: no restriction
    is_excluding: bool = False  # everywhere but in `workspaces`, rather than only there

    def admits(self, workspace_id: str) -> bool:
        """Whether jobs of this workspace may ask for it."""
        return not self.workspaces or (workspace_id in self.workspaces) is not self.is_excluding

    @property
    def text(self) -> str:
        """As `parse` reads it."""
        if not self.workspaces:
            return self.name
        inside = (
            "".join(f"^{name}" for name in self.workspaces)
            if self.is_excluding
            else "+".join(self.workspaces)
        )
        return f"{self.name}({inside})"


@lru_cache(maxsize=4 * MAX_TAGS)  # every job that asks for a tag looks at all of them
def parse(text: str) -> CustomTag:
    """Raises BadRequest, which quotes the text and gives the forms that are understood."""
    if match := _RESTRICTED.fullmatch(text):
        inside = match[2]
        tag = CustomTag(
            name=match[1],
            workspaces=tuple(dict.fromkeys(name for name in re.split(r"[+^]", inside) if name)),
            is_excluding=inside.startswith("^"),
        )
    elif _PLAIN.fullmatch(text):
        tag = CustomTag(name=text)
    else:
        raise BadRequest(f"custom tag {text[:80]!r} is not valid; {_FORMS}")
    if len(tag.name) > MAX_TAG:
        raise BadRequest(f"custom tag {tag.name[:80]!r} is longer than {MAX_TAG} characters")
    return tag


def parse_all(value: Any) -> list[CustomTag]:
    """A value of the setting. Raises BadRequest: not a list of texts, one that is not valid, a tag named twice."""
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise BadRequest('setting custom_tags must be a list of texts, such as ["gpu", "big(acme+umbra)"]')
    if len(value) > MAX_TAGS:
        raise BadRequest(f"setting custom_tags has {len(value)} tags; at most {MAX_TAGS} fit")
    tags = [parse(text) for text in value]
    seen: set[str] = set()
    for tag in tags:
        if tag.name in seen:
            raise BadRequest(f"custom tag {tag.name} is given twice; say all its workspaces in one entry")
        seen.add(tag.name)
    return tags


def parse_known(value: Any) -> list[CustomTag]:
    """The tags of a value that may have come into the table by another way than `parse_all`.

    A restriction that cannot be read admits nobody: rather a job refused than one on workers that are not for it.
    """
    tags = []
    for text in value if isinstance(value, list) else []:
        if not isinstance(text, str):
            continue
        try:
            tags.append(parse(text))
        except BadRequest:
            name, parenthesis, _ = text.partition("(")
            tags.append(CustomTag(name=name, workspaces=("",) if parenthesis else ()))
    return tags


def find(tags: Sequence[CustomTag], name: str) -> CustomTag | None:
    """The tag of that name."""
    return next((tag for tag in tags if tag.name == name), None)
