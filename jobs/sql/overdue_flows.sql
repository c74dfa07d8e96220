-- Flows that have run for longer than their timeout. (Other jobs are stopped by the worker that runs them.)
SELECT queue.id, queue.workspace_id, job.timeout
  FROM queue
  JOIN flow_status ON flow_status.id = queue.id
  JOIN job ON job.id = queue.id
 WHERE job.timeout IS NOT NULL AND queue.canceled_by IS NULL
   AND queue.started_at < statement_timestamp() - make_interval(secs => job.timeout)
 LIMIT 500
