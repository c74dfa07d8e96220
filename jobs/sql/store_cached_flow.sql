-- Keep the result of a flow that has succeeded. It is copied inside the database: the worker may never have seen it.
INSERT INTO job_cache (key, workspace_id, job_id, result, expires_at)
SELECT %(key)s, workspace_id, id, result, statement_timestamp() + make_interval(secs => %(ttl_s)s)
  FROM completed_job
 WHERE id = %(job_id)s AND status = 'success' AND octet_length(result::text) <= %(max_bytes)s
    ON CONFLICT (key) DO UPDATE
   SET workspace_id = excluded.workspace_id, job_id = excluded.job_id, result = excluded.result,
       expires_at = excluded.expires_at
RETURNING key
