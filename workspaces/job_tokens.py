"""WM_TOKEN: what a running job calls the API with. Signed, not stored (DESIGN.md decision 14).

A JWT (HS256 under a key derived from SECRET_KEY) with the prefix `jwt_`. It says whose rights the job has; the rights
themselves are looked up at each use, so a revoked right is gone at once.
"""

import hashlib
import hmac
import time
from base64 import urlsafe_b64encode
from functools import lru_cache
from typing import Any
from uuid import UUID

import jwt
import orjson
from django.conf import settings

from workspaces.errors import NotSignedIn

PREFIX = "jwt_"
_ALGORITHM = "HS256"


# What PyJWT would write in front of each token. We sign them ourselves, and have it read them: a warm process takes
# thousands of tokens a second, and its `encode` takes as long as all the rest of such a job (it looks at the key anew).
_HEADER = b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."


def _key() -> bytes:
    return _key_from(settings.SECRET_KEY)


@lru_cache(maxsize=4)
def _key_from(secret_key: str) -> bytes:
    return hmac.digest(secret_key.encode(), b"windmill job token", hashlib.sha256)


def _signature(signed: bytes) -> bytes:
    begun = _begun(_key()).copy()
    begun.update(signed)
    return begun.digest()


@lru_cache(maxsize=4)
def _begun(key: bytes) -> hmac.HMAC:
    """A signature of nothing yet. To copy it takes a fifth of the time of a new one, which looks up the algorithm."""
    return hmac.new(key, digestmod="sha256")


def _encoded(part: bytes) -> bytes:
    return urlsafe_b64encode(part).rstrip(b"=")


def issue(
    *,
    workspace_id: str,
    email: str,
    username: str,
    permissioned_as: str,
    job_id: UUID,
    attempt: int,
    expires_in_s: float,
    label: str = "ephemeral-script",
) -> str:
    """A token for one attempt at a job: one that was given to another worker has no rights left. Costs no query."""
    now = int(time.time())
    claims = {
        "email": email,
        "username": username,
        "permissioned_as": permissioned_as,
        "workspace_id": workspace_id,
        "job_id": str(job_id),
        "attempt": attempt,
        "label": label,
        "iat": now,
        "exp": now + int(expires_in_s) + 1,
    }
    signed = _HEADER + _encoded(orjson.dumps(claims))
    signature = _encoded(_signature(signed))
    return f"{PREFIX}{signed.decode()}.{signature.decode()}"


def read(token: str) -> dict[str, Any]:
    """The claims of a valid token. Raises NotSignedIn for a forged, broken or expired one."""
    try:
        claims: dict[str, Any] = jwt.decode(
            token.removeprefix(PREFIX),
            _key(),
            algorithms=[_ALGORITHM],
            options={
                "verify_iat": False,  # the clock of the worker that made it may be ahead of ours
                "require": [
                    "exp",
                    "email",
                    "username",
                    "permissioned_as",
                    "workspace_id",
                    "job_id",
                    "attempt",
                ],
            },
        )
        UUID(claims["job_id"])
    except jwt.ExpiredSignatureError as exc:
        raise NotSignedIn("the token of this job has expired") from exc
    except (jwt.InvalidTokenError, ValueError, TypeError) as exc:
        raise NotSignedIn("this is not a valid job token") from exc
    return claims
