-- Which iteration of a module a job is.
SELECT iteration.n
  FROM job
  JOIN flow_iteration AS iteration
    ON iteration.flow_id = job.parent_job AND iteration.step_id = %(step_id)s AND iteration.n = job.flow_n
   AND iteration.job_id = job.id
 WHERE job.id = %(id)s AND job.parent_job = %(flow_id)s
