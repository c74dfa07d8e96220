-- A line by the system itself (cancel, restart after a lost worker): no claim needed.
INSERT INTO job_logs (job_id, log_offset, workspace_id, logs)
SELECT %(id)s, coalesce((SELECT log_offset + length(last.logs) FROM job_logs AS last
                          WHERE last.job_id = %(id)s ORDER BY log_offset DESC LIMIT 1), 0),
       %(workspace_id)s, %(logs)s
