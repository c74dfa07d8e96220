-- Put a claimed job back: its worker leaves, or could not start it. Fenced like every write of a worker.
UPDATE queue
   SET running = false,
       started_at = CASE WHEN EXISTS (SELECT FROM flow_status WHERE flow_status.id = queue.id) THEN started_at END, worker = NULL, last_ping = NULL, restarts = restarts + %(count_restart)s::int
 WHERE id = %(id)s AND attempt = %(attempt)s AND running IS TRUE
RETURNING id, tag
