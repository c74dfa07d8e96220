-- The next jobs of a dedicated script's tag, most urgent first: complete_and_claim.sql for when nothing has ended (word for
-- word from `lane` on). At low load each job is claimed alone, and a statement that could also record costs a tenth more.
WITH RECURSIVE lane (priority) AS (
    (SELECT priority FROM queue
      WHERE NOT running AND tag = %(tag)s AND %(limit)s > 0
      ORDER BY tag, priority DESC LIMIT 1)
     UNION ALL
    SELECT lower.priority
      FROM lane
     CROSS JOIN LATERAL (SELECT priority FROM queue
                          WHERE NOT running AND tag = %(tag)s AND priority < lane.priority
                          ORDER BY tag, priority DESC LIMIT 1) AS lower
),
candidate AS (
    SELECT due.id, lane.priority, due.scheduled_for
      FROM lane
     CROSS JOIN LATERAL (SELECT id, scheduled_for FROM queue
                          WHERE NOT running AND tag = %(tag)s AND priority = lane.priority
                            AND scheduled_for <= statement_timestamp()
                          ORDER BY scheduled_for, id LIMIT %(limit)s + 16) AS due
     ORDER BY lane.priority DESC, due.scheduled_for, due.id
     LIMIT %(limit)s + 16
),
locked AS (
    SELECT row.id
      FROM candidate
     CROSS JOIN LATERAL (SELECT queue.id FROM queue
                          WHERE queue.id = candidate.id AND queue.running IS FALSE
                            FOR UPDATE SKIP LOCKED) AS row
     LIMIT %(limit)s
),
claimed AS (
    UPDATE queue
       SET running = true, worker = %(worker)s, attempt = attempt + 1,
           started_at = CASE WHEN last_ping IS NULL AND started_at IS NOT NULL THEN started_at
                             ELSE statement_timestamp() END,
           last_ping = statement_timestamp()
      FROM locked
     WHERE queue.id = locked.id AND queue.id = ANY(ARRAY(SELECT id FROM locked))
    RETURNING queue.id, queue.attempt, queue.priority, queue.scheduled_for, queue.restarts
)
SELECT *
  FROM (SELECT claimed.id, claimed.attempt, claimed.scheduled_for, claimed.restarts, job.runnable_id, job.args::text,
               job.created_by, job.permissioned_as, job.permissioned_as_email, job.parent_job, job.root_job,
               job.trigger_kind, job.trigger, job.timeout,
               job.kind = 'script' AND job.workspace_id = %(workspace_id)s AND job.runnable_path = %(path)s
               AND job.flow_step_id IS NULL AND job.preprocessed IS NOT FALSE AND job.script_entrypoint_override IS NULL
               AND job.cache_ttl IS NULL AND job.concurrency_key IS NULL AND job.delete_after_secs IS NULL
               AND NOT job.same_worker AS is_plain
          FROM claimed
          JOIN job ON job.id = claimed.id AND job.id = ANY(ARRAY(SELECT id FROM claimed))
         ORDER BY claimed.priority DESC, claimed.scheduled_for, claimed.id) AS ordered
 UNION ALL
SELECT NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       (SELECT CASE WHEN jsonb_typeof(value) = 'number' THEN least(greatest(value::numeric, 1), 2147483647)::int END
          FROM global_settings WHERE name = 'job_default_timeout'), NULL
