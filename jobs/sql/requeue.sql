-- Take a running job from its worker and queue it again, whatever the worker does. A flow goes on where it stands.
UPDATE queue
   SET running = false, worker = NULL, last_ping = NULL,
       started_at = CASE WHEN EXISTS (SELECT FROM flow_status WHERE flow_status.id = queue.id) THEN started_at END
 WHERE id = %(id)s AND workspace_id = %(workspace_id)s AND running
RETURNING tag
