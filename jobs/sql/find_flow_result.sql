-- `results.<step>` as seen from a flow job: of its own modules, else of those of the flow or body around it, and so on
-- outwards; the steps inside bodies that have ended are found at the flow that they are in (flow_result).
WITH RECURSIVE around AS (
    SELECT id, CASE WHEN flow_step_id IS NOT NULL THEN parent_job END AS outer_id, kind, 0 AS depth
      FROM job WHERE id = %(flow_id)s
     UNION ALL
    SELECT job.id, CASE WHEN job.flow_step_id IS NOT NULL THEN job.parent_job END, job.kind, around.depth + 1
      FROM around JOIN job ON job.id = around.outer_id
     WHERE around.depth < 200
)
SELECT coalesce(flow_step.result, flow_result.result) AS result
  FROM around
  LEFT JOIN flow_step ON flow_step.flow_id = around.id AND flow_step.step_id = %(step_id)s
  LEFT JOIN flow_result ON flow_result.root_id = around.id AND flow_result.step_id = %(step_id)s
 WHERE coalesce(flow_step.result, flow_result.result) IS NOT NULL
 ORDER BY around.depth
 LIMIT 1
