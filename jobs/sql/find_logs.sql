-- Which of these pieces are in the logs already: asked when the answer to an append was lost on the way. `log_offset` is
-- where the job's log ended before the append, so that two equal pieces are not taken for one.
SELECT DISTINCT piece.id
  FROM unnest(%(ids)s::uuid[], %(offsets)s::bigint[], %(logs)s::text[]) AS piece (id, log_offset, logs)
  JOIN job_logs ON job_logs.job_id = piece.id AND job_logs.log_offset >= piece.log_offset AND job_logs.logs = piece.logs
