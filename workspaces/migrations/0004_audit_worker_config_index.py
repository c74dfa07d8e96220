from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """The history of a worker group. Built beside the writers: the table may be large, and none of its rows are in it."""

    atomic = False

    dependencies = [
        ("workspaces", "0003_alerts"),
    ]

    operations = [
        # What a start that was interrupted has left would be in the way of every later one.
        migrations.RunSQL(
            "DROP INDEX CONCURRENTLY IF EXISTS audit_worker_config_idx", migrations.RunSQL.noop
        ),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                fields=["resource", "-id"],
                name="audit_worker_config_idx",
                condition=models.Q(operation__in=["worker_config.update", "worker_config.delete"]),
            ),
        ),
    ]
