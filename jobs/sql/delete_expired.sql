-- Retention, one batch: forget jobs that ended before the limit, with their logs. Short, so that it never holds up work.
WITH old AS (
    SELECT id FROM completed_job
     WHERE completed_at < statement_timestamp() - make_interval(secs => %(retention_s)s)
       -- Steps stay until their flow has ended, since it may still read their results.
       AND NOT EXISTS (SELECT FROM job JOIN queue ON queue.id = job.root_job
                        WHERE job.id = completed_job.id AND job.flow_step_id IS NOT NULL)
     ORDER BY completed_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED
),
logs AS (DELETE FROM job_logs USING old WHERE job_logs.job_id = old.id),
progress AS (DELETE FROM job_progress USING old WHERE job_progress.job_id = old.id),
cleanup AS (DELETE FROM job_cleanup USING old WHERE job_cleanup.job_id = old.id),
status AS (DELETE FROM flow_status USING old WHERE flow_status.id = old.id),
steps AS (DELETE FROM flow_step USING old WHERE flow_step.flow_id = old.id),
iterations AS (DELETE FROM flow_iteration USING old WHERE flow_iteration.flow_id = old.id),
results AS (DELETE FROM flow_result USING old WHERE flow_result.root_id = old.id),
states AS (DELETE FROM flow_user_state USING old WHERE flow_user_state.flow_id = old.id),
answers AS (DELETE FROM resume_job USING old WHERE resume_job.flow_id = old.id),
asked AS (DELETE FROM job USING old WHERE job.id = old.id)
DELETE FROM completed_job USING old WHERE completed_job.id = old.id
