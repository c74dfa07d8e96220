-- Ask whoever runs these jobs to stop them. The first request keeps its author. Rows that somebody holds at this moment
-- are passed over, not waited for: ask again.
WITH chosen AS (
    SELECT id FROM queue
     WHERE id = ANY(%(ids)s::uuid[]) AND canceled_by IS NULL AND (running OR started_at IS NOT NULL)
       FOR UPDATE SKIP LOCKED
)
UPDATE queue
   SET canceled_by = %(canceled_by)s, canceled_reason = %(reason)s
  FROM chosen
 WHERE queue.id = chosen.id
RETURNING queue.id, queue.worker
