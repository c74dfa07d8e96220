"""Tokens: make, check, list, delete. The text of a token is shown once; the table holds its SHA-256."""

import hashlib
import hmac
import secrets
import string
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from workspaces import audit, job_tokens
from workspaces.access import SUPERADMIN_SECRET_EMAIL, Identity, identity_for_job, workspaces_of
from workspaces.errors import BadRequest, NotFound, NotSignedIn
from workspaces.models import Account, ActionKind, Token, Workspace
from workspaces.pairs import fetch_pair
from workspaces.scopes import check_scopes

TOKEN_LENGTH = 32  # characters (reference/governance.md section 4)
PREFIX_LENGTH = 10
SESSION = "session"  # label of the tokens behind sign-ins
_ALPHABET = string.ascii_letters + string.digits
# last_used_at is for people: writing it at every request would make each read a write.
_LAST_USED_EVERY = timedelta(minutes=1)


def hash_token(text: str) -> str:
    """What the table keeps. Tokens are 190 random bits, so a plain hash is enough."""
    return hashlib.sha256(text.encode()).hexdigest()


def authenticate(text: str) -> Identity:
    """Who presents this token. Raises NotSignedIn: unknown, expired, of a disabled account, of a job that is over."""
    if not text or len(text) > 4096 or "\x00" in text:
        raise NotSignedIn("no valid token was given; send Authorization: Bearer <token>")
    if text.startswith(job_tokens.PREFIX):
        return _authenticate_job(text)
    secret = settings.SUPERADMIN_SECRET
    if secret is not None and hmac.compare_digest(text.encode(), secret.encode()):
        return Identity(email=SUPERADMIN_SECRET_EMAIL, super_admin=True, token_label="superadmin secret")
    token, account = fetch_pair(
        Token, Account, on="r.email = l.email", where="l.token_hash = %s", values=[hash_token(text)]
    )
    now = timezone.now()
    if token is None or (token.expiration is not None and token.expiration <= now):
        raise NotSignedIn("this token is unknown or has expired; sign in again or make a new one")
    if account is None or account.disabled:
        raise NotSignedIn("the account of this token is disabled or gone")
    if now - token.last_used_at > _LAST_USED_EVERY:
        Token.objects.filter(pk=token.pk).update(last_used_at=Now())
    return Identity(
        email=account.email,
        super_admin=account.super_admin,
        devops=account.devops,
        account=account,
        token_hash=token.token_hash,
        token_label=token.label,
        scopes=tuple(token.scopes) if token.scopes is not None else None,
        workspace_id=token.workspace_id,
        read_only=token.read_only,
    )


def _authenticate_job(text: str) -> Identity:
    claims = job_tokens.read(text)
    job_id = UUID(claims["job_id"])
    # The queue belongs to the app above this one, so the question is asked in SQL: is this job running now?
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM queue WHERE id = %s AND workspace_id = %s AND running AND attempt = %s",
            [job_id, claims["workspace_id"], claims["attempt"]],
        )
        if cursor.fetchone() is None:
            raise NotSignedIn("the job of this token is not running any more")
    return identity_for_job(
        workspace_id=claims["workspace_id"],
        email=claims["email"],
        username=claims["username"],
        permissioned_as=claims["permissioned_as"],
        job_id=job_id,
        token_label=claims.get("label"),
    )


def create_token(
    identity: Identity,
    *,
    label: str | None = None,
    expiration: datetime | None = None,
    scopes: list[str] | None = None,
    workspace_id: str | None = None,
    read_only: bool = False,
) -> str:
    """Make a token for the caller's own account and return its text, for the only time.

    A token never gets more than the one it was made with: scopes, workspace and read-only carry over.
    Raises BadRequest, NotFound (workspace).
    """
    if identity.account is None:
        raise BadRequest("this identity has no account, so no tokens can be made for it")
    scopes = check_scopes(scopes)
    if identity.scopes is not None and (scopes is None or not set(scopes) <= set(identity.scopes)):
        raise BadRequest("a token with scopes can only make tokens with the same or fewer scopes")
    workspace_id = workspace_id or identity.workspace_id
    if workspace_id is not None and not workspaces_of(identity).filter(pk=workspace_id).exists():
        raise NotFound(f"workspace {workspace_id[:60]} does not exist, or you are not a member of it")
    text = _store(
        email=identity.email,
        label=label,
        expiration=expiration,
        scopes=scopes,
        workspace_id=workspace_id,
        read_only=read_only or identity.read_only,
    )
    audit.record(
        identity,
        "users.token.create",
        ActionKind.CREATE,
        resource=text[:PREFIX_LENGTH],
        parameters={"label": label},
    )
    return text


def create_impersonation(
    by: Identity,
    *,
    email: str,
    label: str | None = None,
    expiration: datetime | None = None,
    workspace_id: str | None = None,
) -> str:
    """A token that acts as somebody else, for superadmins; written to the audit log. NotFound, PermissionDenied."""
    by.require_super_admin()
    by.require_global()
    if not Account.objects.filter(pk=email).exists():
        raise NotFound(f"account {email[:255]} does not exist")
    if workspace_id is not None and not Workspace.objects.filter(pk=workspace_id, deleted=False).exists():
        raise NotFound(f"workspace {workspace_id[:60]} does not exist")
    text = _store(
        email=email,
        label=label or f"impersonated by {by.email}"[:255],
        expiration=expiration,
        scopes=list(by.scopes) if by.scopes is not None else None,
        workspace_id=workspace_id,
        read_only=by.read_only,
    )
    audit.record(
        by,
        "users.impersonate",
        ActionKind.EXECUTE,
        resource=email,
        parameters={"token": text[:PREFIX_LENGTH]},
    )
    return text


def _store(*, label: str | None, **columns: Any) -> str:
    if label is not None and len(label) > 255:
        raise BadRequest("label is longer than 255 characters")
    text = "".join(secrets.choice(_ALPHABET) for _ in range(TOKEN_LENGTH))
    Token.objects.create(
        token_hash=hash_token(text), token_prefix=text[:PREFIX_LENGTH], label=label, **columns
    )
    return text


def list_tokens(identity: Identity, *, exclude_ephemeral: bool = False) -> QuerySet[Token]:
    """The caller's own tokens that are still good, newest first. Ephemeral ones are those of sign-ins."""
    alive = Q(expiration__isnull=True) | Q(expiration__gt=Now())
    rows = Token.objects.filter(alive, email=identity.email).order_by("-created_at", "token_hash")
    return rows.exclude(label__startswith="ephemeral") if exclude_ephemeral else rows


def relabel_token(identity: Identity, prefix: str, *, label: str | None) -> None:
    """Give the caller's own token another label. BadRequest, NotFound."""
    if label is not None and len(label) > 255:
        raise BadRequest("label is longer than 255 characters")
    if label == "session":
        raise BadRequest("label session is kept for sign-ins; choose another")
    if not _own_tokens(identity, prefix).update(label=label):
        raise _no_such_token(prefix)
    audit.record(
        identity, "users.token.update", ActionKind.UPDATE, resource=prefix, parameters={"label": label}
    )


def rescope_token(identity: Identity, prefix: str, *, scopes: list[str] | None) -> None:
    """Give the caller's own token other scopes, never more than the calling token has. BadRequest, NotFound."""
    scopes = check_scopes(scopes)
    if identity.scopes is not None and (scopes is None or not set(scopes) <= set(identity.scopes)):
        raise BadRequest("a token with scopes can only give the same or fewer scopes")
    if not _own_tokens(identity, prefix).update(scopes=scopes):
        raise _no_such_token(prefix)
    audit.record(
        identity, "users.token.update", ActionKind.UPDATE, resource=prefix, parameters={"scopes": scopes}
    )


def token_shape(token: Token) -> dict[str, Any]:
    """TruncatedToken of the API."""
    return {
        "label": token.label,
        "expiration": token.expiration,
        "token_prefix": token.token_prefix,
        "created_at": token.created_at,
        "last_used_at": token.last_used_at,
        "scopes": token.scopes,
        "email": token.email,
        "workspace_id": token.workspace_id,
        "read_only": token.read_only,
    }


def _own_tokens(identity: Identity, prefix: str) -> QuerySet[Token]:
    return Token.objects.filter(email=identity.email, token_prefix=prefix)


def _no_such_token(prefix: str) -> NotFound:
    return NotFound(f"you have no token that starts with {prefix[:PREFIX_LENGTH]!r}")


def create_session(account: Account) -> str:
    """The token behind a browser sign-in: expires after SESSION_DAYS, label `session`."""
    identity = Identity(email=account.email, super_admin=account.super_admin, account=account)
    return create_token(
        identity, label=SESSION, expiration=timezone.now() + timedelta(days=settings.SESSION_DAYS)
    )


def delete_token(identity: Identity, prefix: str) -> None:
    """Delete the caller's own tokens with this prefix. Raises NotFound."""
    deleted, _ = _own_tokens(identity, prefix).delete()
    if not deleted:
        raise _no_such_token(prefix)
    audit.record(identity, "users.token.delete", ActionKind.DELETE, resource=prefix)


def end_session(text: str) -> None:
    """Forget one token by its text (sign-out). Unknown ones are fine."""
    token = Token.objects.filter(token_hash=hash_token(text)).first()
    if token is not None:
        token.delete()
        audit.record(Identity(email=token.email), "users.logout", ActionKind.EXECUTE)


def revoke_tokens(by: Identity, hashes: list[str]) -> int:
    """Delete anybody's tokens, for superadmins; answers how many."""
    by.require_super_admin()
    rows = list(Token.objects.filter(token_hash__in=hashes))
    for token in rows:
        token.delete()
        audit.record(
            by,
            "users.token.delete",
            ActionKind.DELETE,
            resource=token.token_prefix,
            parameters={"of": token.email},
        )
    return len(rows)
