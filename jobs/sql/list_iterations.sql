-- A page of a loop's iterations in their order, after number %(after)s; %(status)s: only those that stand so.
SELECT n, job_id, status, started_at, duration_ms
  FROM (SELECT iteration.n, iteration.job_id,
               coalesce(done.status, CASE WHEN queue.running OR queue.started_at IS NOT NULL THEN 'running'
                                          WHEN queue.id IS NOT NULL THEN 'queued' ELSE 'pending' END) AS status,
               coalesce(done.started_at, queue.started_at) AS started_at, done.duration_ms
          FROM flow_iteration AS iteration
          LEFT JOIN completed_job AS done ON done.id = iteration.job_id
          LEFT JOIN queue ON queue.id = iteration.job_id
         WHERE iteration.flow_id = %(flow_id)s AND iteration.step_id = %(step_id)s AND iteration.n > %(after)s
       ) AS listed
 WHERE %(status)s::text IS NULL OR status = %(status)s::text
 ORDER BY n
 LIMIT %(limit)s
