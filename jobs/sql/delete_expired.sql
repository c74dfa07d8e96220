-- Retention, one batch: forget jobs that ended before the limit, with their logs. Short, so that it never holds up work.
WITH old AS (
    SELECT id FROM completed_job
     WHERE completed_at < statement_timestamp() - make_interval(secs => %(retention_s)s)
     ORDER BY completed_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED
),
logs AS (DELETE FROM job_logs USING old WHERE job_logs.job_id = old.id),
progress AS (DELETE FROM job_progress USING old WHERE job_progress.job_id = old.id),
cleanup AS (DELETE FROM job_cleanup USING old WHERE job_cleanup.job_id = old.id),
asked AS (DELETE FROM job USING old WHERE job.id = old.id)
DELETE FROM completed_job USING old WHERE completed_job.id = old.id
