"""A job's arguments as its code gets them: `$var:` and `$res:` replaced, with the rights of whom the job runs as."""

from typing import Any

from jobs.queue import Claim
from workers.threads import in_thread
from workspaces.access import caller_for_job
from workspaces.references import has_references, interpolate


async def resolve(claim: Claim) -> tuple[dict[str, Any], list[str]]:
    """The arguments, and the secrets among them (to be masked in the log).

    Raises DomainError, with a sentence for the author, for a reference that cannot be replaced, and django.db's
    OperationalError while the database is away.
    """
    args = claim.args or {}
    if not has_references(args):  # almost every job: no thread, no query
        return args, []
    return await in_thread(_interpolate, claim, args)


def _interpolate(claim: Claim, args: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    caller = caller_for_job(
        workspace_id=claim.workspace_id,
        email=claim.permissioned_as_email,
        username=token_username(claim),
        permissioned_as=claim.permissioned_as,
        job_id=claim.id,
    )
    value, secrets = interpolate(args, caller=caller)
    return value, secrets


def token_username(claim: Claim) -> str:
    """The name under which the job acts: its user's, or that of whoever started it when it acts for a group."""
    kind, _, name = claim.permissioned_as.partition("/")
    return name if kind == "u" else claim.created_by
