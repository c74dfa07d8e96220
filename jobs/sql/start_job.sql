-- Claim one job by its id, for a worker that runs it outside the queue's order (its own init script).
UPDATE queue
   SET running = true, worker = %(worker)s, attempt = attempt + 1, started_at = statement_timestamp(),
       last_ping = statement_timestamp()
 WHERE id = %(id)s AND NOT running
RETURNING attempt
