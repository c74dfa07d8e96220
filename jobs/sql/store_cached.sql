-- Keep a result for later jobs; the newest one stands.
INSERT INTO job_cache (key, workspace_id, job_id, result, expires_at)
VALUES (%(key)s, %(workspace_id)s, %(job_id)s, %(result)s::json,
        statement_timestamp() + make_interval(secs => %(ttl_s)s))
    ON CONFLICT (key) DO UPDATE
   SET workspace_id = excluded.workspace_id, job_id = excluded.job_id, result = excluded.result,
       expires_at = excluded.expires_at
