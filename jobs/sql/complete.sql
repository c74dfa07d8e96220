-- Record the outcomes of finished jobs, exactly once: the row that leaves the queue is the row that becomes a result.
-- Claims that are over match nothing; their results are dropped and their ids missing from the answer.
WITH finished AS (
    DELETE FROM queue
     USING unnest(%(ids)s::uuid[], %(attempts)s::int[], %(statuses)s::text[], %(results)s::text[],
                  %(mem_peaks)s::int[], %(labels)s::text[], %(isolations)s::text[])
           AS done (id, attempt, status, result, mem_peak, labels, isolation)
     WHERE queue.id = done.id AND queue.attempt = done.attempt
       AND queue.id = ANY(%(ids)s::uuid[]) AND queue.running IS TRUE
    RETURNING queue.*, done.status, done.result, done.mem_peak AS last_mem_peak, done.labels, done.isolation
)
INSERT INTO completed_job (id, workspace_id, status, started_at, completed_at, duration_ms, result, worker, mem_peak,
                           canceled_by, canceled_reason, restarts, labels, isolation)
SELECT id, workspace_id, status, started_at, statement_timestamp(),
       greatest(0, round(extract(epoch FROM statement_timestamp() - started_at) * 1000))::bigint,
       result::json, worker, greatest(mem_peak, last_mem_peak), canceled_by, canceled_reason, restarts,
       CASE WHEN labels IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(labels::json)) END, isolation
  FROM finished
RETURNING id
