-- What has become of the first iterations of a module: how many have ended, and which of these did not succeed.
SELECT count(*)::int AS done,
       coalesce(array_agg(iteration.n) FILTER (WHERE done.status NOT IN ('success', 'skipped')), '{}') AS failed
  FROM flow_iteration AS iteration
  JOIN completed_job AS done ON done.id = iteration.job_id
 WHERE iteration.flow_id = %(flow_id)s AND iteration.step_id = %(step_id)s AND iteration.n < %(started)s
