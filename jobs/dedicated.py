"""Dedicated tags: the jobs of a script or flow with `dedicated_worker` have a tag of their own, which names it.

`{workspace}:{path}` of a script, `{workspace}:flow/{path}` of a flow (reference/queue.md section 4). The
same texts, never shortened, name it in the configuration of worker groups.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.models import Language
from workspaces.errors import BadRequest

# What one process can run many times: its runtime loads a script once and calls it again and again.
LANGUAGES = (Language.PYTHON3, Language.BUN, Language.BUNNATIVE, Language.NATIVETS, Language.DENO)
MAX_TAG = 50  # characters; longer ones are cut, and told apart by a digest of the whole
_CUT = 33
_FLOW = "flow/"


@dataclass(frozen=True, slots=True)
class Dedicated:
    """A script or flow that workers are dedicated to."""

    workspace_id: str
    path: str
    is_flow: bool = False

    def __str__(self) -> str:
        return f"{self.workspace_id}:{_FLOW if self.is_flow else ''}{self.path}"

    @property
    def tag(self) -> str:
        """The tag of its jobs; for a flow, also of the steps."""
        whole = str(self)
        if len(whole) <= MAX_TAG:
            return whole
        return f"{whole[:_CUT]}#{hashlib.sha256(whole.encode()).hexdigest()[:16]}"


def is_dedicated(extra: Mapping[str, Any]) -> bool:
    """Whether a script or flow with these further settings (`Script.extra`, `Flow.extra`) has a dedicated worker."""
    return extra.get("dedicated_worker") is True


def shown_tag(extra: Mapping[str, Any], workspace_id: str, path: str, *, is_flow: bool = False) -> str:
    """The tag of its jobs, for its page; "" without a dedicated worker."""
    return Dedicated(workspace_id, path, is_flow).tag if is_dedicated(extra) else ""


def wished(extra: Mapping[str, Any], wish: Any) -> dict[str, Any]:
    """These further settings with a dedicated worker (`wish` is true) or without one (false or None).

    Raises BadRequest: the wish is something else.
    """
    if wish is not None and not isinstance(wish, bool):
        raise BadRequest("dedicated_worker should be true or false")
    if wish:
        return {**extra, "dedicated_worker": True}
    return {name: value for name, value in extra.items() if name != "dedicated_worker" or value is not True}


def parse(entry: str) -> Dedicated:
    """`acme:f/ops/report` or `acme:flow/f/ops/report`. Raises BadRequest for anything else."""
    workspace_id, separator, path = entry.strip().partition(":")
    is_flow = path.startswith(_FLOW)
    path = path.removeprefix(_FLOW)
    kind, *rest = path.split("/")
    if not (separator and workspace_id and kind in ("u", "f") and len(rest) >= 2 and all(rest)):
        raise BadRequest(
            f"{entry[:100]!r} names no script or flow; expected workspace:path (acme:f/ops/report), "
            "of a flow workspace:flow/path (acme:flow/f/ops/nightly)"
        )
    return Dedicated(workspace_id, path, is_flow)


def is_entry(text: str) -> bool:
    """Whether `text` has the form of such a name."""
    try:
        parse(text)
    except BadRequest:
        return False
    return True


def is_of_flow(tag: str, workspace_id: str) -> bool:
    """Whether a tag is that of a dedicated flow of this workspace."""
    return tag[:_CUT].startswith(f"{workspace_id}:{_FLOW}"[:_CUT]) and ":" in tag[:_CUT]


def has_process(tag: str, workspace_id: str, path: str | None, step_id: str | None) -> bool:
    """Whether a job is for a process that stays: of its script, or of this step of a dedicated flow."""
    if step_id is not None and is_of_flow(tag, workspace_id):
        return True
    return path is not None and tag == Dedicated(workspace_id, path).tag


def check_language(language: str) -> None:
    """Raises BadRequest for a script whose language cannot have a dedicated worker."""
    if language not in LANGUAGES:
        raise BadRequest(
            f"dedicated_worker is for scripts in {', '.join(LANGUAGES[:-1])} and {LANGUAGES[-1]}, which one process can "
            f"run again and again; this one is in {language}. Send dedicated_worker=false, or leave it out"
        )
