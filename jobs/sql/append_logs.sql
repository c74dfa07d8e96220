-- Append the output of several running jobs, each at the end of its log; a claim that is over appends nothing.
-- The end is read from the last chunk (one index probe). Two writers at the same end collide on the primary key
-- and the loser tries again.
INSERT INTO job_logs (job_id, log_offset, workspace_id, logs)
SELECT queue.id,
       coalesce((SELECT log_offset + length(last.logs) FROM job_logs AS last
                  WHERE last.job_id = queue.id ORDER BY log_offset DESC LIMIT 1), 0),
       queue.workspace_id, piece.logs
  FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(logs)s::text[]) AS piece (id, attempt, logs)
  JOIN queue ON queue.id = piece.id AND queue.attempt = piece.attempt AND queue.running IS TRUE
 WHERE piece.logs <> '' AND queue.id = ANY(%(ids)s::uuid[])
RETURNING job_id, log_offset + length(logs)
