"""What Django's models cannot say: storage of the hot tables, and the view that operators know."""

from typing import ClassVar

from django.db import migrations

# Queue rows live for milliseconds. Vacuum must come by count, not by share of the table, or dead rows pile up at the
# front of the claim's index; room on each page keeps heartbeats heap-only updates.
QUEUE_STORAGE = """
ALTER TABLE queue SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
                       autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000,
                       autovacuum_vacuum_cost_delay = 0);
ALTER TABLE worker_ping SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
"""
QUEUE_STORAGE_UNDO = """
ALTER TABLE queue RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
                         autovacuum_analyze_scale_factor, autovacuum_analyze_threshold, autovacuum_vacuum_cost_delay);
ALTER TABLE worker_ping RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
"""
COMPLETED_VIEW = """
CREATE VIEW v_completed_job AS
SELECT done.id, done.workspace_id, asked.parent_job, asked.created_by, asked.created_at, done.started_at,
       done.completed_at, done.duration_ms, done.status IN ('success', 'skipped') AS success,
       asked.runnable_path AS script_path, asked.runnable_id AS script_hash, asked.args, done.result, done.deleted,
       asked.raw_code, done.canceled_by IS NOT NULL AS canceled, done.canceled_by, done.canceled_reason,
       asked.kind AS job_kind, asked.permissioned_as, asked.permissioned_as_email AS email,
       asked.script_lang AS language, asked.trigger_kind, done.status = 'skipped' AS is_skipped, done.status,
       asked.visible_to_owner, done.mem_peak, asked.tag, asked.priority, done.worker, done.labels
  FROM completed_job AS done
  JOIN job AS asked ON asked.id = done.id
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0001_initial")]
    operations: ClassVar = [
        migrations.RunSQL(QUEUE_STORAGE, QUEUE_STORAGE_UNDO),
        migrations.RunSQL(COMPLETED_VIEW, "DROP VIEW v_completed_job"),
    ]
