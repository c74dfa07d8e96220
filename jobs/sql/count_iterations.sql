-- The iterations of a module: how many were started, how many have ended, and which of these did not succeed.
SELECT count(job.id)::int AS started, count(done.id)::int AS done,
       coalesce(array_agg(iteration.n) FILTER (WHERE done.status NOT IN ('success', 'skipped')), '{}') AS failed,
       coalesce(bool_or(done.status = 'canceled'), false) AS canceled
  FROM flow_iteration AS iteration
  LEFT JOIN job ON job.id = iteration.job_id
  LEFT JOIN completed_job AS done ON done.id = iteration.job_id
 WHERE iteration.flow_id = %(flow_id)s AND iteration.step_id = %(step_id)s
