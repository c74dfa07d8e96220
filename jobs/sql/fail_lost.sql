-- End jobs whose worker fell silent and that may not be restarted. %(restart)s and %(limit)s as in requeue_lost.
WITH lost AS (
    DELETE FROM queue
     USING (SELECT queue.id, flow_status.id IS NOT NULL AS is_flow,
                   coalesce(job.same_worker AND job.flow_step_id IS NOT NULL, false) AS is_bound
              FROM queue
              LEFT JOIN job ON job.id = queue.id
              LEFT JOIN flow_status ON flow_status.id = queue.id
             WHERE queue.running AND last_ping < statement_timestamp() - make_interval(secs => %(timeout_s)s)) AS what
     WHERE queue.id = what.id AND running AND last_ping < statement_timestamp() - make_interval(secs => %(timeout_s)s)
       AND NOT (restarts < %(limit)s AND tag NOT IN ('init_script', 'periodic_bash_script') AND NOT is_bound
                AND (%(restart)s AND canceled_by IS NULL OR is_flow))
    RETURNING queue.*, what.is_flow, what.is_bound
)
INSERT INTO completed_job (id, workspace_id, status, started_at, completed_at, duration_ms, result, worker, mem_peak,
                           canceled_by, canceled_reason, restarts)
SELECT id, workspace_id, CASE WHEN canceled_by IS NULL THEN 'failure' ELSE 'canceled' END, started_at,
       statement_timestamp(), greatest(0, round(extract(epoch FROM statement_timestamp() - started_at) * 1000))::bigint,
       CASE WHEN canceled_by IS NULL
            THEN json_build_object('error', json_build_object(
                'name', 'ExecutionErr',
                'message', format(
                    'Job timed out after no ping from job since %%s (ZOMBIE_JOB_TIMEOUT: %%s, reason: %%s). '
                    'This likely means that the job died on worker %%s, OOM are a common reason for worker crashes. '
                    'Check the workers around the time of the last ping and the exit code if any.',
                    to_char(last_ping AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), %(timeout_s)s::int,
                    CASE WHEN tag = 'init_script' THEN 'InitScript' WHEN tag = 'periodic_bash_script' THEN 'PeriodicScript'
                         WHEN is_bound THEN 'SameWorker'
                         WHEN %(restart)s THEN format('RestartLimit (%%s)', %(limit)s::int) ELSE 'RestartDisabled' END,
                    worker)))
            ELSE json_build_object('error', json_build_object(
                'name', 'Canceled',
                'message', format('Job canceled: %%s by %%s', coalesce(canceled_reason, ''), canceled_by),
                'reason', canceled_reason, 'canceler', canceled_by)) END,
       worker, mem_peak, canceled_by, canceled_reason, restarts
  FROM lost
RETURNING id, workspace_id, worker,
          EXISTS (SELECT FROM flow_status WHERE flow_status.id = completed_job.id) AS is_flow
