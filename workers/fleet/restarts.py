"""Having the workers of a group start again, without another configuration: after an upgrade of the host, say."""

from django.db import transaction
from django.utils import timezone

from jobs import wakeups
from jobs.models import WorkerPing
from workers.fleet import live_workers
from workers.groups import configs, schema
from workers.models import Config
from workspaces import audit
from workspaces.access import Identity
from workspaces.errors import NotFound
from workspaces.models import ActionKind


def restart(*, name: str, actor: Identity) -> int:
    """Tell all workers of group `name` to finish what they run, leave, and be started again; answers how many are alive.

    For superadmins and devops. It is written down: a worker that is out of touch follows when it is back, one that
    starts later has nothing to follow. Raises BadRequest (no group can have this name), NotFound, PermissionDenied.
    """
    actor.require_devops()
    configs.check_name(name)
    if configs.get(name) is None and not WorkerPing.objects.filter(worker_group=name).exists():
        raise NotFound(
            f"there is no worker group {name}: no worker names it in WORKER_GROUP, nobody configured it"
        )
    with transaction.atomic():
        Config.objects.update_or_create(
            pk=schema.RESTART_PREFIX + name, defaults={"config": timezone.now().isoformat()}
        )
        audit.record(actor, "workers.restart", ActionKind.EXECUTE, resource=schema.CONFIG_PREFIX + name)
        wakeups.group_changed(name)
    return live_workers.count_by_group().get(name, 0)


def told(name: str, live_count: int) -> str:
    """What came of it, for people."""
    if not live_count:
        return f"No worker of group {name} is alive; what starts from now on is new anyway"
    workers = "1 worker" if live_count == 1 else f"{live_count} workers"
    return f"{workers} of group {name} will start again when done with what is running"
