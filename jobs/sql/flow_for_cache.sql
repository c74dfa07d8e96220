-- What the key of a flow's result is made of, and whether the flow has not begun yet.
-- (Not while its arguments are an event for the preprocessor: what comes of that is not known.)
SELECT job.workspace_id, job.kind, job.runnable_id, encode(sha256(convert_to(job.raw_flow::text, 'UTF8')), 'hex'),
       job.args, job.permissioned_as, job.cache_ttl, job.flow_step_id IS NOT NULL,
       flow_status.version = 0 AND job.preprocessed IS NOT FALSE AS is_new
  FROM job
  JOIN flow_status ON flow_status.id = job.id
 WHERE job.id = %(id)s
