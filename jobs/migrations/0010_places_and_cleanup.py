"""Concurrency limits, and jobs that are forgotten some time after their flow ended."""

from pathlib import Path
from typing import Any, ClassVar

from django.db import migrations, models

TAKE_PLACE = (Path(__file__).parent.parent / "sql" / "functions" / "take_place.sql").read_text()


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0007_advance_flows")]
    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="ConcurrencyPlace",
            fields=[
                ("job_id", models.UUIDField(primary_key=True, serialize=False)),
                ("key", models.CharField(max_length=255)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "db_table": "concurrency_key",
                "indexes": [models.Index(fields=["key", "ended_at"], name="concurrency_key_ended_idx")],
            },
        ),
        migrations.AddField("queuedjob", "was_due_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddIndex(
            "queuedjob",
            models.Index(
                fields=["concurrency_key", "-priority", "was_due_at", "id"],
                condition=models.Q(was_due_at__isnull=False),
                name="queue_held_back_idx",
            ),
        ),
        migrations.AddIndex(
            "job",
            models.Index(
                fields=["concurrency_key", "-created_at", "-id"],
                condition=models.Q(concurrency_key__isnull=False),
                name="job_concurrency_idx",
            ),
        ),
        migrations.AddIndex("cachedresult", models.Index(fields=["job_id"], name="job_cache_job_idx")),
        # Nothing wrote to job_cleanup before this.
        migrations.AddField("jobcleanup", "top_id", models.UUIDField(default=None), preserve_default=False),
        migrations.AddField("jobcleanup", "after_s", models.IntegerField(default=0), preserve_default=False),
        migrations.AlterField("jobcleanup", "due_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddIndex("jobcleanup", models.Index(fields=["top_id"], name="job_cleanup_top_idx")),
        migrations.RunSQL(TAKE_PLACE, "DROP FUNCTION take_place"),
    ]
