"""Settings of the whole instance, kept in the database: each a name and a JSON value."""

import re
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from workspaces import audit, custom_tags, job_limits
from workspaces.access import Identity
from workspaces.errors import BadRequest
from workspaces.models import ActionKind, InstanceSetting

_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")
# Everybody signed in may ask for these: clients need them before they do what they are for.
READABLE_BY_ALL = frozenset({"automate_username_creation", "base_url", "email_domain"})
_WHOLE_NUMBERS = frozenset({"retention_period_secs", "job_default_timeout", "request_size_limit_mb"})
_SWITCHES = frozenset(
    {
        "automate_username_creation",
        "expose_metrics",
        "keep_job_dir",
        "queue_fairness",
        "require_preexisting_user_for_oauth",
    }
)


def get_setting(by: Identity, name: str) -> Any:
    """The value, None when unset. Superadmins only, but for a few names. BadRequest, PermissionDenied."""
    _check_name(name)
    if name not in READABLE_BY_ALL:
        by.require_super_admin()
    row = InstanceSetting.objects.filter(pk=name).first()
    return None if row is None else row.value


def set_setting(by: Identity, name: str, value: Any) -> None:
    """Change a setting; None unsets it. Superadmins only. BadRequest, PermissionDenied."""
    by.require_super_admin()
    _check_name(name)
    _check_value(name, value)
    with transaction.atomic():
        if value is None:
            InstanceSetting.objects.filter(pk=name).delete()
        else:
            InstanceSetting.objects.update_or_create(pk=name, defaults={"value": value, "updated_at": Now()})
        # The value may be a password: only the name is recorded.
        audit.record(by, "settings.update", ActionKind.UPDATE, resource=name)


def list_settings(by: Identity) -> QuerySet[InstanceSetting]:
    """All that are set, by name. Superadmins only."""
    by.require_super_admin()
    return InstanceSetting.objects.order_by("name")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise BadRequest(f"setting {name[:60]!r} is not valid; names are lower-case letters, digits and _")


def _check_value(name: str, value: Any) -> None:
    if value is None:
        return
    if name in _WHOLE_NUMBERS and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise BadRequest(f"setting {name} must be a whole number, 0 or more")
    if name in _SWITCHES and not isinstance(value, bool):
        raise BadRequest(f"setting {name} must be true or false")
    if name == "base_url" and not (isinstance(value, str) and value.startswith(("http://", "https://"))):
        raise BadRequest("setting base_url must start with http:// or https://")
    if name == custom_tags.SETTING:
        custom_tags.parse_all(value)
    if name == job_limits.SETTING:
        try:
            job_limits.limits_from_json(value)
        except ValueError as error:
            raise BadRequest(f"setting {error}") from None
