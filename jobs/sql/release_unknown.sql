-- Put back what is claimed in a worker's name but the worker knows nothing of: the answer to its claim was lost.
-- Of these tags, or of all others: claims of dedicated tags are asked for apart from the others, at any time.
UPDATE queue
   SET running = false, worker = NULL,
       started_at = CASE WHEN EXISTS (SELECT FROM flow_status WHERE flow_status.id = queue.id) THEN started_at END, last_ping = NULL
 WHERE worker = %(worker)s AND running AND last_ping IS NOT NULL AND NOT (id = ANY(%(ids)s::uuid[])) AND started_at IS NOT NULL
   AND (tag = ANY(%(tags)s::text[])) <> %(is_excluding)s
RETURNING id, tag
