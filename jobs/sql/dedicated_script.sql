-- The live version of a script, for a warm process that starts before the first job: columns as in claim, of no job.
SELECT gen_random_uuid() AS id, 0 AS attempt, statement_timestamp() AS scheduled_for, statement_timestamp() AS started_at,
       statement_timestamp() AS created_at, 0 AS restarts, workspace_id, 'script' AS kind, path AS runnable_path, '' AS tag,
       '{}'::jsonb AS args, created_by, 'u/' || created_by AS permissioned_as, '' AS permissioned_as_email,
       NULL::uuid AS parent_job, NULL::uuid AS root_job, NULL AS flow_step_id, NULL AS trigger_kind, NULL AS trigger, timeout,
       NULL AS script_entrypoint_override, language, content AS code, envs, false AS has_preprocessor,
       NULL::uuid AS flow_innermost_root_job, false AS same_worker, NULL::int AS cache_ttl, NULL AS concurrency_key,
       NULL::int AS concurrent_limit, NULL::int AS concurrency_time_window_s, hash AS runnable_id,
       NULL::int AS delete_after_secs, lock
  FROM script
 WHERE workspace_id = %(workspace_id)s AND path = %(path)s AND NOT archived AND NOT deleted
