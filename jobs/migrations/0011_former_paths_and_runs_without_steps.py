"""Links to a moved flow's old path find it; lists of runs without the steps of flows have an index of their own."""

from typing import Any, ClassVar

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0010_places_and_cleanup")]
    operations: ClassVar[list[Any]] = [
        migrations.AddField(
            "flow",
            "former_paths",
            django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=255), blank=True, default=list, size=None
            ),
        ),
        migrations.AddIndex(
            "job",
            models.Index(
                fields=["workspace_id", "-created_at", "-id"],
                name="job_newest_run_idx",
                condition=models.Q(flow_step_id__isnull=True),
            ),
        ),
    ]
