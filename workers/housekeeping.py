"""What every server and every worker does beside its work: keeps the house in order."""

from jobs.monitor import monitor
from workers.fleet.watch import report_missing_workers


async def keep_house() -> None:
    """Until cancelled: recover lost jobs, forget what is old, look whether all worker groups are there."""
    await monitor(checks=[report_missing_workers])
