-- The runs that a person may see and asked for, newest first: a page of the runs list, or one run by its id.
-- NULL parameters filter nothing; the planner sees the values, so each kind of filter gets the index that fits it.
SELECT job.id, job.kind, job.runnable_id, job.runnable_path, job.script_lang, job.tag, job.created_by, job.created_at,
       job.trigger_kind, job.trigger, job.parent_job,
       CASE WHEN done.id IS NOT NULL THEN done.status
            WHEN q.id IS NULL THEN 'gone'
            WHEN q.running THEN 'running'
            WHEN q.suspend > 0 THEN 'suspended'
            WHEN q.scheduled_for > statement_timestamp() THEN 'scheduled'
            ELSE 'queued' END AS status,
       q.scheduled_for,
       coalesce(done.started_at, q.started_at) AS started_at,
       done.completed_at, done.duration_ms,
       coalesce(done.worker, q.worker) AS worker,
       coalesce(done.canceled_by, q.canceled_by) AS canceled_by,
       coalesce(done.restarts, q.restarts, 0) AS restarts,
       done.labels,
       coalesce(script.summary, '') AS summary
  FROM job
  LEFT JOIN queue q ON q.id = job.id
  LEFT JOIN completed_job done ON done.id = job.id
  LEFT JOIN script ON script.hash = job.runnable_id
 WHERE job.workspace_id = %(workspace_id)s
   AND (%(sees_all)s
        OR job.created_by = %(username)s
        OR (job.visible_to_owner
            AND (split_part(job.runnable_path, '/', 1) || '/' || split_part(job.runnable_path, '/', 2) = ANY(%(owners)s)
                 OR job.runnable_path = ANY(%(shared_paths)s))))
   AND (%(id)s::uuid IS NULL OR job.id = %(id)s::uuid)
   AND (%(path)s::text IS NULL OR job.runnable_path = %(path)s
        OR starts_with(job.runnable_path, rtrim(%(path)s, '/') || '/'))
   AND (%(text)s::text IS NULL OR strpos(lower(coalesce(job.runnable_path, '')), lower(%(text)s)) > 0
        OR strpos(lower(coalesce(script.summary, '')), lower(%(text)s)) > 0 OR job.id::text = %(text)s)
   AND (%(user)s::text IS NULL OR job.created_by = %(user)s)
   AND (%(tag)s::text IS NULL OR job.tag = %(tag)s)
   AND (%(trigger)s::text IS NULL OR job.trigger_kind = %(trigger)s)
   AND (%(worker)s::text IS NULL OR coalesce(done.worker, q.worker) = %(worker)s)
   AND (%(label)s::text IS NULL OR done.labels @> ARRAY[%(label)s]::varchar[])
   AND (%(kind)s::text IS NULL OR job.kind = %(kind)s)
   AND (%(since)s::timestamptz IS NULL OR job.created_at >= %(since)s)
   AND (%(until)s::timestamptz IS NULL OR job.created_at < %(until)s)
   AND (%(status)s::text IS NULL
        OR (%(status)s = 'running' AND q.running)
        OR (%(status)s = 'waiting' AND NOT q.running)
        OR (%(status)s = done.status))
   AND (%(after_at)s::timestamptz IS NULL OR (job.created_at, job.id) < (%(after_at)s, %(after_id)s::uuid))
   AND (%(newer_at)s::timestamptz IS NULL OR (job.created_at, job.id) > (%(newer_at)s, %(newer_id)s::uuid))
 ORDER BY job.created_at DESC, job.id DESC
 LIMIT %(limit)s
