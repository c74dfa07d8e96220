-- Jobs that a worker has claimed narrow (complete_and_claim.sql), whole. Columns as in claim.
SELECT held.id, held.attempt, held.scheduled_for, held.started_at, held.created_at, held.restarts, job.workspace_id,
       job.kind, job.runnable_path, job.tag, job.args, job.created_by, job.permissioned_as, job.permissioned_as_email,
       job.parent_job, job.root_job, job.flow_step_id, job.trigger_kind, job.trigger,
       coalesce(job.timeout, script.timeout, (
           SELECT CASE WHEN jsonb_typeof(value) = 'number' THEN least(greatest(value::numeric, 1), 2147483647)::int END
             FROM global_settings WHERE name = 'job_default_timeout')) AS timeout, job.script_entrypoint_override,
       coalesce(job.script_lang, script.language) AS language, coalesce(job.raw_code, script.content) AS code,
       script.envs, job.preprocessed IS FALSE AS has_preprocessor, job.flow_innermost_root_job, job.same_worker,
       job.cache_ttl, job.concurrency_key, job.concurrent_limit, job.concurrency_time_window_s, job.runnable_id,
       job.delete_after_secs, coalesce(job.raw_lock, script.lock) AS lock
  FROM unnest(%(ids)s::uuid[], %(attempts)s::int[]) AS lease (id, attempt)
  JOIN queue AS held ON held.id = lease.id AND held.attempt = lease.attempt
                        AND held.id = ANY(%(ids)s::uuid[]) AND held.running IS TRUE
  JOIN job ON job.id = held.id AND job.id = ANY(%(ids)s::uuid[])
  LEFT JOIN script ON script.hash = job.runnable_id AND job.kind IN ('script', 'dependencies')
