-- Ask the worker that runs this job to stop it. The first request keeps its author.
UPDATE queue
   SET canceled_by = coalesce(canceled_by, %(canceled_by)s), canceled_reason = coalesce(canceled_reason, %(reason)s)
 WHERE id = %(id)s AND workspace_id = %(workspace_id)s AND running
RETURNING worker
