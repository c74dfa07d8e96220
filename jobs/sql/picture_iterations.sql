-- Iterations of loops: of each (flow, step) of %(flows)s and %(steps)s those from number %(firsts)s, %(count)s of them.
SELECT wanted.flow_id, wanted.step_id, iteration.n, iteration.job_id,
       coalesce(done.status, CASE WHEN queue.running OR queue.started_at IS NOT NULL THEN 'running'
                                  WHEN queue.id IS NOT NULL THEN 'queued' ELSE 'pending' END) AS status
  FROM unnest(%(flows)s::uuid[], %(steps)s::text[], %(firsts)s::int[]) AS wanted (flow_id, step_id, first)
  JOIN flow_iteration AS iteration
    ON iteration.flow_id = wanted.flow_id AND iteration.step_id = wanted.step_id
   AND iteration.n >= wanted.first AND iteration.n < wanted.first + %(count)s
  LEFT JOIN completed_job AS done ON done.id = iteration.job_id
  LEFT JOIN queue ON queue.id = iteration.job_id
 ORDER BY wanted.flow_id, wanted.step_id, iteration.n
