-- The flow at the top of the tree that a job is a step in: the job itself when it is none.
WITH RECURSIVE above (id, parent_job, depth) AS (
    SELECT id, CASE WHEN flow_step_id IS NOT NULL THEN parent_job END, 0
      FROM job WHERE id = %(id)s AND workspace_id = %(workspace_id)s
     UNION ALL
    SELECT job.id, CASE WHEN job.flow_step_id IS NOT NULL THEN job.parent_job END, above.depth + 1
      FROM above
      JOIN job ON job.id = above.parent_job
     WHERE above.depth < %(most)s
)
SELECT id FROM above ORDER BY depth DESC LIMIT 1
