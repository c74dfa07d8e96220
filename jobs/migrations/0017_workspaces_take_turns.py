"""Runnable jobs by workspace, for workspaces to take turns. Made without a lock, beside workers that claim."""

from typing import Any, ClassVar

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Collate


class Migration(migrations.Migration):
    atomic = False

    dependencies: ClassVar = [("jobs", "0016_workers_say_more")]
    operations: ClassVar[list[Any]] = [
        # What a start that was interrupted has left would be in the way of every later one.
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS queue_turns_idx", migrations.RunSQL.noop),
        AddIndexConcurrently(
            "queuedjob",
            models.Index(
                Collate("tag", "C"),
                models.F("priority").desc(),
                Collate("workspace_id", "C"),
                "scheduled_for",
                "id",
                condition=models.Q(running=False),
                name="queue_turns_idx",
            ),
        ),
    ]
