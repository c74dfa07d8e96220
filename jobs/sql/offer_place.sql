-- A place among the jobs of this key has become free: the first of those held back may be claimed for it, at once or when
-- the time window has passed. One that was offered a place already is passed over.
WITH next_in_line AS (
    SELECT id
      FROM queue
     WHERE concurrency_key = %(key)s AND was_due_at IS NOT NULL AND NOT running
       AND scheduled_for > statement_timestamp() + make_interval(secs => %(window_s)s)
     ORDER BY priority DESC, was_due_at, id
     LIMIT 1
       FOR UPDATE SKIP LOCKED
)
UPDATE queue
   SET scheduled_for = CASE WHEN %(window_s)s > 0 THEN statement_timestamp() + make_interval(secs => %(window_s)s)
                            ELSE was_due_at END
  FROM next_in_line
 WHERE queue.id = next_in_line.id AND queue.id = ANY(ARRAY(SELECT id FROM next_in_line))
RETURNING queue.tag, queue.scheduled_for <= statement_timestamp() AS is_due
