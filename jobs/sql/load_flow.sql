-- A flow job that has not ended, and how far it is.
SELECT job.id, job.workspace_id, job.kind, job.runnable_id, job.runnable_path, job.parent_job, job.root_job,
       job.flow_step_id, job.flow_innermost_root_job, job.flow_body, job.flow_n, job.tag, job.priority, job.created_by,
       job.permissioned_as, job.permissioned_as_email, job.trigger_kind, job.trigger, job.visible_to_owner,
       job.preprocessed, job.same_worker, job.cache_ttl, job.concurrency_key, job.concurrency_time_window_s,
       queue.canceled_by, queue.canceled_reason, flow_status.version, flow_status.state, extract(epoch FROM statement_timestamp())::float8 AS now
  FROM job
  JOIN queue ON queue.id = job.id
  JOIN flow_status ON flow_status.id = job.id
 WHERE job.id = %(id)s
