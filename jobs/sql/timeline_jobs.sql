-- Jobs below these flow jobs (%(parents)s) in the order in which they were queued, with when they ran.
SELECT job.id, job.kind, job.flow_step_id, job.flow_n,
       coalesce(done.status, CASE WHEN queue.running OR queue.started_at IS NOT NULL THEN 'running' ELSE 'queued' END) AS status,
       coalesce(done.started_at, queue.started_at) AS started_at, done.completed_at
  FROM job
  LEFT JOIN completed_job AS done ON done.id = job.id
  LEFT JOIN queue ON queue.id = job.id
 WHERE job.parent_job = ANY(%(parents)s::uuid[]) AND job.flow_step_id IS NOT NULL
 ORDER BY job.created_at, job.id
 LIMIT %(limit)s
