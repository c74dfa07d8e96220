"""Encryption at rest of secret variables (DESIGN.md decision 13).

Each workspace has a key of its own (Fernet: AES-128-CBC with HMAC-SHA256), kept encrypted under the instance key, which
is derived from ENCRYPTION_KEY (SECRET_KEY when that is not set). Moving a workspace elsewhere needs only its key.
"""

import base64
import hashlib
import hmac

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import IntegrityError, transaction

from workspaces.errors import DomainError
from workspaces.models import WorkspaceKey


class CannotDecrypt(DomainError):
    """The ciphertext or the workspace key was made under another key."""

    code, http_status, prefix = "cannot_decrypt", 500, "Internal error"


def _instance_cipher() -> Fernet:
    key = hashlib.scrypt(
        settings.ENCRYPTION_KEY.encode(), salt=b"windmill instance key", n=2**10, r=8, p=1, dklen=32
    )
    return Fernet(base64.urlsafe_b64encode(key))


_keys: dict[tuple[str, str], bytes] = {}


def _workspace_key(workspace_id: str) -> bytes:
    """The key of a workspace, made at first use. Decrypted keys are kept by their stored form."""
    row = WorkspaceKey.objects.filter(workspace_id=workspace_id).first()
    if row is None:
        stored = _instance_cipher().encrypt(Fernet.generate_key()).decode()
        try:
            with transaction.atomic():
                row = WorkspaceKey.objects.create(workspace_id=workspace_id, key=stored)
        except IntegrityError:  # another process made it at the same moment
            row = WorkspaceKey.objects.get(workspace_id=workspace_id)
    known = _keys.get((workspace_id, row.key))
    if known is None:
        try:
            known = _instance_cipher().decrypt(row.key.encode())
        except InvalidToken as exc:
            raise CannotDecrypt(
                f"the key of workspace {workspace_id} was made under another ENCRYPTION_KEY (or SECRET_KEY); "
                "start with that one"
            ) from exc
        _keys[workspace_id, row.key] = known
    return known


def _workspace_cipher(workspace_id: str) -> Fernet:
    return Fernet(_workspace_key(workspace_id))


def sign(workspace_id: str, message: bytes) -> str:
    """HMAC-SHA256 of a message under the workspace's key: 64 lower-case hex digits. The workspace must exist."""
    return hmac.new(_workspace_key(workspace_id), message, hashlib.sha256).hexdigest()


def encrypt(workspace_id: str, value: str) -> str:
    """Ciphertext of `value`, base64 text."""
    return _workspace_cipher(workspace_id).encrypt(value.encode()).decode()


def decrypt(workspace_id: str, ciphertext: str) -> str:
    """The plain value. Raises CannotDecrypt."""
    try:
        return _workspace_cipher(workspace_id).decrypt(ciphertext.encode()).decode()
    except (InvalidToken, UnicodeDecodeError) as exc:
        raise CannotDecrypt("this secret was encrypted with another key; set its value again") from exc
