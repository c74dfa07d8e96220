-- Give jobs whose worker fell silent to another one, as long as they have restarts left.
-- (Not init scripts: they belong to the worker that is gone.)
-- A heartbeat that arrives meanwhile wins: the condition is checked again on the row as it is once locked.
UPDATE queue
   SET running = false, started_at = NULL, last_ping = NULL, restarts = restarts + 1
 WHERE running AND %(restart)s AND restarts < %(limit)s AND canceled_by IS NULL
   AND tag <> 'init_script'
   AND last_ping < statement_timestamp() - make_interval(secs => %(timeout_s)s)
RETURNING id, workspace_id, tag, worker, restarts
