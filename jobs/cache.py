"""Results that are good for further jobs with the same code and arguments (cache_ttl).

The key of a result is the SHA-256 of everything that the job was given:
  - the workspace (a column of the row too, which every look-up names);
  - what runs: a deployed script by its hash, a deployed flow by its version, inline code and previews by their text;
  - the arguments as they are stored with the job. References ($res:, $var:) stay references: a secret is in no key, and
    a change of what they name is not noticed before the result expires.
Whose job it is counts too, except where the author of a deployed script or flow has asked for the cache: its results are
good for all who may run it. Anywhere else (steps, previews, arguments with references) it is the caller who decides what
is cached or read, and nobody shall find what somebody with other rights has read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from jobs.models import CachedResult, JobKind
from jobs.queue import Claim
from workspaces.references import has_references

MAX_BYTES = 10_000_000  # of a result; larger ones are not kept


@dataclass(frozen=True, slots=True)
class Hit:
    """A result that may be used again."""

    job_id: UUID  # that computed it
    result: str  # JSON text

    @property
    def log_line(self) -> str:
        """What the log of the job that did not run says."""
        return f"Result from cache of job {self.job_id}\n"


def key_of_script(claim: Claim, *, flow_env: Mapping[str, Any] | None = None) -> str:
    """The key of a job that runs code; `flow_env` of the flow around it becomes variables, so it counts."""
    what = {
        "script": claim.runnable_id,
        "path": claim.runnable_path,
        "language": claim.language,
        "code": claim.code if claim.runnable_id is None else None,
        "entrypoint": claim.script_entrypoint_override,
        "preprocess": claim.has_preprocessor,
        "flow_env": dict(flow_env) if flow_env else None,
    }
    return _key(
        what,
        workspace_id=claim.workspace_id,
        args=claim.args,
        permissioned_as=claim.permissioned_as,
        is_shared=claim.kind == JobKind.SCRIPT and claim.flow_step_id is None,
    )


@dataclass(frozen=True, slots=True)
class CachedFlow:
    """A flow job as its key sees it (flow_for_cache.sql)."""

    workspace_id: str
    kind: str
    version_id: int | None
    value_hash: str | None  # of flows that are not deployed
    args: dict[str, Any] | None
    permissioned_as: str
    ttl_s: int | None
    is_step: bool
    is_new: bool  # it has not begun

    @property
    def key(self) -> str:
        """Of a deployed flow by its version, of others by what they say."""
        return _key(
            {"flow_version": self.version_id, "flow": self.value_hash},
            workspace_id=self.workspace_id,
            args=self.args,
            permissioned_as=self.permissioned_as,
            is_shared=self.kind == JobKind.FLOW and not self.is_step,
        )


def _key(
    what: Mapping[str, Any],
    *,
    workspace_id: str,
    args: Mapping[str, Any] | None,
    permissioned_as: str,
    is_shared: bool,
) -> str:
    given = {"args": dict(args or {}), "what": dict(what)}
    by_caller = not is_shared or has_references([given["args"], what.get("flow_env")])
    whole = {"workspace": workspace_id, **given, "as": permissioned_as if by_caller else None}
    return hashlib.sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def too_large(result: str) -> bool:
    """Whether a result (JSON text) is too large to be kept."""
    return len(result) > MAX_BYTES // 4 and len(result.encode("utf-8", "surrogatepass")) > MAX_BYTES


TOO_LARGE = f"The result is not cached: it has more than {MAX_BYTES // 1_000_000} MB\n"


def prune() -> int:
    """Forget results that have expired. Answers how many."""
    return CachedResult.objects.filter(expires_at__lt=Now()).delete()[0]
