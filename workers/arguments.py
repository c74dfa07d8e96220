"""A job's arguments as its code gets them: `$var:` and `$res:` replaced, with the rights of whom the job runs as."""

from collections.abc import Mapping
from typing import Any

from jobs.models import Language
from jobs.queue import Claim, NarrowClaim
from jobs.signatures.sql import DATABASE, PINNING_LANGUAGES, pinned_database, resource_literals
from workers.threads import in_thread
from workspaces.access import Caller, caller_for_job
from workspaces.references import has_references, interpolate


async def resolve(
    claim: Claim, flow_env: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The arguments, the flow's environment (`flow_env` of the flow around a step), and the secrets among them (to be
    masked in the log).

    Raises DomainError, with a sentence for the author, for a reference that cannot be replaced, and django.db's
    OperationalError while the database is away.
    """
    whole = {"args": _with_pinned(claim), "env": dict(flow_env or {})}
    secrets: list[str] = []
    if has_references(whole):  # almost no job: a thread and queries
        whole, secrets = await in_thread(_interpolate, claim, whole)
    return whole["args"], whole["env"], secrets


def _with_pinned(claim: Claim) -> dict[str, Any]:
    """The arguments, and the resources that SQL names itself: the pinned database, and what DuckDB attaches."""
    args = claim.args or {}
    language, code = claim.language or "", claim.code or ""
    if language in PINNING_LANGUAGES:
        path = pinned_database(code, language)
        return args if path is None else {**args, DATABASE: f"$res:{path}"}
    if language == Language.DUCKDB:
        named = [f"$res:{path}" for _, path in resource_literals(code)]
        return {**args, **dict(zip(named, named, strict=True))}
    return args


def _interpolate(claim: Claim, value: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    replaced, secrets = interpolate(value, caller=caller_of(claim))
    return replaced, secrets


def caller_of(claim: Claim) -> Caller:
    """Whom the job acts as, inside its workspace."""
    return caller_for_job(
        workspace_id=claim.workspace_id,
        email=claim.permissioned_as_email,
        username=token_username(claim),
        permissioned_as=claim.permissioned_as,
        job_id=claim.id,
    )


def token_username(claim: Claim | NarrowClaim) -> str:
    """The name under which the job acts: its user's, or that of whoever started it when it acts for a group."""
    kind, _, name = claim.permissioned_as.partition("/")
    return name if kind == "u" else claim.created_by
