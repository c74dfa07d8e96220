-- End jobs that nobody runs (or, when forced, whoever runs them): they are over in this statement.
-- A flow that has begun is left to its workers unless forced: it ends when its steps have.
-- Rows that somebody holds at this moment (a claim, a heartbeat) are passed over, not waited for: ask again.
WITH chosen AS (
    SELECT id FROM queue
     WHERE id = ANY(%(ids)s::uuid[])
       AND (%(force)s OR NOT running
            AND (started_at IS NULL OR NOT EXISTS (SELECT FROM flow_status WHERE flow_status.id = queue.id)))
       FOR UPDATE SKIP LOCKED
),
ended AS (
    DELETE FROM queue USING chosen WHERE queue.id = chosen.id RETURNING queue.*
)
INSERT INTO completed_job (id, workspace_id, status, started_at, completed_at, duration_ms, result, worker, mem_peak,
                           canceled_by, canceled_reason, restarts)
SELECT id, workspace_id, 'canceled', started_at, statement_timestamp(),
       coalesce(greatest(0, round(extract(epoch FROM statement_timestamp() - started_at) * 1000)), 0)::bigint,
       %(result)s::json, worker, mem_peak, %(canceled_by)s, %(reason)s, restarts
  FROM ended
RETURNING id
