-- When the jobs below these flow jobs (%(parents)s) ran: of every step the first %(each)s, so that one loop does not hide
-- what comes after it. `left_out`: there are more.
SELECT id, kind, flow_step_id, flow_n, status, started_at, completed_at, nth > %(each)s AS left_out
  FROM (SELECT job.id, job.kind, job.flow_step_id, job.flow_n,
               coalesce(done.status, CASE WHEN queue.running OR queue.started_at IS NOT NULL THEN 'running'
                                          ELSE 'queued' END) AS status,
               coalesce(done.started_at, queue.started_at) AS started_at, done.completed_at,
               row_number() OVER (PARTITION BY job.flow_step_id ORDER BY job.created_at, job.id) AS nth
          FROM job
          LEFT JOIN completed_job AS done ON done.id = job.id
          LEFT JOIN queue ON queue.id = job.id
         WHERE job.parent_job = ANY(%(parents)s::uuid[]) AND job.flow_step_id IS NOT NULL) AS below
 WHERE nth <= %(each)s + 1
 ORDER BY started_at, id
