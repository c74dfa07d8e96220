-- From a job up to the flow (not a body) that started it: the job first, the flow last.
WITH RECURSIVE up AS (
    SELECT id, parent_job, kind, flow_step_id, flow_n, flow_body, 0 AS depth FROM job WHERE id = %(id)s
     UNION ALL
    SELECT job.id, job.parent_job, job.kind, job.flow_step_id, job.flow_n, job.flow_body, up.depth + 1
      FROM up
      JOIN job ON job.id = up.parent_job
     WHERE up.depth < 100 AND (up.kind = 'flownode' OR up.depth = 0)
)
SELECT id, flow_step_id, flow_n, flow_body FROM up ORDER BY depth
