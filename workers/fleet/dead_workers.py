"""Workers that stopped reporting: taken off the list by hand, when somebody does not want to wait for the clean-up."""

from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now

from jobs.models import WorkerPing
from workspaces import audit
from workspaces.access import Identity
from workspaces.errors import BadRequest
from workspaces.models import ActionKind

GONE = timedelta(seconds=60)  # after this long without a word a worker counts as dead


def forget(*, actor: Identity, worker: str | None = None, group: str | None = None) -> list[str]:
    """Take dead workers off the list: the one named, those of a group, or all; answers their names.

    For superadmins and devops. One that is alive stays, whoever asks; one that comes back to life lists itself again.
    Raises BadRequest when the one named is not dead, PermissionDenied.
    """
    actor.require_devops()
    # The database's clock decides, as it does for those who report.
    dead = WorkerPing.objects.filter(ping_at__lt=Now() - GONE)
    if worker is not None:
        dead = dead.filter(pk=worker)
    if group is not None:
        dead = dead.filter(worker_group=group)
    with transaction.atomic():
        names = sorted(dead.select_for_update(skip_locked=True).values_list("worker", flat=True))
        if worker is not None and not names:
            raise BadRequest(f"worker {worker[:100]} reported lately, or is off the list already")
        WorkerPing.objects.filter(pk__in=names).delete()
        for name in names:
            audit.record(actor, "workers.forget", ActionKind.DELETE, resource=name)
    return names
