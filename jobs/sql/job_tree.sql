-- What is in the queue of a job and of everything that runs for it: the steps and bodies of a flow, and theirs, and so on.
SELECT queue.id, tree.depth, queue.running, queue.canceled_by IS NOT NULL AS is_canceled,
       EXISTS (SELECT FROM flow_status WHERE flow_status.id = queue.id) AND queue.started_at IS NOT NULL AS is_begun_flow
  FROM (WITH RECURSIVE tree (id, depth) AS (
            SELECT id, 0 FROM unnest(%(ids)s::uuid[]) AS id
             UNION ALL
            SELECT job.id, tree.depth + 1
              FROM tree
              JOIN job ON job.parent_job = tree.id AND job.flow_step_id IS NOT NULL
             WHERE tree.depth < %(most)s
        )
        SELECT id, depth FROM tree) AS tree
  JOIN queue ON queue.id = tree.id
