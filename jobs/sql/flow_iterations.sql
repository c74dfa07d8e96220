-- The iterations (branches) of a flow job that have been started, for flow_status.
SELECT iteration.step_id, iteration.n, iteration.job_id, done.status, done.duration_ms,
       coalesce(done.started_at, queue.started_at) AS started_at
  FROM flow_iteration AS iteration
  JOIN job ON job.id = iteration.job_id
  LEFT JOIN queue ON queue.id = iteration.job_id
  LEFT JOIN completed_job AS done ON done.id = iteration.job_id
 WHERE iteration.flow_id = %(id)s
 ORDER BY iteration.step_id, iteration.n
