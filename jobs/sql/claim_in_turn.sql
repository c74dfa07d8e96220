-- As claim.sql (the same ranks, priorities, locks and columns), but within one rank and priority the workspaces take turns:
-- each has its oldest due job taken, in the order of their names, beginning after %(turn)s, the workspace that this worker
-- took the last job from. Then each its next, until %(limit)s jobs are taken. So a workspace with one job waits for one job
-- of each other workspace at most, however many they have queued. The instance setting queue_fairness (false) brings back
-- the order of claim.sql.
--
-- `walk` steps from workspace to workspace of a lane, one probe each, of an index (tag, priority desc, workspace_id,
-- scheduled_for, id) of runnable rows. It stops when enough workspaces with due jobs are found, and after a number of steps
-- in any case: thousands of workspaces whose jobs are all scheduled for later must not cost thousands of probes. `stop` is
-- where the first walk had to stop; the next claim begins there. Until then the oldest jobs of each lane fill the claim.
--
-- Both indexes fit half of each other's conditions, and a plan that was made while the queue was empty cannot know which is
-- better. So the walk's columns are compared and indexed in the collation "C", which makes each index useless to the other.
--
-- Two more columns: `turn` of the last row is what the next claim should name; `has_others`: whether jobs of more than one
-- workspace were offered.
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
switch (is_on) AS (
    SELECT (SELECT value FROM global_settings WHERE name = 'queue_fairness') IS DISTINCT FROM 'false'::jsonb
),
walk (tag, rank, priority, most_steps, workspace_id, is_due, found, step, has_wrapped) AS (
    SELECT tag, rank, priority, greatest(4, 64 / count(*) OVER ()), %(turn)s::text COLLATE "C", false, 0, 0, false
      FROM lane
     CROSS JOIN switch
     WHERE switch.is_on
     UNION ALL
    SELECT walk.tag, walk.rank, walk.priority, walk.most_steps, next.workspace_id, next.is_due,
           walk.found + next.is_due::int, walk.step + 1, next.has_wrapped
      FROM walk
     CROSS JOIN LATERAL (
           (SELECT workspace_id::text COLLATE "C" AS workspace_id, scheduled_for <= statement_timestamp() AS is_due,
                   walk.has_wrapped
              FROM queue
             WHERE NOT running AND tag COLLATE "C" = walk.tag AND priority = walk.priority
               AND workspace_id COLLATE "C" > walk.workspace_id
             ORDER BY workspace_id COLLATE "C", scheduled_for LIMIT 1)
            UNION ALL
           (SELECT workspace_id::text COLLATE "C", scheduled_for <= statement_timestamp(), true
              FROM queue
             WHERE NOT walk.has_wrapped AND NOT running AND tag COLLATE "C" = walk.tag AND priority = walk.priority
             ORDER BY workspace_id COLLATE "C", scheduled_for LIMIT 1)
           LIMIT 1) AS next
     WHERE walk.step < walk.most_steps AND walk.found <= %(limit)s
       AND (NOT next.has_wrapped OR next.workspace_id <= %(turn)s)
),
stop (workspace_id) AS (
    SELECT (SELECT workspace_id FROM walk
             WHERE step = most_steps AND found <= %(limit)s
             ORDER BY workspace_id <= %(turn)s, workspace_id LIMIT 1)
),
offered (rank, priority, workspace_id, scheduled_for, id) AS (
    -- So many of each workspace that a claim is filled even if all but one have a single job, and a few to pass over.
    SELECT found.rank, found.priority, found.workspace_id, due.scheduled_for, due.id
      FROM (SELECT *, count(*) OVER (PARTITION BY tag, priority) AS workspaces FROM walk WHERE is_due) AS found
     CROSS JOIN LATERAL (SELECT id, scheduled_for FROM queue
                          WHERE NOT running AND tag COLLATE "C" = found.tag AND priority = found.priority
                            AND workspace_id COLLATE "C" = found.workspace_id
                            AND scheduled_for <= statement_timestamp()
                          ORDER BY scheduled_for, id
                          LIMIT greatest(%(limit)s - found.workspaces + 1, 1)
                                + found.most_steps / (4 * found.workspaces)) AS due
     UNION
    -- And those that are due longest, when a walk had to stop, or there is none.
    SELECT lane.rank, lane.priority, due.workspace_id, due.scheduled_for, due.id
      FROM lane
     CROSS JOIN LATERAL (SELECT workspace_id::text COLLATE "C" AS workspace_id, scheduled_for, id FROM queue
                          WHERE NOT running AND tag = lane.tag AND priority = lane.priority
                            AND scheduled_for <= statement_timestamp()
                          ORDER BY scheduled_for, id
                          LIMIT %(limit)s + greatest(2, 16 / (SELECT count(*) FROM lane))) AS due
     WHERE EXISTS (SELECT FROM stop WHERE workspace_id IS NOT NULL) OR NOT (SELECT is_on FROM switch)
),
candidate AS (
    SELECT id, row_number() OVER (ORDER BY rank DESC, priority DESC, CASE WHEN is_on THEN round END,
                                           CASE WHEN is_on THEN workspace_id <= %(turn)s END,
                                           CASE WHEN is_on THEN workspace_id END, scheduled_for, id) AS place
      FROM (SELECT *, row_number() OVER (PARTITION BY rank, priority, workspace_id ORDER BY scheduled_for, id) AS round
              FROM offered) AS offer
     CROSS JOIN switch
     ORDER BY place
     LIMIT %(limit)s + 16
),
locked AS (
    -- Spelt as in claim.sql.
    SELECT row.id, candidate.place
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
    RETURNING queue.id, queue.attempt, queue.priority, queue.scheduled_for, queue.started_at, queue.created_at,
              queue.restarts, locked.place
)
SELECT claimed.id, claimed.attempt, claimed.scheduled_for, claimed.started_at, claimed.created_at, claimed.restarts,
       job.workspace_id, job.kind, job.runnable_path, job.tag, job.args, job.created_by, job.permissioned_as,
       job.permissioned_as_email, job.parent_job, job.root_job, job.flow_step_id, job.trigger_kind, job.trigger,
       coalesce(job.timeout, script.timeout, (
           SELECT CASE WHEN jsonb_typeof(value) = 'number' THEN least(greatest(value::numeric, 1), 2147483647)::int END
             FROM global_settings WHERE name = 'job_default_timeout')) AS timeout, job.script_entrypoint_override,
       coalesce(job.script_lang, script.language) AS language, coalesce(job.raw_code, script.content) AS code,
       script.envs, job.preprocessed IS FALSE AS has_preprocessor, job.flow_innermost_root_job, job.same_worker,
       job.cache_ttl, job.concurrency_key, job.concurrent_limit, job.concurrency_time_window_s, job.runnable_id,
       job.delete_after_secs, coalesce(job.raw_lock, script.lock) AS lock,
       CASE WHEN (stop.workspace_id <= %(turn)s, stop.workspace_id)
                 < (job.workspace_id COLLATE "C" <= %(turn)s, job.workspace_id COLLATE "C")
            THEN stop.workspace_id ELSE job.workspace_id END AS turn,
       switch.is_on AND (stop.workspace_id IS NOT NULL
                         OR (SELECT min(workspace_id) <> max(workspace_id) FROM offered)) AS has_others
  FROM claimed
  CROSS JOIN stop
 CROSS JOIN switch
  JOIN job ON job.id = claimed.id AND job.id = ANY(ARRAY(SELECT id FROM claimed))
  LEFT JOIN script ON script.hash = job.runnable_id AND job.kind IN ('script', 'dependencies')
 ORDER BY claimed.place
