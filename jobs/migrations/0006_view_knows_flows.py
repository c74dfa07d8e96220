"""The view over the rows of a job knows flows: one that is parked, asleep or waits for approval is running."""

from typing import ClassVar

from django.db import migrations

ALL_JOBS_VIEW = """
CREATE OR REPLACE VIEW v_job AS
SELECT asked.id, asked.workspace_id, asked.kind, asked.runnable_id, asked.runnable_path, asked.script_lang, asked.tag,
       asked.priority, asked.created_by, asked.created_at, asked.permissioned_as, asked.permissioned_as_email,
       asked.parent_job, asked.root_job, asked.flow_step_id, asked.trigger_kind, asked.trigger, asked.visible_to_owner,
       asked.preprocessed, asked.args, asked.raw_code, asked.timeout,
       CASE WHEN done.id IS NOT NULL THEN done.status WHEN queue.running OR queue.started_at IS NOT NULL THEN 'running' ELSE 'queued' END AS status,
       coalesce(done.started_at, queue.started_at) AS started_at, done.completed_at, done.duration_ms, done.result,
       coalesce(done.worker, queue.worker) AS worker, coalesce(done.mem_peak, queue.mem_peak) AS mem_peak,
       coalesce(done.canceled_by, queue.canceled_by) AS canceled_by,
       coalesce(done.canceled_reason, queue.canceled_reason) AS canceled_reason,
       coalesce(done.restarts, queue.restarts, 0) AS restarts, done.labels, coalesce(done.deleted, false) AS deleted,
       queue.scheduled_for, queue.suspend, queue.last_ping,
       -- For conditions that shall use the indexes of one table.
       queue.id AS queued_id, queue.running OR queue.started_at IS NOT NULL AS running, done.id AS done_id,
       done.status AS done_status,
       asked.flow_innermost_root_job, asked.flow_body, asked.flow_n, asked.same_worker, queue.suspend_until
  FROM job AS asked
  LEFT JOIN queue ON queue.id = asked.id
  LEFT JOIN completed_job AS done ON done.id = asked.id
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0005_flows")]
    operations: ClassVar = [migrations.RunSQL(ALL_JOBS_VIEW, migrations.RunSQL.noop)]
