"""Watches over worker groups that say how many of their workers must be alive."""

from workers.fleet import live_workers
from workers.groups import schema
from workers.groups.configs import PREFIX
from workers.models import Config
from workspaces import alerts

KIND = "too_few_workers"


def report_missing_workers() -> int:
    """Raise an alert for each group with fewer live workers than `min_alive_workers_alert_threshold`; end those that are
    over. Answers how many changed."""
    alive = live_workers.count_by_group()
    troubles = {}
    for row in Config.objects.filter(name__startswith=PREFIX):
        group, least = row.name.removeprefix(PREFIX), schema.read(row.config).min_alive_workers
        count = alive.get(group, 0)
        if least and count < least:
            troubles[group] = (
                f"Worker group {group} has {count or 'no'} live {'worker' if count == 1 else 'workers'}; "
                f"there shall be at least {least} (min_alive_workers_alert_threshold)."
            )
    return alerts.report(KIND, troubles)
