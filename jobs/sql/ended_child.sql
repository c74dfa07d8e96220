-- How a job ended, and whether it was a flow that stopped early; no row when there is no such job.
SELECT job.id, done.status, flow_status.state->'stopped' AS stopped, queue.id IS NOT NULL AS is_queued
  FROM job
  LEFT JOIN queue ON queue.id = job.id
  LEFT JOIN completed_job AS done ON done.id = job.id
  LEFT JOIN flow_status ON flow_status.id = job.id
 WHERE job.id = %(id)s
