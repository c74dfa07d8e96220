"""The environment of a job: what reference/scripts.md section 6 promises, and nothing else of the worker's own."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jobs.queue import Claim, NarrowClaim

# Of the worker's own variables only these reach every job; others need WHITELIST_ENVS or the group's configuration.
_INHERITED = (
    "PATH",
    "TZ",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a step sees of the flow around it."""

    path: str  # of the topmost flow; empty for one without
    env: Mapping[str, Any]  # flow_env of the innermost flow, references in it not replaced


@dataclass(frozen=True, kw_only=True)
class EnvironmentSource:
    """What a worker knows of the environment before it sees a job."""

    base_url: str
    base_internal_url: str
    worker_group: str
    worker_environment: Mapping[str, str]  # of this process
    allowed: Sequence[str] = ()  # names that jobs may see: WHITELIST_ENVS and the group's allow-list
    static: Mapping[str, str] = field(default_factory=dict)  # of the group's configuration

    def missing(self) -> list[str]:
        """Names that are allowed but not set here: worth a warning, the silence confuses users."""
        return [name for name in self.allowed if name not in self.worker_environment]

    def for_host(self) -> dict[str, str]:
        """The variables of a script that prepares the host: no job, no token."""
        return {
            **self._inherited,
            **self.static,
            "WM_BASE_URL": self.base_url,
            "BASE_URL": self.base_url,
            "BASE_INTERNAL_URL": self.base_internal_url,
            "WM_WORKER_GROUP": self.worker_group,
        }

    def build(
        self,
        claim: Claim,
        *,
        token: str,
        flow_path: str = "",
        flow_env: Mapping[str, Any] | None = None,
    ) -> dict[str, str]:
        """The variables of one job. The system's win over the script's, those over the flow's and the group's.

        `flow_path` and `flow_env` (values as they are: references have been replaced) are of the flow around a step.
        """
        return {
            **self._inherited,
            **self.static,
            **_flow_envs(flow_env or {}),
            **_script_envs(claim),
            **self._reserved(claim, token, flow_path),
        }

    @cached_property
    def _inherited(self) -> dict[str, str]:
        # Of one moment: os.environ translates each value each time it is asked.
        return {
            name: self.worker_environment[name]
            for name in (*_INHERITED, *self.allowed)
            if name in self.worker_environment
        }

    def _reserved(self, claim: Claim, token: str, flow_path: str) -> dict[str, str]:
        return {
            "WM_WORKSPACE": claim.workspace_id,
            "WM_BASE_URL": self.base_url,
            "BASE_URL": self.base_url,
            "BASE_INTERNAL_URL": self.base_internal_url,
            "WM_JOB_PATH": claim.runnable_path or "",
            "WM_FLOW_PATH": flow_path,
            "WM_FLOW_STEP_ID": claim.flow_step_id or "",
            "WM_WORKER_GROUP": self.worker_group,
            "WM_END_USER_EMAIL": "",
            "WM_RUNNABLE_ID": "",
            **of_one_job(
                claim,
                token=token,
                path=claim.runnable_path or "",
                flow_path=flow_path,
                step_id=claim.flow_step_id,
            ),
        }


def of_one_job(
    claim: Claim | NarrowClaim, *, token: str, path: str, flow_path: str = "", step_id: str | None = None
) -> dict[str, str]:
    """The variables that differ between jobs of one script, or of one step of a flow."""
    schedule_path = (claim.trigger or "") if claim.trigger_kind == "schedule" else ""
    trigger = claim.created_by if schedule_path else "user"
    if flow_path:
        state_path = f"{flow_path}/{step_id}_{trigger}"
    else:
        state_path = f"{path}/{trigger}" if path else f"u/{claim.created_by}/tmp_state"
    return {
        "WM_TOKEN": token,
        "WM_EMAIL": claim.permissioned_as_email,
        "WM_USERNAME": claim.created_by,
        "WM_JOB_ID": str(claim.id),
        "WM_SCHEDULED_FOR": claim.scheduled_for.isoformat(),
        "WM_FLOW_JOB_ID": str(claim.parent_job or ""),
        "WM_ROOT_FLOW_JOB_ID": str(claim.root_job or claim.parent_job or ""),
        "WM_SCHEDULE_PATH": schedule_path,
        "WM_PERMISSIONED_AS": claim.permissioned_as,
        "WM_STATE_PATH": state_path,
        "WM_STATE_PATH_NEW": "/".join(filter(None, (claim.permissioned_as, path, schedule_path))),
        "WM_OBJECT_PATH": f"{path or 'tmp'}/{int(claim.scheduled_for.timestamp())}_{claim.id}",
    }


def _flow_envs(values: Mapping[str, Any]) -> dict[str, str]:
    """Texts as they are, other values as JSON. What cannot be a variable is left out: expressions see it all the same."""
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in values.items()
        if _NAME.fullmatch(name)
    }
    return {name: text for name, text in texts.items() if "\0" not in text}


def _script_envs(claim: Claim) -> dict[str, str]:
    """The script's own KEY=value lines; malformed ones were refused when it was deployed."""
    pairs = (line.partition("=") for line in claim.envs or ())
    return {key.strip(): value for key, equals, value in pairs if equals and key.strip()}
