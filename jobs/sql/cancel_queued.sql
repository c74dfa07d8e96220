-- End a job that nobody runs (or, when forced, whoever runs it): it is over in this statement.
WITH ended AS (
    DELETE FROM queue
     WHERE id = %(id)s AND workspace_id = %(workspace_id)s AND (NOT running OR %(force)s)
    RETURNING *
)
INSERT INTO completed_job (id, workspace_id, status, started_at, completed_at, duration_ms, result, worker, mem_peak,
                           canceled_by, canceled_reason, restarts)
SELECT id, workspace_id, 'canceled', started_at, statement_timestamp(),
       coalesce(greatest(0, round(extract(epoch FROM statement_timestamp() - started_at) * 1000)), 0)::bigint,
       %(result)s::json, worker, mem_peak, %(canceled_by)s, %(reason)s, restarts
  FROM ended
RETURNING id
