-- Empty completed jobs: arguments, result, log and what the cache holds of them are gone, the fact that they ran stays.
-- Of flows also what loops went over, what approvers sent, and the values that steps shared.
WITH forgotten AS (
    UPDATE completed_job SET result = '{}', deleted = true WHERE id = ANY(%(ids)s::uuid[]) RETURNING id, workspace_id
),
asked AS (
    UPDATE job SET args = '{}' FROM forgotten WHERE job.id = forgotten.id
),
cached AS (
    DELETE FROM job_cache USING forgotten WHERE job_cache.job_id = forgotten.id
),
iterations AS (
    UPDATE flow_iteration SET value = NULL FROM forgotten WHERE flow_iteration.flow_id = forgotten.id
),
answers AS (
    UPDATE resume_job SET value = NULL FROM forgotten WHERE resume_job.flow_id = forgotten.id
),
states AS (
    DELETE FROM flow_user_state USING forgotten WHERE flow_user_state.flow_id = forgotten.id
),
later_chunks AS (
    DELETE FROM job_logs USING forgotten WHERE job_logs.job_id = forgotten.id AND log_offset > 0
)
INSERT INTO job_logs (job_id, log_offset, workspace_id, logs)
SELECT id, 0, workspace_id, '##DELETED##' FROM forgotten
    ON CONFLICT (job_id, log_offset) DO UPDATE SET logs = excluded.logs
RETURNING job_id
