-- What was answered for these jobs (the step that carries `suspend`, and the flow job itself), oldest first.
SELECT resume_id, approver, approved, value, created_at
  FROM resume_job
 WHERE job_id = ANY(%(ids)s::uuid[])
 ORDER BY created_at, id
