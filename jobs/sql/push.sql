-- Ask for a job: its immutable description, its place in the queue and its entry in the audit log, in one statement.
-- Without a row in the answer the id is taken: by a job that is there, or by the result of one that is not any more.
-- (No error then, so that the transaction of the caller needs no savepoint around this.)
WITH asked AS (
    INSERT INTO job (id, workspace_id, kind, runnable_id, runnable_path, raw_code, script_lang,
                     script_entrypoint_override, args, tag, created_by, permissioned_as, permissioned_as_email,
                     parent_job, root_job, flow_step_id, trigger_kind, trigger, timeout, priority, visible_to_owner,
                     preprocessed, raw_flow, cache_ttl, delete_after_secs, concurrency_key, concurrent_limit,
                     concurrency_time_window_s, same_worker, raw_lock)
    SELECT %(id)s, %(workspace_id)s, %(kind)s, %(runnable_id)s, %(runnable_path)s, %(raw_code)s, %(script_lang)s,
           %(entrypoint)s, %(args)s, %(tag)s, %(created_by)s, %(permissioned_as)s, %(permissioned_as_email)s,
           %(parent_job)s, %(root_job)s, %(flow_step_id)s, %(trigger_kind)s, %(trigger)s, %(timeout)s, %(priority)s,
           %(visible_to_owner)s, %(preprocessed)s, %(raw_flow)s, %(cache_ttl)s, %(delete_after_secs)s,
           %(concurrency_key)s, %(concurrent_limit)s, %(concurrency_time_window_s)s, %(same_worker)s, %(raw_lock)s
     WHERE NOT EXISTS (SELECT FROM completed_job WHERE id = %(id)s AND id = ANY(ARRAY[%(id)s]))
        ON CONFLICT (id) DO NOTHING
    RETURNING id, workspace_id, runnable_path, created_at, tag, priority, concurrency_key
),
forgotten_later AS (  -- only jobs with delete_after_secs; steps of flows are not queued here
    INSERT INTO job_cleanup (job_id, top_id, after_s)
    SELECT id, id, %(delete_after_secs)s::int FROM asked WHERE %(delete_after_secs)s::int IS NOT NULL
),
flow AS (  -- how far it is: of flows only
    INSERT INTO flow_status (id, workspace_id, state)
    SELECT id, workspace_id, %(flow_state)s::json FROM asked WHERE %(flow_state)s::json IS NOT NULL
),
recorded AS (
    INSERT INTO audit (workspace_id, username, email, operation, action_kind, resource, parameters, span)
    SELECT entry.*
      FROM asked,
           jsonb_to_record(%(audit)s::jsonb) AS entry (workspace_id text, username text, email text, operation text,
                                                       action_kind text, resource text, parameters jsonb, span text)
     WHERE entry.operation IS NOT NULL
)
INSERT INTO queue (id, workspace_id, script_path, created_at, scheduled_for, tag, priority, concurrency_key)
SELECT id, workspace_id, runnable_path, created_at,
       coalesce(%(scheduled_for)s, created_at + make_interval(secs => %(scheduled_in_s)s), created_at),
       tag, priority, concurrency_key
  FROM asked
