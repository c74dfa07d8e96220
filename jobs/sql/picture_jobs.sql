-- Where these jobs stand, for the picture of their flow: nothing large.
SELECT job.id, job.kind, job.runnable_path, job.flow_step_id,
       coalesce(done.status, CASE WHEN queue.running OR queue.started_at IS NOT NULL THEN 'running'
                                  WHEN queue.scheduled_for > statement_timestamp() THEN 'scheduled'
                                  ELSE 'queued' END) AS status,
       coalesce(done.started_at, queue.started_at) AS started_at, done.completed_at, done.duration_ms,
       queue.scheduled_for, coalesce(done.worker, queue.worker) AS worker,
       CASE WHEN queue.suspend > 0 THEN queue.suspend_until END AS suspend_until
  FROM job
  LEFT JOIN completed_job AS done ON done.id = job.id
  LEFT JOIN queue ON queue.id = job.id
 WHERE job.id = ANY(%(ids)s::uuid[])
