-- A page of the iterations of a module.
SELECT job_id, value
  FROM flow_iteration
 WHERE flow_id = %(flow_id)s AND step_id = %(step_id)s AND n >= %(first)s
 ORDER BY n LIMIT %(limit)s
