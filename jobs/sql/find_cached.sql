-- A result that is still good: the job that computed it, and its JSON text.
SELECT job_id, result::text
  FROM job_cache
 WHERE key = %(key)s AND workspace_id = %(workspace_id)s AND expires_at > statement_timestamp()
