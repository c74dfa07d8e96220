"""Drafts: what one person is writing at one path, kept until they deploy or discard it. The only writer of `draft`.

A draft is private: only its author reads it. It remembers the version it began from (`base_hash`), which tells later
whether somebody else deployed meanwhile.
"""

import json
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from jobs.models import Draft
from workspaces.access import Caller
from workspaces.errors import BadRequest
from workspaces.jsontext import check_storable
from workspaces.names import parse_path

MAX_SIZE = 10_000_000  # characters of a draft as JSON


def get_draft(caller: Caller, path: str, *, kind: str = "script") -> Draft | None:
    """The caller's own draft at `path`. `kind` is script or flow."""
    return _of(caller, path, kind).first()


def save_draft(
    caller: Caller,
    path: str,
    value: dict[str, Any],
    *,
    base_hash: int | None,
    was: str | None = None,
    kind: str = "script",
) -> datetime:
    """Keep `value` (the editor's state, a JSON object) as the caller's draft at `path`; answer when.

    `base_hash` is the version that the work began from, None for something new. `was` is the path at which the draft
    was kept until now, when its author has just chosen another one. Raises BadRequest, PermissionDenied (operators).
    """
    caller.require_not_operator()
    caller.identity.require_scope("drafts", "write")
    parse_path(path)
    check_storable(value)
    if len(json.dumps(value)) > MAX_SIZE:
        raise BadRequest(f"the draft of {path} is larger than {MAX_SIZE} characters; it was not kept")
    with transaction.atomic():
        if was is not None and was != path:
            _of(caller, was, kind).delete()
        draft, _ = Draft.objects.update_or_create(
            workspace=caller.workspace,
            email=caller.email,
            kind=kind,
            path=path,
            defaults={"value": value, "base_hash": base_hash, "edited_at": Now()},
        )
    draft.refresh_from_db(fields=["edited_at"])
    return draft.edited_at


def discard_draft(caller: Caller, path: str, *, kind: str = "script") -> None:
    """Forget the caller's draft at `path`; nothing happens when there is none. Raises PermissionDenied (operators)."""
    caller.require_not_operator()
    caller.identity.require_scope("drafts", "write")
    _of(caller, path, kind).delete()


def _of(caller: Caller, path: str, kind: str) -> QuerySet[Draft]:
    return Draft.objects.filter(workspace=caller.workspace, email=caller.email, kind=kind, path=path)
