-- Who reads these dependency files, and how far each is with the lock that follows from them: one row a file and reader.
-- The steps of a flow count once. `state`: locking, failed (the lock before it, if any, is still used) or ready.
SELECT DISTINCT edge.imported_path, edge.importer_kind, edge.importer_path,
       coalesce(script.extra_perms, flow.extra_perms) AS extra_perms,
       coalesce(script.lock_job, version.dependency_job)::text AS job_id,
       CASE WHEN queue.id IS NOT NULL THEN 'locking'
            WHEN ended.status <> 'success' THEN 'failed'
            WHEN coalesce(script.lock_error_logs, version.lock_error_logs) IS NOT NULL THEN 'failed'
            ELSE 'ready'
        END AS state
  FROM dependency_map AS edge
  LEFT JOIN script ON edge.importer_kind = 'script' AND script.workspace_id = edge.workspace_id
   AND script.path = edge.importer_path AND NOT script.archived AND NOT script.deleted
  LEFT JOIN flow ON edge.importer_kind = 'flow' AND flow.workspace_id = edge.workspace_id
   AND flow.path = edge.importer_path AND NOT flow.archived
  LEFT JOIN flow_version AS version ON version.id = flow.version_id
  LEFT JOIN queue ON queue.id = coalesce(script.lock_job, version.dependency_job)
  LEFT JOIN completed_job AS ended ON ended.id = coalesce(script.lock_job, version.dependency_job)
 WHERE edge.workspace_id = %(workspace_id)s AND edge.imported_path = ANY(%(files)s::text[])
   AND (script.hash IS NOT NULL OR flow.id IS NOT NULL)
 ORDER BY edge.imported_path, edge.importer_path, edge.importer_kind
