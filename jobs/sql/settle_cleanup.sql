-- Jobs that shall be forgotten some time after something ended: it has ended, so the time is known.
-- %(top_id)s: of this job or flow only; null: of all that have ended.
UPDATE job_cleanup
   SET due_at = ended.completed_at + make_interval(secs => after_s)
  FROM completed_job AS ended
 WHERE job_cleanup.due_at IS NULL AND ended.id = job_cleanup.top_id
   AND (%(top_id)s::uuid IS NULL OR job_cleanup.top_id = %(top_id)s::uuid)
