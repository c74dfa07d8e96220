-- The last few runs of each of these scripts, newest first: one index walk a path.
SELECT wanted.path, run.id, run.status, run.created_at, run.duration_ms
  FROM unnest(%(paths)s::text[]) AS wanted (path)
 CROSS JOIN LATERAL (SELECT id, status, created_at, duration_ms
                       FROM v_job
                      WHERE workspace_id = %(workspace_id)s AND runnable_path = wanted.path AND kind = 'script'
                        AND (visible_to_owner OR %(sees_all)s OR created_by = %(username)s)
                      ORDER BY created_at DESC LIMIT %(limit)s) AS run
 ORDER BY wanted.path, run.created_at DESC
