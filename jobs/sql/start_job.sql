-- Claim one job by its id, for a worker that runs it outside the queue's order (its own init script). Columns as in claim.
WITH claimed AS (
    UPDATE queue
       SET running = true, worker = %(worker)s, attempt = attempt + 1, started_at = statement_timestamp(),
           last_ping = statement_timestamp()
     WHERE id = %(id)s AND NOT running
    RETURNING id, attempt, scheduled_for, started_at, created_at, restarts
)
SELECT claimed.id, claimed.attempt, claimed.scheduled_for, claimed.started_at, claimed.created_at, claimed.restarts,
       job.workspace_id, job.kind, job.runnable_path, job.tag, job.args, job.created_by, job.permissioned_as,
       job.permissioned_as_email, job.parent_job, job.root_job, job.flow_step_id, job.trigger_kind, job.trigger,
       job.timeout, job.script_entrypoint_override, job.script_lang, job.raw_code, NULL::text[] AS envs,
       false AS has_preprocessor, job.flow_innermost_root_job, job.same_worker, job.cache_ttl, job.concurrency_key,
       job.concurrent_limit, job.concurrency_time_window_s, job.runnable_id, job.delete_after_secs,
       job.raw_lock AS lock
  FROM claimed
  JOIN job ON job.id = claimed.id
