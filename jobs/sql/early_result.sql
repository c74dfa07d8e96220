-- The result of a step of a running flow, once the step has ended: where it is, and itself unless a job holds it.
SELECT result ->> 'job' AS job_id, failed, CASE WHEN result -> 'job' IS NULL THEN flow_result_value(result)::text END AS result
  FROM (SELECT result, status ->> 'type' = 'Failure' AS failed, 1 AS preferred
          FROM flow_step
         WHERE flow_id = %(flow_id)s AND step_id = %(step_id)s AND status ->> 'type' IN ('Success', 'Failure')
         UNION ALL
        SELECT result, false, 2 FROM flow_result WHERE root_id = %(flow_id)s AND step_id = %(step_id)s) AS found
 ORDER BY preferred LIMIT 1
