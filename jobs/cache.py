"""Results that are good for further jobs with the same code and arguments (cache_ttl).

The key of a result is the SHA-256 of everything that the job was given:
  - the workspace (a column of the row too, which every look-up names);
  - what runs: a deployed script by its path, language, code and settings, a deployed flow by its version, inline code and
    previews by their text or value;
  - the arguments as they are stored with the job. References ($res:, $var:) stay references: a secret is in no key, and
    a change of what they name is not noticed before the result expires.
Whose job it is counts where the caller decides what is read: inline code, and arguments with references. A deployed
script or flow that asks for a cache shares its results among all who may run it.
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
_DEPLOYED = frozenset({JobKind.SCRIPT, JobKind.FLOW})


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
    return _key(
        claim,
        {
            "path": claim.runnable_path,
            "language": claim.language,
            "code": claim.code,
            "entrypoint": claim.script_entrypoint_override,
            "envs": claim.envs,
            "flow_env": flow_env or None,
        },
        flow_env,
    )


def key_of_flow(claim: Claim, *, version_id: int | None, value: Mapping[str, Any] | None = None) -> str:
    """The key of a flow job: of a deployed flow by its version, of others by their FlowValue."""
    what = {"flow_version": version_id} if version_id is not None else {"flow": value}
    return _key(claim, {**what, "is_preview": claim.kind != JobKind.FLOW}, None)


def _key(claim: Claim, what: dict[str, Any], more: Mapping[str, Any] | None) -> str:
    args = claim.args or {}
    by_caller = claim.kind not in _DEPLOYED or has_references([args, dict(more or {})])
    whole = {
        "workspace": claim.workspace_id,
        "runs": what,
        "preprocess": claim.has_preprocessor,
        "args": args,
        "as": claim.permissioned_as if by_caller else None,
    }
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def too_large(result: str) -> bool:
    """Whether a result (JSON text) is too large to be kept."""
    return len(result) > MAX_BYTES // 4 and len(result.encode("utf-8", "surrogatepass")) > MAX_BYTES


TOO_LARGE = f"The result is not cached: it has more than {MAX_BYTES // 1_000_000} MB\n"


def prune() -> int:
    """Forget results that have expired. Answers how many."""
    return CachedResult.objects.filter(expires_at__lt=Now()).delete()[0]
