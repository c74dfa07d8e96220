-- The flows that wait for these jobs.
SELECT DISTINCT parent_job FROM job WHERE id = ANY(%(ids)s::uuid[]) AND flow_step_id IS NOT NULL AND parent_job IS NOT NULL
