from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Which jobs have read secrets. Built beside the writers: the table may be large, and few of its rows are in it."""

    atomic = False

    dependencies = [
        ("workspaces", "0004_audit_worker_config_index"),
    ]

    operations = [
        # What a start that was interrupted has left would be in the way of every later one.
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS audit_secret_reads_idx", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(
                fields=["span"],
                name="audit_secret_reads_idx",
                condition=models.Q(operation="variables.decrypt_secret"),
            ),
        ),
    ]
