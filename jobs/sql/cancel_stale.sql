-- End jobs that nobody has claimed for too long since they were due. Short batches; SKIP LOCKED passes over those that a
-- worker claims at this moment.
WITH stale AS (
    SELECT id FROM queue
     WHERE NOT running AND started_at IS NULL  -- not flows that sleep or wait for approval
       AND scheduled_for < statement_timestamp() - make_interval(secs => %(threshold_s)s)
     LIMIT 1000 FOR UPDATE SKIP LOCKED
),
ended AS (
    DELETE FROM queue USING stale WHERE queue.id = stale.id RETURNING queue.*
)
INSERT INTO completed_job (id, workspace_id, status, started_at, completed_at, duration_ms, result, worker, mem_peak,
                           canceled_by, canceled_reason, restarts)
SELECT id, workspace_id, 'canceled', started_at, statement_timestamp(), 0, %(result)s::json, worker, mem_peak,
       %(canceled_by)s, %(reason)s, restarts
  FROM ended
RETURNING id
