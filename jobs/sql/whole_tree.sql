-- Jobs and everything that runs or ran for them: the steps and bodies of a flow, and theirs, and so on.
WITH RECURSIVE tree (id, depth) AS (
    SELECT id, 0 FROM job WHERE id = ANY(%(ids)s::uuid[])
     UNION ALL
    SELECT job.id, tree.depth + 1
      FROM tree
      JOIN job ON job.parent_job = tree.id AND job.flow_step_id IS NOT NULL
     WHERE tree.depth < %(most)s
)
SELECT DISTINCT id FROM tree
