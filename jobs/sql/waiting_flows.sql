-- The flow jobs below (and with) the topmost job %(root)s that wait for approvals, oldest first. Starts at what waits:
-- a loop may have run a hundred thousand jobs, and nothing below a job is older than the job.
SELECT queue.id
  FROM queue
  JOIN job ON job.id = queue.id
 WHERE queue.workspace_id = %(workspace_id)s AND queue.created_at >= %(since)s AND queue.suspend > 0
   AND (job.id = %(root)s OR job.root_job = %(root)s)
 ORDER BY queue.created_at, queue.id
 LIMIT %(limit)s
