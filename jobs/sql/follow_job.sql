-- What changes about a job while somebody looks at it: asked often, so each table by its key, and no view's extras.
SELECT job.id,
       CASE WHEN done.id IS NOT NULL THEN done.status
            WHEN queue.running OR queue.started_at IS NOT NULL THEN 'running'
            ELSE 'queued' END AS status,
       coalesce(done.worker, queue.worker) AS worker, coalesce(done.started_at, queue.started_at) AS started_at,
       done.completed_at, done.duration_ms, coalesce(done.canceled_by, queue.canceled_by) AS canceled_by,
       coalesce(done.canceled_reason, queue.canceled_reason) AS canceled_reason,
       coalesce(done.mem_peak, queue.mem_peak) AS mem_peak, job_progress.percent AS progress,
       flow_status.version AS flow_version
  FROM job
  LEFT JOIN queue ON queue.id = job.id
  LEFT JOIN completed_job AS done ON done.id = job.id
  LEFT JOIN job_progress ON job_progress.job_id = job.id
  LEFT JOIN flow_status ON flow_status.id = job.id
 WHERE job.id = %(id)s
