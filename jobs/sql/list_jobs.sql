-- A page of jobs, newest first (or oldest), without arguments, results, code and logs.
-- Conditions that are not asked for are constants when the statement is planned and so cost nothing; the view's outer
-- joins become inner ones where a condition is about the queue or about results alone.
SELECT id, workspace_id, kind, runnable_id, runnable_path, script_lang, tag, priority, created_by, created_at,
       permissioned_as, permissioned_as_email, parent_job, root_job, flow_step_id, trigger_kind, trigger,
       visible_to_owner, preprocessed, status, scheduled_for, started_at, completed_at, duration_ms, worker, mem_peak,
       canceled_by, canceled_reason, suspend, last_ping, restarts, labels, deleted
  FROM v_job
 WHERE (%(all_workspaces)s OR workspace_id = %(workspace_id)s)
   -- Rights: admins, the creator, and those who read the script's path unless the runner hid the job from them.
   AND (%(sees_all)s
        OR created_by = %(username)s
        OR (visible_to_owner
            AND (split_part(runnable_path, '/', 1) || '/' || split_part(runnable_path, '/', 2) = ANY(%(owners)s::text[])
                 OR EXISTS (SELECT 1 FROM script
                             WHERE script.workspace_id = v_job.workspace_id AND script.path = v_job.runnable_path
                               AND NOT script.archived AND NOT script.deleted
                               AND script.extra_perms ?| %(principals)s::text[])
                 OR kind IN ('flow', 'flowpreview', 'flowdependencies')
                    AND EXISTS (SELECT 1 FROM flow
                                 WHERE flow.workspace_id = v_job.workspace_id AND flow.path = v_job.runnable_path
                                   AND NOT flow.archived AND flow.extra_perms ?| %(principals)s::text[]))))
   -- Where it stands.
   AND (NOT %(only_queued)s OR queued_id IS NOT NULL)
   AND (NOT %(only_done)s OR done_id IS NOT NULL)
   AND (%(running)s::boolean IS NULL OR running = %(running)s::boolean)
   AND (%(done_statuses)s::text[] IS NULL OR done_status = ANY(%(done_statuses)s::text[]))
   AND (%(statuses)s::text[] IS NULL OR status = ANY(%(statuses)s::text[]))
   AND (%(suspended)s::boolean IS NULL OR (suspend > 0) = %(suspended)s::boolean)
   AND (NOT %(due_only)s OR scheduled_for <= statement_timestamp())
   -- What it is.
   AND (%(path_exact)s::text IS NULL OR runnable_path = %(path_exact)s::text)
   AND (%(path_start)s::text IS NULL OR starts_with(runnable_path, %(path_start)s::text))
   AND (%(path_like)s::text[] IS NULL OR runnable_path LIKE ANY(%(path_like)s::text[]))
   AND (%(script_hash)s::bigint IS NULL OR runnable_id = %(script_hash)s::bigint)
   AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s::text[]))
   AND (%(created_by)s::text[] IS NULL OR created_by LIKE ANY(%(created_by)s::text[]))
   AND (%(worker)s::text[] IS NULL OR worker LIKE ANY(%(worker)s::text[]))
   AND (%(tag)s::text[] IS NULL OR tag LIKE ANY(%(tag)s::text[]))
   AND (%(label)s::text[] IS NULL
        OR EXISTS (SELECT 1 FROM unnest(labels) AS given WHERE given LIKE ANY(%(label)s::text[])))
   AND (%(trigger_kinds)s::text[] IS NULL OR trigger_kind = ANY(%(trigger_kinds)s::text[]))
   AND (%(trigger)s::text IS NULL OR trigger = %(trigger)s::text)
   AND (NOT %(not_scheduled)s OR trigger_kind IS DISTINCT FROM 'schedule')
   AND (%(parent_job)s::uuid IS NULL OR parent_job = %(parent_job)s::uuid)
   AND (%(has_null_parent)s::boolean IS NULL OR (parent_job IS NULL) = %(has_null_parent)s::boolean)
   AND (%(is_flow_step)s::boolean IS NULL OR (flow_step_id IS NOT NULL) = %(is_flow_step)s::boolean)
   AND (NOT %(without_steps)s OR (flow_step_id IS NULL AND kind <> 'flowdependencies'))
   AND (%(concurrency_key)s::text IS NULL
        OR id IN (SELECT limited.id FROM job AS limited WHERE limited.concurrency_key = %(concurrency_key)s::text))
   AND (%(args)s::jsonb IS NULL OR args @> %(args)s::jsonb)
   AND (%(result)s::jsonb IS NULL OR result::jsonb @> %(result)s::jsonb)
   AND (%(search)s::text IS NULL OR runnable_path ILIKE %(search)s::text OR created_by ILIKE %(search)s::text
        OR tag ILIKE %(search)s::text OR worker ILIKE %(search)s::text OR id::text ILIKE %(search)s::text)
   -- When.
   AND (%(created_before)s::timestamptz IS NULL OR created_at <= %(created_before)s::timestamptz)
   AND (%(created_after)s::timestamptz IS NULL OR created_at >= %(created_after)s::timestamptz)
   AND (%(started_before)s::timestamptz IS NULL OR started_at <= %(started_before)s::timestamptz)
   AND (%(started_after)s::timestamptz IS NULL OR started_at >= %(started_after)s::timestamptz)
   AND (%(completed_before)s::timestamptz IS NULL OR completed_at <= %(completed_before)s::timestamptz)
   AND (%(completed_after)s::timestamptz IS NULL OR completed_at >= %(completed_after)s::timestamptz)
   AND (%(cursor_at)s::timestamptz IS NULL
        OR (created_at, id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid))
