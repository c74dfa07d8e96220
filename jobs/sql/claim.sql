-- Hand the most urgent due jobs for these tags to one worker: at most %(limit)s, by the rank that the worker gives their
-- tag (%(ranks)s, beside %(tags)s; none: 0), then by priority, then by due time. While jobs pile up, claim_in_turn.sql
-- lets every workspace have its turn; this one does not look at workspaces.
--
-- The index holds only runnable rows, ordered (tag, priority desc, scheduled_for, id). `lane` walks it from one
-- (tag, priority) pair to the next, two index probes each, so that jobs scheduled for later, jobs of other tags and
-- higher but empty priorities are never scanned. The lanes offer a few rows more than asked for: SKIP LOCKED passes
-- over those that another worker is claiming at this moment.
WITH RECURSIVE lane (tag, rank, priority) AS (
    SELECT wanted.tag, coalesce(wanted.rank, 0), top.priority
      FROM unnest(%(tags)s::text[], %(ranks)s::int[]) AS wanted (tag, rank)
     CROSS JOIN LATERAL (SELECT priority FROM queue
                          WHERE NOT running AND tag = wanted.tag
                          ORDER BY tag, priority DESC LIMIT 1) AS top
     UNION ALL
    SELECT lane.tag, lane.rank, lower.priority
      FROM lane
     CROSS JOIN LATERAL (SELECT priority FROM queue
                          WHERE NOT running AND tag = lane.tag AND priority < lane.priority
                          ORDER BY tag, priority DESC LIMIT 1) AS lower
),
candidate AS (
    SELECT due.id, lane.rank, lane.priority, due.scheduled_for
      FROM lane
     CROSS JOIN LATERAL (SELECT id, scheduled_for FROM queue
                          WHERE NOT running AND tag = lane.tag AND priority = lane.priority
                            AND scheduled_for <= statement_timestamp()
                          ORDER BY scheduled_for, id
                          LIMIT %(limit)s + greatest(2, 16 / (SELECT count(*) FROM lane))) AS due
     ORDER BY lane.rank DESC, lane.priority DESC, due.scheduled_for, due.id
     LIMIT %(limit)s + 16
),
locked AS (
    -- One probe of the primary key a row; the condition is checked again on the row as it is once locked. It is spelt so
    -- that the partial index does not answer it: a plan made while the queue was empty would walk that index whole.
    SELECT row.id, candidate.rank
      FROM candidate
     CROSS JOIN LATERAL (SELECT queue.id FROM queue
                          WHERE queue.id = candidate.id AND queue.running IS FALSE
                            FOR UPDATE SKIP LOCKED) AS row
     LIMIT %(limit)s
),
claimed AS (
    UPDATE queue
       SET running = true, worker = %(worker)s, attempt = attempt + 1,
           -- A flow that goes on (parked, asleep: no last_ping) started long ago.
           started_at = CASE WHEN last_ping IS NULL AND started_at IS NOT NULL THEN started_at
                             ELSE statement_timestamp() END,
           last_ping = statement_timestamp()
      FROM locked
     WHERE queue.id = locked.id AND queue.id = ANY(ARRAY(SELECT id FROM locked))
    RETURNING queue.id, queue.attempt, queue.priority, queue.scheduled_for, queue.started_at, queue.created_at,
              queue.restarts, locked.rank
)
SELECT claimed.id, claimed.attempt, claimed.scheduled_for, claimed.started_at, claimed.created_at, claimed.restarts,
       job.workspace_id, job.kind, job.runnable_path, job.tag, job.args, job.created_by, job.permissioned_as,
       job.permissioned_as_email, job.parent_job, job.root_job, job.flow_step_id, job.trigger_kind, job.trigger,
       coalesce(job.timeout, script.timeout, (
           -- the instance's own default; a value somebody typed into the table by hand must not stop all claims
           SELECT CASE WHEN jsonb_typeof(value) = 'number' THEN least(greatest(value::numeric, 1), 2147483647)::int END
             FROM global_settings WHERE name = 'job_default_timeout')) AS timeout, job.script_entrypoint_override,
       coalesce(job.script_lang, script.language) AS language, coalesce(job.raw_code, script.content) AS code,
       script.envs, job.preprocessed IS FALSE AS has_preprocessor, job.flow_innermost_root_job, job.same_worker,
       job.cache_ttl, job.concurrency_key, job.concurrent_limit, job.concurrency_time_window_s, job.runnable_id,
       job.delete_after_secs, coalesce(job.raw_lock, script.lock) AS lock
  FROM claimed
  JOIN job ON job.id = claimed.id AND job.id = ANY(ARRAY(SELECT id FROM claimed))
  LEFT JOIN script ON script.hash = job.runnable_id AND job.kind IN ('script', 'dependencies')
 ORDER BY claimed.rank DESC, claimed.priority DESC, claimed.scheduled_for, claimed.id
