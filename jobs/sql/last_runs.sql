-- The last few runs of each of these scripts and flows, newest first: one index walk each.
SELECT wanted.kind, wanted.path, run.id, run.status, run.created_at, run.duration_ms
  FROM unnest(%(kinds)s::text[], %(paths)s::text[]) AS wanted (kind, path)
 CROSS JOIN LATERAL (SELECT id, CASE WHEN suspend > 0 THEN 'suspended' ELSE status END AS status, created_at, duration_ms
                       FROM v_job
                      WHERE workspace_id = %(workspace_id)s AND runnable_path = wanted.path AND kind = wanted.kind
                        AND (visible_to_owner OR %(sees_all)s OR created_by = %(username)s)
                      ORDER BY created_at DESC LIMIT %(limit)s) AS run
 ORDER BY wanted.kind, wanted.path, run.created_at DESC
