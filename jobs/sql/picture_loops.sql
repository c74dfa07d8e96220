-- How the iterations of loops (and the branches of a branchall) of these flow jobs stand: counts, never rows.
-- Cheap for thousands: two primary keys are read for each iteration.
SELECT iteration.flow_id, iteration.step_id, count(*)::int AS total, count(done.id)::int AS done,
       (count(done.id) FILTER (WHERE done.status IN ('failure', 'canceled')))::int AS failed,
       (count(queue.id) FILTER (WHERE queue.running OR queue.started_at IS NOT NULL))::int AS running,
       min(iteration.n) FILTER (WHERE done.status = 'failure') AS first_failed,
       min(iteration.n) FILTER (WHERE queue.running OR queue.started_at IS NOT NULL) AS first_running,
       max(iteration.n) FILTER (WHERE done.id IS NOT NULL OR queue.id IS NOT NULL) AS last_known,
       least(min(done.started_at), min(queue.started_at)) AS started_at,
       max(done.completed_at) AS completed_at
  FROM flow_iteration AS iteration
  LEFT JOIN completed_job AS done ON done.id = iteration.job_id
  LEFT JOIN queue ON queue.id = iteration.job_id
 WHERE iteration.flow_id = ANY(%(ids)s::uuid[])
 GROUP BY iteration.flow_id, iteration.step_id
