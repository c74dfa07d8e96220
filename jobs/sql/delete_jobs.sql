-- Forget jobs without a trace, whatever their state.
WITH gone (id) AS (SELECT unnest(%(ids)s::uuid[])),
waiting AS (DELETE FROM queue USING gone WHERE queue.id = gone.id),
done AS (DELETE FROM completed_job USING gone WHERE completed_job.id = gone.id),
logs AS (DELETE FROM job_logs USING gone WHERE job_logs.job_id = gone.id),
progress AS (DELETE FROM job_progress USING gone WHERE job_progress.job_id = gone.id),
cleanup AS (DELETE FROM job_cleanup USING gone WHERE job_cleanup.job_id = gone.id),
cached AS (DELETE FROM job_cache USING gone WHERE job_cache.job_id = gone.id),
status AS (DELETE FROM flow_status USING gone WHERE flow_status.id = gone.id),
steps AS (DELETE FROM flow_step USING gone WHERE flow_step.flow_id = gone.id),
iterations AS (DELETE FROM flow_iteration USING gone WHERE flow_iteration.flow_id = gone.id),
results AS (DELETE FROM flow_result USING gone WHERE flow_result.root_id = gone.id),
states AS (DELETE FROM flow_user_state USING gone WHERE flow_user_state.flow_id = gone.id),
answers AS (DELETE FROM resume_job USING gone WHERE resume_job.flow_id = gone.id OR resume_job.job_id = gone.id)
DELETE FROM job USING gone WHERE job.id = gone.id
