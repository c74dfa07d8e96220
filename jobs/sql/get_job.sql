-- One job, whole: arguments and result as the text they are stored as (%(with_result)s, %(with_args)s: only when asked).
SELECT id, workspace_id, kind, runnable_id, runnable_path, script_lang, tag, priority, created_by, created_at,
       permissioned_as, permissioned_as_email, parent_job, root_job, flow_step_id, trigger_kind, trigger,
       visible_to_owner, preprocessed, status, scheduled_for, started_at, completed_at, duration_ms, worker, mem_peak,
       canceled_by, canceled_reason, suspend, last_ping, restarts, labels, deleted, timeout, isolation,
       CASE WHEN %(with_args)s THEN args::text END AS args,
       CASE WHEN %(with_args)s THEN raw_code END AS raw_code,
       CASE WHEN %(with_result)s THEN result::text END AS result
  FROM v_job
 WHERE id = %(id)s AND workspace_id = %(workspace_id)s
