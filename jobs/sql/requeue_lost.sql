-- Give jobs whose worker fell silent to another one, as long as they have restarts left.
-- (Not scripts that look after a host and steps that share a folder: they belong to the worker that is gone.)
-- A flow has lost nothing: it goes on where it stands, also to be canceled.
-- A heartbeat that arrives meanwhile wins: the condition is checked again on the row as it is once locked.
UPDATE queue
   SET running = false, last_ping = NULL, restarts = restarts + 1,
       started_at = CASE WHEN EXISTS (SELECT FROM flow_status WHERE flow_status.id = queue.id) THEN started_at END
 WHERE running AND restarts < %(limit)s
   AND (%(restart)s AND canceled_by IS NULL OR EXISTS (SELECT FROM flow_status WHERE flow_status.id = queue.id))
   AND tag NOT IN ('init_script', 'periodic_bash_script')
   AND NOT EXISTS (SELECT FROM job WHERE job.id = queue.id AND job.same_worker AND job.flow_step_id IS NOT NULL)
   AND last_ping < statement_timestamp() - make_interval(secs => %(timeout_s)s)
RETURNING id, workspace_id, tag, worker, restarts
