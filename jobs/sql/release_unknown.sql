-- Put back what is claimed in a worker's name but the worker knows nothing of: the answer to its claim was lost.
UPDATE queue
   SET running = false, started_at = NULL, worker = NULL, last_ping = NULL
 WHERE worker = %(worker)s AND running AND NOT (id = ANY(%(ids)s::uuid[])) AND started_at IS NOT NULL
RETURNING id, tag
