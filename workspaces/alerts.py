"""Alerts: what those who operate the instance should look at, until it is over (reference/worker.md section 8).

A kind of trouble is looked at again and again by somebody who knows all of it at that time (`report`). Trouble that is
over within GRACE is nobody's business: workers that start again are gone for a moment.
"""

import logging
from collections.abc import Mapping
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from workspaces import audit
from workspaces.access import Identity
from workspaces.errors import NotFound
from workspaces.models import ActionKind, Alert

logger = logging.getLogger(__name__)

GRACE = timedelta(seconds=30)


def report(kind: str, troubles: Mapping[str, str]) -> int:
    """All there is of this kind of trouble now: a sentence by what it is about. Answers how many alerts changed.

    What was there before and is not named any more is over. One process at a time calls it for a kind.
    """
    changed = 0
    with transaction.atomic():
        known = {alert.subject: alert for alert in Alert.objects.filter(kind=kind, resolved_at=None)}
        for subject, message in troubles.items():
            if subject not in known:
                Alert.objects.create(kind=kind, subject=subject, message=message)
            elif known[subject].message != message:
                Alert.objects.filter(pk=known[subject].pk).update(message=message)
        lasting = Alert.objects.filter(kind=kind, subject__in=list(troubles), resolved_at=None)
        for alert in lasting.filter(raised_at=None, created_at__lte=Now() - GRACE):
            Alert.objects.filter(pk=alert.pk).update(raised_at=Now())
            logger.error("critical alert id=%s: %s", alert.pk, alert.message)
            changed += 1
        for alert in (alert for subject, alert in known.items() if subject not in troubles):
            if alert.raised_at is None:
                alert.delete()
                continue
            Alert.objects.filter(pk=alert.pk).update(resolved_at=Now())
            logger.warning("critical alert id=%s is over: %s", alert.pk, alert.message)
            changed += 1
    return changed


def list_alerts(by: Identity, *, acknowledged: bool | None = None) -> QuerySet[Alert]:
    """Alerts that were raised, newest first. For superadmins and devops. PermissionDenied."""
    by.require_devops()
    rows = Alert.objects.exclude(raised_at=None).order_by("-id")
    return rows if acknowledged is None else rows.filter(acknowledged=acknowledged)


def pending(by: Identity) -> list[Alert]:
    """What is wrong now and nobody has acknowledged, oldest first; nothing for those who do not operate the instance."""
    if not by.operates:
        return []
    rows = Alert.objects.exclude(raised_at=None).filter(resolved_at=None, acknowledged=False)
    return list(rows.order_by("id")[:100])


def acknowledge(by: Identity, alert_id: int) -> None:
    """Somebody has seen it. NotFound, PermissionDenied."""
    by.require_devops()
    with transaction.atomic():
        rows = Alert.objects.filter(pk=alert_id).exclude(raised_at=None)
        if not rows.update(acknowledged=True, acknowledged_by=by.email):
            raise NotFound(f"alert {alert_id} does not exist")
        audit.record(by, "alerts.acknowledge", ActionKind.UPDATE, resource=str(alert_id))


def acknowledge_all(by: Identity) -> int:
    """Somebody has seen all of them; answers how many that were. PermissionDenied."""
    by.require_devops()
    with transaction.atomic():
        rows = Alert.objects.exclude(raised_at=None).filter(acknowledged=False)
        count = rows.update(acknowledged=True, acknowledged_by=by.email)
        audit.record(by, "alerts.acknowledge_all", ActionKind.UPDATE, parameters={"count": count})
    return count
