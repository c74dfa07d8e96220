"""A job says which isolation it ran in: the column, the function that records the steps of flows, and the view."""

from importlib import import_module
from pathlib import Path
from typing import ClassVar

from django.db import migrations, models

ADVANCE_FLOWS = (Path(__file__).parent.parent / "sql" / "functions" / "advance_flows.sql").read_text()
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
       asked.flow_innermost_root_job, asked.flow_body, asked.flow_n, asked.same_worker, queue.suspend_until,
       -- Until it has ended: that of the worker which holds it, for jobs that have processes there.
       CASE WHEN done.id IS NOT NULL THEN done.isolation
            WHEN NOT queue.running OR queue.last_ping IS NULL THEN NULL
            WHEN asked.kind IN ('flow', 'flowpreview', 'flownode', 'singlestepflow', 'aiagent') THEN NULL
            WHEN asked.script_lang IN ('postgresql', 'mysql', 'graphql') THEN NULL
            WHEN asked.tag IN ('init_script', 'periodic_bash_script') THEN 'none'
            ELSE (SELECT nullif(job_isolation, '') FROM worker_ping WHERE worker_ping.worker = queue.worker)
       END AS isolation
  FROM job AS asked
  LEFT JOIN queue ON queue.id = asked.id
  LEFT JOIN completed_job AS done ON done.id = asked.id
"""
BEFORE = import_module("jobs.migrations.0006_view_knows_flows").ALL_JOBS_VIEW


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0017_workspaces_take_turns")]
    operations: ClassVar = [
        migrations.AddField(
            "completedjob",
            "isolation",
            models.CharField(
                blank=True,
                choices=[
                    ("namespaces", "Namespaces"),
                    ("user-namespaces", "User namespaces"),
                    ("none", "None"),
                ],
                max_length=20,
                null=True,
            ),
        ),
        migrations.RunSQL(ALL_JOBS_VIEW, f"DROP VIEW v_job; {BEFORE}"),
        migrations.RunSQL(ADVANCE_FLOWS, migrations.RunSQL.noop),
    ]
